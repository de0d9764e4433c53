//! Kafka as a source.
//!
//! Owns: the description of a source, its settings and their checks.
//! Follows the data: partitions are found (`enumerator`), fetched by a thread (`fetcher`), decoded in the task (`reader`).
//!
//! Partitions are assigned by the engine, positions are in the snapshot: no consumer group decides anything. One may be told of positions
//! (`group`); how far the ends are is watched beside (`lag`).

mod partition;
mod enumerator;

mod fetcher;
mod reader;
mod lag;
mod group;

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::time::Duration;

use rdkafka::config::ClientConfig;
use regex::Regex;
use serde::de::DeserializeOwned;
use staunch_api::{Assignment, ReaderContext, Source, SourceContext};
use staunch_types::{Name, Result};

use crate::codes::setting;
use crate::message::{Csv, Decode, Json, Raw, Text};
use crate::settings::Client;

pub use enumerator::KafkaEnumerator;
pub use partition::PartitionSplit;
pub use reader::KafkaReader;

/// How often new partitions and topics are looked for, unless said otherwise.
const DISCOVERY: Duration = Duration::from_secs(30);

/// A source that reads topics of Kafka.
///
/// ```
/// use staunch_kafka::{KafkaSource, StartAt};
///
/// #[derive(Clone, serde::Deserialize)]
/// struct Payment { account: u64, cents: i64 }
///
/// let source = KafkaSource::json::<Payment>("localhost:9092", "payments").start(StartAt::Earliest);
/// # let _ = source;
/// ```
pub struct KafkaSource<T, D> {
    settings: Settings,
    decode: D,
    record: PhantomData<fn() -> T>,
}

impl<T, D: Clone> Clone for KafkaSource<T, D> {
    fn clone(&self) -> Self {
        KafkaSource { settings: self.settings.clone(), decode: self.decode.clone(), record: PhantomData }
    }
}

/// Where reading begins when there is no checkpoint. Partitions and topics that are found later are read from their beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartAt {
    /// The first message that there is.
    Earliest,
    /// After the last message that there is. A job that ends before its first checkpoint begins again, and then at what is the last one then.
    Latest,
    /// The first message of this time or later, in milliseconds since 1970.
    Timestamp(i64),
    /// These offsets, by topic and partition; the earliest where none is given.
    Offsets(BTreeMap<(String, i32), i64>),
    /// What a consumer group has committed; the earliest where it has nothing.
    Group(String),
}

/// Where reading ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopAt {
    /// Never.
    Never,
    /// At the end that partitions have when the job starts, transactions included that are open then: they are waited for.
    Latest,
    /// Before these offsets, by topic and partition; at the end where none is given.
    Offsets(BTreeMap<(String, i32), i64>),
}

/// Which topics.
#[derive(Clone, Debug)]
pub(crate) enum Topics {
    Named(Vec<String>),
    /// A pattern that must match the whole name.
    Pattern(String),
}

/// The settings of a source, as given.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) client: Client,
    pub(crate) topics: Topics,
    pub(crate) start: StartAt,
    pub(crate) stop: StopAt,
    pub(crate) discovery: Option<Duration>,
    /// The group that is told how far the job has come.
    pub(crate) group: Option<String>,
}

impl KafkaSource<(), ()> {
    /// A topic whose values are JSON.
    pub fn json<T: DeserializeOwned + 'static>(brokers: &str, topic: &str) -> KafkaSource<T, Json<T>> {
        KafkaSource::with(brokers, topic, Json::new())
    }

    /// A topic whose values are one line of CSV each, without a header.
    pub fn csv<T: DeserializeOwned + 'static>(brokers: &str, topic: &str) -> KafkaSource<T, Csv<T>> {
        KafkaSource::with(brokers, topic, Csv::new())
    }

    /// A topic of texts.
    pub fn text(brokers: &str, topic: &str) -> KafkaSource<String, Text> {
        KafkaSource::with(brokers, topic, Text)
    }

    /// A topic of bytes.
    pub fn raw(brokers: &str, topic: &str) -> KafkaSource<Vec<u8>, Raw> {
        KafkaSource::with(brokers, topic, Raw)
    }
}

impl<T, D: Decode<T>> KafkaSource<T, D> {
    /// A topic whose messages become records as a decoder says: it sees topic, partition, offset, time, key, value and headers.
    pub fn with(brokers: &str, topic: &str, decode: D) -> KafkaSource<T, D> {
        let settings = Settings {
            client: Client::new(brokers),
            topics: Topics::Named(vec![topic.to_owned()]),
            start: StartAt::Earliest,
            stop: StopAt::Never,
            discovery: Some(DISCOVERY),
            group: None,
        };
        KafkaSource { settings, decode, record: PhantomData }
    }

    /// Reads these topics instead.
    #[must_use]
    pub fn topics(mut self, topics: &[&str]) -> Self {
        self.settings.topics = Topics::Named(topics.iter().map(|topic| (*topic).to_owned()).collect());
        self
    }

    /// Reads all topics whose whole name matches a regular expression instead, also those that are made later. Topics in which Kafka keeps
    /// its own books (`__...`) and marks of sinks (`staunch-commits-...`) never match.
    #[must_use]
    pub fn topic_pattern(mut self, pattern: &str) -> Self {
        self.settings.topics = Topics::Pattern(pattern.to_owned());
        self
    }

    /// Where reading begins: at the earliest messages unless said otherwise.
    #[must_use]
    pub fn start(mut self, start: StartAt) -> Self {
        self.settings.start = start;
        self
    }

    /// Where reading ends: never unless said otherwise.
    #[must_use]
    pub fn stop(mut self, stop: StopAt) -> Self {
        self.settings.stop = stop;
        self
    }

    /// How often new partitions and topics are looked for: each 30 s unless said otherwise; `None` for once.
    #[must_use]
    pub fn discovery(mut self, interval: Option<Duration>) -> Self {
        self.settings.discovery = interval;
        self
    }

    /// Tells this consumer group how far the job has come, whenever an epoch is committed, so that tools such as `kafka-consumer-groups` show
    /// its lag. The job reads none of it back: its positions are in its checkpoints. A group that cannot be told is counted, and stops
    /// nothing. Give each source a group of its own, which nobody joins. None unless said otherwise.
    #[must_use]
    pub fn group(mut self, group: &str) -> Self {
        self.settings.group = Some(group.to_owned());
        self
    }

    /// A setting of the client, by librdkafka's name: of security, fetching, isolation.
    #[must_use]
    pub fn property(mut self, name: &str, value: &str) -> Self {
        self.settings.client.set(name, value);
        self
    }
}

/// Settings that a source sets itself.
const OWN: [&str; 5] = ["group.id", "enable.auto.commit", "auto.offset.reset", "enable.partition.eof", "enable.auto.offset.store"];

impl Settings {
    pub(crate) fn check(&self) -> Result<()> {
        self.client.check(&OWN, "source")?;
        match &self.topics {
            Topics::Named(names) if names.is_empty() || names.iter().any(String::is_empty) => {
                return Err(setting(format!("expected names of topics, found {names:?}"), "name the topics that the source reads"));
            }
            Topics::Named(_) => {}
            Topics::Pattern(pattern) => drop(whole_name(pattern)?),
        }
        if self.group.as_ref().is_some_and(String::is_empty) {
            return Err(setting(
                "expected the name of a consumer group, found none",
                "name the group that is told of positions, or leave it out",
            ));
        }
        Ok(())
    }

    /// For one reader. There is a group only because the client wants one; nothing joins it.
    pub(crate) fn consumer(&self, source: &Name, task: u32) -> ClientConfig {
        let mut config = self.client.config(&[
            ("isolation.level", "read_committed"),
            ("queued.max.messages.kbytes", "32768"),
            ("fetch.wait.max.ms", "50"),
            ("fetch.queue.backoff.ms", "5"),
            ("check.crcs", "true"),
        ]);
        config
            .set("group.id", format!("staunch+{}+{task}", source.component()))
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("enable.partition.eof", "true")
            .set("auto.offset.reset", "error");
        config
    }

    fn describe(&self) -> String {
        match &self.topics {
            Topics::Named(names) => format!("Kafka topics {} at {}", names.join(", "), self.client.brokers),
            Topics::Pattern(pattern) => format!("Kafka topics like {pattern} at {}", self.client.brokers),
        }
    }
}

/// A pattern that matches whole names.
fn whole_name(pattern: &str) -> Result<Regex> {
    Regex::new(&format!("^(?:{pattern})$"))
        .map_err(|error| setting(format!("the pattern of topics {pattern:?} is no regular expression"), "correct it").cause(error))
}

impl<T: Send + 'static, D: Decode<T>> Source for KafkaSource<T, D> {
    type Record = T;
    type Split = PartitionSplit;
    type Reader = KafkaReader<T, D>;
    type Enumerator = KafkaEnumerator;

    fn describe(&self) -> String {
        self.settings.describe()
    }

    fn reads(&self, address: &str) -> bool {
        let own = format!("kafka://{}/", self.settings.client.brokers);
        address.strip_prefix(&own).is_some_and(|topic| match &self.settings.topics {
            Topics::Named(names) => names.iter().any(|name| name == topic),
            Topics::Pattern(pattern) => whole_name(pattern).is_ok_and(|pattern| pattern.is_match(topic)),
        })
    }

    fn assignment(&self) -> Assignment {
        Assignment::AllAtOnce
    }

    fn enumerator(&self, context: &SourceContext, restored: Option<&[u8]>) -> Result<KafkaEnumerator> {
        self.settings.check()?;
        KafkaEnumerator::new(self.settings.clone(), context, restored)
    }

    fn reader(&self, context: ReaderContext) -> Result<KafkaReader<T, D>> {
        KafkaReader::new(&self.settings, self.decode.clone(), context)
    }
}
