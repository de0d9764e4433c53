//! Whole jobs, in this process, against the real broker: read topics, write topics, and go on from checkpoints.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use staunch_engine::cluster::JobEvent;
use staunch_engine::job::{Environment, Settings};
use staunch_kafka::{KafkaSink, KafkaSource, Message, StopAt};
use staunch_kafka_e2e::Payment;
use staunch_kafka_testbed::{Record, shared};
use staunch_protocol::Reason;

/// Writes payments with numbers as cents, keyed by account.
pub(crate) fn fill(topic: &str, numbers: std::ops::Range<i64>) {
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", shared().bootstrap()).set("linger.ms", "0").create().expect("a producer");
    for number in numbers {
        let (key, value) = ((number % 7).to_string(), format!("{{\"account\":{},\"cents\":{number}}}", number % 7));
        producer.send(BaseRecord::to(topic).key(&key).payload(&value)).expect("room");
    }
    producer.flush(Duration::from_secs(20)).expect("acknowledged");
}

pub(crate) fn topics(names: &[(&str, u32)]) {
    let mut judge = shared().judge().expect("a judge");
    names.iter().for_each(|(name, partitions)| judge.create_topic(name, *partitions).expect("a topic"));
}

/// What readers of committed messages see, once all transactions are over.
pub(crate) fn seen(topic: &str) -> Vec<Record> {
    let mut judge = shared().judge().expect("a judge");
    judge.settle(topic).expect("no open transaction");
    judge.read(topic).expect("the records")
}

pub(crate) fn cents(records: &[Record]) -> BTreeMap<i64, usize> {
    let mut all = BTreeMap::new();
    for record in records {
        let payment: Payment = serde_json::from_str(record.text().expect("a text")).expect("a payment");
        *all.entry(payment.cents).or_default() += 1;
    }
    all
}

pub(crate) fn once_each(numbers: std::ops::Range<i64>) -> BTreeMap<i64, usize> {
    numbers.map(|number| (number, 1)).collect()
}

fn environment(checkpoints: &Path, interval: Duration) -> Environment {
    let mut settings = Settings::new();
    settings.parallelism = 2;
    settings.checkpoint_directory = Some(checkpoints.to_owned());
    settings.run.interval = interval;
    Environment::new(settings)
}

/// Copies a topic; stops at the end that it has now.
fn copy(environment: Environment, from: &str, to: &str) -> Reason {
    let brokers = shared().bootstrap();
    let sink = KafkaSink::json::<Payment>(&brokers, to).key(|p: &Payment| p.account.to_string().into_bytes());
    environment.source("in", KafkaSource::json::<Payment>(&brokers, from).stop(StopAt::Latest)).map(|payment| payment).sink("out", sink);
    environment.execute(&format!("copy {from}")).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_topic_is_copied_once_and_a_later_start_goes_on_behind_it() {
    topics(&[("copy-in", 3), ("copy-out", 2)]);
    let folder = tempfile::tempdir().expect("a folder");
    fill("copy-in", 0..5_000);
    assert_eq!(copy(environment(folder.path(), Duration::from_millis(100)), "copy-in", "copy-out"), Reason::Final);
    let records = seen("copy-out");
    assert_eq!(cents(&records), once_each(0..5_000));
    in_order(&records);
}

/// Per key in order, and each key in one partition.
pub(crate) fn in_order(records: &[Record]) {
    let mut last: BTreeMap<String, (i32, i64)> = BTreeMap::new();
    for record in records {
        let payment: Payment = serde_json::from_str(record.text().expect("a text")).expect("a payment");
        let key = format!("{:?}", record.key);
        let (partition, cents) = last.entry(key).or_insert((record.partition, -1));
        assert!(*partition == record.partition && *cents < payment.cents);
        *cents = payment.cents;
    }
}

#[test]
fn null_values_headers_and_times_come_through_a_job_as_they_are() {
    topics(&[("raw-in", 1), ("raw-out", 1)]);
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", shared().bootstrap()).create().expect("a producer");
    let headers = rdkafka::message::OwnedHeaders::new()
        .insert(rdkafka::message::Header { key: "a", value: Some("1") })
        .insert(rdkafka::message::Header::<&str> { key: "b", value: None });
    producer.send(BaseRecord::<str, str>::to("raw-in").key("k").timestamp(1_000).headers(headers)).expect("room");
    producer.send(BaseRecord::<str, str>::to("raw-in").payload("").timestamp(2_000)).expect("room");
    producer.flush(Duration::from_secs(20)).expect("acknowledged");

    type Whole = (Option<Vec<u8>>, Option<Vec<u8>>, Vec<(String, Option<Vec<u8>>)>, Option<i64>);
    let decode = |m: &Message<'_>| -> Result<Whole, String> {
        let headers = m.headers.iter().map(|(name, value)| (name.to_owned(), value.map(<[u8]>::to_vec))).collect();
        Ok((m.key.map(<[u8]>::to_vec), m.value.map(<[u8]>::to_vec), headers, m.timestamp))
    };
    let encode = |(key, value, headers, time): &Whole, out: &mut staunch_kafka::MessageDraft| {
        if let Some(key) = key {
            out.key(key);
        }
        if let Some(value) = value {
            out.value(value);
        }
        for (name, value) in headers {
            out.header(name, value.as_deref());
        }
        if let Some(time) = time {
            out.timestamp(*time);
        }
        Ok(())
    };
    let folder = tempfile::tempdir().expect("a folder");
    let (environment, brokers) = (environment(folder.path(), Duration::from_millis(100)), shared().bootstrap());
    environment
        .source("in", KafkaSource::with(&brokers, "raw-in", decode).stop(StopAt::Latest))
        .sink("out", KafkaSink::with(&brokers, &["raw-out"], encode));
    environment.execute("raw").unwrap_or_else(|error| panic!("{error}"));
    let out = seen("raw-out");
    assert_eq!(out.len(), 2);
    assert_eq!((out[0].value.is_none(), out[0].timestamp_ms, out[0].headers.len()), (true, 1_000, 2));
    assert!(out[0].headers[1].1.is_none());
    assert_eq!((out[1].key.is_none(), out[1].text(), out[1].timestamp_ms), (true, Some(""), 2_000));
}

#[test]
fn a_job_that_is_stopped_and_started_again_reads_and_writes_each_message_once() {
    topics(&[("again-in", 2), ("again-out", 1)]);
    let folder = tempfile::tempdir().expect("a folder");
    for round in 0..3 {
        fill("again-in", round * 300..(round + 1) * 300);
        let mut environment = environment(folder.path(), Duration::from_millis(50));
        let (stopper, brokers) = (environment.stopper(), shared().bootstrap());
        let mut read = 0;
        environment.on_event(move |event| {
            if let JobEvent::EpochDurable { counts, .. } = event {
                read += counts.iter().find(|(name, _)| name.to_string() == "in").map_or(0, |(_, counts)| counts.records_in);
                if read == 300 {
                    stopper.stop(Reason::Stop);
                }
            }
        });
        environment
            .source("in", KafkaSource::json::<Payment>(&brokers, "again-in"))
            .map(|payment| payment)
            .sink("out", KafkaSink::json::<Payment>(&brokers, "again-out").journal());
        environment.execute("again").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(cents(&seen("again-out")), once_each(0..(round + 1) * 300));
    }
}
