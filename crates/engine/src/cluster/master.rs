//! The life of a job over its generations: read the ledger, run a generation, decide what follows its failure.
//!
//! Owns: the driving of the failover machine, preflight, the preparation of a generation. Does not own: what happens inside one.

use std::collections::BTreeMap;
use std::sync::Arc;

use staunch_api::{Io, Kept, Pending, SourceContext, fenced};
use staunch_protocol::commit::{self, LostPolicy};
use staunch_protocol::coordinator::{self, Coordinator};
use staunch_protocol::failover::{self, Failover};
use staunch_protocol::ledger::{Claimant, Limits};
use staunch_protocol::{Reason, checkpoint};
use staunch_types::{Error, ErrorKind, Generation, Name, Result, Tick};

use super::generation::{End, RunningGeneration, Surroundings};
use super::sinks::Committers;
use super::sources::{SourceDriver, unfinished};
use super::tasks::task_ids;
use super::{CoordinatorMail, JobEvent, Restore, RunConfig};
use crate::checkpoint::{Catalog, CheckpointRecord, Loaded, SinkNames};
use crate::job::{Head, Plan};
use crate::observe::JobFigures;
use crate::runtime::{Executor, Mailbox, WakeFlag, World};
use crate::sink::sink_context;
use crate::source::EnumeratorDyn;

/// Messages from tasks that may wait.
const INBOX_MAX: usize = 65_536;
/// Committables handled at once, and failures of one that are retried.
const COMMITS_IN_FLIGHT_MAX: u32 = 64;
const COMMIT_RETRIES_MAX: u32 = 8;
/// Tries to find out whether a failure is only that of a process that was overtaken.
const CONFIRMATIONS_MAX: u32 = 5;
/// Durable epochs whose commit may be outstanding.
const UNCOMMITTED_MAX: u32 = 4;

/// A job that runs, in slices like a task.
pub struct Master {
    plan: Plan,
    world: World,
    catalog: Arc<Catalog>,
    config: RunConfig,
    executor: Box<dyn Executor>,
    io: Io,
    inbox: Mailbox<CoordinatorMail>,
    tell: Box<dyn FnMut(JobEvent)>,
    failover: Failover,
    failover_effects: Vec<failover::Effect>,
    phase: Phase,
    claimants: Box<dyn FnMut() -> u128>,
    checked: bool,
    /// The newest generation that this process has claimed, and who it said it was when it claimed last.
    claimed: Option<Generation>,
    claimant: Option<Claimant>,
    /// What to start from next.
    restore: Restore,
    /// The end that somebody asked for and that has not come yet.
    asked: Option<Reason>,
    last_error: Option<Error>,
    stopped: Option<failover::StopCause>,
    figures: JobFigures,
}

enum Phase {
    Preparing(Pending<Result<Prepared>>),
    Running(Box<RunningGeneration>),
    /// The job must stop, unless that is only because somebody else has taken over.
    Confirming(Pending<Result<Option<Claim>>>, Error, u32),
    Waiting,
    Over,
}

/// The newest claim of a ledger.
type Claim = (Generation, Claimant);

/// What is made where blocking is allowed, before a generation begins.
struct Prepared {
    loaded: Loaded,
    enumerators: BTreeMap<Name, Box<dyn EnumeratorDyn>>,
}

/// What a slice of the master came to.
pub enum MasterPhase {
    /// It waits: for its flag, or for this time.
    Waiting(Option<Tick>),
    /// The job has ended.
    Done(Result<Reason>),
}

impl Master {
    /// A job about to start. `claimants` gives numbers that no other claimant has; `flag` is the master's own.
    #[expect(clippy::too_many_arguments, reason = "a job is made of as many parts, and each comes from another place")]
    #[must_use]
    pub fn new(
        plan: Plan,
        world: World,
        catalog: Arc<Catalog>,
        config: RunConfig,
        executor: Box<dyn Executor>,
        flag: &Arc<WakeFlag>,
        claimants: Box<dyn FnMut() -> u128>,
        tell: Box<dyn FnMut(JobEvent)>,
    ) -> Master {
        let io = Io::new(Arc::clone(&world.door), flag.waker());
        let inbox = Mailbox::new(INBOX_MAX, Arc::clone(flag));
        let failover = Failover::new(config.restarts);
        let figures = JobFigures::new(&world.metrics, &config.job, plan.sinks.values().map(|sink| (sink.name.clone(), sink.term)));
        let mut master = Master {
            plan,
            world,
            catalog,
            claimed: None,
            claimant: None,
            restore: config.restore,
            asked: None,
            config,
            executor,
            io,
            inbox,
            tell,
            failover,
            failover_effects: Vec::new(),
            phase: Phase::Over,
            claimants,
            checked: false,
            last_error: None,
            stopped: None,
            figures,
        };
        master.phase = master.prepare();
        master
    }

    /// Where the job can be asked to stop.
    #[must_use]
    pub fn inbox(&self) -> Mailbox<CoordinatorMail> {
        self.inbox.clone()
    }

    /// Does what there is to do.
    pub fn run(&mut self) -> MasterPhase {
        loop {
            let now = self.world.clock.now();
            match std::mem::replace(&mut self.phase, Phase::Over) {
                Phase::Over => return MasterPhase::Waiting(None),
                Phase::Preparing(mut pending) => match pending.poll() {
                    None => {
                        self.phase = Phase::Preparing(pending);
                        return MasterPhase::Waiting(None);
                    }
                    Some(Ok(prepared)) => match self.begin(prepared) {
                        Ok(generation) => self.phase = Phase::Running(Box::new(generation)),
                        Err(error) => self.failed(now, error),
                    },
                    Some(Err(error)) => self.failed(now, error),
                },
                Phase::Running(mut generation) => {
                    let end = generation.poll(&mut self.around());
                    self.asked = generation.asked();
                    if let Some(number) = generation.number() {
                        // From now on the ledger says what to go on from: what the start was told holds once.
                        self.restore = Restore::Latest;
                        self.claimed = Some(number);
                    }
                    for event in generation.progress() {
                        self.failover_step(now, event);
                    }
                    match end {
                        None => {
                            let deadline = generation.deadline();
                            self.phase = Phase::Running(generation);
                            return MasterPhase::Waiting(deadline);
                        }
                        Some(End::Finished(reason)) => {
                            self.executor.clear();
                            (self.tell)(JobEvent::Finished { reason });
                            return MasterPhase::Done(Ok(reason));
                        }
                        Some(End::Failed(error)) => self.ended_in(now, error),
                    }
                }
                Phase::Confirming(mut pending, error, tries) => match pending.poll() {
                    None => {
                        self.phase = Phase::Confirming(pending, error, tries);
                        return MasterPhase::Waiting(None);
                    }
                    Some(Ok(newest)) if self.is_overtaken(newest) => self.failed(now, fenced()),
                    Some(Err(_)) if tries < CONFIRMATIONS_MAX => self.confirm(error, tries + 1),
                    // Whether something is wrong or only somebody else was faster is not known: the next start finds out.
                    Some(Err(unanswered)) if error.kind() != ErrorKind::Bug => {
                        self.failed(now, unanswered.at(format!("after error[{}]: {}", error.code(), error.what())));
                    }
                    Some(Ok(_) | Err(_)) => self.failed(now, error),
                },
                Phase::Waiting => {
                    self.phase = Phase::Waiting;
                    if self.failover.deadline().is_none_or(|at| at > now) {
                        return MasterPhase::Waiting(self.failover.deadline());
                    }
                    self.failover_step(now, failover::Event::TimePassed);
                }
            }
            if let Some(error) = self.stop_error() {
                return MasterPhase::Done(Err(error));
            }
        }
    }
}

impl Master {
    fn around(&mut self) -> Surroundings<'_> {
        Surroundings {
            plan: &self.plan,
            world: &self.world,
            catalog: &self.catalog,
            config: &self.config,
            restore: self.restore,
            io: &self.io,
            inbox: &self.inbox,
            executor: self.executor.as_mut(),
            tell: &mut self.tell,
            figures: &self.figures,
        }
    }

    /// Reads the ledger and does what else may block.
    fn prepare(&mut self) -> Phase {
        let (catalog, restore, check) = (Arc::clone(&self.catalog), self.restore, !self.checked);
        let tag = (self.claimants)();
        let names: Vec<(Name, &'static str)> = self.plan.sinks.values().map(|s| (s.name.clone(), s.kind)).collect();
        let mut checks = Vec::new();
        for sink in self.plan.sinks.values() {
            let context = sink_context(&self.config, &self.world, self.catalog.store(), &sink.name);
            checks.push((Arc::clone(&sink.check), context));
        }
        let mut makers = Vec::new();
        for chain in &self.plan.chains {
            if let Head::Source(name) = &self.plan.segments[chain.root].head {
                let file_system = Arc::clone(&self.world.file_system);
                let metrics = self.world.metrics.with("job", self.config.job.to_string()).with("source", name.to_string());
                let context = SourceContext { name: name.clone(), parallelism: chain.parallelism, file_system, metrics };
                makers.push((Arc::clone(&self.plan.sources[name].enumerator), context));
            }
        }
        let (figures, clock) = (self.figures.clone(), Arc::clone(&self.world.clock));
        Phase::Preparing(self.io.run(move || {
            if check {
                catalog.probe(tag)?;
            }
            let loaded = catalog.load(restore, &SinkNames::new(names))?;
            // Before the outside is asked for anything: it may be away, and what is in doubt is so all the same.
            figures.found(&loaded, clock.now(), clock.wall_ms());
            for (check, mut context) in checks.into_iter().filter(|_| check) {
                (context.ledger, context.generation) = (loaded.ledger, loaded.facts.generation);
                check(&context).map_err(|e| e.at(format!("sink={}", context.sink)))?;
            }
            let mut enumerators = BTreeMap::new();
            for (make, context) in makers {
                let state = loaded.restored.as_ref().and_then(|r| r.sources.get(&context.name)).and_then(|s| s.state.as_deref());
                let enumerator = make(&context, state).map_err(|e| e.at(format!("source={}", context.name)))?;
                enumerators.insert(context.name, enumerator);
            }
            Ok(Prepared { loaded, enumerators })
        }))
    }

    fn begin(&mut self, prepared: Prepared) -> Result<RunningGeneration> {
        let Prepared { loaded, mut enumerators } = prepared;
        self.checked = true;
        // What failed may have failed because somebody else has taken over: then this process does not take the job back.
        if self.is_overtaken(loaded.claimant.map(|claimant| (loaded.facts.generation, claimant))) {
            return Err(fenced());
        }
        if let Some(record) = &loaded.restored {
            self.fits(record)?;
        }
        let names = loaded.names.clone();
        self.has_sinks_for(&loaded)?;
        let mut sources = Vec::new();
        for (number, chain) in self.plan.chains.iter().enumerate() {
            let Head::Source(name) = &self.plan.segments[chain.root].head else { continue };
            let Some(enumerator) = enumerators.remove(name) else { continue };
            let restored = loaded.restored.as_ref();
            let record = restored.and_then(|r| r.sources.get(name));
            let unfinished = restored.map_or_else(|| Ok(Vec::new()), |r| unfinished(r, name))?;
            sources.push(SourceDriver::new(&self.plan.sources[name], number as u32, chain.parallelism, record, unfinished, enumerator));
        }
        let (tasks, readers) = task_ids(&self.plan);
        let policy = |name: &Name| {
            if self.config.accept_lost.contains(name) {
                LostPolicy::Accept
            } else if self.plan.sinks.get(name).is_some_and(|sink| sink.kept == Kept::Copy) {
                LostPolicy::Resend
            } else {
                LostPolicy::Fail
            }
        };
        let config = coordinator::Config {
            ledger: Limits::default(),
            checkpoint: checkpoint::Config {
                tasks,
                sources: readers,
                interval: self.config.interval,
                pause_min: self.config.pause_min,
                timeout: self.config.timeout,
                failures_tolerated: self.config.failures_tolerated,
                concurrent_max: 1,
                uncommitted_max: UNCOMMITTED_MAX,
            },
            commit: commit::Config {
                sinks: self.plan.sinks.keys().map(|n| (names.id(n), policy(n))).collect(),
                retries_max: COMMIT_RETRIES_MAX,
                backoff_first: std::time::Duration::from_millis(100),
                backoff_max: std::time::Duration::from_secs(10),
                in_flight_max: COMMITS_IN_FLIGHT_MAX,
            },
        };
        let claimant = Claimant((self.claimants)());
        self.claimant = Some(claimant);
        let coordinator = Coordinator::recover(loaded.facts.clone(), loaded.origin, claimant, config);
        let asked = self.asked;
        let mut around = self.around();
        let mut generation = RunningGeneration::begin(coordinator, names, loaded, Committers::default(), sources, &mut around);
        if let Some(reason) = asked {
            generation.request(reason, &mut around);
        }
        Ok(generation)
    }

    /// Whether each sink with output in doubt is in this plan. One of which all output is committed may have left it.
    fn has_sinks_for(&self, loaded: &Loaded) -> Result<()> {
        let mut uncommitted = loaded.uncommitted.values().flat_map(|record| &record.committables).map(|committable| &committable.sink);
        let Some(sink) = uncommitted.find(|sink| !self.plan.sinks.contains_key(*sink)) else { return Ok(()) };
        Err(Error::new(
            ErrorKind::Invalid,
            "J007",
            format!("the checkpoint has uncommitted output of a sink \"{sink}\", which the job no longer has"),
        )
        .data("nothing was started; the output stays prepared")
        .remedy("start the job once with the sink in it, so that the output is committed, and remove it then"))
    }

    /// Whether a checkpoint can be restored into this plan.
    fn fits(&self, record: &CheckpointRecord) -> Result<()> {
        let place = format!("checkpoint epoch={} job={}", record.epoch(), record.job);
        if record.groups != self.config.groups {
            let what = format!("the checkpoint has {} key groups, the job {}", record.groups.get(), self.config.groups.get());
            return Err(Error::new(ErrorKind::Invalid, "J008", what)
                .at(place)
                .data("nothing was started")
                .remedy("keep the number of key groups: it is fixed for a job's life"));
        }
        let known: std::collections::BTreeSet<&Name> = self.plan.segments.iter().flat_map(|s| &s.operators).map(|o| &o.name).collect();
        for (name, parts) in &record.operators {
            let keeps = parts.values().any(|p| !p.states.is_empty() || p.inline.values().any(|b| !b.is_empty()));
            if keeps && !known.contains(name) && !self.config.allow_lost_state.contains(name) {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    "J009",
                    format!("the checkpoint has state of an operator \"{name}\", which the job no longer has"),
                )
                .at(place)
                .data("nothing was started")
                .remedy(format!("give the operator its name back, or drop its state with `--allow-lost-state {name}`")));
            }
        }
        Ok(())
    }

    /// Whether somebody else has claimed the job since this process did.
    fn is_overtaken(&self, newest: Option<Claim>) -> bool {
        newest.is_some_and(|(generation, claimant)| self.claimed.is_some_and(|own| generation > own) && self.claimant != Some(claimant))
    }

    /// The generation has failed. To one that was overtaken the world looks wrong: others have swept its files and removed its checkpoints.
    fn ended_in(&mut self, now: Tick, error: Error) {
        match error.kind() {
            ErrorKind::Invalid | ErrorKind::Corrupt | ErrorKind::Lost | ErrorKind::Bug if self.claimed.is_some() => {
                self.executor.clear();
                self.confirm(error, 1);
            }
            ErrorKind::Retry
            | ErrorKind::Restart
            | ErrorKind::Fenced
            | ErrorKind::Invalid
            | ErrorKind::Corrupt
            | ErrorKind::Lost
            | ErrorKind::Bug => {
                self.failed(now, error);
            }
        }
    }

    fn confirm(&mut self, error: Error, tries: u32) {
        let catalog = Arc::clone(&self.catalog);
        self.phase = Phase::Confirming(self.io.run(move || catalog.newest_claim()), error, tries);
    }

    fn failed(&mut self, now: Tick, error: Error) {
        let kind = error.kind();
        self.last_error = Some(error);
        self.failover_step(now, failover::Event::Failed { kind });
    }

    fn failover_step(&mut self, now: Tick, event: failover::Event) {
        self.failover.step(now, event, &mut self.failover_effects);
        for effect in std::mem::take(&mut self.failover_effects) {
            match effect {
                failover::Effect::CancelAll => {
                    self.executor.clear();
                    // What the tasks of the dead generation still said is of no interest to the next one; what people asked is.
                    while let Some(mail) = self.inbox.receive() {
                        if let CoordinatorMail::Stop { reason } = mail
                            && reason.ends_job()
                        {
                            self.asked = Some(reason);
                        }
                    }
                    self.phase = Phase::Waiting;
                    self.figures.running(0);
                    // Without a deadline the job stops for good.
                    if let (Some(at), Some(error)) = (self.failover.deadline(), self.last_error.clone()) {
                        self.figures.restarting();
                        (self.tell)(JobEvent::Restarting { error, wait: at.since(now) });
                    }
                }
                failover::Effect::Restart { number: _ } => self.phase = self.prepare(),
                failover::Effect::StopJob { cause } => {
                    self.executor.clear();
                    self.stopped = Some(cause);
                }
            }
        }
    }

    /// The error that ends the job, if it ends in one.
    fn stop_error(&mut self) -> Option<Error> {
        let cause = self.stopped.take()?;
        let error = self.last_error.take()?;
        Some(match cause {
            failover::StopCause::Kind(_) => error,
            failover::StopCause::TooManyFailures(kind) => Error::new(
                kind,
                "J010",
                format!("the job failed too often without completing a checkpoint; the last failure: {}", error.what()),
            )
            .cause(error)
            .data("what was committed stays valid; the job can be started again and goes on from its last checkpoint")
            .remedy("correct the cause of the last failure"),
        })
    }
}
