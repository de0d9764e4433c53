//! One generation of a job: from the claim to the end, a failure or the fence.
//!
//! Owns: the driving of the coordinator machine: its effects become work behind the door, mail to tasks, and placed tasks; answers become
//! its events. Does not own: any decision.

use std::collections::BTreeMap;
use std::sync::Arc;

use staunch_api::{Io, Kept, Lead, Proof, SinkContext, SweepScope, fenced};
use staunch_protocol::coordinator::{Coordinator, Effect, Event, Failure};
use staunch_protocol::failover;
use staunch_protocol::ledger::{self, Entry};
use staunch_protocol::{Attempt, CommittableId, OpId, Reason, SinkId};
use staunch_types::{Epoch, Error, ErrorKind, Generation, LedgerSeq, Name, Result, TaskId, Tick};

use super::retention::Retention;
use super::sinks::{Committers, Work};
use super::sources::SourceDriver;
use super::tasks::Tasks;
use super::{CoordinatorMail, JobEvent, Restore, RunConfig, TaskMail};
use crate::checkpoint::{Catalog, CheckpointRecord, Draft, EntryPayload, Loaded, NamedCommittable, SinkNames, SourceRecord};
use crate::job::Plan;
use crate::observe::JobFigures;
use crate::operator::OperatorPart;
use crate::runtime::{Executor, Mailbox, World};
use crate::sink::sink_context;

/// What a generation needs from the job that runs it.
pub(super) struct Surroundings<'a> {
    pub(super) plan: &'a Plan,
    pub(super) world: &'a World,
    pub(super) catalog: &'a Arc<Catalog>,
    pub(super) config: &'a RunConfig,
    /// What to start from, if another start comes first.
    pub(super) restore: Restore,
    pub(super) io: &'a Io,
    pub(super) inbox: &'a Mailbox<CoordinatorMail>,
    pub(super) executor: &'a mut dyn Executor,
    pub(super) tell: &'a mut dyn FnMut(JobEvent),
    pub(super) figures: &'a JobFigures,
}

/// How a generation ended.
#[derive(Debug)]
pub(super) enum End {
    Finished(Reason),
    Failed(Error),
}

/// A ledger operation under way.
struct StoreWork {
    op: OpId,
    pending: staunch_api::Pending<StoreAnswer>,
}

enum StoreAnswer {
    Answer(ledger::Answer, Option<Error>),
    Reloaded(Box<Result<Loaded>>),
}

/// One generation.
pub(super) struct RunningGeneration {
    coordinator: Coordinator,
    number: Option<Generation>,
    names: SinkNames,
    loaded: Loaded,
    /// The entry being appended, with its bytes: a repeated append must have the same.
    draft: Option<(Entry, Draft)>,
    head_hash: [u8; 32],
    store_work: Vec<StoreWork>,
    committers: Committers,
    sources: Vec<SourceDriver>,
    tasks: Option<Tasks>,
    acks: BTreeMap<Attempt, BTreeMap<TaskId, BTreeMap<Name, OperatorPart>>>,
    source_records: BTreeMap<Attempt, BTreeMap<Name, SourceRecord>>,
    bodies: BTreeMap<CommittableId, NamedCommittable>,
    proofs: BTreeMap<CommittableId, Proof>,
    /// When epochs that are under way were triggered.
    triggered: BTreeMap<Attempt, Tick>,
    retention: Retention,
    /// The newest epoch of which, and of all before, everything is known to be committed.
    settled: Option<Epoch>,
    /// The last reason heard from store, sinks or tasks: the machine knows kinds only.
    reason: Option<Error>,
    /// The end that somebody asked for.
    asked: Option<Reason>,
    /// For the failover machine, which outlives this generation.
    progress: Vec<failover::Event>,
    end: Option<End>,
}

impl RunningGeneration {
    /// Begins: the ledger was read, the enumerators and committers are made.
    pub(super) fn begin(
        coordinator: Coordinator,
        names: SinkNames,
        loaded: Loaded,
        committers: Committers,
        sources: Vec<SourceDriver>,
        around: &mut Surroundings<'_>,
    ) -> RunningGeneration {
        let mut bodies = BTreeMap::new();
        for record in loaded.uncommitted.values() {
            bodies.extend(names.ids(&record.committables));
        }
        let mut generation = RunningGeneration {
            coordinator,
            number: None,
            head_hash: loaded.head_hash,
            names,
            loaded,
            draft: None,
            store_work: Vec::new(),
            committers,
            sources,
            tasks: None,
            acks: BTreeMap::new(),
            source_records: BTreeMap::new(),
            triggered: BTreeMap::new(),
            bodies,
            proofs: BTreeMap::new(),
            retention: Retention::default(),
            settled: None,
            reason: None,
            asked: None,
            progress: Vec::new(),
            end: None,
        };
        generation.step(Event::Started, around);
        generation
    }

    /// Does what there is to do; the end, when it came.
    pub(super) fn poll(&mut self, around: &mut Surroundings<'_>) -> Option<End> {
        while let Some(mail) = around.inbox.receive() {
            self.hear(mail, around);
        }
        if self.coordinator.deadline().is_some_and(|at| at <= around.world.clock.now()) {
            self.step(Event::TimePassed, around);
        }
        self.poll_store(around);
        // Last of all that steps the machine: what it asks of sinks begins here, or nobody would wake us to begin it.
        self.poll_committers(around);
        if self.tasks.as_ref().is_some_and(Tasks::are_placed) {
            self.poll_sources(around);
        }
        self.retention.poll();
        self.end.take()
    }

    /// What the failover machine must hear, since last asked.
    pub(super) fn progress(&mut self) -> Vec<failover::Event> {
        std::mem::take(&mut self.progress)
    }

    /// When to poll without other cause.
    pub(super) fn deadline(&self) -> Option<Tick> {
        let sources = self.sources.iter().filter(|_| self.tasks.as_ref().is_some_and(Tasks::are_placed)).filter_map(SourceDriver::deadline);
        sources.chain(self.coordinator.deadline()).min()
    }

    /// The generation, once it is claimed: a restart goes on from what it started from, or from what it has made since.
    pub(super) fn number(&self) -> Option<Generation> {
        self.number
    }

    /// The end that somebody asked for, which the next generation must bring about if this one fails.
    pub(super) fn asked(&self) -> Option<Reason> {
        self.asked
    }

    /// Asks for an epoch.
    pub(super) fn request(&mut self, reason: Reason, around: &mut Surroundings<'_>) {
        if reason.ends_job() {
            self.asked = Some(reason);
        }
        self.step(Event::TriggerRequested { reason }, around);
    }

    fn fail(&mut self, error: Error) {
        self.end.get_or_insert(End::Failed(error));
    }

    fn attempt(&self, epoch: Epoch) -> Attempt {
        Attempt { epoch, generation: self.number.unwrap_or_default() }
    }

    fn hear(&mut self, mail: CoordinatorMail, around: &mut Surroundings<'_>) {
        let now = around.world.clock.now();
        match mail {
            CoordinatorMail::Acked { task, epoch, operators } => {
                let attempt = self.attempt(epoch);
                let named = self.names.name_all(task, &operators, around.plan);
                let ids: Vec<CommittableId> = named.iter().map(|(id, _)| *id).collect();
                around.figures.prepared(named.iter().map(|(_, named)| named));
                self.bodies.extend(named);
                // The machine counts the first word of a task; so the record must be made of it too.
                self.acks.entry(attempt).or_default().entry(task).or_insert(operators);
                self.step(Event::TaskAcked { task, attempt, committables: ids }, around);
            }
            CoordinatorMail::Declined { task, epoch, error } => {
                self.reason = Some(error);
                self.step(Event::TaskDeclined { task, attempt: self.attempt(epoch) }, around);
            }
            CoordinatorMail::WantsSplits { task } => {
                let Some(tasks) = &self.tasks else { return };
                let source = self.sources.iter_mut().find(|s| s.chain() == task.chain);
                if let Some(Err(error)) = source.map(|s| s.wanted(now, task.index, &tasks.mailboxes)) {
                    self.fail(error);
                }
            }
            CoordinatorMail::Ended { task } => {
                self.step(Event::TaskFinished { task, generation: self.number.unwrap_or_default() }, around);
            }
            CoordinatorMail::Failed { task, error } => self.fail(error.at(format!("task={task}"))),
            CoordinatorMail::Stop { reason } => self.request(reason, around),
        }
    }

    /// Takes outcomes until there is none: an answer may queue the next operation of the same sink, which may be done at once.
    fn poll_committers(&mut self, around: &mut Surroundings<'_>) {
        loop {
            let outcomes = self.committers.poll(around.io);
            if outcomes.is_empty() {
                return;
            }
            for (op, outcome) in outcomes {
                if let Some((id, deed)) = outcome.deed {
                    if let Some(named) = self.bodies.get(&id) {
                        around.figures.done(named, deed, around.world.clock.now());
                    }
                    self.proofs.extend(outcome.proof.map(|proof| (id, proof)));
                }
                self.reason = outcome.error.or(self.reason.take());
                if !outcome.swept.is_empty() {
                    (around.tell)(JobEvent::Swept { removed: outcome.swept });
                }
                self.step(Event::SinkAnswered { op, answer: outcome.answer }, around);
            }
        }
    }

    fn poll_sources(&mut self, around: &mut Surroundings<'_>) {
        let Some(tasks) = &self.tasks else { return };
        let now = around.world.clock.now();
        for source in &mut self.sources {
            if let Err(error) = source.poll(now, around.io, &tasks.mailboxes) {
                self.end.get_or_insert(End::Failed(error));
                return;
            }
        }
    }

    fn poll_store(&mut self, around: &mut Surroundings<'_>) {
        let mut at = 0;
        while at < self.store_work.len() {
            let Some(answer) = self.store_work[at].pending.poll() else {
                at += 1;
                continue;
            };
            let op = self.store_work.remove(at).op;
            let answer = match answer {
                StoreAnswer::Answer(answer, reason) => {
                    self.reason = reason.or(self.reason.take());
                    answer
                }
                StoreAnswer::Reloaded(loaded) => match *loaded {
                    Ok(loaded) if loaded.goes_on_from_the_same(&self.loaded) => {
                        around.figures.found(&loaded, around.world.clock.now(), around.world.clock.wall_ms());
                        let (facts, origin) = (loaded.facts.clone(), loaded.origin);
                        self.head_hash = loaded.head_hash;
                        self.loaded = loaded;
                        self.draft = None;
                        ledger::Answer::Reloaded { facts, origin }
                    }
                    // Sources and committers were made ready for another checkpoint: begin again, from this one.
                    Ok(_) => return self.fail(overtaken()),
                    Err(error) => {
                        self.reason = Some(error);
                        ledger::Answer::ReadFailed
                    }
                },
            };
            self.step(Event::StoreAnswered { op, answer }, around);
        }
    }

    fn step(&mut self, event: Event, around: &mut Surroundings<'_>) {
        let mut effects = Vec::new();
        if let Event::StoreAnswered { answer: ledger::Answer::Appended | ledger::Answer::Found(ledger::Found::Own), .. } = &event
            && let Some((_, draft)) = self.draft.take()
        {
            self.head_hash = draft.hash();
        }
        self.coordinator.step(around.world.clock.now(), event, &mut effects);
        for effect in effects {
            if self.end.is_some() {
                return;
            }
            if let Err(error) = self.execute(effect, around) {
                self.fail(error);
            }
        }
    }

    fn execute(&mut self, effect: Effect, around: &mut Surroundings<'_>) -> Result<()> {
        match effect {
            Effect::Append { op, seq, entry } => self.append(op, seq, &entry, around)?,
            Effect::ReadBack { op, seq } => self.read_back(op, seq, around),
            Effect::Reload { op } => {
                let (catalog, restore, names) = (Arc::clone(around.catalog), around.restore, self.names.clone());
                let pending = around.io.run(move || StoreAnswer::Reloaded(Box::new(catalog.load(restore, &names))));
                self.store_work.push(StoreWork { op, pending });
            }
            Effect::Claimed { generation, origin: _ } => self.claimed(generation, around)?,
            Effect::Resolve { op, committable } => {
                let body = self.body(committable)?.committable.clone();
                self.committers.submit(committable.sink, op, Work::Resolve(committable, body));
            }
            Effect::Commit { op, committable, permit } => {
                let body = self.body(committable)?.committable.clone();
                self.committers.submit(committable.sink, op, Work::Commit(committable, body, permit));
            }
            Effect::Resend { op, committable, permit } => {
                let body = self.body(committable)?.committable.clone();
                self.committers.submit(committable.sink, op, Work::Resend(committable, body, permit));
            }
            // What the machine wants kept is uncommitted, and so in the scope.
            Effect::Sweep { op, sink, older_than, keep: _ } => {
                let scope = self.scope(sink, older_than);
                self.committers.submit(sink, op, Work::Sweep(scope));
            }
            Effect::WritersMayStart => self.start_writers(around)?,
            Effect::Trigger { attempt, reason, tasks: _ } => self.trigger(attempt, reason, around)?,
            Effect::AbandonEpoch { attempt } => {
                self.acks.remove(&attempt);
                self.source_records.remove(&attempt);
                self.mail_all(&TaskMail::Abandoned(attempt.epoch))?;
            }
            Effect::EpochFailed { attempt, failure } => {
                // Kept: if this was one failure too many, it is the reason why the job stops.
                let error = self.reason.clone().unwrap_or_else(|| epoch_failed(attempt.epoch, &format!("{failure:?}")));
                around.figures.epoch_failed();
                (around.tell)(JobEvent::EpochFailed { epoch: attempt.epoch, error });
            }
            Effect::EpochDurable { attempt, reason: _ } => self.durable(attempt, around)?,
            Effect::EpochCommitted { epoch } => {
                (around.tell)(JobEvent::EpochCommitted { epoch });
                self.forget_proofs(epoch, around);
                self.retention.committed(epoch);
                self.settled(around)?;
                self.collect(around);
            }
            Effect::FailJob { failure } => {
                let error = self.failure(failure);
                self.fail(error);
            }
            Effect::Fenced => self.fail(fenced()),
            Effect::JobFinished { reason } => {
                self.end.get_or_insert(End::Finished(reason));
            }
        }
        Ok(())
    }

    fn append(&mut self, op: OpId, seq: LedgerSeq, entry: &Entry, around: &mut Surroundings<'_>) -> Result<()> {
        let draft = match &self.draft {
            Some((known, draft)) if known == entry => draft.clone(),
            // The one before was refused for good: its slot is free, its bytes are not this entry's.
            Some(_) | None => self.make_draft(seq, entry, around)?,
        };
        self.draft = Some((entry.clone(), draft.clone()));
        let catalog = Arc::clone(around.catalog);
        let pending = around.io.run(move || {
            let (answer, reason) = catalog.append(&draft);
            StoreAnswer::Answer(answer, reason)
        });
        self.store_work.push(StoreWork { op, pending });
        Ok(())
    }

    fn make_draft(&mut self, seq: LedgerSeq, entry: &Entry, around: &Surroundings<'_>) -> Result<Draft> {
        let wall_ms = around.world.clock.wall_ms();
        let record = match entry {
            Entry::Sealed { attempt, reason, committables, .. } => {
                let record = self.record(*attempt, *reason, committables, around, wall_ms)?;
                self.retention.sealing(record.clone());
                Some(record)
            }
            Entry::Claimed { .. } | Entry::Committed { .. } | Entry::Stopped { .. } => None,
        };
        let committed = match entry {
            Entry::Committed { epoch, .. } => self.retention.committables(*epoch),
            Entry::Claimed { .. } | Entry::Sealed { .. } | Entry::Stopped { .. } => Vec::new(),
        };
        let payload = EntryPayload {
            record: record.as_ref(),
            names: &self.names,
            committed: &committed,
            proofs: &self.proofs,
            wall_ms,
            fingerprint: around.plan.fingerprint(),
            kinds: &around.plan.kinds(),
            chains: &around.plan.stored_chains(),
            code_version: &around.config.code_version,
            settings: &format!("{:?}", around.config),
        };
        around.catalog.draft(seq, self.head_hash, entry, &payload)
    }

    fn record(
        &mut self,
        attempt: Attempt,
        reason: Reason,
        committables: &[CommittableId],
        around: &Surroundings<'_>,
        wall_ms: i64,
    ) -> Result<CheckpointRecord> {
        let mut operators: BTreeMap<Name, BTreeMap<TaskId, OperatorPart>> = BTreeMap::new();
        for (task, parts) in self.acks.remove(&attempt).unwrap_or_default() {
            for (name, mut part) in parts {
                part.committables.clear();
                operators.entry(name).or_default().insert(task, part);
            }
        }
        let committables = committables.iter().map(|id| self.body(*id).cloned()).collect::<Result<_>>()?;
        Ok(CheckpointRecord {
            attempt,
            reason,
            job: around.config.job.clone(),
            fingerprint: around.plan.fingerprint(),
            groups: around.config.groups,
            operators,
            sources: self.source_records.remove(&attempt).unwrap_or_default(),
            committables,
            wall_ms,
        })
    }

    fn read_back(&mut self, op: OpId, seq: LedgerSeq, around: &mut Surroundings<'_>) {
        let (catalog, draft) = (Arc::clone(around.catalog), self.draft.as_ref().map(|(_, draft)| draft.clone()));
        let pending = around.io.run(move || {
            let (answer, reason) = catalog.read_back(seq, draft.as_ref());
            StoreAnswer::Answer(answer, reason)
        });
        self.store_work.push(StoreWork { op, pending });
    }

    fn body(&self, id: CommittableId) -> Result<&NamedCommittable> {
        self.bodies.get(&id).ok_or_else(|| bug(&format!("the bytes of committable {id} are unknown")))
    }

    fn claimed(&mut self, generation: Generation, around: &mut Surroundings<'_>) -> Result<()> {
        self.number = Some(generation);
        around.figures.claimed(generation);
        // The first claim of all is the first entry.
        let ledger = self.loaded.ledger.unwrap_or_else(|| around.catalog.ledger_id(&self.head_hash));
        let restored = self.loaded.restored.as_ref();
        let reason = restored.map(|record| record.reason);
        (around.tell)(JobEvent::Claimed { generation, restored: restored.map(CheckpointRecord::epoch), reason });
        self.retention.begin(&self.loaded, around.catalog, around.io);
        let lead = lead(around.catalog, self.loaded.facts.head, generation);
        for sink in around.plan.sinks.values() {
            let context = SinkContext {
                generation,
                ledger: Some(ledger),
                ..sink_context(around.config, around.world, around.catalog.store(), &sink.name)
            };
            self.committers.add(self.names.id(&sink.name), sink.name.clone(), (sink.committer)(context)?);
        }
        self.tasks = Some(Tasks::build(around, generation, (ledger, &lead), restored)?);
        Ok(())
    }

    /// An epoch is committed and recorded: sinks need no longer keep what they keep to find that out.
    fn forget_proofs(&mut self, epoch: Epoch, around: &Surroundings<'_>) {
        let committables = self.retention.committables(epoch);
        for sink in around.plan.sinks.values().filter(|sink| sink.kept != Kept::Nothing) {
            let own = committables.iter().filter(|named| named.sink == sink.name);
            self.committers.forget(self.names.id(&sink.name), own.map(|named| named.committable.clone()));
        }
    }

    /// What a sweep must leave alone: all that retained checkpoints name of this sink.
    fn scope(&self, sink: SinkId, generation: Generation) -> SweepScope {
        let swept = self.loaded.restored.as_ref().map_or(Generation::default(), |record| record.attempt.generation);
        let mut scope = SweepScope { generation, swept, durable: self.loaded.facts.epoch_max, ..SweepScope::default() };
        let name = self.names.name(sink);
        for record in self.loaded.retained.iter().chain(self.loaded.uncommitted.values()) {
            scope.committables.extend(record.committables.iter().filter(|c| Some(&c.sink) == name).map(|c| c.committable.clone()));
            let parts = name.and_then(|n| record.operators.get(n)).into_iter().flat_map(BTreeMap::values);
            scope.carried.extend(parts.filter_map(|p| p.inline.get(crate::sink::CARRIED)).filter(|b| !b.is_empty()).cloned());
        }
        scope
    }

    fn start_writers(&mut self, around: &mut Surroundings<'_>) -> Result<()> {
        if let Some(tasks) = &mut self.tasks {
            let now = around.world.clock.now();
            self.sources.iter_mut().try_for_each(|source| source.begin(now, &tasks.mailboxes))?;
            let tasks = tasks.place(around);
            around.figures.running(tasks);
            self.progress.push(failover::Event::Restarted);
            (around.tell)(JobEvent::Running { tasks });
        }
        Ok(())
    }

    fn trigger(&mut self, attempt: Attempt, reason: Reason, around: &mut Surroundings<'_>) -> Result<()> {
        // Tasks whose input has ended get barriers through their channels all the same: a second trigger for the one that ended in between
        // would cut its output twice.
        if self.triggered.contains_key(&attempt) {
            return Ok(());
        }
        let records = self.sources.iter().map(|s| (s.name().clone(), s.record())).collect();
        self.source_records.insert(attempt, records);
        self.triggered.insert(attempt, around.world.clock.now());
        match &self.tasks {
            Some(tasks) => tasks.mail_sources(&TaskMail::Trigger(attempt.epoch, reason)),
            None => Err(bug("an epoch was triggered before there were tasks")),
        }
    }

    fn mail_all(&self, mail: &TaskMail) -> Result<()> {
        self.tasks.as_ref().map_or(Ok(()), |tasks| tasks.mail_all(mail))
    }

    fn durable(&mut self, attempt: Attempt, around: &mut Surroundings<'_>) -> Result<()> {
        self.mail_all(&TaskMail::Durable(attempt.epoch))?;
        let now = around.world.clock.now();
        let took = self.triggered.get(&attempt).map(|at| now.since(*at)).unwrap_or_default();
        self.triggered.retain(|a, _| *a > attempt);
        self.reason = None;
        self.progress.push(failover::Event::EpochDurable);
        let (counts, committables) = self.retention.durable(attempt);
        if let Some(record) = self.retention.record(attempt.epoch) {
            around.figures.durable(record, took, &counts, now);
        }
        (around.tell)(JobEvent::EpochDurable { epoch: attempt.epoch, took, counts, committables });
        self.settled(around)?;
        self.collect(around);
        Ok(())
    }

    /// An epoch is durable or committed; one that names nothing is committed as soon as those before it are.
    fn settled(&mut self, around: &mut Surroundings<'_>) -> Result<()> {
        // Each of them: what was read of a split that has ended is in none of the later ones.
        for record in self.retention.settled(self.settled) {
            self.settled = Some(record.epoch());
            around.figures.committed(record.epoch());
            // Those of a timeline that was left are of no interest to anybody.
            let is_ours = Some(record.attempt.generation) == self.number
                || self.loaded.restored.as_ref().is_some_and(|restored| restored.attempt == record.attempt);
            if is_ours {
                self.sources.iter_mut().try_for_each(|source| source.committed(record))?;
            }
        }
        Ok(())
    }

    fn collect(&mut self, around: &mut Surroundings<'_>) {
        let current: std::collections::BTreeSet<CommittableId> = self.retention.forgotten(&self.names);
        self.bodies.retain(|id, _| !current.contains(id));
        self.proofs.retain(|id, _| !current.contains(id));
        self.retention.collect(around.config.retained, around.catalog, around.io);
    }

    fn failure(&mut self, failure: Failure) -> Error {
        let kind = failure.kind();
        match self.reason.take() {
            Some(error) if error.kind() == kind => error,
            Some(error) => Error::new(kind, error.code(), error.what().to_owned())
                .cause(error)
                .data("the job goes back to its last checkpoint, or stops; nothing is lost"),
            None => Error::new(kind, "C008", format!("the job cannot go on: {failure:?}"))
                .data("the job goes back to its last checkpoint, or stops; nothing is lost"),
        }
    }
}

/// Asks whether a newer generation was claimed after entry `since`.
fn lead(catalog: &Arc<Catalog>, since: LedgerSeq, generation: Generation) -> Lead {
    let catalog = Arc::clone(catalog);
    Lead::new(move || match catalog.newest_after(since)? {
        Some(newest) if newest > generation => Err(fenced()),
        Some(_) | None => Ok(()),
    })
}

fn overtaken() -> Error {
    Error::new(ErrorKind::Restart, "C020", "another start of this job went on with it while this one was starting")
        .data("nothing was done; this start reads the ledger again, takes over, and goes on from the newest checkpoint")
}

fn epoch_failed(epoch: Epoch, why: &str) -> Error {
    Error::new(ErrorKind::Retry, "C010", format!("checkpoint {epoch} was given up: {why}"))
        .data("the job goes on; the next checkpoint covers the same records, nothing of this epoch is visible")
}

fn bug(what: &str) -> Error {
    Error::new(ErrorKind::Bug, "B001", what.to_owned())
        .data("the job has stopped; what was committed stays valid")
        .remedy("please report this with the ledger and the log")
}
