//! The environment: where a program writes its job down and starts it.
//!
//! Owns: the plan while it is written, the settings of a run, the run on this machine. Does not own: the command line (staunch).

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use staunch_api::{CheckpointStore, Rejected, Source, StateBackend};
use staunch_protocol::Reason;
use staunch_types::{Error, ErrorKind, Name, Result};

use super::Plan;
use super::stream::{Linked, SourceStart, Stream, Writing};
use crate::checkpoint::{Catalog, LocalStore};
use crate::cluster::{CoordinatorMail, JobEvent, Master, MasterPhase, RunConfig};
use crate::operator::Identity;
use crate::runtime::{Mailbox, Parking, SliceTimes, ThreadExecutor, WakeFlag, World};
use crate::state::paging::backend::Backend;

/// Threads for blocking work.
const IO_THREADS: usize = 4;

/// Settings of a job on one machine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Tasks of each chain that does not say otherwise.
    pub parallelism: u32,
    /// Worker threads.
    pub workers: usize,
    /// Directory of checkpoints; each job has a folder of its own in it. `None`: a temporary one that does not outlive the run.
    pub checkpoint_directory: Option<PathBuf>,
    /// The rest; its job name is set by [`Environment::execute`].
    pub run: RunConfig,
}

impl Settings {
    /// The defaults: as many workers and tasks as cores, a checkpoint each 10 s, no directory.
    #[must_use]
    pub fn new() -> Settings {
        let cores = crate::runtime::cores();
        let job = match Name::new("job") {
            Ok(name) => name,
            Err(_) => unreachable!("a plain word is a name"),
        };
        Settings { parallelism: cores as u32, workers: cores, checkpoint_directory: None, run: RunConfig::new(job) }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}

/// Where a program writes its job down.
pub struct Environment {
    /// What the run is told.
    pub settings: Settings,
    plan: Writing,
    tell: Option<Box<dyn FnMut(JobEvent)>>,
    stopper: Stopper,
    slice_times: Arc<SliceTimes>,
    backend: Option<Backend>,
}

/// Asks a running job to end, from any thread.
#[derive(Clone, Default)]
pub struct Stopper(Arc<Mutex<StopState>>);

#[derive(Default)]
struct StopState {
    inbox: Option<Mailbox<CoordinatorMail>>,
    asked: Option<Reason>,
}

impl Stopper {
    /// Asks the job to take a last checkpoint and end: with [`Reason::Stop`] everything stays as it is for a later start, with
    /// [`Reason::Drain`] event time runs to its end. A job that does not run yet ends as soon as it does.
    pub fn stop(&self, reason: Reason) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &state.inbox {
            // A full inbox belongs to a job that is not running any more.
            Some(inbox) => drop(inbox.send(CoordinatorMail::Stop { reason })),
            None => state.asked = Some(reason),
        }
    }

    fn connect(&self, inbox: Mailbox<CoordinatorMail>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reason) = state.asked.take() {
            drop(inbox.send(CoordinatorMail::Stop { reason }));
        }
        state.inbox = Some(inbox);
    }
}

impl Environment {
    /// An empty job.
    #[must_use]
    pub fn new(settings: Settings) -> Environment {
        let plan = Writing::new(settings.run.groups);
        Environment { settings, plan, tell: None, stopper: Stopper::default(), slice_times: Arc::default(), backend: None }
    }

    /// Reads from a source. Input that cannot become a record stops the job.
    pub fn source<S: Source + Sync>(&self, name: &str, source: S) -> Stream<SourceStart<S>, Identity> {
        Stream::from_source(&self.plan, name, source, None)
    }

    /// Reads from a source. Input that cannot become a record goes to the second stream.
    pub fn source_with_dead_letter<S: Source + Sync>(&self, name: &str, source: S) -> (Stream<SourceStart<S>, Identity>, Linked<Rejected>) {
        let link = self.plan.link();
        let stream = Stream::from_source(&self.plan, name, source, Some(link));
        (stream, Stream::behind(&self.plan, link, &format!("{name}#rejected")))
    }

    /// Keeps keyed state in a database, with what was used lately in memory.
    pub fn state(&mut self, backend: impl StateBackend + 'static) {
        self.backend = Some(Backend::new(Arc::new(backend)));
    }

    /// A handle to end the job with.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// How long the slices of the job's tasks take, to be read while it runs and afterwards.
    #[must_use]
    pub fn slice_times(&self) -> Arc<SliceTimes> {
        Arc::clone(&self.slice_times)
    }

    /// Hears what happens to the job.
    pub fn on_event(&mut self, tell: impl FnMut(JobEvent) + 'static) {
        self.tell = Some(Box::new(tell));
    }

    /// The checked plan, with which the job can be described and run. The environment is empty afterwards.
    ///
    /// # Errors
    /// `Invalid` for a plan that cannot run.
    pub fn plan(&mut self) -> Result<Plan> {
        let fresh = Writing::new(self.settings.run.groups);
        let writing = std::mem::replace(&mut self.plan, fresh);
        let mut written = writing.0.borrow_mut();
        if let Some(error) = written.error.take() {
            return Err(error);
        }
        let (segments, sources, sinks) =
            (std::mem::take(&mut written.segments), std::mem::take(&mut written.sources), std::mem::take(&mut written.sinks));
        Plan::new(segments, sources, sinks, self.settings.parallelism, self.settings.run.groups.get())
    }

    /// Runs the job until it ends.
    ///
    /// # Errors
    /// The error that ended it.
    pub fn execute(mut self, job: &str) -> Result<Reason> {
        let name = Name::new(job).map_err(|error| {
            Error::new(ErrorKind::Invalid, "J005", error.to_string()).at(format!("job={job:.80?}")).data("nothing was started")
        })?;
        let plan = self.plan()?;
        let mut config = self.settings.run.clone();
        config.job = name.clone();
        let world = World { backend: self.backend.take(), ..World::system(IO_THREADS) };
        let temporary = match &self.settings.checkpoint_directory {
            Some(_) => None,
            None => Some(crate::runtime::TemporaryDirectory::new()?),
        };
        let base =
            self.settings.checkpoint_directory.clone().or_else(|| temporary.as_ref().map(|t| t.path().to_owned())).unwrap_or_default();
        let writer = format!("{:016x}", crate::runtime::random_number() as u64);
        let root = base.join(name.component());
        let store: Arc<dyn CheckpointStore> = Arc::new(LocalStore::new(Arc::clone(&world.file_system), &root, &writer));
        let catalog = Arc::new(Catalog::new(store, name));
        let parking = Parking::new();
        let flag = WakeFlag::new(parking.signal());
        let executor = Box::new(ThreadExecutor::new(self.settings.workers, &world.clock, &self.slice_times)?);
        let tell = self.tell.take().unwrap_or_else(|| Box::new(|_| {}));
        let clock = Arc::clone(&world.clock);
        let mut master = Master::new(plan, world, catalog, config, executor, &flag, Box::new(crate::runtime::random_number), tell);
        self.stopper.connect(master.inbox());
        loop {
            flag.lower();
            match master.run() {
                MasterPhase::Done(result) => return result,
                MasterPhase::Waiting(until) => parking.sleep(until, clock.as_ref(), &flag),
            }
        }
    }
}
