//! A transactional producer of librdkafka, as the sink will have one.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::KafkaResult;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use staunch_kafka::control::{Described, Interrupt, Transaction, TransactionPhase};
use staunch_kafka::{ClientSettings, Control};
use staunch_kafka_testbed::{Cluster, Judge};

/// Questions until a decision under way is through.
pub(crate) const QUESTIONS_MAX: u32 = 100_000;
const TIME_MAX: Duration = Duration::from_secs(30);

/// Hears of records that were not delivered.
#[derive(Clone, Default)]
struct Undelivered(Arc<Mutex<Vec<String>>>);

impl ClientContext for Undelivered {}

impl ProducerContext for Undelivered {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            self.0.lock().expect("no thread panicked").push(error.to_string());
        }
    }
}

/// One handle of a transactional producer.
pub(crate) struct Writer {
    producer: BaseProducer<Undelivered>,
    undelivered: Undelivered,
}

impl Writer {
    /// A handle; its `init_transactions` aborts what is open under the id.
    pub(crate) fn open(cluster: &Cluster, transactional_id: &str, timeout_ms: u32) -> Writer {
        let undelivered = Undelivered::default();
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", cluster.bootstrap()).set("transactional.id", transactional_id);
        config.set("transaction.timeout.ms", timeout_ms.to_string()).set("linger.ms", "0").set("log_level", "0");
        let producer: BaseProducer<Undelivered> = config.create_with_context(undelivered.clone()).expect("a producer");
        producer.init_transactions(TIME_MAX).expect("the coordinator answers");
        Writer { producer, undelivered }
    }

    pub(crate) fn begin(&self) {
        self.producer.begin_transaction().expect("no transaction is open");
    }

    /// Writes values to partition 0, and waits until the broker has them.
    pub(crate) fn write(&self, topic: &str, values: &[&str]) {
        for value in values {
            self.send(topic, 0, value);
        }
        self.deliver();
    }

    /// Writes a value to each of some partitions, and waits until the broker has them.
    pub(crate) fn write_to(&self, topic: &str, partitions: Range<i32>, value: &str) {
        for partition in partitions {
            self.send(topic, partition, value);
        }
        self.deliver();
    }

    /// Writes a value to partition 0, and tells what the broker did not take.
    pub(crate) fn try_write(&self, topic: &str, value: &str) -> Result<(), Vec<String>> {
        self.send(topic, 0, value);
        self.producer.flush(TIME_MAX).expect("the broker answers");
        let undelivered = self.undelivered.0.lock().expect("no thread panicked").clone();
        if undelivered.is_empty() { Ok(()) } else { Err(undelivered) }
    }

    fn send(&self, topic: &str, partition: i32, value: &str) {
        let record = BaseRecord::<str, str>::to(topic).partition(partition).payload(value);
        self.producer.send(record).map_err(|(error, _)| error).expect("room");
    }

    fn deliver(&self) {
        self.producer.flush(TIME_MAX).expect("the broker takes them");
        assert_eq!(*self.undelivered.0.lock().expect("no thread panicked"), Vec::<String>::new());
    }

    pub(crate) fn commit(&self) {
        self.try_commit().expect("committed");
    }

    pub(crate) fn try_commit(&self) -> KafkaResult<()> {
        self.producer.commit_transaction(TIME_MAX)
    }

    pub(crate) fn abort(&self) {
        self.producer.abort_transaction(TIME_MAX).expect("aborted");
    }
}

/// A topic of one partition with a judge beside it.
pub(crate) fn judged_topic(cluster: &Cluster, topic: &str) -> Judge {
    let mut judge = cluster.judge().expect("a judge");
    judge.create_topic(topic, 1).expect("a topic");
    judge
}

/// The values in a topic that a reader sees who sees only what is committed, when no transaction is open in it.
pub(crate) fn committed(judge: &mut Judge, topic: &str) -> Vec<String> {
    judge.settle(topic).expect("no transaction stays open");
    judge.read(topic).expect("records").iter().map(|record| record.text().expect("text").to_owned()).collect()
}

/// What a coordinator knows of an id, when it knows something.
pub(crate) fn described(control: &mut Control, transactional_id: &str) -> Transaction {
    match control.describe_transaction(transactional_id).expect("the coordinator answers") {
        Described::Known(transaction) => transaction,
        Described::Unknown => panic!("{transactional_id} is not known"),
    }
}

/// The same once no decision is under way: readers see the markers a moment before the coordinator is through.
pub(crate) fn ended(control: &mut Control, transactional_id: &str) -> Transaction {
    use TransactionPhase::{PrepareAbort, PrepareCommit, PrepareEpochFence};
    let under_way = |found: &Transaction| matches!(found.phase, PrepareAbort | PrepareCommit | PrepareEpochFence);
    let mut found = (0..QUESTIONS_MAX).map(|_| described(control, transactional_id));
    found.find(|found| !under_way(found)).expect("a decision comes through")
}

/// A control client with the settings given and the cluster's address.
pub(crate) fn control_with(bootstrap: &str, settings: &[(&str, &str)]) -> staunch_types::Result<Control> {
    let mut all: BTreeMap<String, String> = settings.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    all.insert("bootstrap.servers".into(), bootstrap.into());
    Control::new(ClientSettings::parse(&all)?, Interrupt::default())
}

pub(crate) fn control(cluster: &Cluster) -> Control {
    control_with(&cluster.bootstrap(), &[]).expect("a client")
}
