//! The thread that talks to librdkafka for one reader, and copies what comes into batches.
//!
//! Owns: a consumer with its own assignment, and the bound on what is fetched and not yet taken.
//! Does not own: records, positions (`reader`).
//!
//! Invariants:
//! 1. The order of the messages of a partition is kept.
//! 2. At most [`BATCHES_MAX`] batches wait; then the thread waits, and librdkafka's own queue fills up to its bound.
#![allow(
    clippy::disallowed_methods,
    reason = "librdkafka blocks and keeps its own time: it is used from threads of its own, which wait for it"
)]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use rdkafka::bindings::rd_kafka_resp_err_t as Code;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use staunch_types::{Error, ErrorKind, Result};

use super::partition::PartitionSplit;
use crate::codes;
use crate::native::{Queue, Taken};

/// Batches that may wait for the task.
const BATCHES_MAX: usize = 4;
/// Splits that may wait for the thread.
const ORDERS_MAX: usize = 4096;
/// How long the thread waits for messages before it looks for orders.
const WAIT: Duration = Duration::from_millis(50);

/// The thread, as its reader sees it.
pub(super) struct Fetcher {
    orders: SyncSender<Order>,
    batches: Receiver<Result<Fetched>>,
    used: SyncSender<Fetched>,
    thread: Option<thread::JoinHandle<()>>,
}

enum Order {
    Read { slot: u32, split: PartitionSplit },
    Leave { split: PartitionSplit },
}

/// Messages that were fetched together.
#[derive(Default)]
pub(super) struct Fetched {
    pub(super) bytes: Vec<u8>,
    pub(super) entries: Vec<Entry>,
}

/// A message, or the end of a partition for now.
pub(super) struct Entry {
    pub(super) slot: u32,
    pub(super) offset: i64,
    pub(super) parts: Option<Parts>,
}

/// Where the parts of a message lie in the bytes of its batch.
pub(super) struct Parts {
    pub(super) timestamp: Option<i64>,
    start: u32,
    key_end: u32,
    value_end: u32,
    headers_end: u32,
    has_key: bool,
    has_value: bool,
}

impl Parts {
    pub(super) fn key<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        self.has_key.then(|| &bytes[self.start as usize..self.key_end as usize])
    }

    pub(super) fn value<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        self.has_value.then(|| &bytes[self.key_end as usize..self.value_end as usize])
    }

    pub(super) fn headers<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.value_end as usize..self.headers_end as usize]
    }
}

impl Fetcher {
    /// Starts the thread; `waker` wakes the task whenever something is there. Its consumer may be asked questions meanwhile.
    ///
    /// # Errors
    /// `Invalid` for settings that librdkafka refuses.
    pub(super) fn start(config: &ClientConfig, waker: Waker) -> Result<(Fetcher, Arc<BaseConsumer>)> {
        let consumer: Arc<BaseConsumer> = Arc::new(config.create().map_err(|error| codes::refused_setting(&error))?);
        let shared = Arc::clone(&consumer);
        let queue = Queue::of(&consumer).ok_or_else(|| Error::new(ErrorKind::Bug, codes::KAFKA_BUG, "a consumer has no queue"))?;
        let (orders, inbox) = sync_channel(ORDERS_MAX);
        let (outbox, batches) = sync_channel(BATCHES_MAX);
        let (used, spare) = sync_channel(BATCHES_MAX);
        let work = Work { queue, consumer, inbox, outbox, spare, waker, slots: HashMap::new() };
        let thread = thread::Builder::new().name("staunch-kafka-read".into()).spawn(move || work.run());
        let thread = thread.map_err(|error| codes::no_thread(&error))?;
        Ok((Fetcher { orders, batches, used, thread: Some(thread) }, shared))
    }

    pub(super) fn read(&self, slot: u32, split: PartitionSplit) -> Result<()> {
        self.order(Order::Read { slot, split })
    }

    pub(super) fn leave(&self, split: PartitionSplit) -> Result<()> {
        self.order(Order::Leave { split })
    }

    fn order(&self, order: Order) -> Result<()> {
        self.orders.try_send(order).map_err(|error| {
            Error::new(ErrorKind::Restart, codes::KAFKA_BUG, format!("the thread that reads Kafka takes no orders: {error}"))
        })
    }

    /// What was fetched, if anything.
    pub(super) fn next(&self) -> Result<Option<Fetched>> {
        match self.batches.try_recv() {
            Ok(batch) => batch.map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                Err(Error::new(ErrorKind::Restart, codes::KAFKA_BUG, "the thread that reads Kafka has ended"))
            }
        }
    }

    /// Gives a batch back, for its memory.
    pub(super) fn give_back(&self, batch: Fetched) {
        // When enough are there, this one is freed.
        drop(self.used.try_send(batch));
    }
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        // The thread ends when it finds its channels without a reader; waiting for librdkafka to close is not the task's business.
        drop(self.thread.take());
    }
}

struct Work {
    /// Declared before the consumer, so that it is gone before that is.
    queue: Queue,
    consumer: Arc<BaseConsumer>,
    inbox: Receiver<Order>,
    outbox: SyncSender<Result<Fetched>>,
    spare: Receiver<Fetched>,
    waker: Waker,
    /// Topic to partitions to slot.
    slots: HashMap<String, HashMap<i32, u32>>,
}

impl Work {
    fn run(mut self) {
        loop {
            loop {
                match self.inbox.try_recv() {
                    Ok(order) => {
                        if let Err(error) = self.obey(order) {
                            self.send(Err(error));
                            return;
                        }
                    }
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            let mut fetched = self.spare.try_recv().unwrap_or_default();
            fetched.bytes.clear();
            fetched.entries.clear();
            let mut failure = None;
            let slots = &self.slots;
            self.queue.take(WAIT, |taken| {
                // What comes behind a failure is not handed over: a checkpoint could pass what is missing.
                if failure.is_none() {
                    failure = note(taken, slots, &mut fetched).err();
                }
            });
            if !fetched.entries.is_empty() && !self.send(Ok(fetched)) {
                return;
            }
            if let Some(error) = failure {
                self.send(Err(error));
                return;
            }
        }
    }

    fn obey(&mut self, order: Order) -> Result<()> {
        let mut list = TopicPartitionList::new();
        let (split, changed) = match order {
            Order::Read { slot, split } => {
                let added = list.add_partition_offset(&split.topic, split.partition, Offset::Offset(split.position));
                self.slots.entry(split.topic.clone()).or_default().insert(split.partition, slot);
                (split, added.and_then(|()| self.consumer.incremental_assign(&list)))
            }
            Order::Leave { split } => {
                list.add_partition(&split.topic, split.partition);
                self.slots.entry(split.topic.clone()).or_default().remove(&split.partition);
                (split, self.consumer.incremental_unassign(&list))
            }
        };
        changed.map_err(|error| {
            Error::new(ErrorKind::Restart, codes::READ_FAILED, "the partition could not be assigned to a reader")
                .cause(error)
                .at(split.place())
        })
    }

    /// Whether anybody takes it.
    fn send(&self, batch: Result<Fetched>) -> bool {
        let sent = self.outbox.send(batch).is_ok();
        self.waker.wake_by_ref();
        sent
    }
}

fn note(taken: Taken<'_>, slots: &HashMap<String, HashMap<i32, u32>>, fetched: &mut Fetched) -> Result<()> {
    let slot_of = |topic: &str, partition: i32| slots.get(topic).and_then(|slots| slots.get(&partition)).copied();
    match taken {
        Taken::Message(message) => {
            // One that was on its way when its partition was left.
            let Some(slot) = slot_of(message.topic(), message.partition()) else { return Ok(()) };
            let (key, value) = (message.key(), message.value());
            let bytes = &mut fetched.bytes;
            let start = bytes.len() as u32;
            bytes.extend_from_slice(key.unwrap_or_default());
            let key_end = bytes.len() as u32;
            bytes.extend_from_slice(value.unwrap_or_default());
            let value_end = bytes.len() as u32;
            message.copy_headers(bytes);
            let parts = Parts {
                timestamp: message.timestamp(),
                start,
                key_end,
                value_end,
                headers_end: bytes.len() as u32,
                has_key: key.is_some(),
                has_value: value.is_some(),
            };
            fetched.entries.push(Entry { slot, offset: message.offset(), parts: Some(parts) });
        }
        Taken::End { topic, partition, offset } => {
            if let Some(slot) = slot_of(topic, partition) {
                fetched.entries.push(Entry { slot, offset, parts: None });
            }
        }
        Taken::Error { code, text, topic, partition } => return failure(code, &text, &format!("topic={topic} partition={partition}")),
    }
    Ok(())
}

/// What an error of the client means for the job.
#[cold]
fn failure(code: Code, text: &str, place: &str) -> Result<()> {
    let (kind, our_code, what, data, remedy) = match code {
        Code::RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET => (
            ErrorKind::Invalid,
            codes::OFFSET_GONE,
            "the messages that come next are not in the partition any more",
            "messages between the position of the checkpoint and the first one that is left were removed before they were read",
            "find out how much is missing and get it from elsewhere; lengthen the topic's retention",
        ),
        Code::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART
        | Code::RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC
        | Code::RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION
        | Code::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED
        | Code::RD_KAFKA_RESP_ERR__AUTHENTICATION
        | Code::RD_KAFKA_RESP_ERR__FATAL => (
            ErrorKind::Restart,
            codes::READ_FAILED,
            "the partition cannot be read",
            "nothing is lost: reading goes on from the last checkpoint",
            "see that the topic exists and that the job may read it",
        ),
        // The client tells of such a batch, and then goes on behind it or asks for it for ever.
        Code::RD_KAFKA_RESP_ERR__BAD_MSG | Code::RD_KAFKA_RESP_ERR__BAD_COMPRESSION | Code::RD_KAFKA_RESP_ERR__NOT_IMPLEMENTED => (
            ErrorKind::Corrupt,
            codes::BATCH_DAMAGED,
            "messages cannot be read as they are stored",
            "nothing is passed over: reading goes on from the last checkpoint",
            "have another replica of the partition lead it, or bring the messages back; then start again",
        ),
        // Brokers that are away for a while: librdkafka goes on trying.
        _ => return Ok(()),
    };
    Err(Error::new(kind, our_code, format!("{what}: {text}")).at(format!("{place} code={code:?}")).data(data).remedy(remedy))
}
