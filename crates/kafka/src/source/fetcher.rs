//! The thread that talks to librdkafka for one reader, and hands on what comes, in batches.
//!
//! Messages stay where librdkafka has them: the task decodes them there and gives the batch back, and this thread frees it.
//!
//! Owns: a consumer with its own assignment, and the bound on what is fetched and not yet taken.
//! Does not own: records, positions (`reader`).
//!
//! Invariants:
//! 1. The order of the messages of a partition is kept.
//! 2. Messages are freed before their consumer.
//! 3. At most [`BATCHES_MAX`] batches wait; then the thread waits, and librdkafka's own queue fills up to its bound.
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
use crate::native::{Queue, Taken, TopicHandle, What};

/// Batches that may wait for the task.
const BATCHES_MAX: usize = 4;
/// Splits that may wait for the thread.
const ORDERS_MAX: usize = 4096;
/// How long messages that are still held are waited for at a time, at the end.
const HELD: Duration = Duration::from_millis(5);
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
    pub(super) entries: Vec<Entry>,
    /// Tells the thread that messages of its consumer are still held.
    _held: Option<Arc<()>>,
}

/// A message, or the end of a partition for now.
pub(super) struct Entry {
    pub(super) slot: u32,
    pub(super) taken: Taken,
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
        let (slots, held) = (HashMap::new(), Arc::new(()));
        let work = Work { queue, consumer, inbox, outbox, spare, waker, slots, taken: Vec::new(), held };
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

    /// Gives a batch back: its messages are librdkafka's, and freeing them takes time.
    pub(super) fn give_back(&self, batch: Fetched) {
        // When enough are there, this one is freed here.
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
    /// Declared before the consumer, as all that is its own, so that they are gone before it is.
    queue: Queue,
    spare: Receiver<Fetched>,
    /// What came out of the queue.
    taken: Vec<Taken>,
    consumer: Arc<BaseConsumer>,
    inbox: Receiver<Order>,
    outbox: SyncSender<Result<Fetched>>,
    waker: Waker,
    /// Topic to partitions to slot.
    slots: Slots,
    /// Shared with each batch that is not given back yet.
    held: Arc<()>,
}

type Slots = HashMap<String, HashMap<i32, u32>>;

impl Work {
    fn run(mut self) {
        self.serve();
        // Messages must not outlive their consumer. The task has dropped its end, or is about to.
        while Arc::strong_count(&self.held) > 1 {
            drop(self.spare.try_recv());
            thread::park_timeout(HELD);
        }
    }

    fn serve(&mut self) {
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
            let mut fetched = Fetched::default();
            while let Ok(used) = self.spare.try_recv() {
                fetched = used;
                fetched.entries.clear();
            }
            self.queue.take(WAIT, &mut self.taken);
            let failure = self.note(&mut fetched);
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

    /// Sorts what was taken into a batch; what went wrong.
    fn note(&mut self, fetched: &mut Fetched) -> Option<Error> {
        fetched._held = Some(Arc::clone(&self.held));
        // Neighbours are mostly of one partition.
        let mut last: Option<(TopicHandle, i32, Option<u32>)> = None;
        for taken in self.taken.drain(..) {
            let (topic, partition) = (taken.topic_handle(), taken.partition());
            let slot = match last {
                Some((known, number, slot)) if known == topic && number == partition => slot,
                _ => {
                    let found = self.slots.get(taken.topic()).and_then(|slots| slots.get(&partition)).copied();
                    last = Some((topic, partition, found));
                    found
                }
            };
            match taken.what() {
                // One without a slot was on its way when its partition was left.
                What::Message | What::End => fetched.entries.extend(slot.map(|slot| Entry { slot, taken })),
                What::Error { code, text } => {
                    // What comes behind a failure is not handed over: a checkpoint could pass what is missing.
                    if let Some(error) = failure(code, &text, &taken) {
                        return Some(error);
                    }
                }
            }
        }
        None
    }
}

/// The error that ends reading; none for what the client gets over by itself.
#[cold]
fn failure(code: Code, text: &str, taken: &Taken) -> Option<Error> {
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
        _ => return None,
    };
    let place = format!("topic={} partition={} code={code:?}", taken.topic(), taken.partition());
    Some(Error::new(kind, our_code, format!("{what}: {text}")).at(place).data(data).remedy(remedy))
}
