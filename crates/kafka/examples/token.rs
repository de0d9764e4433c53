//! Measures what a token costs: none, an offset in a private group, a record in a side topic, in turn in one run.
//!
//! usage: cargo run --release -p staunch-kafka --example token [BROKERS]
#![allow(clippy::disallowed_methods, reason = "a measurement looks at the clock")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::{Message, TopicPartitionList as Assignment};
use staunch_kafka::control::{Interrupt, TokenAnswer, TokenPlace};
use staunch_kafka::{ClientSettings, Control};
use staunch_kafka_testbed::{Cluster, Options};

const TRANSACTIONS: usize = 100;
/// Transactional ids that take turns, as in the sink: an id just used is still busy with its markers.
const IDS: usize = 3;
const ROUNDS: usize = 3;
const RECORDS: usize = 100;
const TIME_MAX: Duration = Duration::from_secs(30);
const WAYS: [Way; 3] = [Way::None, Way::Offset, Way::Record];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    None,
    Offset,
    Record,
}

struct Writer {
    way: Way,
    producer: BaseProducer,
    // Its handle owns what the group is called by.
    consumer: BaseConsumer,
}

fn main() {
    let brokers = std::env::args().nth(1).map_or(1, |text| text.parse().expect("1 or 3"));
    let cluster = Cluster::start(&Options { brokers, settings: Vec::new() }).expect("brokers");
    let mut judge = cluster.judge().expect("a judge");
    for topic in ["data", "side"] {
        judge.create_topic(topic, 1).expect("a topic");
    }
    let writers = WAYS.map(|way| (0..IDS).map(|id| Writer::open(&cluster, way, id)).collect::<Vec<_>>());
    let mut times: BTreeMap<(Way, &str), Vec<Duration>> = BTreeMap::new();
    for round in 0..ROUNDS {
        for ring in &writers {
            for number in 0..TRANSACTIONS {
                let writer = &ring[number % IDS];
                let [prepare, commit] = writer.transaction(i64::try_from(round * TRANSACTIONS + number).expect("small"));
                times.entry((writer.way, "prepare")).or_default().push(prepare);
                times.entry((writer.way, "commit")).or_default().push(commit);
            }
        }
    }
    for ((way, step), mut times) in times {
        times.sort();
        println!("{way:?} {step} p50={:?} p99={:?}", times[times.len() / 2], times[times.len() * 99 / 100]);
    }
    read(&cluster);
}

impl Writer {
    fn open(cluster: &Cluster, way: Way, id: usize) -> Writer {
        let id = format!("token-{way:?}-{id}");
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", cluster.bootstrap());
        let consumer = config.clone().set("group.id", &id).create().expect("a consumer");
        let producer: BaseProducer = config.set("transactional.id", &id).set("linger.ms", "0").create().expect("a producer");
        producer.init_transactions(TIME_MAX).expect("the coordinator answers");
        Writer { way, producer, consumer }
    }

    /// The time until all is safe at the broker, and that of the commit.
    fn transaction(&self, number: i64) -> [Duration; 2] {
        self.producer.begin_transaction().expect("none is open");
        for _ in 0..RECORDS {
            self.send("data", "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789");
        }
        let started = Instant::now();
        match self.way {
            Way::None => {}
            Way::Record => self.send("side", &number.to_string()),
            Way::Offset => {
                let mut offsets = TopicPartitionList::new();
                offsets.add_partition_offset("data", 0, Offset::Offset(number)).expect("a list takes it");
                let group = self.consumer.group_metadata().expect("the group has a name");
                self.producer.send_offsets_to_transaction(&offsets, &group, TIME_MAX).expect("the group takes it");
            }
        }
        // Not `flush`: it looks whether all is done every 100 ms only.
        while self.producer.in_flight_count() > 0 {
            self.producer.poll(Duration::ZERO);
            assert!(started.elapsed() < TIME_MAX, "the broker takes all");
            std::thread::yield_now();
        }
        let prepared = started.elapsed();
        self.producer.commit_transaction(TIME_MAX).expect("committed");
        [prepared, started.elapsed() - prepared]
    }

    fn send(&self, topic: &str, value: &str) {
        let record = BaseRecord::<str, str>::to(topic).partition(0).key("token").payload(value);
        self.producer.send(record).map_err(|(error, _)| error).expect("room");
    }
}

/// What reading costs after a crash.
fn read(cluster: &Cluster) {
    let settings = [("bootstrap.servers".to_owned(), cluster.bootstrap())].into();
    let mut control = Control::new(ClientSettings::parse(&settings).expect("settings"), Interrupt::default()).expect("a client");
    let place = TokenPlace { group: "token-Offset-0".into(), topic: "data".into(), partition: 0 };
    let started = Instant::now();
    let answer = control.token(&place).expect("an answer");
    println!("Offset read {:?}, {answer:?}", started.elapsed());
    assert!(matches!(answer, TokenAnswer::There(_)));

    let started = Instant::now();
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", cluster.bootstrap()).set("group.id", "reader").set("isolation.level", "read_committed");
    let consumer: BaseConsumer = config.create().expect("a consumer");
    let mut all = Assignment::new();
    all.add_partition_offset("side", 0, Offset::Beginning).expect("a list takes it");
    consumer.assign(&all).expect("assigned");
    let mut count = 0;
    let mut last = Vec::new();
    while last != (ROUNDS * TRANSACTIONS - 1).to_string().into_bytes() {
        let record = consumer.poll(TIME_MAX).expect("more is there").expect("no error");
        last = record.payload().unwrap_or_default().to_vec();
        count += 1;
    }
    println!("Record read {:?}, {count} records", started.elapsed());
}
