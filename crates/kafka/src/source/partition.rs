//! A partition as a split.

use serde::{Deserialize, Serialize};
use staunch_api::Split;

/// Identifies a topic for its life: one that is deleted and made again has another.
pub(crate) type TopicId = String;

/// A partition, and the position in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionSplit {
    pub(crate) topic: String,
    pub(crate) topic_id: TopicId,
    pub(crate) partition: i32,
    /// The next offset to read.
    pub(crate) position: i64,
    /// Offset at which reading ends.
    pub(crate) stop: Option<i64>,
}

impl Split for PartitionSplit {
    fn id(&self) -> String {
        format!("{}-{}@{}", self.topic, self.partition, self.topic_id)
    }
}

impl PartitionSplit {
    /// Topic and partition of a split's id.
    pub(crate) fn place_of(id: &str) -> Option<(&str, i32)> {
        // Names of topics have no `@`, and may have a `-`.
        let (topic, partition) = id.split_once('@')?.0.rsplit_once('-')?;
        Some((topic, partition.parse().ok()?))
    }

    /// The partition, for people.
    pub(crate) fn place(&self) -> String {
        format!("topic={} partition={}", self.topic, self.partition)
    }
}
