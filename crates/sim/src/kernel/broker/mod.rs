//! A broker with transactions, in memory: what its clients see of a cluster, whatever becomes of the processes.
//!
//! Owns: the coordinator of each transactional id, the topics, what readers of committed records see, what was decided and by whom.
//! Does not own: faults of single requests, time, what clients do with an answer.
//!
//! It follows the source of Kafka's coordinator in the dialect of its older clients, also where that is surprising: whoever takes an id over
//! and says which producer it expects there is asked for the producer's id only while a transaction is open, and for its epoch only when
//! none is.

mod client;
mod topic;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use staunch_protocol::transaction::{Described, Found, Identity, Producer, TransactionPhase};
use staunch_types::Tick;

use super::{ProcessId, Random, WALL_START_MS};
use crate::sink::AGAIN;

pub use client::{Answer, SimBroker};
pub use topic::{Body, Fetched, Place};

use topic::Topics;

/// What differs between brokers.
#[derive(Clone, Debug)]
pub struct BrokerSettings {
    /// From a decision to its marker in a partition.
    pub marker: (Duration, Duration),
    /// After so long without a transaction an id is forgotten.
    pub forget_after: Duration,
    /// The last epoch of a producer; then its id has to change.
    pub epoch_max: i16,
    /// Markers of commits that are forgotten, out of ten thousand: the decision counts as done without them, as by KAFKA-20734. Those of ids
    /// under which lost output is written again are not.
    pub markers_forgotten: u32,
}

impl Default for BrokerSettings {
    fn default() -> Self {
        BrokerSettings {
            marker: (Duration::from_micros(50), Duration::from_millis(5)),
            forget_after: Duration::from_secs(7 * 86_400),
            epoch_max: i16::MAX,
            markers_forgotten: 0,
        }
    }
}

impl BrokerSettings {
    /// A broker by chance: slow ones, some that forget soon, some whose producers' epochs end soon.
    pub fn by_chance(random: &mut Random) -> BrokerSettings {
        let usual = BrokerSettings::default();
        let marker = (Duration::from_micros(50), random.duration(Duration::from_micros(50), Duration::from_secs(2)));
        let forgets_ids = random.chance(3_000);
        BrokerSettings {
            marker,
            forget_after: if forgets_ids { Duration::from_secs(5) } else { usual.forget_after },
            epoch_max: if random.chance(3_000) { 4 } else { usual.epoch_max },
            // Who forgets both knows nothing of the transaction, and nobody else does.
            markers_forgotten: if !forgets_ids && random.chance(3_000) { 500 } else { 0 },
        }
    }
}

/// Why a request is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another transition is under way: ask again.
    Concurrent,
    /// Somebody else has the id.
    Fenced,
    /// The coordinator does not know this producer under this id.
    UnknownProducer,
    /// There is no open transaction, or it was decided otherwise.
    NotOpen,
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// All becomes visible.
    Commit,
    /// Nothing does.
    Abort,
}

/// Who decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A process that asked for it.
    End(ProcessId),
    /// A process that took the id over as a writer.
    TakeOver(ProcessId),
    /// A process that took the id away from another.
    Fence(ProcessId),
    /// The broker, after the transaction's timeout.
    Timeout,
}

/// A transaction was decided.
#[derive(Clone, Debug)]
pub struct Decided {
    /// Its id.
    pub id: String,
    /// Which of the id's transactions.
    pub identity: Identity,
    /// How.
    pub decision: Decision,
    /// By whom.
    pub by: By,
    /// Its records: topic and line.
    pub lines: Vec<(String, String)>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Broker {
    /// What differs between brokers.
    pub settings: BrokerSettings,
    ids: BTreeMap<String, Coordinated>,
    topics: Topics,
    producers: i64,
    decided: Vec<Decided>,
    /// Nothing comes due before.
    due: Tick,
}

/// What the coordinator knows of an id.
#[derive(Debug)]
struct Coordinated {
    producer: Producer,
    /// The epoch before, for somebody who repeats a request whose answer was lost.
    epoch_before: Option<i16>,
    phase: TransactionPhase,
    start_ms: Option<i64>,
    timeout: Duration,
    expires_at: Tick,
    places: BTreeSet<Place>,
    /// When each marker comes.
    markers: BTreeMap<Place, Tick>,
    touched: Tick,
}

/// The broker's clock, which no fault moves.
fn wall_ms(now: Tick) -> i64 {
    WALL_START_MS + (now.0 / 1_000_000) as i64
}

impl Broker {
    /// What was decided since last asked.
    pub fn take_decided(&mut self) -> Vec<Decided> {
        std::mem::take(&mut self.decided)
    }

    /// Does what has come due: timeouts, markers, forgetting.
    pub fn advance(&mut self, now: Tick, random: &mut Random) {
        if now < self.due {
            return;
        }
        let names: Vec<String> = self.ids.keys().cloned().collect();
        for name in names {
            self.advance_id(&name, now, random);
        }
        let forget_after = self.settings.forget_after;
        let never = Tick(u64::MAX);
        self.due = self.ids.values().map(|id| id.due(forget_after)).min().unwrap_or(never);
    }

    /// Something of an id has changed: what comes due next is looked up again.
    fn changed(&mut self) {
        self.due = Tick::default();
    }

    fn advance_id(&mut self, name: &str, now: Tick, random: &mut Random) {
        let Some(id) = self.ids.get_mut(name) else { return };
        if id.phase == TransactionPhase::Ongoing && id.expires_at <= now {
            self.fence(name, By::Timeout, now, random);
        }
        let Some(id) = self.ids.get_mut(name) else { return };
        let commits = match id.phase {
            TransactionPhase::PrepareCommit => true,
            TransactionPhase::PrepareAbort => false,
            _ => {
                if id.phase != TransactionPhase::Ongoing && now.since(id.touched) >= self.settings.forget_after {
                    self.ids.remove(name);
                }
                return;
            }
        };
        let due: Vec<Place> = id.markers.iter().filter(|(_, at)| **at <= now).map(|(place, _)| place.clone()).collect();
        for place in due {
            self.topics.mark(&place, id.producer.id, commits);
            id.markers.remove(&place);
        }
        if id.markers.is_empty() {
            id.phase = if commits { TransactionPhase::CompleteCommit } else { TransactionPhase::CompleteAbort };
            id.places.clear();
            id.touched = now;
        }
    }

    /// Of the ids that begin so, the transaction that has been open for longest times out.
    pub fn oldest_times_out(&mut self, prefix: &str, now: Tick, random: &mut Random) {
        let open = self.ids.iter().filter(|(name, id)| name.starts_with(prefix) && id.phase == TransactionPhase::Ongoing);
        if let Some(name) = open.min_by_key(|(_, id)| id.start_ms).map(|(name, _)| name.clone()) {
            self.fence(&name, By::Timeout, now, random);
        }
    }

    /// When the next marker comes, if any is under way.
    #[must_use]
    pub fn next_marker(&self) -> Option<Tick> {
        self.ids.values().flat_map(|id| id.markers.values()).min().copied()
    }

    /// Takes an id over. `expected` is the producer that should have it; anybody when `None`.
    ///
    /// # Errors
    /// `Concurrent`, `Fenced`.
    pub fn take_over(
        &mut self,
        name: &str,
        expected: Option<Producer>,
        timeout: Duration,
        who: ProcessId,
        now: Tick,
        random: &mut Random,
    ) -> Result<Producer, Refusal> {
        let last = self.settings.epoch_max - 1;
        let Some(id) = self.ids.get_mut(name) else {
            self.changed();
            let producer = self.new_producer();
            self.ids.insert(name.to_owned(), Coordinated::new(producer, timeout, now));
            return Ok(producer);
        };
        if expected.is_some_and(|expected| expected.id != id.producer.id) {
            return Err(Refusal::Fenced);
        }
        self.due = Tick::default();
        match id.phase {
            TransactionPhase::PrepareCommit | TransactionPhase::PrepareAbort => Err(Refusal::Concurrent),
            TransactionPhase::Ongoing => {
                let by = if expected.is_some() { By::Fence(who) } else { By::TakeOver(who) };
                self.fence(name, by, now, random);
                Err(Refusal::Concurrent)
            }
            _ if id.producer.epoch >= last && expected.is_none_or(|expected| expected.epoch == id.producer.epoch) => {
                let producer = self.new_producer();
                self.ids.insert(name.to_owned(), Coordinated::new(producer, timeout, now));
                Ok(producer)
            }
            _ => id.raise(expected, timeout, now),
        }
    }

    fn new_producer(&mut self) -> Producer {
        self.producers += 1;
        Producer { id: self.producers, epoch: 0 }
    }

    /// Aborts the open transaction of an id under a higher epoch.
    fn fence(&mut self, name: &str, by: By, now: Tick, random: &mut Random) {
        self.decide(name, Decision::Abort, by, now, random);
        if let Some(id) = self.ids.get_mut(name) {
            id.producer.epoch += 1;
            id.epoch_before = None;
        }
    }

    fn decide(&mut self, name: &str, decision: Decision, by: By, now: Tick, random: &mut Random) {
        let (low, high) = self.settings.marker;
        self.changed();
        let Some(id) = self.ids.get_mut(name) else { return };
        let lines = id.places.iter().flat_map(|place| self.topics.lines(place, id.producer.id)).collect();
        let identity = Identity { producer: id.producer, start_ms: id.start_ms.unwrap_or_default() };
        self.decided.push(Decided { id: name.to_owned(), identity, decision, by, lines });
        id.phase = match decision {
            Decision::Commit => TransactionPhase::PrepareCommit,
            Decision::Abort => TransactionPhase::PrepareAbort,
        };
        let forgotten = if decision == Decision::Commit && !name.contains(AGAIN) { self.settings.markers_forgotten } else { 0 };
        let written = id.places.iter().filter(|_| forgotten == 0 || !random.chance(forgotten)).cloned().collect::<Vec<Place>>();
        id.markers = written.into_iter().map(|place| (place, now + random.duration(low, high))).collect();
    }

    /// Makes a partition part of a producer's transaction, which begins with the first one.
    ///
    /// # Errors
    /// `UnknownProducer`, `Fenced`, `Concurrent`.
    pub fn enroll(&mut self, name: &str, producer: Producer, place: &Place, now: Tick) -> Result<(), Refusal> {
        let id = self.owned(name, producer)?;
        match id.phase {
            TransactionPhase::PrepareCommit | TransactionPhase::PrepareAbort => return Err(Refusal::Concurrent),
            TransactionPhase::Ongoing => {}
            _ => {
                id.phase = TransactionPhase::Ongoing;
                id.start_ms = Some(wall_ms(now));
                id.expires_at = now + id.timeout;
                id.places.insert(place.clone());
                self.changed();
                return Ok(());
            }
        }
        if !id.places.contains(place) {
            id.places.insert(place.clone());
        }
        Ok(())
    }

    /// Appends a record to an enrolled partition; its offset. A repeated one is known by its number.
    ///
    /// # Errors
    /// `UnknownProducer`, `Fenced`, `NotOpen`.
    pub fn produce(&mut self, name: &str, producer: Producer, place: &Place, number: u64, body: Body) -> Result<u64, Refusal> {
        let id = self.owned(name, producer)?;
        if id.phase != TransactionPhase::Ongoing || !id.places.contains(place) {
            return Err(Refusal::NotOpen);
        }
        if self.topics.is_shut(place, producer) {
            return Err(Refusal::Fenced);
        }
        Ok(self.topics.append(place, producer, number, body))
    }

    /// Ends the transaction of a producer; or it had been ended so before.
    ///
    /// # Errors
    /// All.
    pub fn end(
        &mut self,
        name: &str,
        producer: Producer,
        decision: Decision,
        who: ProcessId,
        now: Tick,
        random: &mut Random,
    ) -> Result<(), Refusal> {
        let phase = self.owned(name, producer)?.phase;
        match (phase, decision) {
            (TransactionPhase::Ongoing, _) => {
                self.decide(name, decision, By::End(who), now, random);
                Ok(())
            }
            (TransactionPhase::PrepareCommit, Decision::Commit) | (TransactionPhase::PrepareAbort, Decision::Abort) => {
                Err(Refusal::Concurrent)
            }
            (TransactionPhase::CompleteCommit, Decision::Commit) | (TransactionPhase::CompleteAbort, Decision::Abort) => Ok(()),
            _ => Err(Refusal::NotOpen),
        }
    }

    /// Where what a producer has open in a partition begins.
    #[must_use]
    pub fn open_from(&self, place: &Place, producer_id: i64) -> Option<u64> {
        self.topics.open_from(place, producer_id)
    }

    /// A marker that does not come from the coordinator: what is open of the producer is committed, whatever it is, and the partition takes nothing
    /// more from it with a lower epoch.
    pub fn write_marker(&mut self, place: &Place, producer: Producer) {
        self.topics.mark(place, producer.id, true);
        self.topics.raise(place, producer);
    }

    /// How a transaction ended, when it is not open any more.
    fn ended(&self, name: &str, identity: Identity, decision: Decision) -> Option<Result<(), Refusal>> {
        use TransactionPhase as P;
        let Described::Known(found) = self.describe(name) else { return Some(Err(Refusal::UnknownProducer)) };
        match (found.phase, decision) {
            _ if !found.is(identity) => Some(Err(Refusal::NotOpen)),
            (P::PrepareCommit | P::CompleteCommit, Decision::Commit) | (P::PrepareAbort | P::CompleteAbort, Decision::Abort) => {
                Some(Ok(()))
            }
            (P::Ongoing, _) => None,
            _ => Some(Err(Refusal::NotOpen)),
        }
    }

    fn owned(&mut self, name: &str, producer: Producer) -> Result<&mut Coordinated, Refusal> {
        let id = self.ids.get_mut(name).ok_or(Refusal::UnknownProducer)?;
        if id.producer.id != producer.id {
            Err(Refusal::UnknownProducer)
        } else if id.producer.epoch != producer.epoch {
            Err(Refusal::Fenced)
        } else {
            Ok(id)
        }
    }

    /// The last transaction of an id.
    #[must_use]
    pub fn describe(&self, name: &str) -> Described {
        let known = |id: &Coordinated| Found { phase: id.phase, producer: id.producer, start_ms: id.start_ms };
        self.ids.get(name).map_or(Described::Unknown, |id| Described::Known(known(id)))
    }

    /// All ids that begin so.
    #[must_use]
    pub fn list(&self, prefix: &str) -> Vec<String> {
        self.ids.range(prefix.to_owned()..).map(|(name, _)| name.clone()).take_while(|name| name.starts_with(prefix)).collect()
    }

    /// All open transactions of ids that begin so, for people.
    #[must_use]
    pub fn open(&self, prefix: &str) -> Vec<String> {
        let all = self.ids.iter().filter(|(name, id)| name.starts_with(prefix) && id.phase.is_open());
        all.map(|(name, id)| format!("{name} {}", id.producer)).collect()
    }

    /// What readers of committed records find from an offset on.
    #[must_use]
    pub fn fetch(&self, place: &Place, from: u64) -> Fetched {
        self.topics.fetch(place, from)
    }

    /// Where the last record with the key of a mark lies, decided or not.
    #[must_use]
    pub fn last_mark(&self, place: &Place, key: &str) -> Option<u64> {
        self.topics.last_mark(place, key)
    }

    /// Removes what a key holds for good: its cleared value was compacted at once.
    pub fn clear(&mut self, place: &Place, key: &str) {
        self.topics.clear(place, key);
    }

    /// Committed lines of a topic, as far as readers of committed records get.
    #[must_use]
    pub fn committed(&self, topic: &str) -> Vec<String> {
        self.topics.committed(topic)
    }

    /// Forgets all ids that begin so, as after their time.
    pub fn forget(&mut self, prefix: &str) {
        self.ids.retain(|name, _| !name.starts_with(prefix));
    }
}

impl Coordinated {
    fn new(producer: Producer, timeout: Duration, now: Tick) -> Coordinated {
        Coordinated {
            producer,
            epoch_before: None,
            phase: TransactionPhase::Empty,
            start_ms: None,
            timeout,
            expires_at: now,
            places: BTreeSet::new(),
            markers: BTreeMap::new(),
            touched: now,
        }
    }

    fn due(&self, forget_after: Duration) -> Tick {
        match self.phase {
            TransactionPhase::Ongoing => self.expires_at,
            TransactionPhase::PrepareCommit | TransactionPhase::PrepareAbort => self.markers.values().min().copied().unwrap_or_default(),
            _ => self.touched + forget_after,
        }
    }

    /// Gives the id to whoever asks, if the expected producer has it.
    fn raise(&mut self, expected: Option<Producer>, timeout: Duration, now: Tick) -> Result<Producer, Refusal> {
        match expected {
            Some(expected) if expected.epoch == self.producer.epoch => self.epoch_before = Some(expected.epoch),
            // Who repeats a request whose answer was lost gets the answer.
            Some(expected) if Some(expected.epoch) == self.epoch_before => return Ok(self.producer),
            Some(_) => return Err(Refusal::Fenced),
            None => self.epoch_before = None,
        }
        self.producer.epoch += 1;
        self.phase = TransactionPhase::Empty;
        self.start_ms = None;
        self.timeout = timeout;
        self.touched = now;
        Ok(self.producer)
    }
}
