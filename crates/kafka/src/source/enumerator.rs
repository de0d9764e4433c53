//! Finds partitions, and where to begin and end in each.
//!
//! Owns: which partitions are known. Does not own: which reader reads them, positions after the start.
//!
//! Invariants:
//! 1. A partition is handed out once over all generations. One that was not there at the first search is read from its beginning.
//! 2. A topic that was deleted, or deleted and made again, stops the job: its offsets mean other messages now.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};
use serde::{Deserialize, Serialize};
use staunch_api::{Discovery, Metrics, Reached, SourceContext, SplitEnumerator};
use staunch_types::{Error, ErrorKind, Name, Result};

use super::group::{self, GroupTeller};
use super::partition::{PartitionSplit, TopicId};
use super::{Settings, StartAt, StopAt, Topics, whole_name};
use crate::codes;
use crate::control::Control;
use crate::sink::MARK_TOPIC;

/// What the names of topics begin with that no pattern means: Kafka's own, and those of marks.
const NOT_MEANT: [&str; 2] = ["__", MARK_TOPIC];
/// How long a broker may take for an answer.
const ANSWER: Duration = Duration::from_secs(15);

/// Finds the partitions of a source.
pub struct KafkaEnumerator {
    settings: Settings,
    control: Control,
    consumer: BaseConsumer,
    /// Tells where partitions really end, if that is asked: behind transactions that are open now and may be committed yet.
    ends: Option<BaseConsumer>,
    known: Known,
    name: Name,
    metrics: Metrics,
    /// Tells the group, from the first search on.
    teller: Option<GroupTeller>,
}

/// What is known already; kept in the checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    /// Whether there was a search before.
    searched: bool,
    topics: BTreeMap<String, KnownTopic>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KnownTopic {
    id: TopicId,
    partitions: i32,
}

impl KafkaEnumerator {
    pub(super) fn new(settings: Settings, context: &SourceContext, restored: Option<&[u8]>) -> Result<KafkaEnumerator> {
        let known = match restored {
            None => Known::default(),
            Some(bytes) => postcard::from_bytes(bytes).map_err(|error| {
                Error::new(ErrorKind::Corrupt, codes::STORED_BAD, "what the checkpoint holds of the source cannot be read")
                    .cause(error)
                    .remedy("use the version of the program that wrote the checkpoint, or a newer one")
            })?,
        };
        let (name, metrics) = (context.name.clone(), context.metrics.clone());
        let mut config = settings.consumer(&name, u32::MAX);
        if let StartAt::Group(group) = &settings.start {
            config.set("group.id", group);
        }
        let consumer = config.create().map_err(|error| codes::refused_setting(&error))?;
        let ends = match settings.stop {
            StopAt::Never => None,
            StopAt::Latest | StopAt::Offsets(_) => {
                config.set("isolation.level", "read_uncommitted");
                Some(config.create().map_err(|error| codes::refused_setting(&error))?)
            }
        };
        let control = settings.client.control()?;
        Ok(KafkaEnumerator { settings, control, consumer, ends, known, name, metrics, teller: None })
    }

    /// Who tells the group that is to be told, if one is.
    fn teller(&self) -> Result<Option<GroupTeller>> {
        let Some(group) = &self.settings.group else { return Ok(None) };
        let mut config = self.settings.consumer(&self.name, u32::MAX);
        let consumer = config.set("group.id", group).create().map_err(|error| codes::refused_setting(&error))?;
        GroupTeller::start(consumer, &self.metrics).map(Some)
    }

    /// The offset at which a partition begins for us.
    fn start(&self, topic: &str, partition: i32) -> Result<i64> {
        let earliest = || self.watermarks(topic, partition).map(|(low, _)| low);
        if self.known.searched {
            return earliest();
        }
        match &self.settings.start {
            StartAt::Earliest => earliest(),
            StartAt::Latest => self.watermarks(topic, partition).map(|(_, high)| high),
            StartAt::Offsets(offsets) => offsets.get(&(topic.to_owned(), partition)).map_or_else(earliest, |offset| Ok(*offset)),
            StartAt::Timestamp(time) => {
                // First: what comes while the time is looked for is of this time or later.
                let (_, end) = self.watermarks(topic, partition)?;
                let mut list = TopicPartitionList::new();
                list.add_partition_offset(topic, partition, Offset::Offset(*time)).map_err(|error| failed(topic, partition, &error))?;
                let found = self.consumer.offsets_for_times(list, ANSWER).map_err(|error| failed(topic, partition, &error))?;
                match found.find_partition(topic, partition).map(|found| found.offset()) {
                    Some(Offset::Offset(offset)) => Ok(offset),
                    _ => Ok(end),
                }
            }
            StartAt::Group(_) => {
                let mut list = TopicPartitionList::new();
                list.add_partition(topic, partition);
                let found = self.consumer.committed_offsets(list, ANSWER).map_err(|error| failed(topic, partition, &error))?;
                match found.find_partition(topic, partition).map(|found| found.offset()) {
                    Some(Offset::Offset(offset)) => Ok(offset),
                    _ => earliest(),
                }
            }
        }
    }

    fn stop(&self, topic: &str, partition: i32) -> Result<Option<i64>> {
        let consumer = self.ends.as_ref().unwrap_or(&self.consumer);
        let latest = || watermarks(consumer, topic, partition).map(|(_, high)| Some(high));
        match &self.settings.stop {
            StopAt::Never => Ok(None),
            StopAt::Latest => latest(),
            StopAt::Offsets(offsets) => offsets.get(&(topic.to_owned(), partition)).map_or_else(latest, |offset| Ok(Some(*offset))),
        }
    }

    fn watermarks(&self, topic: &str, partition: i32) -> Result<(i64, i64)> {
        watermarks(&self.consumer, topic, partition)
    }

    /// The names of the topics to read; those that match, and those that were read before.
    fn names(&self) -> Result<BTreeSet<String>> {
        let mut names: BTreeSet<String> = self.known.topics.keys().cloned().collect();
        match &self.settings.topics {
            Topics::Named(named) => names.extend(named.iter().cloned()),
            Topics::Pattern(pattern) => {
                let pattern = whole_name(pattern)?;
                let all = self.consumer.fetch_metadata(None, ANSWER).map_err(|error| {
                    Error::new(ErrorKind::Retry, codes::DISCOVERY_FAILED, "the brokers did not tell the names of topics")
                        .cause(error)
                        .at(format!("brokers={}", self.settings.client.brokers))
                        .data("nothing is lost: it is tried again")
                        .remedy("see whether the brokers can be reached")
                })?;
                let is_meant = |name: &&str| pattern.is_match(name) && !NOT_MEANT.iter().any(|start| name.starts_with(start));
                names.extend(all.topics().iter().map(|topic| topic.name()).filter(is_meant).map(str::to_owned));
            }
        }
        Ok(names)
    }

    fn missing(&self, name: &str) -> Error {
        Error::new(ErrorKind::Invalid, codes::TOPIC_MISSING, "a topic of the source does not exist")
            .at(format!("topic={name} brokers={}", self.settings.client.brokers))
            .data("nothing was started")
            .remedy("make the topic, or correct its name")
    }

    /// # Errors
    /// `Invalid` when a topic that was read is gone or another one now.
    fn compare(&self, now: &BTreeMap<String, KnownTopic>) -> Result<()> {
        for (name, known) in &self.known.topics {
            let found = match now.get(name) {
                Some(found) if found.id == known.id && found.partitions >= known.partitions => continue,
                Some(found) if found.id != known.id => "a topic of this name that was made later".to_owned(),
                Some(found) => format!("{} partitions", found.partitions),
                None => "no topic of this name".to_owned(),
            };
            return Err(Error::new(
                ErrorKind::Invalid,
                codes::TOPIC_CHANGED,
                format!("expected the topic that was read before, with at least {} partitions, found {found}", known.partitions),
            )
            .at(format!("topic={name} brokers={}", self.settings.client.brokers))
            .data("the positions of the checkpoint mean nothing in another topic; nothing was read from it")
            .remedy("bring the topic back; or, if it is meant to be another one, give the source another name, so that it begins anew"));
        }
        Ok(())
    }
}

impl SplitEnumerator for KafkaEnumerator {
    type Split = PartitionSplit;

    fn discover(&mut self) -> Result<Discovery<PartitionSplit>> {
        let mut now: BTreeMap<String, KnownTopic> = BTreeMap::new();
        for name in self.names()? {
            match self.control.topic(&name)? {
                Some(topic) => {
                    let partitions = topic.partitions.iter().map(|partition| partition.number + 1).max().unwrap_or(0);
                    now.insert(name, KnownTopic { id: topic.id, partitions });
                }
                None if self.known.topics.contains_key(&name) => {}
                None => return Err(self.missing(&name)),
            }
        }
        self.compare(&now)?;
        let mut splits = Vec::new();
        for (name, topic) in &now {
            let first_new = self.known.topics.get(name).map_or(0, |known| known.partitions);
            for partition in first_new..topic.partitions {
                splits.push(PartitionSplit {
                    topic: name.clone(),
                    topic_id: topic.id.clone(),
                    partition,
                    position: self.start(name, partition)?,
                    stop: self.stop(name, partition)?,
                });
            }
        }
        if self.teller.is_none() {
            // Long before there is something to tell: the group's coordinator has to be found. Without a teller nobody is told, no more.
            self.teller = self.teller().unwrap_or_default();
        }
        self.known = Known { searched: true, topics: now };
        let state = postcard::to_stdvec(&self.known)
            .map_err(|error| Error::new(ErrorKind::Bug, codes::KAFKA_BUG, "what is known of topics cannot be encoded").cause(error))?;
        let again_after = if self.settings.stop == StopAt::Never { self.settings.discovery } else { None };
        Ok(Discovery { splits, state, again_after })
    }

    fn hears_commits(&self) -> bool {
        self.settings.group.is_some()
    }

    fn committed(&mut self, reached: Reached<PartitionSplit>) {
        if let Some(teller) = &self.teller {
            teller.tell(group::positions(&reached));
        }
    }
}

fn watermarks(consumer: &BaseConsumer, topic: &str, partition: i32) -> Result<(i64, i64)> {
    consumer.fetch_watermarks(topic, partition, ANSWER).map_err(|error| failed(topic, partition, &error))
}

fn failed(topic: &str, partition: i32, error: &KafkaError) -> Error {
    Error::new(ErrorKind::Retry, codes::DISCOVERY_FAILED, "the brokers did not tell the offsets of a partition")
        .cause(error)
        .at(format!("topic={topic} partition={partition}"))
        .data("nothing is lost: it is tried again")
        .remedy("see whether the brokers can be reached, and whether the job may describe the topic")
}
