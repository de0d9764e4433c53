//! A sink that keeps a snapshot in memory, and what its records mean.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use staunch_types::Result;

use super::sink::SnapshotSink;

/// One call of a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Put { hash: u64, namespace: i64, key: Vec<u8>, value: Vec<u8> },
    Delete { hash: u64, namespace: i64, key: Vec<u8> },
    Clear { namespace: i64 },
}

/// The records of one snapshot, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segment {
    pub(crate) records: Vec<Record>,
}

impl SnapshotSink for Segment {
    fn put(&mut self, hash: u64, namespace: i64, key: &[u8], value: &[u8]) -> Result<()> {
        self.records.push(Record::Put { hash, namespace, key: key.to_vec(), value: value.to_vec() });
        Ok(())
    }

    fn delete(&mut self, hash: u64, namespace: i64, key: &[u8]) -> Result<()> {
        self.records.push(Record::Delete { hash, namespace, key: key.to_vec() });
        Ok(())
    }

    fn clear(&mut self, namespace: i64) -> Result<()> {
        self.records.push(Record::Clear { namespace });
        Ok(())
    }
}

impl Segment {
    /// Puts of the segment.
    pub(crate) fn puts(&self) -> usize {
        self.records.iter().filter(|record| matches!(record, Record::Put { .. })).count()
    }
}

/// Reads what a codec wrote.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> T {
    postcard::from_bytes(bytes).expect("bytes of a test are of its type")
}

/// The entries that segments hold when they are applied in order.
pub(crate) fn replay<'a, K, V>(segments: impl IntoIterator<Item = &'a Segment>) -> BTreeMap<(i64, K), V>
where
    K: DeserializeOwned + Ord,
    V: DeserializeOwned,
{
    let mut entries = BTreeMap::new();
    for record in segments.into_iter().flat_map(|segment| &segment.records) {
        match record {
            Record::Put { namespace, key, value, .. } => {
                entries.insert((*namespace, decode(key)), decode(value));
            }
            Record::Delete { namespace, key, .. } => {
                entries.remove(&(*namespace, decode(key)));
            }
            Record::Clear { namespace } => entries.retain(|(found, _), _| found != namespace),
        }
    }
    entries
}
