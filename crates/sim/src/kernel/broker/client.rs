//! The broker as one process reaches it: requests that may be refused, or done and not answered, and are asked again.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use staunch_protocol::transaction::{Described, Identity, Markers, Producer};
use staunch_types::Tick;

use super::{Body, Broker, Decision, Place, Refusal};
use crate::kernel::fault::Operation;
use crate::kernel::{Kernel, ProcessId, Random, fiber};

/// For how long a request is asked again.
const PATIENCE: Duration = Duration::from_secs(30);
/// The first and the longest wait between two attempts.
const AGAIN: (Duration, Duration) = (Duration::from_micros(500), Duration::from_millis(100));

/// The answer to a request: an error means that nobody knows whether it was done.
pub type Answer<T> = io::Result<Result<T, Refusal>>;

/// See the module.
#[derive(Clone)]
pub struct SimBroker {
    kernel: Arc<Kernel>,
    process: ProcessId,
}

impl SimBroker {
    /// The broker of a process.
    #[must_use]
    pub fn new(kernel: Arc<Kernel>, process: ProcessId) -> SimBroker {
        SimBroker { kernel, process }
    }

    /// Takes an id over; from this producer only, if one is given.
    ///
    /// # Errors
    /// As an [`Answer`].
    pub fn take_over(&self, id: &str, expected: Option<Producer>, timeout: Duration) -> Answer<Producer> {
        let who = self.process;
        let operation = if expected.is_some() { Operation::Fence } else { Operation::TakeOver };
        self.persist(operation, id, |broker, now, random| broker.take_over(id, expected, timeout, who, now, random))
    }

    /// Writes a record, after its partition was enrolled; its offset.
    ///
    /// # Errors
    /// As an [`Answer`].
    pub fn send(&self, id: &str, producer: Producer, place: &Place, number: u64, body: &Body) -> Answer<u64> {
        match self.persist(Operation::Enroll, id, |broker, now, _| broker.enroll(id, producer, place, now))? {
            Ok(()) => self.persist(Operation::Produce, id, |broker, _, _| broker.produce(id, producer, place, number, body.clone())),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// Ends a transaction.
    ///
    /// # Errors
    /// As an [`Answer`].
    pub fn end(&self, id: &str, producer: Producer, decision: Decision) -> Answer<()> {
        let who = self.process;
        self.persist(Operation::EndTransaction, id, |broker, now, random| broker.end(id, producer, decision, who, now, random))
    }

    /// Ends a transaction that was described before; before it asks again it looks whether that is still the last one of its id, since the
    /// producer may go on as soon as it is decided.
    ///
    /// # Errors
    /// As an [`Answer`].
    pub fn end_described(&self, id: &str, identity: Identity, decision: Decision) -> Answer<()> {
        let who = self.process;
        let asked = Cell::new(false);
        self.persist(Operation::EndTransaction, id, |broker, now, random| {
            if asked.replace(true)
                && let Some(ended) = broker.ended(id, identity, decision)
            {
                return ended;
            }
            broker.end(id, identity.producer, decision, who, now, random)
        })
    }

    /// Whether partitions have a transaction open that a producer began at these offsets or before.
    ///
    /// # Errors
    /// Nobody answers.
    pub fn markers(&self, id: &str, producer: Producer, places: &[(Place, u64)]) -> io::Result<Markers> {
        let is_open =
            |broker: &Broker, (place, last): &(Place, u64)| broker.open_from(place, producer.id).is_some_and(|first| first <= *last);
        self.ask(Operation::AskMarkers, id, |broker| match places.iter().any(|place| is_open(broker, place)) {
            true => Markers::Missing,
            false => Markers::Arrived,
        })
    }

    /// Writes the marker of a commit in the place of the coordinator; where there is one already nothing is open.
    ///
    /// # Errors
    /// Nobody answers.
    pub fn write_marker(&self, id: &str, producer: Producer, place: &Place) -> io::Result<()> {
        self.persist(Operation::WriteMarker, id, |broker, _, _| {
            broker.write_marker(place, producer);
            Ok(())
        })?
        .map_err(|_| io::ErrorKind::TimedOut.into())
    }

    /// The last transaction of an id.
    ///
    /// # Errors
    /// Nobody answers.
    pub fn describe(&self, id: &str) -> io::Result<Described> {
        self.ask(Operation::Describe, id, |broker| broker.describe(id))
    }

    /// All ids that begin so.
    ///
    /// # Errors
    /// Nobody answers.
    pub fn list(&self, prefix: &str) -> io::Result<Vec<String>> {
        self.ask(Operation::ListIds, prefix, |broker| broker.list(prefix))
    }

    /// Whether readers of committed records find a mark, at this offset or behind it. All records with its key must be decided or about to be;
    /// open transactions behind the last of them are not waited for: they may be those that wait for this answer.
    ///
    /// # Errors
    /// Nobody answers, or an open transaction hides the place for long.
    pub fn has_mark(&self, place: &Place, from: u64, key: &str) -> io::Result<bool> {
        let end = self.ask(Operation::Fetch, &place.topic, |broker| broker.last_mark(place, key))?.map_or(0, |last| last + 1);
        let found = self.persist(Operation::Fetch, &place.topic, |broker, _, _| {
            let fetched = broker.fetch(place, from);
            let is_there = fetched.committed.contains(&Body::Mark(key.to_owned()));
            if !is_there && fetched.stable < end { Err(Refusal::Concurrent) } else { Ok(is_there) }
        })?;
        found.map_err(|_| io::ErrorKind::TimedOut.into())
    }

    /// Clears a key; whether it came through is of no interest.
    pub fn clear(&self, place: &Place, key: &str) {
        let _ = self.act(Operation::Produce, &place.topic, |broker, _, _| broker.clear(place, key));
    }

    fn ask<T>(&self, operation: Operation, path: &str, action: impl Fn(&Broker) -> T) -> io::Result<T> {
        self.persist(operation, path, |broker, _, _| Ok(action(broker)))?.map_err(|_| io::ErrorKind::TimedOut.into())
    }

    /// Asks until there is an answer that will not change by itself.
    fn persist<T>(
        &self,
        operation: Operation,
        path: &str,
        action: impl Fn(&mut Broker, Tick, &mut Random) -> Result<T, Refusal>,
    ) -> Answer<T> {
        let until = self.kernel.machine().now + PATIENCE;
        let mut wait = AGAIN.0;
        loop {
            let answer = self.act(operation, path, &action);
            let (now, alive) = {
                let machine = self.kernel.machine();
                (machine.now, machine.is_alive(self.process))
            };
            let again = matches!(answer, Err(_) | Ok(Err(Refusal::Concurrent)));
            if !again || !alive || now >= until {
                return answer;
            }
            self.wait(wait);
            wait = (wait * 2).min(AGAIN.1);
        }
    }

    /// Lets time pass: others go on if the caller can pause.
    pub fn wait(&self, time: Duration) {
        let until = self.kernel.machine().now + time;
        if fiber::can_pause() {
            fiber::pause(until);
        }
        let mut machine = self.kernel.machine();
        machine.now = machine.now.max(until);
    }

    fn act<T>(&self, operation: Operation, path: &str, action: impl FnOnce(&mut Broker, Tick, &mut Random) -> T) -> io::Result<T> {
        self.kernel.perform(self.process, operation, path, |machine| {
            let now = machine.now;
            machine.broker.advance(now, &mut machine.random);
            Ok(action(&mut machine.broker, now, &mut machine.random))
        })
    }
}
