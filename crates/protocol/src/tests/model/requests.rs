//! What happens to requests and messages: how the store, the outside and the tasks answer, and what a coordinator's effects do.
//!
//! Owns: the driver of the model, which decides nothing. Does not own: the choice of what happens next.

use std::rc::Rc;

use staunch_types::{Epoch, Generation, TaskId};

use super::outside::Phase;
use super::scenario::Scenario;
use super::shared::Shared;
use super::tasks::{Group, Order, Report, Surroundings};
use super::world::{Asked, Body, End, Message, Request, World, Written};
use crate::commit::{self, LostPolicy};
use crate::coordinator::{Effect, Event, Failure};
use crate::ledger::{Answer, Entry, Found, Origin};
use crate::{Attempt, OpId, Reason};

/// An answer on its way to a coordinator.
pub(super) enum Answered {
    Store(OpId, Answer),
    Sink(OpId, commit::Answer),
}

impl Answered {
    /// The same answer, lost on its way.
    pub(super) fn lost(self) -> Answered {
        match self {
            Answered::Store(op, _) => Answered::Store(op, Answer::Unanswered),
            Answered::Sink(op, _) => Answered::Sink(op, commit::Answer::Unanswered),
        }
    }
}

impl World {
    /// Carries out a request; returns the answer.
    pub(super) fn carry(&mut self, at: usize, asked: Asked) -> Result<Answered, String> {
        let request = self.process(at).requests.remove(&asked).expect("the request is open");
        let answer = match request {
            Request::Append { seq, written } => return Ok(self.store(asked, |world| world.create(seq, written))),
            Request::ReadBack { seq } => {
                let appending = self.processes[at].appending.clone();
                let there = self.ledger.get(seq.0 as usize - 1);
                let found = match there {
                    None => Found::Absent,
                    Some(there) if Some(there) == appending.as_ref() => Found::Own,
                    Some(_) => Found::Other,
                };
                return Ok(self.store(asked, |_| Answer::Found(found)));
            }
            Request::Reload => {
                let facts = self.facts()?;
                let origin = facts.resume;
                self.process(at).origin = origin;
                return Ok(self.store(asked, |_| Answer::Reloaded { facts, origin }));
            }
            Request::Resolve(committable) => self.outside.resolve(committable),
            Request::Commit(committable, permit) => {
                assert!(permit.covers(committable), "E1: committable={committable} is not covered by its permit");
                self.outside.change().commit(committable)
            }
            Request::Resend(committable, permit) => {
                assert!(permit.covers(committable), "E1: committable={committable} is not covered by its permit");
                self.outside.change().resend(committable)
            }
            Request::Sweep { sink, older_than, keep } => self.outside.change().sweep(sink, older_than, &keep),
        };
        let Asked::Sink(op) = asked else { return Err("a sink's request with a store's id".into()) };
        Ok(Answered::Sink(op, answer))
    }

    fn store(&mut self, asked: Asked, answer: impl FnOnce(&mut World) -> Answer) -> Answered {
        let Asked::Store(op) = asked else { panic!("a store's request with a sink's id") };
        let answer = answer(self);
        Answered::Store(op, answer)
    }

    pub(super) fn lose_request(&mut self, scenario: &Scenario, at: usize, asked: Asked) -> Result<(), String> {
        self.budget.lost_answers -= 1;
        let request = self.process(at).requests.remove(&asked).expect("the request is open");
        let answer = match (request, asked) {
            (Request::Append { seq, written }, Asked::Store(op)) => {
                self.delayed.insert((seq, written));
                Answered::Store(op, Answer::Unanswered)
            }
            (_, Asked::Store(op)) => Answered::Store(op, Answer::ReadFailed),
            (_, Asked::Sink(op)) => Answered::Sink(op, commit::Answer::Unanswered),
        };
        self.answer(scenario, at, answer)
    }

    pub(super) fn answer(&mut self, scenario: &Scenario, at: usize, answer: Answered) -> Result<(), String> {
        let event = match answer {
            Answered::Store(op, answer) => Event::StoreAnswered { op, answer },
            Answered::Sink(op, answer) => Event::SinkAnswered { op, answer },
        };
        self.step(scenario, at, event)
    }

    /// Hands a message to whoever it is for. A report of an old generation reaches every coordinator there is.
    pub(super) fn deliver(&mut self, scenario: &Scenario, message: &Message) -> Result<(), String> {
        let (generation, task) = (message.generation, message.task);
        match &message.body {
            Body::Order(order) => self.run(scenario, generation, |group, around| group.hear(task, *order, around)),
            Body::Report(report) => {
                for at in (0..self.processes.len()).rev() {
                    self.report(scenario, at, generation, task, report)?;
                }
                Ok(())
            }
        }
    }

    fn report(&mut self, scenario: &Scenario, at: usize, generation: Generation, task: TaskId, report: &Report) -> Result<(), String> {
        let event = match report.clone() {
            Report::Acked { attempt, position, committables } => {
                self.process(at).snapshots.entry(attempt).or_default().insert(task, position);
                Event::TaskAcked { task, attempt, committables }
            }
            Report::Declined { attempt } => Event::TaskDeclined { task, attempt },
            Report::Finished => Event::TaskFinished { task, generation },
        };
        self.step(scenario, at, event)
    }

    /// Lets the tasks of a generation do something.
    pub(super) fn run(
        &mut self,
        scenario: &Scenario,
        generation: Generation,
        act: impl FnOnce(&mut Group, &mut Surroundings),
    ) -> Result<(), String> {
        let late = self.generation() > generation;
        let Some(group) = self.groups.get_mut(&generation) else { return Ok(()) };
        let mut reports = Vec::new();
        act(group.change(), &mut Surroundings { scenario, outside: &mut self.outside, late, reports: &mut reports });
        if !reports.is_empty() {
            let message = |(task, report)| Rc::new(Message { generation, task, body: Body::Report(report) });
            self.messages.change().extend(reports.into_iter().map(message));
        }
        Ok(())
    }

    pub(super) fn step(&mut self, scenario: &Scenario, at: usize, event: Event) -> Result<(), String> {
        let mut effects = Vec::new();
        let now = self.now;
        self.process(at).machine.step(now, event, &mut effects);
        for effect in effects {
            self.effect(scenario, at, effect)?;
        }
        Ok(())
    }

    fn effect(&mut self, scenario: &Scenario, at: usize, effect: Effect) -> Result<(), String> {
        let process = self.processes[at].change();
        let (asked, request) = match effect {
            Effect::Append { op, seq, entry } => {
                // A repeated append has the same bytes.
                let again = process.appending.clone().filter(|written| written.entry == entry);
                let written = again.unwrap_or_else(|| process.write(scenario, entry));
                if let Entry::Sealed { attempt, .. } = written.entry {
                    process.snapshots.retain(|of, _| of.epoch > attempt.epoch);
                }
                process.appending = Some(written.clone());
                (Asked::Store(op), Request::Append { seq, written })
            }
            Effect::ReadBack { op, seq } => (Asked::Store(op), Request::ReadBack { seq }),
            Effect::Reload { op } => (Asked::Store(op), Request::Reload),
            Effect::Resolve { op, committable } => (Asked::Sink(op), Request::Resolve(committable)),
            Effect::Commit { op, committable, permit } => (Asked::Sink(op), Request::Commit(committable, permit)),
            Effect::Resend { op, committable, permit } => (Asked::Sink(op), Request::Resend(committable, permit)),
            Effect::Sweep { op, sink, older_than, keep } => (Asked::Sink(op), Request::Sweep { sink, older_than, keep }),
            Effect::Claimed { origin, .. } => {
                process.origin = origin;
                return Ok(());
            }
            Effect::WritersMayStart => return self.start_writers(scenario, at),
            Effect::Trigger { attempt, reason, tasks } => {
                let order = Order::Trigger { epoch: attempt.epoch, stop: reason == Reason::Stop };
                self.orders(attempt, tasks, order);
                return Ok(());
            }
            Effect::AbandonEpoch { attempt } => {
                self.news(attempt, Order::Abandon { epoch: attempt.epoch });
                return Ok(());
            }
            Effect::EpochDurable { attempt, .. } => {
                self.news(attempt, Order::Durable { epoch: attempt.epoch });
                return Ok(());
            }
            Effect::EpochFailed { .. } | Effect::EpochCommitted { .. } => return Ok(()),
            Effect::FailJob { failure } => return self.failed(scenario, at, failure),
            Effect::Fenced => {
                self.end_process(at);
                return Ok(());
            }
            Effect::JobFinished { reason } => {
                self.end = Some(End::Finished(reason));
                self.end_process(at);
                return Ok(());
            }
        };
        self.process(at).requests.insert(asked, request);
        Ok(())
    }

    fn orders(&mut self, attempt: Attempt, tasks: impl IntoIterator<Item = TaskId>, order: Order) {
        let message = |task| Rc::new(Message { generation: attempt.generation, task, body: Body::Order(order) });
        if self.groups.contains_key(&attempt.generation) {
            self.messages.change().extend(tasks.into_iter().map(message));
        }
    }

    fn news(&mut self, attempt: Attempt, order: Order) {
        let tasks: Vec<TaskId> = self.groups.get(&attempt.generation).into_iter().flat_map(|group| group.tasks()).collect();
        self.orders(attempt, tasks, order);
    }

    fn failed(&mut self, scenario: &Scenario, at: usize, failure: Failure) -> Result<(), String> {
        if let Failure::Commit(commit::CommitFailure::Lost(committable)) = failure {
            let expired = self.outside.transactions.get(&committable).is_none_or(|transaction| transaction.phase == Phase::Aborted);
            if scenario.policy != LostPolicy::Fail || !expired {
                return Err(format!("E3: {committable} was called lost and is not"));
            }
            self.end = Some(End::Lost(committable));
        }
        self.end_process(at);
        Ok(())
    }

    /// A coordinator that knows that it has ended cancels its tasks; what these prepared stays as it is.
    fn end_process(&mut self, at: usize) {
        if let Some(generation) = self.processes.remove(at).machine.generation() {
            self.groups.remove(&generation);
            self.forget_orders(generation);
        }
    }

    fn start_writers(&mut self, scenario: &Scenario, at: usize) -> Result<(), String> {
        let process = self.processes[at].change();
        process.has_tasks = true;
        let generation = process.machine.generation().expect("claimed");
        let origin = process.origin;
        let restored = if let Origin::Epoch(epoch) = origin { epoch } else { Epoch(0) };
        self.swept(generation)?;
        self.forget_orphans(generation);
        let positions = self.positions(scenario, origin);
        self.groups.insert(generation, Shared::new(Group::start(scenario, generation, restored, &positions)));
        Ok(())
    }

    /// What tasks do whose coordinator is gone concerns nobody once all that could be named by a seal is settled.
    fn forget_orphans(&mut self, generation: Generation) {
        let parents: Vec<_> = self.processes.iter().filter_map(|process| process.machine.generation()).collect();
        let orphans: Vec<_> = self.groups.keys().copied().filter(|of| *of < generation && !parents.contains(of)).collect();
        for orphan in orphans {
            self.groups.remove(&orphan);
            self.forget_orders(orphan);
        }
    }

    /// E5, and the part of E2 that concerns a start.
    fn swept(&self, generation: Generation) -> Result<(), String> {
        let named = self.named();
        for (committable, transaction) in &self.outside.transactions {
            let older = committable.attempt.generation < generation && !transaction.late;
            if older && transaction.phase == Phase::Prepared {
                let what = if named.contains(committable) { "E2: durable and not committed" } else { "E5: not swept" };
                return Err(format!("{what}: {committable} when writers of generation {generation} start"));
            }
        }
        let open = self.outside.open.iter().find(|((of, _, _), open)| *of < generation && !open.late);
        open.map_or(Ok(()), |(key, _)| Err(format!("E5: not swept: an open transaction of {key:?}")))
    }
}

impl super::world::Process {
    /// The entry with its payload. What was not in the seal's own snapshots (it never is missing, unless a rule is broken) is
    /// taken from the newest one there is.
    fn write(&self, scenario: &Scenario, entry: Entry) -> Written {
        let positions = match &entry {
            Entry::Sealed { attempt, .. } => {
                let of = |task: &TaskId| {
                    let own = self.snapshots.get(attempt).and_then(|tasks| tasks.get(task));
                    own.or_else(|| self.snapshots.values().rev().find_map(|tasks| tasks.get(task))).copied().unwrap_or(0)
                };
                scenario.source_tasks().iter().map(of).collect()
            }
            Entry::Claimed { .. } | Entry::Committed { .. } | Entry::Stopped { .. } => Vec::new(),
        };
        Written { entry, positions }
    }
}
