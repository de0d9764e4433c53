//! The data that the demonstration brings along: real departures, and what a straight-line program made of them.
//!
//! See `testdata/flights/README.md` for where they come from and how the expected output was computed.

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use staunch_types::{Error, ErrorKind, Result};

/// The input, compressed.
const FLIGHTS: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/flights/demo/flights-2013-01.csv.gz"));
/// The expected windows, compressed.
pub(super) const EXPECTED_ON_TIME: &[u8] =
    include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/flights/demo/expected_on_time.csv.gz"));
/// The expected late records, compressed.
pub(super) const EXPECTED_LATE: &[u8] =
    include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/flights/demo/expected_late.csv.gz"));

/// Writes the input to a file; how many records it has.
///
/// # Errors
/// `Invalid` when the file cannot be written.
pub(super) fn write_input(path: &Path) -> Result<u64> {
    let text = unpack(FLIGHTS)?;
    std::fs::write(path, &text).map_err(|error| {
        Error::new(ErrorKind::Invalid, "R103", "the input of the demonstration cannot be written")
            .cause(error)
            .at(format!("file={}", path.display()))
    })?;
    Ok(text.lines().count().saturating_sub(1) as u64)
}

/// Unpacks some of the data.
///
/// # Errors
/// `Bug` when the program does not hold what it was built with.
pub(super) fn unpack(packed: &[u8]) -> Result<String> {
    let mut text = String::new();
    GzDecoder::new(packed).read_to_string(&mut text).map_err(|error| {
        Error::new(ErrorKind::Bug, "B102", "the data inside of this program cannot be unpacked")
            .cause(error)
            .remedy("build or install the program again")
    })?;
    Ok(text)
}
