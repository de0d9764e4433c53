//! Kafka as a sink.
//!
//! Owns: the description of a sink, its settings and their checks.
//! Follows the data: batches of messages, the writer of a task, the thread with its producers, what a checkpoint keeps, the committer.

mod batch;
mod stored;
mod deliveries;
mod handle;
mod producer;
mod writer;
mod mark;
mod committer;
mod by_hand;
mod check;

use std::marker::PhantomData;
use std::time::Duration;

use rdkafka::config::ClientConfig;
use serde::Serialize;
use staunch_api::{Kept, Sink, SinkContext, WriterContext};
use staunch_types::{Name, Result};

use crate::codes::setting;
use crate::message::{Csv, Encode, Json, MessageDraft, Raw, Text};
use crate::settings::Client;

pub(crate) use batch::digest_bytes;
pub use by_hand::{Brokers, Standing, Stray};
pub use committer::KafkaCommitter;
pub(crate) use stored::{Range, Rewritten, StoredTransaction};
pub use writer::KafkaWriter;

/// The kind under which Kafka sinks are known.
pub const KAFKA_SINK_KIND: &str = "kafka";

/// How long a prepared transaction may be in doubt before the broker aborts it, unless said otherwise. Brokers allow 15 minutes by default.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// What the name of a topic of marks begins with, unless said otherwise; the job's follows.
pub(crate) const MARK_TOPIC: &str = "staunch-commits-";
/// Longest part of a topic's name that comes from the job's.
const TOPIC_BYTES_MAX: usize = 200;

/// A sink that writes records to Kafka in transactions: `read_committed` readers see each record once, when its epoch is committed.
///
/// A message has the event time of its record, if it has one. Brokers delete messages by that time, after a week unless they are set otherwise,
/// and refuse those of more than an hour ahead: when old records are read again, give the topic a `retention.ms` that is long enough. A time of
/// exactly 0 becomes the present time: to librdkafka it means that there is none.
///
/// ```
/// use staunch_kafka::KafkaSink;
///
/// #[derive(serde::Serialize)]
/// struct Total { account: u64, cents: i64 }
///
/// let sink = KafkaSink::json::<Total>("localhost:9092", "totals").key(|total| total.account.to_string());
/// # let _ = sink;
/// ```
pub struct KafkaSink<T, E> {
    settings: Settings,
    encode: E,
    record: PhantomData<fn(T)>,
}

impl<T, E: Clone> Clone for KafkaSink<T, E> {
    fn clone(&self) -> Self {
        KafkaSink { settings: self.settings.clone(), encode: self.encode.clone(), record: PhantomData }
    }
}

/// The settings of a sink, as given.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) client: Client,
    pub(crate) topics: Vec<String>,
    /// Partitions of topics that are made if they do not exist.
    pub(crate) make_topics: Option<u32>,
    pub(crate) mark_topic: Option<String>,
    pub(crate) timeout: Duration,
    /// How long the job may be down while transactions are in doubt.
    pub(crate) allowed_downtime: Duration,
    pub(crate) journal: bool,
}

/// An encoder whose messages have a key.
#[derive(Clone)]
pub struct Keyed<E, K> {
    encode: E,
    key: K,
}

impl<T, E: Encode<T>, B: AsRef<[u8]>, K: Fn(&T) -> B + Clone + Send + Sync + 'static> Encode<T> for Keyed<E, K> {
    fn encode(&self, record: &T, message: &mut MessageDraft) -> std::result::Result<(), String> {
        self.encode.encode(record, message)?;
        message.key((self.key)(record).as_ref());
        Ok(())
    }
}

impl KafkaSink<(), ()> {
    /// Records as JSON.
    pub fn json<T: Serialize + 'static>(brokers: &str, topic: &str) -> KafkaSink<T, Json<T>> {
        KafkaSink::with(brokers, &[topic], Json::new())
    }

    /// Records as one line of CSV, without a header.
    pub fn csv<T: Serialize + 'static>(brokers: &str, topic: &str) -> KafkaSink<T, Csv<T>> {
        KafkaSink::with(brokers, &[topic], Csv::new())
    }

    /// Texts.
    pub fn text(brokers: &str, topic: &str) -> KafkaSink<String, Text> {
        KafkaSink::with(brokers, &[topic], Text)
    }

    /// Bytes as they are.
    pub fn raw(brokers: &str, topic: &str) -> KafkaSink<Vec<u8>, Raw> {
        KafkaSink::with(brokers, &[topic], Raw)
    }
}

impl<T, E: Encode<T>> KafkaSink<T, E> {
    /// Records as an encoder says: it may choose topic, partition, key, value, headers and time of each message.
    pub fn with(brokers: &str, topics: &[&str], encode: E) -> KafkaSink<T, E> {
        let settings = Settings {
            client: Client::new(brokers),
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            make_topics: None,
            mark_topic: None,
            timeout: TRANSACTION_TIMEOUT,
            allowed_downtime: Duration::ZERO,
            journal: false,
        };
        KafkaSink { settings, encode, record: PhantomData }
    }

    /// Gives messages a key, text or bytes, which also chooses the partition as Kafka's own clients do it.
    pub fn key<B: AsRef<[u8]>, K: Fn(&T) -> B + Clone + Send + Sync + 'static>(self, key: K) -> KafkaSink<T, Keyed<E, K>> {
        KafkaSink { settings: self.settings, encode: Keyed { encode: self.encode, key }, record: PhantomData }
    }

    /// A setting of the client, by librdkafka's name: of security, compression, batching.
    #[must_use]
    pub fn property(mut self, name: &str, value: &str) -> Self {
        self.settings.client.set(name, value);
        self
    }

    /// Makes topics that do not exist when the job starts or is checked, with so many partitions and the replication that the brokers have as
    /// their default. Otherwise a topic that does not exist is refused.
    #[must_use]
    pub fn make_topics(mut self, partitions: u32) -> Self {
        self.settings.make_topics = Some(partitions);
        self
    }

    /// How long a prepared transaction may be in doubt: the longest downtime after which everything is still simply committed. The broker's
    /// `transaction.max.timeout.ms` limits it. 15 minutes unless said otherwise.
    #[must_use]
    pub fn transaction_timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// How long the job may be down, at the worst moment, without a loss: the start is refused if the transaction timeout is shorter than this and the
    /// time between checkpoints together. Zero unless said otherwise.
    #[must_use]
    pub fn allowed_downtime(mut self, downtime: Duration) -> Self {
        self.settings.allowed_downtime = downtime;
        self
    }

    /// The compacted topic in which each transaction leaves a mark, by which it is known for ever whether it was committed. It is made if it
    /// does not exist. `staunch-commits-` and the job's name unless said otherwise.
    #[must_use]
    pub fn mark_topic(mut self, topic: &str) -> Self {
        self.settings.mark_topic = Some(topic.to_owned());
        self
    }

    /// Keeps a copy of each epoch's messages with the checkpoints until its commit is recorded. After a downtime longer than the transaction
    /// timeout they are then written again, where the job would otherwise stop. Each message is written twice.
    #[must_use]
    pub fn journal(mut self) -> Self {
        self.settings.journal = true;
        self
    }
}

/// Settings that a sink sets itself.
const OWN: [&str; 4] = ["transactional.id", "transaction.timeout.ms", "enable.idempotence", "acks"];

impl Settings {
    pub(crate) fn check(&self) -> Result<()> {
        self.client.check(&OWN, "sink")?;
        if self.topics.is_empty() || self.topics.iter().any(String::is_empty) {
            return Err(setting(format!("expected names of topics, found {:?}", self.topics), "name the topics that the sink writes to"));
        }
        if let Some(partitions) = self.make_topics.filter(|count| *count == 0 || i32::try_from(*count).is_err()) {
            let what = format!("expected a number of partitions, found {partitions}");
            return Err(setting(what, "give topics that are made one partition or more"));
        }
        Ok(())
    }

    pub(crate) fn mark_topic(&self, job: &Name) -> String {
        if let Some(topic) = &self.mark_topic {
            return topic.clone();
        }
        let job = job.component();
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&c);
        if job.len() <= TOPIC_BYTES_MAX && job.chars().all(is_allowed) {
            return format!("{MARK_TOPIC}{job}");
        }
        let hash = xxhash_rust::xxh3::xxh3_64(job.as_bytes());
        let plain: String = job.chars().map(|c| if is_allowed(c) { c } else { '_' }).take(TOPIC_BYTES_MAX).collect();
        format!("{MARK_TOPIC}{plain}-{hash:016x}")
    }

    pub(crate) fn timeout_ms(&self) -> i32 {
        i32::try_from(self.timeout.as_millis()).unwrap_or(i32::MAX)
    }

    /// For the producer that clears marks.
    pub(crate) fn clearing(&self) -> ClientConfig {
        let mut config = self.client.config(&[]);
        config.set("enable.idempotence", "true").set("linger.ms", "0");
        config
    }

    /// Its batches have at most so many bytes, unless the user says otherwise.
    pub(crate) fn producer(&self, id: &str, batch_bytes_max: u32) -> ClientConfig {
        let batch = batch_bytes_max.to_string();
        let mut config = self.client.config(&[
            ("partitioner", "murmur2_random"),
            ("linger.ms", "5"),
            ("queue.buffering.max.kbytes", "65536"),
            ("batch.size", &batch),
        ]);
        config.set("transactional.id", id).set("transaction.timeout.ms", self.timeout.as_millis().to_string());
        config
    }
}

impl<T: Send + 'static, E: Encode<T>> Sink for KafkaSink<T, E> {
    type Record = T;
    type Writer = KafkaWriter<T, E>;
    type Committer = KafkaCommitter;

    fn kind(&self) -> &'static str {
        KAFKA_SINK_KIND
    }

    fn describe(&self) -> String {
        format!("Kafka topics {} at {}", self.settings.topics.join(", "), self.settings.client.brokers)
    }

    fn writes(&self) -> Vec<String> {
        self.settings.topics.iter().map(|topic| format!("kafka://{}/{topic}", self.settings.client.brokers)).collect()
    }

    fn keeps(&self) -> Kept {
        if self.settings.journal { Kept::Copy } else { Kept::Mark }
    }

    fn check(&self, context: &SinkContext) -> Result<()> {
        self.settings.check()?;
        check::check(&self.settings, context)
    }

    fn writer(&self, context: WriterContext, _restored: Vec<Vec<u8>>) -> Result<KafkaWriter<T, E>> {
        KafkaWriter::new(self.settings.clone(), self.encode.clone(), context)
    }

    fn committer(&self, context: SinkContext) -> Result<KafkaCommitter> {
        KafkaCommitter::new(self.settings.clone(), context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_without_partitions_is_not_made() {
        let sink = |partitions| KafkaSink::text("localhost:9092", "out").make_topics(partitions);
        assert!(sink(1).settings.check().is_ok());
        for partitions in [0, u32::MAX] {
            let error = sink(partitions).settings.check().expect_err("refused").to_string();
            assert!(error.contains(&format!("found {partitions}")), "{error}");
        }
    }

    #[test]
    fn a_key_is_a_text_or_bytes() {
        fn key_of<E: Encode<String>>(sink: &KafkaSink<String, E>) -> Vec<u8> {
            let mut draft = MessageDraft::default();
            sink.encode.encode(&"record".to_owned(), &mut draft).expect("written");
            let (start, end) = draft.parts.key.expect("a key");
            draft.bytes[start as usize..end as usize].to_vec()
        }
        let sink = || KafkaSink::text("localhost:9092", "out");
        assert_eq!(key_of(&sink().key(|record: &String| record[..2].to_owned())), b"re");
        assert_eq!(key_of(&sink().key(|record: &String| vec![record.len() as u8])), [6]);
        assert_eq!(key_of(&sink().key(|_: &String| "same for all")), b"same for all");
    }
}
