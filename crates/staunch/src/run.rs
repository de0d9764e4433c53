//! The run of a job in this process.
//!
//! Owns: the putting together of store, executor and master; the loop that drives them; the asking to stop from any thread.
//! Does not own: what the master does (staunch-engine), what is shown of it (progress).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use staunch_api::CheckpointStore;
use staunch_engine::checkpoint::{Catalog, LocalStore};
use staunch_engine::cluster::{CoordinatorMail, JobEvent, Master, MasterPhase};
use staunch_engine::job::{Plan, Settings};
use staunch_engine::runtime::{Mailbox, Parking, TemporaryDirectory, ThreadExecutor, WakeFlag, World, random_number};
use staunch_protocol::Reason;
use staunch_types::{Name, Result};

/// Threads for blocking work.
const IO_THREADS: usize = 4;
/// Time from one look of a person to the next.
const LOOK: Duration = Duration::from_millis(100);

/// Asks a running job to end, from any thread.
#[derive(Clone, Default)]
pub struct Stopper(Arc<Mutex<Asked>>);

#[derive(Default)]
struct Asked {
    inbox: Option<Mailbox<CoordinatorMail>>,
    reason: Option<Reason>,
}

impl Stopper {
    /// Asks the job to take a last checkpoint and end: with [`Reason::Stop`] everything stays as it is for a later start, with
    /// [`Reason::Drain`] event time runs to its end. A job that does not run yet ends as soon as it does.
    pub fn stop(&self, reason: Reason) {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        asked.reason = Some(reason);
        asked.ask();
    }

    fn connect(&self, inbox: Mailbox<CoordinatorMail>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).inbox = Some(inbox);
    }

    /// Tasks run, perhaps after a restart that forgot what was asked before.
    fn running(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).ask();
    }
}

impl Asked {
    fn ask(&self) {
        if let (Some(inbox), Some(reason)) = (&self.inbox, self.reason) {
            // A full inbox belongs to a job that is busy with failing; it is asked again when it runs.
            let _ = inbox.send(CoordinatorMail::Stop { reason });
        }
    }
}

/// A job's checkpoints, opened.
pub(crate) struct Opened {
    pub(crate) catalog: Arc<Catalog>,
    /// Without a directory of the user's: goes when the run does.
    _temporary: Option<TemporaryDirectory>,
}

/// Opens the place where a job's checkpoints are kept.
///
/// # Errors
/// `Invalid` when there is none and none can be made.
pub(crate) fn open(settings: &Settings, job: &Name, world: &World) -> Result<Opened> {
    let temporary = match &settings.checkpoint_directory {
        Some(_) => None,
        None => Some(TemporaryDirectory::new()?),
    };
    let base = settings.checkpoint_directory.as_deref().or(temporary.as_ref().map(TemporaryDirectory::path)).unwrap_or_else(|| "".as_ref());
    let writer = format!("{:016x}", random_number() as u64);
    let store: Arc<dyn CheckpointStore> = Arc::new(LocalStore::new(Arc::clone(&world.file_system), &base.join(job.component()), &writer));
    let catalog = if temporary.is_some() { Catalog::temporary(store, job.clone()) } else { Catalog::new(store, job.clone()) };
    Ok(Opened { catalog: Arc::new(catalog), _temporary: temporary })
}

/// The world of one process.
pub(crate) fn world() -> World {
    World::system(IO_THREADS)
}

/// Who watches a run.
pub(crate) trait Watch {
    /// Something happened.
    fn hear(&mut self, event: &JobEvent);

    /// Some time has passed.
    fn look(&mut self);
}

/// Runs a job until it ends.
///
/// # Errors
/// The error that ended it.
pub(crate) fn run<W: Watch + 'static>(
    plan: Plan,
    job: &Name,
    settings: &Settings,
    world: World,
    stopper: &Stopper,
    watch: &std::rc::Rc<std::cell::RefCell<W>>,
) -> Result<Reason> {
    let opened = open(settings, job, &world)?;
    let mut config = settings.run.clone();
    config.job = job.clone();
    let parking = Parking::new();
    let flag = WakeFlag::new(parking.signal());
    let executor = Box::new(ThreadExecutor::new(settings.workers, &world.clock, &Arc::default())?);
    let (hearing, running) = (std::rc::Rc::clone(watch), stopper.clone());
    let tell = move |event: JobEvent| {
        hearing.borrow_mut().hear(&event);
        if matches!(event, JobEvent::Running { .. }) {
            running.running();
        }
    };
    let clock = Arc::clone(&world.clock);
    let claimants = Box::new(random_number);
    let mut master = Master::new(plan, world, Arc::clone(&opened.catalog), config, executor, &flag, claimants, Box::new(tell));
    stopper.connect(master.inbox());
    loop {
        flag.lower();
        match master.run() {
            MasterPhase::Done(result) => return result,
            MasterPhase::Waiting(until) => {
                watch.borrow_mut().look();
                let look = clock.now() + LOOK;
                parking.sleep(Some(until.map_or(look, |at| at.min(look))), clock.as_ref(), &flag);
            }
        }
    }
}
