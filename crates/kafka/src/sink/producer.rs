//! The thread that owns the transactional producers of one task: it does what the ring says, and tells it what happened.
//!
//! Data comes in batches from the writer; what is prepared goes back as committables.
//!
//! Owns: the producers, and what is known of the transaction of each. Does not own: which id is used when, and when a transaction counts as
//! prepared (`staunch_protocol::transaction::ring`); the commit (`committer`), which another process may do.
#![allow(
    clippy::disallowed_methods,
    reason = "librdkafka blocks and keeps its own time: it is used from threads of its own, which wait for it"
)]

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use staunch_api::{Committable, Copy, Moment, Prepared, WriterContext};
use staunch_protocol::transaction::Identity;
use staunch_protocol::transaction::ring::{Config, Effect, Event, Failure, IdNumber, Ring};
use staunch_types::{Digest, Epoch, Error, ErrorKind, Result, Tick};

use super::Settings;
use super::batch::{OutBatch, OutMessage};
use super::committer::confirm::markers;
use super::handle::{Handle, STEP, batch_bytes_max};
use super::stored::{MARKED, Mark, StoredTransaction};
use super::writer::BATCHES_MAX;
use crate::control::{Control, Described, Written};
use crate::ids::Ids;
use crate::{codes, figures};

/// Orders that may wait: batches, and prepares between them.
const ORDERS_MAX: usize = 2 * BATCHES_MAX + 8;
/// How long the thread serves its producers before it looks for orders.
const SERVE: Duration = Duration::from_millis(5);
/// How long acknowledgements are waited for at a time.
const ACKNOWLEDGED: Duration = Duration::from_millis(1);
/// How long orders are waited for at a time while nothing is under way.
const IDLE: Duration = Duration::from_secs(30);
/// How long a coordinator that has a commit under way is left alone.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Ids of a task: as many as there may be uncommitted epochs, and the one in use.
pub(super) const RING: u32 = 5;

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
    /// When it is dropped the thread ends, whatever it waits for.
    _wanted: Arc<()>,
}

impl ProducerThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// `Invalid` when the system gives no thread.
    pub(super) fn start(settings: Settings, context: WriterContext) -> Result<ProducerThread> {
        let (orders, inbox) = sync_channel(ORDERS_MAX);
        let (outbox, answers) = sync_channel(2 * ORDERS_MAX);
        let wanted = Arc::new(());
        let work = Work {
            ring: Ring::recover(Config { ids: RING, acknowledged_within: STEP, look_again: LOOK_AGAIN }),
            began: Instant::now(),
            control: settings.client.control()?,
            waker: context.io.waker().clone(),
            names: Ids::new(&context.job, &context.sink, context.ledger),
            settings,
            oldest: context.metrics.seconds_since(figures::TRANSACTION_OPEN),
            context,
            inbox,
            outbox,
            wanted: Arc::downgrade(&wanted),
            ids: (0..RING).map(|_| Id::default()).collect(),
            batch: None,
            batch_bytes_max: None,
            marks: None,
            copies: 0,
            error: None,
            scratch: Vec::new(),
        };
        let thread = thread::Builder::new().name("staunch-kafka-write".into()).spawn(move || work.run());
        thread.map_err(|error| codes::no_thread(&error))?;
        Ok(ProducerThread { orders, answers, _wanted: wanted })
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
    ring: Ring,
    began: Instant,
    settings: Settings,
    context: WriterContext,
    names: Ids,
    control: Control,
    inbox: Receiver<Order>,
    outbox: SyncSender<Answer>,
    waker: Waker,
    wanted: Weak<()>,
    ids: Vec<Id>,
    /// Records that wait to be written.
    batch: Option<OutBatch>,
    /// How large a batch all topics take.
    batch_bytes_max: Option<u32>,
    /// The topic of marks, and its id.
    marks: Option<(String, String)>,
    /// Copies begun in the journal.
    copies: u64,
    /// Why an effect could not be carried out.
    error: Option<Error>,
    scratch: Vec<u8>,
    /// Since when the oldest transaction is being written.
    oldest: Moment,
}

/// One id of the ring.
#[derive(Default)]
struct Id {
    handle: Option<Handle>,
    open: Option<Open>,
    /// The last description.
    described: Option<Described>,
}

/// What is known of a transaction that is written, or written and not yet reported.
#[derive(Default)]
struct Open {
    digest: Digest,
    copy: Option<Copy>,
    copy_name: Option<String>,
    /// Topic, topic id and key of its mark.
    mark: Option<(String, String, String)>,
    /// The least time of a message, if one has a time.
    oldest_ms: Option<i64>,
    /// Nothing more is written; acknowledgements are waited for.
    draining: bool,
    /// When it began, in milliseconds since 1970, by our clock.
    began_ms: i64,
}

impl Work {
    fn run(mut self) {
        let mut effects = Vec::new();
        while let Some(event) = self.next_event() {
            self.ring.step(self.now(), event, &mut effects);
            let mut at = 0;
            while let Some(effect) = effects.get(at).copied() {
                at += 1;
                let answer = match self.carry_out(effect) {
                    Ok(Some(event)) => event,
                    Ok(None) => continue,
                    Err(error) => {
                        self.error = Some(error);
                        Event::Failed
                    }
                };
                self.ring.step(self.now(), answer, &mut effects);
            }
            effects.clear();
        }
    }

    fn now(&self) -> Tick {
        Tick::default() + self.began.elapsed()
    }

    /// What happens next; none when nobody wants to know any more.
    fn next_event(&mut self) -> Option<Event> {
        while self.wanted.strong_count() > 0 {
            if let Some(event) = self.heard() {
                return Some(event);
            }
            if self.ring.deadline().is_some_and(|deadline| deadline <= self.now()) {
                return Some(Event::TimePassed);
            }
            let draining = self.ids.iter().find(|id| id.open.as_ref().is_some_and(|open| open.draining));
            let is_open = self.ids.iter().any(|id| id.open.is_some());
            if self.ring.takes_orders() {
                let wait = if draining.is_some() {
                    Duration::ZERO
                } else if is_open {
                    SERVE
                } else {
                    IDLE
                };
                match self.inbox.recv_timeout(wait) {
                    Ok(Order::Batch(batch)) => {
                        self.batch = Some(batch);
                        return Some(Event::RecordsArrived);
                    }
                    Ok(Order::Prepare(epoch)) => return Some(Event::PrepareAsked { epoch }),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return None,
                }
            }
            if let Some(handle) = draining.and_then(|id| id.handle.as_ref()) {
                handle.hear(ACKNOWLEDGED);
            } else if !self.ring.takes_orders() {
                thread::park_timeout(LOOK_AGAIN);
            }
        }
        None
    }

    /// What the producers have heard from the brokers.
    fn heard(&mut self) -> Option<Event> {
        for (number, Id { handle, open, .. }) in (0..).map(IdNumber).zip(&mut self.ids) {
            let (Some(handle), Some(open)) = (handle, open) else { continue };
            let is_all = handle.hear(Duration::ZERO);
            if handle.deliveries.refused().is_some() {
                return Some(Event::Refused { id: number });
            }
            if is_all && std::mem::take(&mut open.draining) {
                return Some(Event::Acknowledged { id: number });
            }
        }
        None
    }

    /// Does what the ring wants, and tells what came of it; writes are acknowledged later.
    fn carry_out(&mut self, effect: Effect) -> Result<Option<Event>> {
        match effect {
            Effect::TakeOver { id } => {
                // Whoever was overtaken would leave an open transaction behind that nobody knows of.
                self.context.lead.confirm()?;
                let name = self.names.of_task(self.context.generation, self.context.task_index, id.0);
                let (control, topics) = (&mut self.control, &self.settings.topics);
                let batch = *self.batch_bytes_max.get_or_insert_with(|| batch_bytes_max(control, topics));
                self.id(id).handle = Some(Handle::take_over(&self.settings, name, batch)?);
                Ok(Some(Event::TakenOver { id }))
            }
            Effect::Describe { id } => {
                let name = self.handle(id).id.clone();
                let described = self.control.describe_transaction(&name)?;
                let found = described.found();
                self.id(id).described = Some(described);
                Ok(Some(Event::Described { id, found }))
            }
            Effect::Begin { id } => {
                self.handle(id).begin()?;
                self.id(id).open = Some(self.open()?);
                self.show_oldest();
                Ok(Some(Event::Begun { id }))
            }
            Effect::Write { id } => self.write(id).map(|()| None),
            Effect::WriteMark { id, epoch } => self.write_mark(id, epoch).map(|()| None),
            Effect::Drain { id } => {
                let Some(open) = &mut self.id(id).open else { return Err(bug("acknowledgements of no transaction are waited for")) };
                open.draining = true;
                // Meanwhile the messages are on their way.
                open.copy.take().map_or(Ok(()), Copy::finish)?;
                Ok(None)
            }
            Effect::Confirm { id } => {
                let (producer, written) = self.written(id)?;
                let markers = markers(&self.control.open_in(producer, &written)?);
                Ok(Some(Event::Confirmed { id, markers }))
            }
            Effect::Settle { id } => {
                self.handle(id).settle()?;
                Ok(Some(Event::Settled { id }))
            }
            Effect::Report { epoch, prepared } => {
                let committable = prepared.map(|(id, identity)| self.committable(id, epoch, identity)).transpose()?;
                self.show_oldest();
                self.answer(Answer::Prepared(Prepared { epoch, committables: committable.into_iter().collect(), carried: Vec::new() }));
                Ok(None)
            }
            Effect::Fail(failure) => {
                let error = self.failed(failure);
                self.answer(Answer::Failed(error));
                self.wanted = Weak::new();
                Ok(None)
            }
        }
    }

    fn open(&mut self) -> Result<Open> {
        let began_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        if !self.settings.journal {
            return Ok(Open { began_ms, ..Open::default() });
        }
        self.copies += 1;
        let name = format!("g{}-t{}-{}", self.context.generation, self.context.task_index, self.copies);
        let copy = self.context.journal.begin(&name)?;
        Ok(Open { copy: Some(copy), copy_name: Some(name), began_ms, ..Open::default() })
    }

    fn show_oldest(&self) {
        self.oldest.set(self.ids.iter().filter_map(|id| id.open.as_ref()).map(|open| open.began_ms).min());
    }

    fn write(&mut self, id: IdNumber) -> Result<()> {
        let Id { handle, open, .. } = &mut self.ids[id.0 as usize];
        let (Some(handle), Some(open), Some(batch)) = (handle, open, self.batch.take()) else {
            return Err(bug("there is no transaction, or there are no records to write"));
        };
        for message in batch.messages() {
            message.digest_bytes(&mut self.scratch);
            open.digest.add(&self.scratch);
            open.oldest_ms = open.oldest_ms.into_iter().chain(message.timestamp).min();
            if let Some(copy) = &mut open.copy {
                keep(copy, &message, &mut self.scratch)?;
            }
            handle.send(&self.settings.topics, &message)?;
        }
        self.answer(Answer::Used(batch));
        Ok(())
    }

    fn write_mark(&mut self, id: IdNumber, epoch: Epoch) -> Result<()> {
        let (topic, topic_id) = self.mark_topic()?;
        let Id { handle: Some(handle), open: Some(open), .. } = &mut self.ids[id.0 as usize] else {
            return Err(bug("there is no transaction to mark"));
        };
        let key = format!("{}/e{epoch}", handle.id);
        handle.send_mark(&topic, &key, MARKED)?;
        open.mark = Some((topic, topic_id, key));
        Ok(())
    }

    /// The producer of the last transaction of an id, and where it wrote.
    fn written(&mut self, id: IdNumber) -> Result<(i64, Vec<Written>)> {
        let (topic, _) = self.mark_topic()?;
        let Id { handle: Some(handle), described: Some(Described::Known(found)), .. } = &self.ids[id.0 as usize] else {
            return Err(bug("markers of no transaction are asked for"));
        };
        let ranges = handle.deliveries.ranges(&self.settings.topics);
        let mut written: Vec<Written> =
            ranges.into_iter().map(|range| Written { topic: range.topic, partition: range.partition, last: range.last }).collect();
        written.extend(handle.deliveries.mark().map(|(partition, last)| Written { topic, partition, last }));
        Ok((found.producer.id, written))
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

    /// What the checkpoint keeps of a transaction.
    fn committable(&mut self, id: IdNumber, epoch: Epoch, identity: Identity) -> Result<Committable> {
        let Id { handle: Some(handle), open, described } = &mut self.ids[id.0 as usize] else { return Err(bug("no such producer")) };
        let (Some(open), Some(Described::Known(found)), Some((partition, offset))) = (open.take(), described, handle.deliveries.mark())
        else {
            return Err(bug("a transaction is reported that was not written, described or marked"));
        };
        let (topic, topic_id, key) = open.mark.ok_or_else(|| bug("a transaction without a mark is reported"))?;
        let stored = StoredTransaction {
            job: self.context.job.to_string(),
            sink: self.context.sink.to_string(),
            brokers: self.settings.client.brokers.clone(),
            topics: self.settings.topics.clone(),
            id: handle.id.clone(),
            producer_id: identity.producer.id,
            producer_epoch: identity.producer.epoch,
            started_ms: identity.start_ms,
            timeout_ms: found.timeout_ms,
            mark: Mark { topic, topic_id, partition, offset, key },
            ranges: handle.deliveries.ranges(&self.settings.topics),
            copy: open.copy_name,
            digest: open.digest,
            oldest_ms: open.oldest_ms.map_or(identity.start_ms, |oldest| oldest.min(identity.start_ms)),
        };
        Ok(Committable {
            epoch,
            generation: self.context.generation,
            task_index: self.context.task_index,
            body: stored.encode()?,
            description: stored.describe(),
            digest: open.digest,
        })
    }

    fn answer(&self, answer: Answer) {
        // Nobody listens: then the next look at who wants anything ends the thread.
        let _ = self.outbox.send(answer);
        self.waker.wake_by_ref();
    }

    fn failed(&mut self, failure: Failure) -> Error {
        match failure {
            Failure::Outside => self.error.take().unwrap_or_else(|| bug("something failed without a reason")),
            Failure::Refused(id) => {
                let handle = self.handle(id);
                handle.refused(&handle.deliveries.refused().unwrap_or_default())
            }
            Failure::NotAcknowledged(id) => self.handle(id).unacknowledged(),
            Failure::Gone(id) => self.gone("the transaction of the present epoch is not the open one of this task any more", id),
            Failure::NotCommitted(id) => self
                .gone("a prepared transaction is not in doubt any more, and the coordinator does not say that it was committed", id)
                .data("what became of it is found out at the restart, before anything new is written"),
            Failure::Unmarked(id) => Error::new(
                ErrorKind::Restart,
                codes::MARKERS_FORGOTTEN,
                "a transaction is committed, and a broker has forgotten to tell partitions so (KAFKA-20734)",
            )
            .at(format!("transactional id={}", self.handle(id).id))
            .data("its messages are not lost: readers of committed messages stop before them, until the markers are written")
            .remedy("nothing: they are written at the restart"),
        }
    }

    #[cold]
    fn gone(&self, what: &str, id: IdNumber) -> Error {
        let described = match &self.ids[id.0 as usize].described {
            Some(Described::Known(found)) => found.found().to_string(),
            Some(Described::Unknown) | None => "nothing".into(),
        };
        Error::new(ErrorKind::Restart, codes::TRANSACTION_GONE, format!("{what}: the coordinator describes {described}"))
            .at(format!("transactional id={}", self.handle(id).id))
            .data("nothing of the present epoch is visible; it is written again after the restart")
            .remedy(
                "see whether the job was halted for longer than transaction.timeout.ms, or another program uses the same transactional ids",
            )
    }

    fn id(&mut self, id: IdNumber) -> &mut Id {
        &mut self.ids[id.0 as usize]
    }

    fn handle(&self, id: IdNumber) -> &Handle {
        self.ids[id.0 as usize].handle.as_ref().expect("the ring takes an id over before it uses it")
    }
}

#[cold]
fn bug(what: &str) -> Error {
    Error::new(ErrorKind::Bug, codes::KAFKA_BUG, what.to_owned())
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
