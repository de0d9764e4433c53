//! The thread that owns the transactional producers of one task.
//!
//! Data comes in batches from the writer; what is prepared goes back as committables.
//!
//! Owns: a small ring of transactional ids with their producers, and which of them may be used.
//! Does not own: the commit (`committer`), which another process may do.
//!
//! Invariants:
//! 1. An id whose transaction is prepared is not used again before the broker says that very transaction is committed.
//! 2. No transaction is opened for an epoch without records.
//! 3. Prepared means: every message of the epoch, and its mark, was acknowledged inside the transaction. One that was refused fails the
//!    prepare, and with it the job: its transaction stays open and is aborted by the next generation.
#![allow(
    clippy::disallowed_methods,
    reason = "librdkafka blocks and keeps its own time: it is used from threads of its own, which wait for it"
)]

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Message as _, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use staunch_api::{Committable, Copy, Prepared, WriterContext};
use staunch_types::{Digest, Epoch, Error, ErrorKind, Result};

use super::Settings;
use super::batch::{OutBatch, OutMessage};
use super::stored::{Mark, Range, StoredTransaction};
use super::writer::BATCHES_MAX;
use crate::codes;
use crate::control::{Control, Described, Producer as ProducerId, TransactionPhase};

/// Orders that may wait: batches, and prepares between them.
const ORDERS_MAX: usize = 2 * BATCHES_MAX + 8;
/// How long the thread serves its producers before it looks for orders.
const SERVE: Duration = Duration::from_millis(5);
/// How long it waits for room in librdkafka's queue at a time.
const FULL: Duration = Duration::from_millis(10);
/// How long a broker may take for one step of a transaction.
const STEP: Duration = Duration::from_secs(30);
/// How long acknowledgements are waited for at a time.
const ACKNOWLEDGED: Duration = Duration::from_millis(1);
/// How long an id is waited for whose commit the coordinator has under way.
const POLL: Duration = Duration::from_millis(5);
/// Ids of a task: as many as there may be uncommitted epochs, and the one in use.
const RING: usize = 5;

/// What the writer asks for.
pub(super) enum Order {
    Batch(OutBatch),
    Prepare(Epoch),
}

/// What it hears.
pub(super) enum Answer {
    Used(OutBatch),
    Prepared(Prepared),
    Failed(Error),
}

/// The thread, as its writer sees it.
pub(super) struct ProducerThread {
    orders: SyncSender<Order>,
    answers: Receiver<Answer>,
}

impl ProducerThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// `Invalid` when the system gives no thread.
    pub(super) fn start(settings: Settings, context: WriterContext) -> Result<ProducerThread> {
        let (orders, inbox) = sync_channel(ORDERS_MAX);
        let (outbox, answers) = sync_channel(2 * ORDERS_MAX);
        let waker = context.io.waker().clone();
        let work = Work {
            control: settings.client.control()?,
            settings,
            context,
            inbox,
            outbox,
            waker,
            ring: Vec::new(),
            next: 0,
            open: None,
            scratch: Vec::new(),
            marks: None,
        };
        let thread = thread::Builder::new().name("staunch-kafka-write".into()).spawn(move || work.run());
        thread.map_err(|error| codes::no_thread(&error))?;
        Ok(ProducerThread { orders, answers })
    }

    pub(super) fn order(&self, order: Order) -> Result<()> {
        self.orders.try_send(order).map_err(|error| {
            Error::new(ErrorKind::Restart, codes::KAFKA_BUG, format!("the thread that writes to Kafka takes no orders: {error}"))
        })
    }

    pub(super) fn answer(&self) -> Option<Answer> {
        self.answers.try_recv().ok()
    }
}

struct Work {
    settings: Settings,
    context: WriterContext,
    control: Control,
    inbox: Receiver<Order>,
    outbox: SyncSender<Answer>,
    waker: Waker,
    ring: Vec<Handle>,
    /// Where the search for a free id begins.
    next: usize,
    open: Option<OpenTransaction>,
    scratch: Vec<u8>,
    /// The topic of marks, and its id.
    marks: Option<(String, String)>,
}

/// A transactional id and its producer.
pub(super) struct Handle {
    id: String,
    producer: BaseProducer<Deliveries>,
    deliveries: Deliveries,
    /// Of the transaction that was prepared and may not be committed yet.
    prepared: Option<Identity>,
}

/// Tells a transaction from every other of its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    producer: ProducerId,
    started_ms: i64,
}

struct OpenTransaction {
    handle: usize,
    digest: Digest,
    copy: Option<(String, Copy)>,
}

/// What a producer's acknowledgements tell.
#[derive(Clone, Default)]
struct Deliveries(Arc<Mutex<Delivered>>);

#[derive(Default)]
struct Delivered {
    refused: Option<String>,
    /// By topic and partition.
    ranges: Vec<Vec<Option<(i64, i64, u64)>>>,
    mark: Option<(i32, i64)>,
}

/// Stands for the mark where the number of a topic is expected.
const MARK: usize = usize::MAX;

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, topic: usize) {
        let mut delivered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(message) if topic == MARK => delivered.mark = Some((message.partition(), message.offset())),
            Ok(message) => delivered.add(topic, message.partition(), message.offset()),
            Err((error, message)) => {
                let key = message.key().map(|key| String::from_utf8_lossy(&key[..key.len().min(100)]).into_owned());
                let bytes = message.payload().map_or(0, <[u8]>::len);
                let topic = message.topic();
                delivered.refused.get_or_insert_with(|| format!("{error}: topic={topic} key={key:?} bytes={bytes}"));
            }
        }
    }
}

impl Delivered {
    fn add(&mut self, topic: usize, partition: i32, offset: i64) {
        if self.ranges.len() <= topic {
            self.ranges.resize_with(topic + 1, Vec::new);
        }
        let (partitions, at) = (&mut self.ranges[topic], partition as usize);
        if partitions.len() <= at {
            partitions.resize(at + 1, None);
        }
        let (first, last, messages) = partitions[at].get_or_insert((offset, offset, 0));
        (*first, *last, *messages) = ((*first).min(offset), (*last).max(offset), *messages + 1);
    }
}

impl Work {
    fn run(mut self) {
        loop {
            let wait = if self.open.is_some() { SERVE } else { STEP };
            let result = match self.inbox.recv_timeout(wait) {
                Ok(Order::Batch(batch)) => self.produce(&batch).map(|()| Answer::Used(batch)).map(Some),
                Ok(Order::Prepare(epoch)) => self.prepare(epoch).map(|prepared| Some(Answer::Prepared(prepared))),
                Err(RecvTimeoutError::Timeout) => self.serve().map(|()| None),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let (answer, is_over) = match result {
                Ok(None) => continue,
                Ok(Some(answer)) => (answer, false),
                Err(error) => (Answer::Failed(error), true),
            };
            let is_heard = self.outbox.send(answer).is_ok();
            self.waker.wake_by_ref();
            if is_over || !is_heard {
                return;
            }
        }
    }

    /// Lets the producer in use hear its acknowledgements.
    fn serve(&self) -> Result<()> {
        let Some(open) = &self.open else { return Ok(()) };
        let handle = &self.ring[open.handle];
        handle.producer.poll(Duration::ZERO);
        handle.check()
    }

    fn produce(&mut self, batch: &OutBatch) -> Result<()> {
        if self.open.is_none() {
            self.open = Some(self.begin()?);
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        let handle = &self.ring[open.handle];
        for message in batch.messages() {
            message.digest_bytes(&mut self.scratch);
            open.digest.add(&self.scratch);
            if let Some((_, copy)) = &mut open.copy {
                keep(copy, &message, &mut self.scratch)?;
            }
            send(handle, &self.settings.topics, &message)?;
        }
        handle.producer.poll(Duration::ZERO);
        handle.check()
    }

    fn begin(&mut self) -> Result<OpenTransaction> {
        let at = self.free_handle()?;
        let handle = &self.ring[at];
        handle.begin()?;
        let copy = match self.settings.journal {
            true => {
                let name = format!("g{}-t{}-{}", self.context.generation, self.context.task_index, self.next);
                Some((name.clone(), self.context.journal.begin(&name)?))
            }
            false => None,
        };
        Ok(OpenTransaction { handle: at, digest: Digest::default(), copy })
    }

    /// An id that may be used; the ones in doubt are waited for.
    fn free_handle(&mut self) -> Result<usize> {
        let at = self.next % RING;
        self.next += 1;
        if at >= self.ring.len() {
            self.ring.push(Handle::new(&self.settings, &self.context, self.ring.len())?);
            return Ok(self.ring.len() - 1);
        }
        while !self.is_settled(at)? {
            self.ring[at].producer.poll(POLL);
        }
        Ok(at)
    }

    /// Whether the transaction that was prepared under an id is committed, so that the id is free.
    fn is_settled(&mut self, at: usize) -> Result<bool> {
        let handle = &mut self.ring[at];
        let Some(identity) = handle.prepared else { return Ok(true) };
        let described = self.control.describe_transaction(&handle.id)?;
        let is_ours = matches!(&described, Described::Known(found) if found.producer == identity.producer && found.start_ms == Some(identity.started_ms));
        let phase = if let Described::Known(found) = &described { Some(found.phase) } else { None };
        match phase {
            Some(TransactionPhase::CompleteCommit) if is_ours => {
                // The broker answers a commit that is done as done; so the producer learns of it.
                handle.producer.commit_transaction(STEP).map_err(|error| handle.failed("see a commit as done", &error))?;
                handle.prepared = None;
                Ok(true)
            }
            Some(TransactionPhase::Ongoing | TransactionPhase::PrepareCommit) if is_ours => Ok(false),
            phase => Err(Error::new(
                ErrorKind::Restart,
                codes::TRANSACTION_GONE,
                format!("a prepared transaction is not in doubt any more, and was not committed: its phase is {phase:?}"),
            )
            .at(format!("transactional id={} {}", handle.id, identity.producer))
            .data("what became of it is found out at the restart, before anything new is written")
            .remedy(
                "see whether the job was away for longer than transaction.timeout.ms, or another program uses the same transactional ids",
            )),
        }
    }

    /// The topic of marks, and its id.
    fn mark_topic(&mut self) -> Result<(String, String)> {
        if let Some(known) = &self.marks {
            return Ok(known.clone());
        }
        let name = self.settings.mark_topic(&self.context.job);
        let found = self.control.topic(&name)?.ok_or_else(|| {
            Error::new(ErrorKind::Invalid, codes::TOPIC_MISSING, "the topic of marks is gone since the job started")
                .at(format!("topic={name} brokers={}", self.settings.client.brokers))
                .data("nothing of the present epoch is visible")
                .remedy("find out who removed it; a start of the job makes it again")
        })?;
        Ok(self.marks.insert((name, found.id)).clone())
    }

    fn prepare(&mut self, epoch: Epoch) -> Result<Prepared> {
        let Some(open) = self.open.take() else { return Ok(Prepared { epoch, committables: Vec::new(), carried: Vec::new() }) };
        let (mark_topic, topic_id) = self.mark_topic()?;
        let handle = &mut self.ring[open.handle];
        let key = format!("{}/g{}/e{epoch}", handle.id, self.context.generation);
        send_mark(handle, &mark_topic, &key)?;
        handle.drain()?;
        let copy = match open.copy {
            Some((name, copy)) => {
                copy.finish()?;
                Some(name)
            }
            None => None,
        };
        let described = self.control.describe_transaction(&handle.id)?;
        let (Described::Known(found), Some((partition, offset))) = (&described, handle.deliveries.mark()) else {
            return Err(gone(handle, &described));
        };
        let (TransactionPhase::Ongoing, Some(started_ms)) = (found.phase, found.start_ms) else {
            return Err(gone(handle, &described));
        };
        handle.prepared = Some(Identity { producer: found.producer, started_ms });
        let stored = StoredTransaction {
            job: self.context.job.to_string(),
            sink: self.context.sink.to_string(),
            id: handle.id.clone(),
            producer_id: found.producer.id,
            producer_epoch: found.producer.epoch,
            started_ms,
            timeout_ms: found.timeout_ms,
            mark: Mark { topic: mark_topic, topic_id, partition, offset, key },
            ranges: handle.deliveries.ranges(&self.settings.topics),
            copy,
            digest: open.digest,
        };
        let committable = Committable {
            epoch,
            generation: self.context.generation,
            task_index: self.context.task_index,
            body: stored.encode()?,
            description: stored.describe(),
            digest: open.digest,
        };
        Ok(Prepared { epoch, committables: vec![committable], carried: Vec::new() })
    }
}

impl Deliveries {
    fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Delivered::default();
    }

    fn mark(&self) -> Option<(i32, i64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).mark
    }

    fn ranges(&self, topics: &[String]) -> Vec<Range> {
        let delivered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ranges = Vec::new();
        for (topic, partitions) in topics.iter().zip(&delivered.ranges) {
            for (partition, range) in (0..).zip(partitions) {
                if let Some((first, last, messages)) = *range {
                    ranges.push(Range { topic: topic.clone(), partition, first, last, messages });
                }
            }
        }
        ranges
    }
}

impl Handle {
    fn new(settings: &Settings, context: &WriterContext, number: usize) -> Result<Handle> {
        let id = settings.transactional_id(&context.job, &context.sink, context.task_index, number);
        Handle::take_over(settings, id)
    }

    /// Takes a transactional id over: what is open under it is aborted, and whoever else has it is fenced.
    pub(super) fn take_over(settings: &Settings, id: String) -> Result<Handle> {
        let deliveries = Deliveries::default();
        let producer: BaseProducer<Deliveries> =
            settings.producer(&id).create_with_context(deliveries.clone()).map_err(|error| codes::refused_setting(&error))?;
        let handle = Handle { id, producer, deliveries, prepared: None };
        handle.producer.init_transactions(STEP).map_err(|error| handle.failed("take over the transactional id", &error))?;
        Ok(handle)
    }

    pub(super) fn begin(&self) -> Result<()> {
        self.deliveries.clear();
        self.producer.begin_transaction().map_err(|error| self.failed("begin a transaction", &error))
    }

    /// Waits until every message is acknowledged. (`flush` looks only each 100 ms.)
    fn drain(&self) -> Result<()> {
        let deadline = Instant::now() + STEP;
        while self.producer.in_flight_count() > 0 {
            self.producer.poll(ACKNOWLEDGED);
            self.check()?;
            if Instant::now() > deadline {
                return Err(self.failed("have everything acknowledged", &KafkaError::Flush(RDKafkaErrorCode::OperationTimedOut)));
            }
        }
        self.producer.poll(Duration::ZERO);
        self.check()
    }

    /// Has everything acknowledged, and commits.
    pub(super) fn finish(&self) -> Result<()> {
        self.drain()?;
        self.producer.commit_transaction(STEP).map_err(|error| self.failed("commit a transaction", &error))
    }

    /// # Errors
    /// `Restart` when a message was refused.
    fn check(&self) -> Result<()> {
        let refused = self.deliveries.0.lock().unwrap_or_else(PoisonError::into_inner).refused.clone();
        match refused {
            None => Ok(()),
            Some(what) => Err(Error::new(ErrorKind::Restart, codes::MESSAGE_REFUSED, format!("a message was refused: {what}"))
                .at(format!("transactional id={}", self.id))
                .data("nothing of the present epoch is visible; what is committed is whole")
                .remedy("see the cause; a message that is too large needs a larger message.max.bytes at the topic and in the settings of the sink")),
        }
    }

    fn failed(&self, action: &str, error: &KafkaError) -> Error {
        let is_fenced = matches!(
            error.rdkafka_error_code(),
            Some(RDKafkaErrorCode::Fenced | RDKafkaErrorCode::ProducerFenced | RDKafkaErrorCode::InvalidProducerEpoch)
        );
        let (kind, code, data) = if is_fenced {
            (
                ErrorKind::Fenced,
                codes::FENCED,
                "a newer generation of the job has taken over; nothing that this one has open can become visible",
            )
        } else {
            (ErrorKind::Restart, codes::WRITE_FAILED, "nothing of the present epoch is visible; it is written again after the restart")
        };
        Error::new(kind, code, format!("the broker did not let the sink {action}"))
            .cause(error)
            .at(format!("transactional id={}", self.id))
            .data(data)
            .remedy("see the cause, and whether the brokers can be reached")
    }
}

#[cold]
fn gone(handle: &Handle, described: &Described) -> Error {
    Error::new(
        ErrorKind::Restart,
        codes::TRANSACTION_GONE,
        format!("the transaction of the present epoch is not open any more: the coordinator describes {described:?}"),
    )
    .at(format!("transactional id={}", handle.id))
    .data("nothing of the present epoch is visible; it is written again after the restart")
    .remedy("see whether the job was halted for longer than transaction.timeout.ms, or another program uses the same transactional ids")
}

pub(super) fn send(handle: &Handle, topics: &[String], message: &OutMessage<'_>) -> Result<()> {
    let number = usize::from(message.topic);
    let topic = topics.get(number).ok_or_else(|| {
        Error::new(
            ErrorKind::Invalid,
            codes::RECORD_UNWRITABLE,
            format!("a message names topic {number} of the sink, which has {}", topics.len()),
        )
        .remedy("give the sink all topics that its messages name")
    })?;
    let mut record = BaseRecord::<[u8], [u8], usize>::with_opaque_to(topic, number);
    record.key = message.key;
    record.payload = message.value;
    record.partition = message.partition;
    record.timestamp = message.timestamp;
    if message.has_headers() {
        let headers = message.headers().iter().fold(OwnedHeaders::new(), |all, (key, value)| all.insert(Header { key, value }));
        record.headers = Some(headers);
    }
    queue(handle, record, message.size())
}

pub(super) fn send_mark(handle: &Handle, topic: &str, key: &str) -> Result<()> {
    let record = BaseRecord::<[u8], [u8], usize>::with_opaque_to(topic, MARK).key(key.as_bytes()).payload(&b"committed"[..]);
    queue(handle, record, key.len())
}

/// Queues a message; waits while librdkafka's queue is full.
fn queue(handle: &Handle, mut record: BaseRecord<'_, [u8], [u8], usize>, bytes: usize) -> Result<()> {
    loop {
        match handle.producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                handle.producer.poll(FULL);
                handle.check()?;
                record = back;
            }
            Err((error, back)) => {
                let key = back.key.map(|key| String::from_utf8_lossy(&key[..key.len().min(100)]).into_owned());
                return Err(handle.failed("queue a message", &error).at(format!("topic={} key={key:?} bytes={bytes}", back.topic)));
            }
        }
    }
}

/// Adds a message to the copy in the journal.
fn keep(copy: &mut Copy, message: &OutMessage<'_>, scratch: &mut Vec<u8>) -> Result<()> {
    scratch.clear();
    scratch.extend_from_slice(&[0; 4]);
    let full = postcard::to_extend(message, std::mem::take(scratch))
        .map_err(|error| Error::new(ErrorKind::Bug, codes::KAFKA_BUG, "a message cannot be encoded for the journal").cause(error))?;
    *scratch = full;
    let length = (scratch.len() - 4) as u32;
    scratch[..4].copy_from_slice(&length.to_le_bytes());
    copy.append(scratch)
}
