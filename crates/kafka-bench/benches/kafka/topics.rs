//! Topics: made, filled, read to their end, removed.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Message, Offset, TopicPartitionList};

use crate::workload::{Check, Row};

/// How long the brokers may take for a step.
pub(crate) const STEP: Duration = Duration::from_secs(60);
/// How long the last messages may take to become visible.
const VISIBLE: Duration = Duration::from_secs(30);
/// How long more than what is expected is waited for.
const EXTRA: Duration = Duration::from_millis(300);

pub(crate) fn client(brokers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    config
}

/// Makes a topic whose messages tell when the broker took them.
pub(crate) fn create(brokers: &str, topic: &str, partitions: i32) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> = client(brokers).create()?;
    let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1)).set("message.timestamp.type", "LogAppendTime");
    let made = futures_executor::block_on(admin.create_topics(&[new], &AdminOptions::new().operation_timeout(Some(STEP))))?;
    made.into_iter().try_for_each(|topic| topic.map(drop).map_err(|(topic, code)| anyhow::anyhow!("{topic}: {code}")))
}

/// Removes a topic, for its room on the disk.
pub(crate) fn remove(brokers: &str, topic: &str) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> = client(brokers).create()?;
    futures_executor::block_on(admin.delete_topics(&[topic], &AdminOptions::new().operation_timeout(Some(STEP))))?;
    Ok(())
}

/// Fills a topic with the records of a row, each partition in the order of their numbers.
pub(crate) fn fill(brokers: &str, topic: &str, row: &Row) -> Result<()> {
    let mut config = client(brokers);
    config.set("enable.idempotence", "true").set("linger.ms", "20").set("queue.buffering.max.kbytes", "65536");
    let producer: BaseProducer = config.create()?;
    let mut value = Vec::new();
    for number in 0..row.records {
        let key = row.make(number, &mut value);
        let partition = (number % row.partitions as u64) as i32;
        send(&producer, BaseRecord::to(topic).partition(partition).key(&key[..]).payload(&value[..]))?;
    }
    producer.flush(STEP)?;
    Ok(())
}

/// Queues a message, when there is room.
pub(crate) fn send(producer: &BaseProducer, mut record: BaseRecord<'_, [u8], [u8]>) -> Result<()> {
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                producer.poll(Duration::from_millis(1));
                record = back;
            }
            Err((error, _)) => bail!(error),
        }
    }
}

/// A reader of all partitions of a topic, from their beginning.
pub(crate) fn reader(brokers: &str, topic: &str, partitions: i32, properties: &[(&str, &str)]) -> Result<BaseConsumer> {
    let mut config = client(brokers);
    config.set("group.id", format!("reads-{topic}")).set("enable.auto.commit", "false").set("enable.auto.offset.store", "false");
    config.set("isolation.level", "read_committed").set("auto.offset.reset", "earliest");
    for (name, value) in properties {
        config.set(*name, *value);
    }
    let consumer: BaseConsumer = config.create()?;
    let mut list = TopicPartitionList::new();
    (0..partitions).try_for_each(|partition| list.add_partition_offset(topic, partition, Offset::Offset(0)))?;
    consumer.assign(&list)?;
    Ok(consumer)
}

/// Reads the output with `read_committed`, checks it, and gives back when the broker took each message, in milliseconds, in order.
pub(crate) fn check(brokers: &str, topic: &str, row: Row) -> Result<Vec<i64>> {
    let consumer = reader(brokers, topic, row.partitions, &[("queued.max.messages.kbytes", "32768")])?;
    let (mut check, mut times, mut last) = (Check::new(row), Vec::new(), Instant::now());
    loop {
        match consumer.poll(Duration::from_millis(50)) {
            Some(message) => {
                let message = message.context("the output cannot be read")?;
                times.push(message.timestamp().to_millis().unwrap_or_default());
                check.see(message.key().unwrap_or_default(), message.payload().unwrap_or_default());
                last = Instant::now();
            }
            None if last.elapsed() > if check.is_whole() { EXTRA } else { VISIBLE } => break,
            None => {}
        }
    }
    check.finish()?;
    times.sort_unstable();
    Ok(times)
}
