//! The whole world as one value: coordinators, tasks, messages, the ledger, the outside; and every step it can take.
//!
//! Owns: which actions are possible, and what each does. Does not own: the protocol (the machines), the promises (`check`), the search
//! (`explore`).
//!
//! Every choice of an adversary is an action: which message arrives, which request is carried out and whether its answer comes back,
//! who crashes, when a second coordinator starts. Messages have no order. What an old coordinator or an old task still wants to do can
//! happen at any time later.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use staunch_types::{ErrorKind, Generation, LedgerSeq, TaskId, Tick};

use super::outside::{Outside, Phase};
use super::scenario::{Budget, NEVER, Orphans, Scenario};
use super::shared::Shared;
use super::tasks::{Group, Order, Report};
use crate::coordinator::{Coordinator, Event};
use crate::ledger::{Answer, Claimant, Entry, Facts, Origin};
use crate::mutation::{Mutation, broken};
use crate::{Attempt, CommitPermit, CommittableId, OpId, Reason, SinkId};

/// A ledger entry with its payload: the sources' positions of a seal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Written {
    pub(super) entry: Entry,
    pub(super) positions: Vec<u8>,
}

/// A message between a task and its coordinator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Message {
    pub(super) generation: Generation,
    pub(super) task: TaskId,
    pub(super) body: Body,
}

impl Message {
    /// Whether it only tells what became of an epoch.
    fn is_news(&self) -> bool {
        matches!(self.body, Body::Order(Order::Abandon { .. } | Order::Durable { .. }))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Body {
    Order(Order),
    Report(Report),
}

/// What a coordinator asked for and was not answered yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Request {
    Append { seq: LedgerSeq, written: Written },
    ReadBack { seq: LedgerSeq },
    Reload,
    Resolve(CommittableId),
    Commit(CommittableId, CommitPermit),
    Resend(CommittableId, CommitPermit),
    Sweep { sink: SinkId, older_than: Generation, keep: BTreeSet<CommittableId> },
}

/// Which machine's numbers an id belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Asked {
    Store(OpId),
    Sink(OpId),
}

/// A process that runs a coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) machine: Coordinator,
    pub(super) requests: BTreeMap<Asked, Request>,
    /// Of each attempt, each task's snapshot.
    pub(super) snapshots: BTreeMap<Attempt, BTreeMap<TaskId, u8>>,
    /// What it appends, to recognise it when it reads back.
    pub(super) appending: Option<Written>,
    pub(super) origin: Origin,
    pub(super) has_tasks: bool,
}

/// How a history ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum End {
    Finished(Reason),
    /// Stopped for a provable loss.
    Lost(CommittableId),
}

#[derive(Clone, Debug, Hash)]
pub(super) struct World {
    pub(super) now: Tick,
    pub(super) ledger: Shared<Vec<Written>>,
    /// Appends that nobody waits for and that may still arrive.
    pub(super) delayed: BTreeSet<(LedgerSeq, Written)>,
    pub(super) processes: Vec<Shared<Process>>,
    pub(super) groups: BTreeMap<Generation, Shared<Group>>,
    pub(super) messages: Shared<BTreeSet<Rc<Message>>>,
    /// News that is late.
    pub(super) postponed: BTreeSet<Rc<Message>>,
    pub(super) outside: Shared<Outside>,
    pub(super) budget: Budget,
    pub(super) claimants: u8,
    pub(super) rewound: bool,
    pub(super) end: Option<End>,
}

/// A step of the world. Numbers of processes are their positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Start,
    Rewind(Origin),
    TakeOver,
    Tick(usize),
    TimeOut(usize),
    AskEpoch(usize),
    AskStop(usize),
    Request(usize, Asked, Fate),
    Arrive(LedgerSeq, Written),
    Message(Rc<Message>, Delivery),
    Emit(Generation, TaskId),
    Take(Generation, TaskId, TaskId),
    Crash(usize),
    Expire(CommittableId),
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is carried out and answered.
    Answered,
    /// It is carried out, the answer is lost.
    Unanswered,
    /// It is lost; an append may still arrive.
    Lost,
    /// It is refused.
    Refused,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    Delivered,
    /// It arrives now and will arrive again.
    Repeated,
    /// A report whose coordinator is gone reaches its successors.
    Stale,
    /// News is late.
    Postponed,
    /// Late news arrives.
    Late,
    Lost,
    /// The snapshot of an acknowledgement could not be stored: it becomes a decline.
    UploadFailed,
}

impl World {
    pub(super) fn new(scenario: &Scenario) -> World {
        World {
            now: Tick::default(),
            ledger: Shared::default(),
            delayed: BTreeSet::new(),
            processes: Vec::new(),
            groups: BTreeMap::new(),
            messages: Shared::default(),
            postponed: BTreeSet::new(),
            outside: Shared::default(),
            budget: scenario.budget,
            claimants: 0,
            rewound: false,
            end: None,
        }
    }

    pub(super) fn facts(&self) -> Result<Facts, String> {
        let entries = self.ledger.iter().enumerate().map(|(at, written)| (LedgerSeq(at as u64 + 1), &written.entry));
        Facts::of(entries).map_err(|error| format!("E4: the ledger contradicts itself: {}", error.what()))
    }

    /// The newest generation that was claimed.
    pub(super) fn generation(&self) -> Generation {
        self.ledger.iter().map(|written| written.entry.generation()).max().unwrap_or(Generation(0))
    }

    /// What is named by a seal.
    pub(super) fn named(&self) -> BTreeSet<CommittableId> {
        let of = |written: &Written| match &written.entry {
            Entry::Sealed { committables, .. } => committables.clone(),
            Entry::Claimed { .. } | Entry::Committed { .. } | Entry::Stopped { .. } => Vec::new(),
        };
        self.ledger.iter().flat_map(of).collect()
    }

    /// The sources' positions of an origin.
    pub(super) fn positions(&self, scenario: &Scenario, origin: Origin) -> Vec<u8> {
        let Origin::Epoch(epoch) = origin else { return vec![0; scenario.sources as usize] };
        let sealed = self.ledger.iter().find(|written| matches!(written.entry, Entry::Sealed { attempt, .. } if attempt.epoch == epoch));
        sealed.map(|written| written.positions.clone()).expect("what is restored from is sealed")
    }

    /// Every step that can be taken now.
    pub(super) fn actions(&self) -> Vec<Action> {
        if let Some(take) = self.record_to_take() {
            return vec![take];
        }
        if let Some(news) = self.messages.iter().find(|message| message.is_news()) {
            let late = (self.budget.late_news > 0).then(|| Action::Message(news.clone(), Delivery::Postponed));
            return [Action::Message(news.clone(), Delivery::Delivered)].into_iter().chain(late).collect();
        }
        let mut actions = Vec::new();
        self.progress(&mut actions);
        if actions.is_empty() {
            self.time_outs(&mut actions);
        }
        self.faults(&mut actions);
        actions
    }

    /// A record that a writer can take. It commutes with every other step: it is before its channel's barrier, so it gets into the
    /// same transaction whenever it is taken, and nobody but the sweep of that transaction looks at it before. So no other
    /// step needs to be tried in its place.
    fn record_to_take(&self) -> Option<Action> {
        self.groups.iter().find_map(|(generation, group)| group.record_ready().map(|(from, to)| Action::Take(*generation, from, to)))
    }

    /// Whether nothing more will happen by itself.
    pub(super) fn is_settled(&self) -> bool {
        let mut actions = Vec::new();
        self.progress(&mut actions);
        self.time_outs(&mut actions);
        actions.is_empty()
    }

    /// Time passes only when nothing else can happen: a message was lost.
    fn time_outs(&self, actions: &mut Vec<Action>) {
        let waits = |process: &Process| process.machine.deadline().is_some_and(|at| at > self.now && at < self.now + NEVER);
        actions.extend((0..self.processes.len()).filter(|at| waits(&self.processes[*at])).map(Action::TimeOut));
    }

    fn progress(&self, actions: &mut Vec<Action>) {
        if self.processes.is_empty() && self.end.is_none() {
            actions.push(Action::Start);
        }
        for (at, process) in self.processes.iter().enumerate() {
            if process.machine.deadline().is_some_and(|deadline| deadline <= self.now) {
                actions.push(Action::Tick(at));
            }
            actions.extend(process.requests.keys().map(|asked| Action::Request(at, *asked, Fate::Answered)));
        }
        actions.extend(self.delayed.iter().map(|(seq, written)| Action::Arrive(*seq, written.clone())));
        let fresh = |message: &&Rc<Message>| !self.is_stale(message);
        actions.extend(self.messages.iter().filter(fresh).map(|message| Action::Message(message.clone(), Delivery::Delivered)));
        actions.extend(self.postponed.iter().map(|news| Action::Message(news.clone(), Delivery::Late)));
        for (generation, group) in &self.groups {
            actions.extend(group.sources_ready().into_iter().map(|source| Action::Emit(*generation, source)));
            actions.extend(group.channels_ready().into_iter().map(|(from, to)| Action::Take(*generation, from, to)));
        }
    }

    fn faults(&self, actions: &mut Vec<Action>) {
        let budget = &self.budget;
        for (at, process) in self.processes.iter().enumerate() {
            if process.has_tasks && budget.epochs > 0 {
                actions.push(Action::AskEpoch(at));
            }
            if process.has_tasks && budget.stops > 0 {
                actions.push(Action::AskStop(at));
            }
            for (asked, request) in &process.requests {
                self.request_faults(at, *asked, request, actions);
            }
            if budget.crashes > 0 {
                actions.push(Action::Crash(at));
            }
        }
        if budget.takeovers > 0 && self.processes.len() == 1 && self.end.is_none() {
            actions.push(Action::TakeOver);
        }
        if budget.rewinds > 0 && self.processes.is_empty() && self.end.is_none() {
            self.rewinds(actions);
        }
        for message in self.messages.iter() {
            if self.is_stale(message) {
                actions.push(Action::Message(message.clone(), Delivery::Stale));
                continue;
            }
            let finished = message.body == Body::Report(Report::Finished);
            // The end of a task is told until it is heard: a connection that loses it is broken, and that is a crash.
            if budget.lost_messages > 0 && !finished {
                actions.push(Action::Message(message.clone(), Delivery::Lost));
            }
            if budget.repeats > 0 {
                actions.push(Action::Message(message.clone(), Delivery::Repeated));
            }
            if let (Body::Report(Report::Acked { .. }), true) = (&message.body, budget.failed_uploads > 0) {
                actions.push(Action::Message(message.clone(), Delivery::UploadFailed));
            }
        }
        if budget.expiries > 0 {
            let prepared = self.outside.transactions.iter().filter(|(_, transaction)| transaction.phase == Phase::Prepared);
            actions.extend(prepared.map(|(committable, _)| Action::Expire(*committable)));
        }
    }

    /// A report whose coordinator is gone. It may reach its successors, at any time and any number of times.
    fn is_stale(&self, message: &Message) -> bool {
        let of = |process: &Shared<Process>| process.machine.generation() == Some(message.generation);
        matches!(message.body, Body::Report(_)) && !self.processes.iter().any(of)
    }

    fn rewinds(&self, actions: &mut Vec<Action>) {
        actions.push(Action::Rewind(Origin::Empty));
        for written in self.ledger.iter() {
            if let Entry::Sealed { attempt, .. } = &written.entry {
                actions.push(Action::Rewind(Origin::Epoch(attempt.epoch)));
            }
        }
    }

    fn request_faults(&self, at: usize, asked: Asked, request: &Request, actions: &mut Vec<Action>) {
        let changes = match request {
            Request::Append { .. } | Request::Commit(..) | Request::Resend(..) | Request::Sweep { .. } => true,
            Request::ReadBack { .. } | Request::Reload | Request::Resolve(_) => false,
        };
        if self.budget.lost_answers > 0 {
            actions.push(Action::Request(at, asked, Fate::Lost));
            if changes {
                actions.push(Action::Request(at, asked, Fate::Unanswered));
            }
        }
        if self.budget.refusals > 0 && matches!(request, Request::Append { written, .. } if matches!(written.entry, Entry::Sealed { .. })) {
            actions.push(Action::Request(at, asked, Fate::Refused));
        }
    }

    /// Takes one step.
    ///
    /// # Errors
    /// The promise that does not hold.
    pub(super) fn apply(&mut self, scenario: &Scenario, action: &Action) -> Result<(), String> {
        match action {
            Action::Start => self.start(scenario, None),
            Action::Rewind(origin) => {
                self.budget.rewinds -= 1;
                self.rewound = true;
                self.start(scenario, Some(*origin))
            }
            Action::TakeOver => {
                self.budget.takeovers -= 1;
                self.start(scenario, None)
            }
            Action::Tick(at) => self.step(scenario, *at, Event::TimePassed),
            Action::TimeOut(at) => {
                self.now = self.processes[*at].machine.deadline().unwrap_or(self.now);
                self.step(scenario, *at, Event::TimePassed)
            }
            Action::AskEpoch(at) => {
                self.budget.epochs -= 1;
                self.step(scenario, *at, Event::TriggerRequested { reason: Reason::Savepoint })
            }
            Action::AskStop(at) => {
                self.budget.stops -= 1;
                self.step(scenario, *at, Event::TriggerRequested { reason: Reason::Stop })
            }
            Action::Request(at, asked, fate) => self.request(scenario, *at, *asked, *fate),
            Action::Arrive(seq, written) => {
                self.delayed.remove(&(*seq, written.clone()));
                self.create(*seq, written.clone());
                Ok(())
            }
            Action::Message(message, delivery) => self.message(scenario, message, *delivery),
            Action::Emit(generation, source) => self.run(scenario, *generation, |group, around| group.emit(*source, around)),
            Action::Take(generation, from, to) => self.run(scenario, *generation, |group, around| group.take(*from, *to, around)),
            Action::Crash(at) => self.crash(scenario, *at),
            Action::Expire(committable) => {
                self.budget.expiries -= 1;
                self.outside.change().expire(*committable);
                Ok(())
            }
        }
    }

    fn request(&mut self, scenario: &Scenario, at: usize, asked: Asked, fate: Fate) -> Result<(), String> {
        match fate {
            Fate::Answered => {
                let answer = self.carry(at, asked)?;
                self.answer(scenario, at, answer)
            }
            Fate::Unanswered => {
                self.budget.lost_answers -= 1;
                let answer = self.carry(at, asked)?;
                self.answer(scenario, at, answer.lost())
            }
            Fate::Lost => self.lose_request(scenario, at, asked),
            Fate::Refused => {
                self.budget.refusals -= 1;
                self.process(at).requests.remove(&asked);
                let Asked::Store(op) = asked else { return Err("only appends are refused".into()) };
                self.step(scenario, at, Event::StoreAnswered { op, answer: Answer::Refused { kind: ErrorKind::Restart } })
            }
        }
    }

    fn message(&mut self, scenario: &Scenario, message: &Rc<Message>, delivery: Delivery) -> Result<(), String> {
        match delivery {
            Delivery::Delivered => {
                self.messages.change().remove(message);
                return self.deliver(scenario, message);
            }
            Delivery::Stale => return self.deliver(scenario, message),
            Delivery::Repeated => {
                self.budget.repeats -= 1;
                return self.deliver(scenario, message);
            }
            Delivery::Late => {
                self.postponed.remove(message);
                return self.deliver(scenario, message);
            }
            Delivery::Postponed => {
                self.budget.late_news -= 1;
                self.postponed.insert(message.clone());
            }
            Delivery::Lost => self.budget.lost_messages -= 1,
            Delivery::UploadFailed => {
                self.budget.failed_uploads -= 1;
                if let Body::Report(Report::Acked { attempt, .. }) = message.body {
                    let body = Body::Report(Report::Declined { attempt });
                    self.messages.change().insert(Rc::new(Message { body, ..*message.as_ref() }));
                }
            }
        }
        self.messages.change().remove(message);
        Ok(())
    }

    fn start(&mut self, scenario: &Scenario, origin: Option<Origin>) -> Result<(), String> {
        let facts = self.facts()?;
        let origin = origin.unwrap_or(facts.resume);
        self.claimants += 1;
        let machine = Coordinator::recover(facts, origin, Claimant(self.claimants.into()), scenario.config());
        self.processes.push(Shared::new(Process {
            machine,
            requests: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            appending: None,
            origin,
            has_tasks: false,
        }));
        self.step(scenario, self.processes.len() - 1, Event::Started)
    }

    /// A coordinator stops. Its tasks go on as long as they have something to do: that they stopped with it, or before it, is the
    /// same as that they were slow.
    fn crash(&mut self, scenario: &Scenario, at: usize) -> Result<(), String> {
        self.budget.crashes -= 1;
        let process = self.processes.remove(at);
        // What it had sent to the store may still arrive.
        for request in process.requests.values() {
            if let Request::Append { seq, written } = request {
                self.delayed.insert((*seq, written.clone()));
            }
        }
        if let (Some(generation), Orphans::Stop) = (process.machine.generation(), scenario.orphans) {
            self.groups.remove(&generation);
            self.messages.change().retain(|message| message.generation != generation);
            self.postponed.retain(|message| message.generation != generation);
        }
        Ok(())
    }

    /// A process, to be changed.
    pub(super) fn process(&mut self, at: usize) -> &mut Process {
        self.processes[at].change()
    }

    /// The tasks of a generation are gone, and with them whoever could hear orders.
    pub(super) fn forget_orders(&mut self, generation: Generation) {
        self.messages.change().retain(|message| message.generation != generation || matches!(message.body, Body::Report(_)));
        self.postponed.retain(|message| message.generation != generation);
    }

    pub(super) fn create(&mut self, seq: LedgerSeq, written: Written) -> Answer {
        let free = seq.0 == self.ledger.len() as u64 + 1;
        if !broken(Mutation::AppendUnconditionally) {
            // What arrives at a slot that is taken changes nothing.
            self.delayed.retain(|(late, _)| late.0 > seq.0);
        }
        if free {
            self.ledger.change().push(written);
        } else if broken(Mutation::AppendUnconditionally) {
            self.ledger.change()[seq.0 as usize - 1] = written;
        } else {
            return Answer::Conflicted;
        }
        Answer::Appended
    }
}
