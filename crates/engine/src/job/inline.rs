//! Small values that operators put into a checkpoint: a version byte, then postcard.

use serde::Serialize;
use serde::de::DeserializeOwned;
use staunch_types::{Error, ErrorKind, Name, Result};

const VERSION: u8 = 1;

/// Encodes an inline value.
pub(crate) fn encode_inline<T: Serialize>(value: &T) -> Vec<u8> {
    match postcard::to_extend(value, vec![VERSION]) {
        Ok(bytes) => bytes,
        Err(error) => panic!("an inline value of the engine's own did not encode: {error}"),
    }
}

/// Decodes an inline value.
///
/// # Errors
/// `Corrupt` when the bytes are not such a value, `Invalid` when a newer version wrote them.
pub(crate) fn decode_inline<T: DeserializeOwned>(operator: &Name, what: &str, bytes: &[u8]) -> Result<T> {
    let place = || format!("operator={operator} value={what}");
    match bytes.split_first() {
        Some((&VERSION, rest)) => postcard::from_bytes(rest).map_err(|error| {
            Error::new(ErrorKind::Corrupt, "C004", "a value in the checkpoint cannot be read")
                .cause(error)
                .at(place())
                .data("the checkpoint cannot be restored; nothing was changed")
                .remedy("restore an older checkpoint, and keep this one as evidence")
        }),
        Some((&version, _)) => Err(Error::new(
            ErrorKind::Invalid,
            "C005",
            format!("a value in the checkpoint has version {version}; this program reads version {VERSION}"),
        )
        .at(place())
        .data("nothing was changed")
        .remedy("run the newer program that wrote the checkpoint, or restore an older checkpoint")),
        None => Err(Error::new(ErrorKind::Corrupt, "C004", "a value in the checkpoint is empty")
            .at(place())
            .data("the checkpoint cannot be restored; nothing was changed")
            .remedy("restore an older checkpoint, and keep this one as evidence")),
    }
}
