//! What a checkpoint keeps of a file sink: files to be committed, and the unfinished file that a writer carries over.
//!
//! Invariant: a stored form is never changed; a new one is a new variant at the end.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use staunch_types::{Digest, Error, ErrorKind, Result};

use super::FILE_SINK_KIND;
use super::names::FileId;
use crate::{Compression, codes};

/// The format of a sink's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum OutputFormat {
    Csv { delimiter: u8, header: bool },
    JsonLines,
}

/// A prepared file: the body of a committable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredFile {
    pub(crate) job: String,
    pub(crate) sink: String,
    /// Absolute, as all paths here.
    pub(crate) hidden: PathBuf,
    pub(crate) visible: PathBuf,
    pub(crate) tag: String,
    pub(crate) bytes: u64,
    /// XXH3-128 of the bytes of the file.
    pub(crate) content: u128,
    pub(crate) format: OutputFormat,
    pub(crate) compression: Compression,
    /// The first line, if it is a header; without its line end.
    pub(crate) header: Option<Vec<u8>>,
    /// Of the lines without line ends and header.
    pub(crate) digest: Digest,
}

/// A file that goes on in the next epoch, as it is at the end of this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tail {
    pub(crate) id: FileId,
    pub(crate) tag: String,
    pub(crate) hidden: PathBuf,
    /// Bytes that count; what is behind them was written after the checkpoint.
    pub(crate) bytes: u64,
    pub(crate) content: u128,
    /// Bytes of the lines and the header, before compression.
    pub(crate) plain_bytes: u64,
    pub(crate) digest: Digest,
    pub(crate) format: OutputFormat,
    pub(crate) compression: Compression,
    pub(crate) header: Option<Vec<u8>>,
    pub(crate) name_end: String,
}

#[derive(Serialize, Deserialize)]
enum StoredBody {
    V1 { kind: String, file: StoredFile },
}

#[derive(Serialize, Deserialize)]
enum StoredCarried {
    V1(Tail),
}

impl StoredFile {
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        encode(&StoredBody::V1 { kind: FILE_SINK_KIND.into(), file: self.clone() })
    }

    /// # Errors
    /// `Corrupt` when the bytes are not those of a file sink.
    pub(crate) fn decode(body: &[u8]) -> Result<StoredFile> {
        match postcard::from_bytes(body) {
            Ok(StoredBody::V1 { kind, file }) if kind == FILE_SINK_KIND => Ok(file),
            Ok(StoredBody::V1 { kind, .. }) => Err(unreadable(format!("expected a file of kind {FILE_SINK_KIND}, found kind={kind:?}"))),
            Err(error) => Err(unreadable("what the checkpoint holds for a prepared file cannot be read".into()).cause(error)),
        }
    }
}

impl Tail {
    pub(crate) fn encode(self) -> Result<Vec<u8>> {
        encode(&StoredCarried::V1(self))
    }

    /// # Errors
    /// `Corrupt` when the bytes are not those of a file sink.
    pub(crate) fn decode(carried: &[u8]) -> Result<Tail> {
        match postcard::from_bytes(carried) {
            Ok(StoredCarried::V1(tail)) => Ok(tail),
            Err(error) => Err(unreadable("what the checkpoint holds for an unfinished file cannot be read".into()).cause(error)),
        }
    }
}

fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    postcard::to_allocvec(value)
        .map_err(|error| Error::new(ErrorKind::Bug, codes::OUTPUT_BUG, "a prepared file cannot be noted").cause(error))
}

fn unreadable(what: String) -> Error {
    Error::new(ErrorKind::Corrupt, codes::BODY_UNREADABLE, what).remedy("restore an older checkpoint, and keep this one as evidence")
}
