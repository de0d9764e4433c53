//! A process: one start of the job's program, with the real coordinator and the real tasks.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use staunch_api::Metrics;
use staunch_api::testkit::MemoryBackend;
use staunch_engine::checkpoint::{Catalog, LocalStore};
use staunch_engine::cluster::{CoordinatorMail, JobEvent, Master, RunConfig};
use staunch_engine::job::Plan;
use staunch_engine::runtime::{Mailbox, WakeFlag, World as Doors};
use staunch_engine::state::paging::backend::Backend;
use staunch_protocol::Reason;
use staunch_types::Tick;

use super::executor::{Nobody, SimExecutor, Tasks};
use crate::job::CHECKPOINTS;
use crate::kernel::{Kernel, ProcessId, Random, SimDoor, SimFiles};

/// What happened to the job in one process, as it told.
pub type Told = Rc<RefCell<Vec<JobEvent>>>;

/// See the module.
pub(super) struct Process {
    pub(super) master: Master,
    pub(super) flag: Arc<WakeFlag>,
    pub(super) wake_at: Option<Tick>,
    pub(super) held_until: Tick,
    pub(super) tasks: Tasks,
    pub(super) told: Told,
    inbox: Mailbox<CoordinatorMail>,
}

impl Process {
    /// Starts the program; with a database under its keyed state if that may take only so many bytes in memory.
    pub(super) fn start(kernel: &Arc<Kernel>, id: ProcessId, plan: Plan, config: RunConfig, object_bytes: Option<usize>) -> Process {
        let seed = {
            let mut machine = kernel.machine();
            machine.boot(id);
            machine.random.number()
        };
        let doors = Doors {
            clock: Arc::<Kernel>::clone(kernel),
            door: Arc::new(SimDoor::new(Arc::clone(kernel), id)),
            file_system: Arc::new(SimFiles::new(Arc::clone(kernel), id)),
            metrics: Metrics::default(),
            backend: object_bytes.map(|object_bytes_max| Backend::new(Arc::new(MemoryBackend { object_bytes_max }))),
        };
        let root = Path::new(CHECKPOINTS).join(config.job.component());
        let store = Arc::new(LocalStore::new(Arc::clone(&doors.file_system), &root, &id.to_string()));
        let catalog = Arc::new(Catalog::new(store, config.job.clone()));
        let tasks = Tasks::default();
        let flag = WakeFlag::new(Arc::new(Nobody));
        flag.raise();
        let mut claimants = Random::new(seed);
        let claimants = move || (u128::from(claimants.number()) << 64) | u128::from(claimants.number());
        let told = Told::default();
        let (heard, listener) = (Rc::clone(&told), Arc::clone(kernel));
        let tell = move |event: JobEvent| {
            note(&listener, id, &event);
            heard.borrow_mut().push(event);
        };
        let executor = Box::new(SimExecutor(tasks.clone()));
        let master = Master::new(plan, doors, catalog, config, executor, &flag, Box::new(claimants), Box::new(tell));
        Process { inbox: master.inbox(), master, flag, wake_at: None, held_until: Tick::default(), tasks, told }
    }

    /// Asks the job to end.
    pub(super) fn stop(&self, reason: Reason) {
        // A full inbox belongs to a coordinator that hangs: then nobody has asked.
        let _ = self.inbox.send(CoordinatorMail::Stop { reason });
    }
}

fn note(kernel: &Kernel, id: ProcessId, event: &JobEvent) {
    match event {
        JobEvent::Claimed { generation, restored, reason: _ } => {
            let from = restored.map_or_else(|| "the beginning".to_owned(), |epoch| format!("epoch {epoch}"));
            kernel.note(format_args!("{id} * claimed generation {generation}, from {from}"));
        }
        JobEvent::Swept { removed } => kernel.note(format_args!("{id} * swept {}", removed.len())),
        JobEvent::Running { tasks } => kernel.note(format_args!("{id} * running, tasks {tasks}")),
        JobEvent::EpochDurable { epoch, committables, .. } => {
            kernel.note(format_args!("{id} * durable epoch {epoch}, committables {committables}"));
        }
        JobEvent::EpochCommitted { epoch } => kernel.note(format_args!("{id} * committed epoch {epoch}")),
        JobEvent::EpochFailed { epoch, error } => {
            kernel.note(format_args!("{id} * failed epoch {epoch}: {} {}", error.code(), error.what()))
        }
        JobEvent::Restarting { error, wait } => {
            kernel.note(format_args!("{id} * restarting in {wait:?}: {} {}", error.code(), error.what()));
        }
        JobEvent::Finished { reason } => kernel.note(format_args!("{id} * finished: {reason:?}")),
    }
}
