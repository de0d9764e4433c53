//! The executor of one process: it only keeps the tasks; the world decides which runs next.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use staunch_engine::runtime::{Executor, Signal, Task, WakeFlag};
use staunch_types::{Error, TaskId, Tick};

/// The tasks of a process, shared by its executor and the world.
#[derive(Clone, Default)]
pub(super) struct Tasks(Arc<Mutex<Vec<Seated>>>);

/// A task with what its executor must know.
pub(super) struct Seated {
    pub(super) task: Box<dyn Task>,
    pub(super) flag: Arc<WakeFlag>,
    pub(super) wake_at: Option<Tick>,
    /// It gets no turn before.
    pub(super) held_until: Tick,
    pub(super) failed: Option<Box<dyn FnOnce(TaskId, Error) + Send>>,
}

impl Tasks {
    pub(super) fn all(&self) -> MutexGuard<'_, Vec<Seated>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What flags signal: nobody, as the world looks at every flag.
pub(super) struct Nobody;

impl Signal for Nobody {
    fn signal(&self) {}
}

/// See the module.
pub(super) struct SimExecutor(pub(super) Tasks);

impl Executor for SimExecutor {
    fn flag(&self, _lane: usize) -> Arc<WakeFlag> {
        WakeFlag::new(Arc::new(Nobody))
    }

    fn place(&mut self, _lane: usize, task: Box<dyn Task>, flag: Arc<WakeFlag>, failed: Box<dyn FnOnce(TaskId, Error) + Send>) {
        flag.raise();
        self.0.all().push(Seated { task, flag, wake_at: None, held_until: Tick::default(), failed: Some(failed) });
    }

    fn clear(&mut self) {
        // Dropped outside of the lock: what tasks let go of may be anything.
        let tasks = std::mem::take(&mut *self.0.all());
        drop(tasks);
    }
}
