//! Order-independent digest of a multiset of records.

use serde::{Deserialize, Serialize};

/// Count, bytes and the sum of a 128-bit hash of each record. Two multisets of records with equal digests are equal, but
/// for a chance of about 2^-128; the order of the records does not matter, so parts can be added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest {
    /// Records.
    pub records: u64,
    /// Bytes of the records, separators not counted.
    pub bytes: u64,
    /// Sum modulo 2^128 of the XXH3-128 of each record.
    pub sum: u128,
}

impl Digest {
    /// Adds one record by its bytes.
    #[inline]
    pub fn add(&mut self, record: &[u8]) {
        self.records += 1;
        self.bytes += record.len() as u64;
        self.sum = self.sum.wrapping_add(xxhash_rust::xxh3::xxh3_128(record));
    }

    /// Adds all records of another digest.
    pub fn merge(&mut self, other: &Digest) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_grouping_do_not_matter_but_count_and_content_do() {
        let of = |records: &[&str]| {
            let mut digest = Digest::default();
            records.iter().for_each(|r| digest.add(r.as_bytes()));
            digest
        };
        let mut parts = of(&["c"]);
        parts.merge(&of(&["a", "b"]));
        assert_eq!(of(&["a", "b", "c"]), parts);
        assert_ne!(of(&["a", "a", "b"]), of(&["a", "b", "b"]));
        assert_ne!(of(&["a", "b"]), of(&["a", "b", "b"]));
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
    }
}
