//! A piece of a file, with the position in it.

use std::fmt;

use serde::{Deserialize, Serialize};
use staunch_api::Split;

use crate::Compression;

/// Bytes at the front of a file that, with its length, tell whether it is still the same.
pub(crate) const HEAD_BYTES: usize = 4096;

/// A piece of a file, with the position in it: the records that start in a range of bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub struct FileSplit {
    pub(crate) path: String,
    pub(crate) compression: Compression,
    /// Length of the file as it is stored.
    pub(crate) file_bytes: u64,
    /// Hash of the first [`HEAD_BYTES`] of the file.
    pub(crate) fingerprint: u64,
    /// First byte of the range.
    pub(crate) start: u64,
    /// End of the range; `None` for the end of a file that is one split.
    pub(crate) end: Option<u64>,
    pub(crate) position: Position,
    /// Number of the line at the position, from 1, when known.
    pub(crate) line: Option<u64>,
}

/// Where to go on, in plain bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Position {
    /// At the front of the range: the first line that starts there or later. At 0 a header comes first.
    Front,
    /// At the record that starts here.
    Record(u64),
}

impl FileSplit {
    /// Whether the split is a whole file.
    pub(crate) fn is_whole(&self) -> bool {
        self.end.is_none()
    }

    /// The byte at which to go on.
    pub(crate) fn offset(&self) -> u64 {
        match self.position {
            Position::Front => self.start,
            Position::Record(offset) => offset,
        }
    }
}

impl Split for FileSplit {
    fn id(&self) -> String {
        match self.end {
            None => self.path.clone(),
            Some(_) => format!("{}#{}", self.path, self.start),
        }
    }
}

impl fmt::Display for FileSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file={} offset={}", self.path, self.offset())
    }
}

/// The stored form; a new one is a new variant at the end.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Stored {
    V1 {
        path: String,
        compression: Compression,
        file_bytes: u64,
        fingerprint: u64,
        start: u64,
        end: Option<u64>,
        position: Position,
        line: Option<u64>,
    },
}

impl From<FileSplit> for Stored {
    fn from(split: FileSplit) -> Stored {
        let FileSplit { path, compression, file_bytes, fingerprint, start, end, position, line } = split;
        Stored::V1 { path, compression, file_bytes, fingerprint, start, end, position, line }
    }
}

impl From<Stored> for FileSplit {
    fn from(stored: Stored) -> FileSplit {
        let Stored::V1 { path, compression, file_bytes, fingerprint, start, end, position, line } = stored;
        FileSplit { path, compression, file_bytes, fingerprint, start, end, position, line }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_split_reads_back() {
        let split = FileSplit {
            path: "a/b.csv".into(),
            compression: Compression::None,
            file_bytes: 100,
            fingerprint: 7,
            start: 10,
            end: Some(50),
            position: Position::Record(20),
            line: None,
        };
        let bytes = postcard::to_allocvec(&split).expect("encodes");
        assert_eq!(postcard::from_bytes::<FileSplit>(&bytes).expect("decodes"), split);
        assert_eq!(bytes, b"\0\x07a/b.csv\0\x64\x07\x0A\x01\x32\x01\x14\0", "the stored form is fixed");
    }
}
