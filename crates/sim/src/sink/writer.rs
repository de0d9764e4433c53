//! The writer of one task: does what the ring of transactional ids says, one effect at a time, through the door to blocking work.
//!
//! Owns: records that wait, what is on its way to the broker, what is known of the open transaction of each id. Does not own: which id is
//! used when, and when a transaction counts as prepared (`staunch_protocol::transaction::ring`).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use staunch_api::{Committable, Copy, Journal, Pending, Prepared, SinkWriter, WriterContext};
use staunch_protocol::transaction::ring::{Config, Effect, Event, Failure, IdNumber, Ring};
use staunch_protocol::transaction::{Described, Identity, Markers, Producer};
use staunch_types::{Digest, Epoch, Error, ErrorKind, Result, Tick, Timestamp};

use super::{BrokenDriver, StoredTransaction, TopicSink, mark_topic, not_done, prefix};
use crate::job::Row;
use crate::kernel::{Body, Decision, Place, SimBroker};

/// Records that go to the ring together.
const BATCH: usize = 8;
/// Batches that wait at most.
const BATCHES_MAX: usize = 4;
/// Records that go to the broker together.
const SENT: usize = 4;

enum Order {
    Batch(Vec<String>),
    Prepare(Epoch),
}

/// What an effect came to.
enum Done {
    Took(Producer),
    Described(Described),
    Begun(Option<Copy>),
    Wrote(Vec<String>, Option<Copy>),
    Drained,
    Confirmed(Markers),
    Settled,
}

/// A record on its way, with the number by which the broker knows it again.
struct Outgoing {
    number: u64,
    place: Place,
    body: Body,
}

/// Where records landed, one after the other.
type Landed = Vec<(Place, u64)>;

/// One id of the ring.
#[derive(Default)]
struct Id {
    name: String,
    producer: Option<Producer>,
    waiting: VecDeque<Outgoing>,
    /// What is on its way; the answer is where each record landed.
    sending: Option<Pending<Result<Landed>>>,
    draining: bool,
    copy: Option<Copy>,
    copy_name: Option<String>,
    digest: Digest,
    mark: Option<String>,
    /// Where its transaction has written last, by partition.
    places: BTreeMap<Place, u64>,
}

/// See the module.
pub struct TopicWriter {
    sink: TopicSink,
    context: WriterContext,
    ring: Ring,
    effects: VecDeque<Effect>,
    running: Option<(IdNumber, Pending<Result<Done>>)>,
    ids: Vec<Id>,
    orders: VecDeque<Order>,
    lines: Vec<String>,
    /// Records that wait to be written.
    batch: Option<Vec<String>>,
    prepared: VecDeque<Prepared>,
    /// Why an effect could not be carried out.
    error: Option<Error>,
    failed: Option<Error>,
    numbers: u64,
}

impl TopicWriter {
    pub(super) fn new(sink: TopicSink, context: WriterContext) -> TopicWriter {
        let ring = sink.settings.ring;
        let config = Config { ids: ring, acknowledged_within: Duration::from_secs(30), look_again: Duration::from_millis(5) };
        let prefix = prefix(&context.job, &context.sink);
        let owner = match sink.settings.breaks(BrokenDriver::SharesIds) {
            true => String::new(),
            false => format!("g{}-", context.generation),
        };
        let name = |number| format!("{prefix}{owner}t{}-{number}", context.task_index);
        let ids = (0..ring).map(|number| Id { name: name(number), ..Id::default() }).collect();
        TopicWriter {
            sink,
            context,
            ring: Ring::recover(config),
            effects: VecDeque::new(),
            running: None,
            ids,
            orders: VecDeque::new(),
            lines: Vec::new(),
            batch: None,
            prepared: VecDeque::new(),
            error: None,
            failed: None,
            numbers: 0,
        }
    }

    fn step(&mut self, now: Tick, event: Event) {
        let mut effects = Vec::new();
        self.ring.step(now, event, &mut effects);
        self.effects.extend(effects);
    }

    /// Goes on as far as it is possible without waiting.
    fn go_on(&mut self, now: Tick) {
        loop {
            self.send();
            if let Some((id, pending)) = &mut self.running {
                let id = *id;
                match pending.poll() {
                    None => return,
                    Some(done) => {
                        self.running = None;
                        let event = done.map(|done| self.done(id, done)).unwrap_or_else(|error| {
                            self.error = Some(error);
                            Some(Event::Failed)
                        });
                        if let Some(event) = event {
                            self.step(now, event);
                        }
                    }
                }
            } else if let Some(effect) = self.effects.pop_front() {
                self.carry_out(effect);
            } else if let Some(event) = self.next_event(now) {
                self.step(now, event);
            } else {
                return;
            }
        }
    }

    /// What happens next, while nothing has to be carried out.
    fn next_event(&mut self, now: Tick) -> Option<Event> {
        for (number, id) in (0..).map(IdNumber).zip(&mut self.ids) {
            if let Some(answer) = id.sending.as_mut().and_then(Pending::poll) {
                id.sending = None;
                match answer {
                    Ok(landed) => id.places.extend(landed),
                    Err(error) => {
                        self.error = Some(error);
                        return Some(Event::Refused { id: number });
                    }
                }
            }
            let is_all = id.sending.is_none() && id.waiting.is_empty();
            if id.draining && (is_all || self.sink.settings.breaks(BrokenDriver::PreparesUnacknowledged)) {
                id.draining = false;
                return Some(Event::Acknowledged { id: number });
            }
        }
        if self.ring.deadline().is_some_and(|deadline| deadline <= now) {
            return Some(Event::TimePassed);
        }
        if !self.ring.takes_orders() {
            return None;
        }
        self.orders.pop_front().map(|order| match order {
            Order::Batch(batch) => {
                self.batch = Some(batch);
                Event::RecordsArrived
            }
            Order::Prepare(epoch) => Event::PrepareAsked { epoch },
        })
    }

    /// Sends what waits, of each id a few records at a time.
    fn send(&mut self) {
        for id in &mut self.ids {
            let (Some(producer), None) = (id.producer, &id.sending) else { continue };
            let few: Vec<Outgoing> = id.waiting.drain(..id.waiting.len().min(SENT)).collect();
            if few.is_empty() {
                continue;
            }
            let (broker, name) = (self.sink.broker.clone(), id.name.clone());
            id.sending = Some(self.context.io.run(move || send(&broker, &name, producer, &few)));
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::TakeOver { id } => {
                let timeout = self.sink.settings.timeout;
                let lead = (!self.sink.settings.breaks(BrokenDriver::TakesOverUnconfirmed)).then(|| self.context.lead.clone());
                self.run(id, move |broker, name, _| {
                    lead.map_or(Ok(()), |lead| lead.confirm())?;
                    take_over(broker, name, timeout).map(Done::Took)
                });
            }
            Effect::Describe { id } => self.run(id, |broker, name, _| {
                let described = broker.describe(name).map_err(|error| not_done("describe a transaction", name, &Err(error)))?;
                Ok(Done::Described(described))
            }),
            Effect::Begin { id } => {
                let copy = self.sink.settings.journal.then(|| self.copy_name());
                let slot = &mut self.ids[id.0 as usize];
                (slot.digest, slot.mark, slot.copy_name) = (Digest::default(), None, copy.clone());
                slot.places.clear();
                self.run(id, move |_, _, journal| Ok(Done::Begun(copy.map(|name| journal.begin(&name)).transpose()?)));
            }
            Effect::Write { id } => {
                let (batch, mut copy) = (self.batch.take().unwrap_or_default(), self.ids[id.0 as usize].copy.take());
                self.run(id, move |_, _, _| {
                    if let Some(copy) = &mut copy {
                        batch.iter().try_for_each(|line| copy.append(format!("{line}\n").as_bytes()))?;
                    }
                    Ok(Done::Wrote(batch, copy))
                });
            }
            Effect::WriteMark { id, epoch } => self.write_mark(id, epoch),
            Effect::Drain { id } => {
                let copy = self.ids[id.0 as usize].copy.take();
                self.run(id, move |_, _, _| copy.map_or(Ok(()), Copy::finish).map(|()| Done::Drained));
            }
            Effect::Confirm { id } if self.sink.settings.breaks(BrokenDriver::ReusesUnconfirmed) => {
                self.run(id, |_, _, _| Ok(Done::Confirmed(Markers::Arrived)));
            }
            Effect::Confirm { id } => {
                let (producer, places) = (self.producer(id), self.ids[id.0 as usize].places());
                self.run(id, move |broker, name, _| match broker.markers(name, producer, &places) {
                    Ok(markers) => Ok(Done::Confirmed(markers)),
                    Err(error) => Err(not_done("tell of markers", name, &Err(error))),
                });
            }
            Effect::Settle { id } => {
                let producer = self.producer(id);
                self.run(id, move |broker, name, _| match broker.end(name, producer, Decision::Commit) {
                    Ok(Ok(())) => Ok(Done::Settled),
                    Ok(Err(refusal)) => Err(not_done("see a commit as done", name, &Ok(refusal))),
                    Err(error) => Err(not_done("see a commit as done", name, &Err(error))),
                });
            }
            Effect::Report { epoch, prepared } => {
                let committables = prepared.map(|(id, identity)| self.committable(id, epoch, identity)).into_iter().collect();
                self.prepared.push_back(Prepared { epoch, committables, carried: Vec::new() });
            }
            Effect::Fail(failure) => self.failed = Some(self.failure(failure)),
        }
    }

    fn run(&mut self, id: IdNumber, work: impl FnOnce(&SimBroker, &str, &Journal) -> Result<Done> + Send + 'static) {
        let (broker, name, journal) = (self.sink.broker.clone(), self.ids[id.0 as usize].name.clone(), self.context.journal.clone());
        self.running = Some((id, self.context.io.run(move || work(&broker, &name, &journal))));
    }

    /// What the ring has to know of the end of an effect; writes are acknowledged later.
    fn done(&mut self, id: IdNumber, done: Done) -> Option<Event> {
        let slot = &mut self.ids[id.0 as usize];
        match done {
            Done::Took(producer) => {
                slot.producer = Some(producer);
                Some(Event::TakenOver { id })
            }
            Done::Described(found) => Some(Event::Described { id, found }),
            Done::Begun(copy) => {
                slot.copy = copy;
                Some(Event::Begun { id })
            }
            Done::Wrote(lines, copy) => {
                slot.copy = copy;
                lines.into_iter().for_each(|line| self.queue_line(id, line));
                None
            }
            Done::Drained => {
                slot.draining = true;
                None
            }
            Done::Confirmed(markers) => Some(Event::Confirmed { id, markers }),
            Done::Settled => Some(Event::Settled { id }),
        }
    }

    fn queue_line(&mut self, id: IdNumber, line: String) {
        self.ids[id.0 as usize].digest.add(line.as_bytes());
        let hash = line.bytes().fold(0, |sum: u32, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
        let place = Place { topic: self.sink.topic.clone(), partition: hash % self.sink.settings.partitions };
        self.queue(id, place, Body::Line(line));
    }

    fn queue(&mut self, id: IdNumber, place: Place, body: Body) {
        self.numbers += 1;
        self.ids[id.0 as usize].waiting.push_back(Outgoing { number: self.numbers, place, body });
    }

    fn write_mark(&mut self, id: IdNumber, epoch: Epoch) {
        let key = format!("{}/g{}/e{epoch}", self.ids[id.0 as usize].name, self.context.generation);
        self.ids[id.0 as usize].mark = Some(key.clone());
        let place = self.mark_place();
        let body = if self.sink.settings.breaks(BrokenDriver::WritesNoMark) { Body::Gone } else { Body::Mark(key) };
        self.queue(id, place, body);
    }

    fn mark_place(&self) -> Place {
        Place { topic: mark_topic(&self.context.job), partition: 0 }
    }

    fn copy_name(&mut self) -> String {
        self.numbers += 1;
        format!("g{}-t{}-{}", self.context.generation, self.context.task_index, self.numbers)
    }

    fn producer(&self, id: IdNumber) -> Producer {
        self.ids[id.0 as usize].producer.expect("the ring takes an id over before it uses it")
    }

    /// What the checkpoint keeps of a transaction.
    fn committable(&mut self, id: IdNumber, epoch: Epoch, identity: Identity) -> Committable {
        let marks = self.mark_place();
        let slot = &mut self.ids[id.0 as usize];
        let stored = StoredTransaction {
            id: slot.name.clone(),
            identity,
            mark: slot.mark.take().expect("the ring marks a transaction before it reports it"),
            mark_offset: slot.places.get(&marks).copied().unwrap_or_default(),
            places: slot.places(),
            copy: slot.copy_name.take(),
        };
        Committable {
            epoch,
            generation: self.context.generation,
            task_index: self.context.task_index,
            body: stored.encode(),
            description: stored.describe(),
            digest: slot.digest,
        }
    }

    fn failure(&mut self, failure: Failure) -> Error {
        let unexplained = |what: &str| Error::new(ErrorKind::Restart, "sim-gone", format!("{what}: {failure:?}"));
        match failure {
            Failure::Outside | Failure::Refused(_) => self.error.take().unwrap_or_else(|| unexplained("it failed without a reason")),
            Failure::NotAcknowledged(_) => unexplained("acknowledgements took too long"),
            Failure::Gone(_) | Failure::NotCommitted(_) | Failure::Unmarked(_) => unexplained("a transaction is not as it should be"),
        }
    }

    fn hand_over(&mut self) {
        if !self.lines.is_empty() {
            self.orders.push_back(Order::Batch(std::mem::take(&mut self.lines)));
        }
    }
}

fn take_over(broker: &SimBroker, name: &str, timeout: Duration) -> Result<Producer> {
    match broker.take_over(name, None, timeout) {
        Ok(Ok(producer)) => Ok(producer),
        Ok(Err(refusal)) => Err(not_done("give the id", name, &Ok(refusal))),
        Err(error) => Err(not_done("give the id", name, &Err(error))),
    }
}

impl Id {
    fn places(&self) -> Vec<(Place, u64)> {
        self.places.iter().map(|(place, last)| (place.clone(), *last)).collect()
    }
}

/// Writes records one after the other; where each landed.
fn send(broker: &SimBroker, name: &str, producer: Producer, records: &[Outgoing]) -> Result<Landed> {
    let mut landed = Vec::new();
    for Outgoing { number, place, body } in records {
        match broker.send(name, producer, place, *number, body) {
            Ok(Ok(offset)) => landed.push((place.clone(), offset)),
            Ok(Err(refusal)) => return Err(not_done("take a record", name, &Ok(refusal))),
            Err(error) => return Err(not_done("take a record", name, &Err(error))),
        }
    }
    Ok(landed)
}

impl SinkWriter for TopicWriter {
    type Record = Row;

    fn write(&mut self, record: Row, _time: Timestamp) -> Result<()> {
        self.lines.push(record.line());
        if self.lines.len() >= BATCH {
            self.hand_over();
        }
        Ok(())
    }

    fn room(&self) -> bool {
        self.orders.len() < BATCHES_MAX
    }

    fn work(&mut self, now: Tick) -> Result<Option<Tick>> {
        if self.room() {
            self.hand_over();
        }
        self.go_on(now);
        match &self.failed {
            Some(error) => Err(error.clone()),
            None => Ok(self.ring.deadline()),
        }
    }

    fn prepare(&mut self, epoch: Epoch) -> Result<()> {
        self.hand_over();
        self.orders.push_back(Order::Prepare(epoch));
        Ok(())
    }

    fn poll_prepared(&mut self) -> Result<Option<Prepared>> {
        Ok(self.prepared.pop_front())
    }

    fn end(&mut self) {}
}
