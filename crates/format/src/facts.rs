//! What manifests and ledger entries both speak of, in stored form.
//!
//! Owns: the stored form of attempts, reasons, committables' names, counts and ranges. Does not own: the rules about them
//! (`staunch-protocol` has its own types for those).
//! Invariant: a field is never removed or given another meaning; one that is added has `#[serde(default)]`.

use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use sha2::Digest as _;
use staunch_types::{Digest, Epoch, Generation, Name, TaskId};

/// One attempt at an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attempt {
    /// The epoch's number.
    pub epoch: Epoch,
    /// The generation that tried.
    pub generation: Generation,
}

/// Why an epoch was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// The interval had passed.
    Interval,
    /// Somebody asked for a savepoint, and the job went on.
    Savepoint,
    /// Stop with a savepoint.
    Stop,
    /// Stop for good, with event time run to its end.
    Drain,
    /// All tasks had reached the end of their input.
    Final,
}

/// Which committable: prepared in an attempt, by a task of a sink.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CommittableId {
    /// The sink's name.
    pub sink: Name,
    /// The attempt in which it was prepared.
    pub attempt: Attempt,
    /// The task that prepared it.
    pub task: TaskId,
    /// Its number among those of the same attempt, sink and task, from 0.
    pub number: u32,
}

/// What was read of one split between two barriers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitRange {
    /// The split's id.
    pub split: String,
    /// First position read, in the source's own unit.
    pub from: u64,
    /// Position after the last one read.
    pub to: u64,
    /// Records, bytes and their sum.
    pub digest: Digest,
}

/// Records of an operator between two barriers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorCounts {
    /// Taken in.
    pub records_in: u64,
    /// Given out.
    pub records_out: u64,
    /// Too late for their window.
    pub late: u64,
    /// Could not become a record.
    pub rejected: u64,
}

/// Bytes whose meaning is somebody else's; hexadecimal in JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opaque(pub Vec<u8>);

impl Serialize for Opaque {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Opaque {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Opaque, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Opaque;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Opaque, E> {
                Ok(Opaque(bytes.to_vec()))
            }
        }
        deserializer.deserialize_byte_buf(Bytes)
    }
}

/// A SHA-256; hexadecimal in text, and stored as such.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256(pub [u8; 32]);

impl Sha256 {
    /// The hash of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Sha256 {
        Sha256(sha2::Sha256::digest(bytes).into())
    }

    fn from_hex(text: &str) -> Option<Sha256> {
        let digits: Option<Vec<u8>> = text.bytes().map(|byte| char::from(byte).to_digit(16).map(|digit| digit as u8)).collect();
        let digits: [u8; 64] = digits?.try_into().ok()?;
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Some(Sha256(hash))
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Sha256 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sha256 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sha256, D::Error> {
        let text = String::deserialize(deserializer)?;
        Sha256::from_hex(&text).ok_or_else(|| de::Error::invalid_value(de::Unexpected::Str(&text), &"64 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_read_back_from_its_text_and_nothing_else_is() {
        let hash = Sha256::of(b"abc");
        assert_eq!(hash.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(Sha256::from_hex(&hash.to_string()), Some(hash));
        for text in ["", "ba78", &"g".repeat(64), &"0".repeat(66)] {
            assert_eq!(Sha256::from_hex(text), None, "{text}");
        }
    }
}
