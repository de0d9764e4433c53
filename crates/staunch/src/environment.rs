//! The environment: where a program writes its job down and starts it.
//!
//! Owns: the bringing together of the program's own settings and those given from outside; what `execute` does.
//! Does not own: streams (staunch-engine), options, the run.
//!
//! Invariant: what is given by flag, variable or file wins over what the program says, whichever comes first.

use std::cell::RefCell;
use std::io::Write;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use staunch_api::{Rejected, Source, StateBackend};
use staunch_engine::cluster::JobEvent;
use staunch_engine::job::{Linked, Plan, Settings, SourceStart, Stream};
use staunch_engine::runtime::World;
use staunch_engine::state::paging::backend::Backend;
use staunch_http::{Http, Server};
use staunch_types::{Error, ErrorKind, Name, Result};

use crate::exit::{self, ExitStage};
use crate::options::{Command, Given, JobOptions};
use crate::progress::Progress;
use crate::{Stopper, check, plan, run, signals};

/// Hears what happens to a job.
pub(crate) type Tell = Box<dyn FnMut(&JobEvent)>;

/// Where a program writes its job down, and starts it.
///
/// Made by [`Environment::from_args`] or [`Environment::from_options`] it is that of a program: it shows progress on standard error, hears
/// signals, and ends the process with the exit code of what went wrong. Made by [`Environment::new`] it is embedded: it is silent and
/// returns its errors.
pub struct Environment {
    engine: staunch_engine::job::Environment,
    given: Given,
    role: Role,
    tell: Option<Tell>,
    stopper: Stopper,
    world: Option<World>,
    backend: Option<Backend>,
    http: Option<Http>,
}

/// Whose the environment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// A program's, which was told what to do.
    Program(Command),
    /// Somebody's who takes errors as values.
    Embedded,
}

/// When and where checkpoints are taken.
///
/// ```
/// use staunch::prelude::*;
///
/// let mut env = Environment::new(Default::default());
/// env.checkpoints(Checkpoints::every(secs(10)).to("/data/checkpoints").retain(5));
/// ```
#[derive(Clone, Debug)]
pub struct Checkpoints {
    interval: Duration,
    directory: Option<PathBuf>,
    retained: Option<usize>,
    timeout: Option<Duration>,
    pause_min: Option<Duration>,
    failures_tolerated: Option<u32>,
}

impl Checkpoints {
    /// From one checkpoint to the next.
    #[must_use]
    pub fn every(interval: Duration) -> Checkpoints {
        Checkpoints { interval, directory: None, retained: None, timeout: None, pause_min: None, failures_tolerated: None }
    }

    /// The directory in which they are kept; each job has a folder of its own in it. Without one, the job does not survive a crash.
    #[must_use]
    pub fn to(mut self, directory: impl Into<PathBuf>) -> Checkpoints {
        self.directory = Some(directory.into());
        self
    }

    /// How many are kept: 3 unless said otherwise.
    #[must_use]
    pub fn retain(mut self, count: usize) -> Checkpoints {
        self.retained = Some(count);
        self
    }

    /// When an unfinished one is given up: after 10 minutes unless said otherwise.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Checkpoints {
        self.timeout = Some(timeout);
        self
    }

    /// From the end of one to the next, at least.
    #[must_use]
    pub fn pause_min(mut self, pause: Duration) -> Checkpoints {
        self.pause_min = Some(pause);
        self
    }

    /// How many in a row may fail before the job starts again from the last: 3 unless said otherwise.
    #[must_use]
    pub fn failures_tolerated(mut self, count: u32) -> Checkpoints {
        self.failures_tolerated = Some(count);
        self
    }
}

impl Environment {
    /// The environment of a program, told what to do by its command line, the variables `STAUNCH_…` and the file that `--config` names;
    /// words behind `--` are the program's own. `--help` lists all options.
    ///
    /// Options that are not understood end the process with code 2 and the reason on standard error, as does `--help` with 0: whoever
    /// types them wants an answer, not a panic. So there is no error to be returned; the `Result` lets a program that grows its own
    /// checks keep its form.
    ///
    /// # Errors
    /// None.
    pub fn from_args() -> Result<Environment> {
        Ok(Environment::from_options(&JobOptions::parse(std::env::args_os())))
    }

    /// The environment of a program whose own options hold ours. Ends the process as [`Environment::from_args`] does.
    #[must_use]
    pub fn from_options(options: &JobOptions) -> Environment {
        let made = options.given().and_then(|given| {
            let mut environment = Environment::new(Settings::new());
            given.apply(&mut environment.engine.settings, None)?;
            environment.given = given;
            environment.role = Role::Program(options.command());
            Ok(environment)
        });
        made.unwrap_or_else(|error| exit::end(&error, ExitStage::Options))
    }

    /// The environment of a job inside of another program, such as a test: silent, and errors are returned.
    #[must_use]
    pub fn new(settings: Settings) -> Environment {
        let engine = staunch_engine::job::Environment::new(settings);
        let (given, stopper) = (Given::default(), Stopper::default());
        Environment { engine, given, role: Role::Embedded, tell: None, stopper, world: None, backend: None, http: None }
    }

    /// The settings; what was given from outside still wins over what is set here.
    pub fn settings(&mut self) -> &mut Settings {
        &mut self.engine.settings
    }

    /// Says when and where checkpoints are taken, unless it is said from outside.
    pub fn checkpoints(&mut self, checkpoints: Checkpoints) -> &mut Self {
        let settings = &mut self.engine.settings;
        settings.run.interval = checkpoints.interval;
        settings.checkpoint_directory = checkpoints.directory.or(settings.checkpoint_directory.take());
        settings.run.retained = checkpoints.retained.unwrap_or(settings.run.retained);
        settings.run.timeout = checkpoints.timeout.unwrap_or(settings.run.timeout);
        settings.run.pause_min = checkpoints.pause_min.unwrap_or(settings.run.pause_min);
        settings.run.failures_tolerated = checkpoints.failures_tolerated.unwrap_or(settings.run.failures_tolerated);
        self
    }

    /// Reads from a source. Input that cannot become a record stops the job.
    pub fn source<S: Source + Sync>(&self, name: &str, source: S) -> Stream<SourceStart<S>> {
        self.engine.source(name, source)
    }

    /// Reads from a source. Input that cannot become a record goes to the second stream.
    pub fn source_with_dead_letter<S: Source + Sync>(&self, name: &str, source: S) -> (Stream<SourceStart<S>>, Linked<Rejected>) {
        self.engine.source_with_dead_letter(name, source)
    }

    /// A handle to end the job with, from any thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Hears what happens to the job.
    pub fn on_event(&mut self, tell: impl FnMut(&JobEvent) + 'static) {
        self.tell = Some(Box::new(tell));
    }

    /// Keeps keyed state in a database, with what was used lately in memory; without this, all of it is in memory.
    ///
    /// A checkpoint can be restored only with the kind of backend that made it.
    ///
    /// ```ignore
    /// env.state(staunch::rocksdb::RocksDb::default().memory(4 << 30).directory("/var/lib/payments"));
    /// ```
    pub fn state(&mut self, backend: impl StateBackend + 'static) -> &mut Self {
        self.backend = Some(Backend::new(Arc::new(backend)));
        self
    }

    /// Puts another world in the place of this machine: clock, files, threads for what blocks. For tests, whose files refuse, and
    /// whose processes die at a chosen step.
    pub fn world(&mut self, world: World) -> &mut Self {
        self.world = Some(world);
        self
    }

    /// Serves the figures of the job for Prometheus, at `/metrics`, unless it is said from outside where (`--http`).
    ///
    /// ```
    /// use staunch::{Environment, Http};
    ///
    /// let mut env = Environment::new(Default::default());
    /// env.http(Http::at("127.0.0.1:9464"));
    /// ```
    pub fn http(&mut self, http: Http) -> &mut Self {
        self.http = Some(http);
        self
    }

    /// Does with the job what the program was told: runs it until it ends, prints its plan, or checks it.
    ///
    /// In a program it returns only when the job ran and ended well. An error is printed, and ends the process with its exit code:
    /// 1 failed, 3 fenced by a newer generation, 4 refused before any task ran, 5 output in doubt is provably lost. After `plan` and
    /// `check` the process ends as well, as what follows in the program relies on output that was never made.
    ///
    /// # Errors
    /// Embedded: the error that ended the job.
    pub fn execute(self, job: &str) -> Result<()> {
        let role = self.role;
        let mut stage = ExitStage::Preflight;
        let result = match role {
            Role::Embedded | Role::Program(Command::Run) => self.run(job, &mut stage),
            Role::Program(Command::Plan) => self.print_plan(job),
            Role::Program(Command::Check) => self.check(job),
        };
        match (role, result) {
            (Role::Embedded, result) => result,
            (Role::Program(_), Err(error)) => exit::end(&error, stage),
            (Role::Program(Command::Run), Ok(())) => Ok(()),
            (Role::Program(Command::Plan | Command::Check), Ok(())) => std::process::exit(0),
        }
    }

    /// The job's name, with what was given from outside laid over the settings.
    fn ready(&mut self, job: &str) -> Result<Name> {
        let name = Name::new(job).map_err(|error| {
            Error::new(ErrorKind::Invalid, "J107", error.to_string())
                .at(format!("job={job:.80?}"))
                .data("nothing was started")
                .remedy("give the job another name")
        })?;
        self.given.apply(&mut self.engine.settings, Some(&name))?;
        Ok(name)
    }

    /// The plan, checked.
    fn plan(&mut self, job: &Name) -> Result<Plan> {
        self.engine.plan().map_err(|error| error.at(format!("job={job}")))
    }

    fn run(mut self, job: &str, stage: &mut ExitStage) -> Result<()> {
        let job = self.ready(job)?;
        let plan = self.plan(&job)?;
        let _listening = match self.role {
            Role::Program(_) => Some(signals::listen(&self.stopper)?),
            Role::Embedded => None,
        };
        let world = self.take_world();
        let server = self.given.http(self.http.take()).map(|http| serve(&http, &world)).transpose()?;
        let tell = self.tell.take();
        let progress = match self.role {
            Role::Program(_) => Progress::shown(&job, &plan, &self.engine.settings, tell),
            Role::Embedded => Progress::silent(&job, &plan, tell),
        };
        progress.listens(server.as_ref().map(Server::address));
        let progress = Rc::new(RefCell::new(progress));
        let result = run::run(plan, &job, &self.engine.settings, world, &self.stopper, &progress);
        let mut progress = progress.borrow_mut();
        if progress.ran() {
            *stage = ExitStage::Running;
        }
        progress.end(&result);
        result.map(|_| ())
    }

    /// The world that was given, or this machine, with the backend that was given.
    fn take_world(&mut self) -> World {
        let mut world = self.world.take().unwrap_or_else(run::world);
        world.backend = self.backend.take().or(world.backend);
        world
    }

    fn print_plan(mut self, job: &str) -> Result<()> {
        let job = self.ready(job)?;
        let plan = self.plan(&job)?;
        let text = plan::describe(&job, &plan, &self.engine.settings);
        // A reader that has gone wants no more.
        let _ = std::io::stdout().write_all(text.as_bytes());
        Ok(())
    }

    fn check(mut self, job: &str) -> Result<()> {
        let job = self.ready(job)?;
        let plan = self.plan(&job)?;
        let world = self.world.take().unwrap_or_else(run::world);
        let http = self.given.http(self.http.take());
        let listens = http.map(|http| serve(&http, &world).map(|server| server.address()));
        check::check(&job, &plan, &self.engine.settings, &world, listens, &mut std::io::stdout())
    }
}

/// Begins to serve the figures of a world.
fn serve(http: &Http, world: &World) -> Result<Server> {
    let clock = Arc::clone(&world.clock);
    Server::start(http, world.metrics.clone(), move || clock.wall_ms())
}
