//! Doors that run blocking work in the test's own thread: at once, or when the test says so.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use crate::{Io, IoDoor};

/// Runs work at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImmediateDoor;

impl IoDoor for ImmediateDoor {
    fn submit(&self, work: Box<dyn FnOnce() + Send>) {
        work();
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// Keeps work until the test runs it, in any order.
#[derive(Clone, Default)]
pub struct HeldDoor {
    held: Arc<Mutex<VecDeque<Work>>>,
}

impl IoDoor for HeldDoor {
    fn submit(&self, work: Work) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push_back(work);
    }
}

impl HeldDoor {
    /// Pieces of work that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Runs the piece of work at a place in the queue; `false` when there is none.
    pub fn run(&self, at: usize) -> bool {
        let work = self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(at);
        work.map(|work| work()).is_some()
    }

    /// Runs all work, also what it brings up, in the order it came.
    pub fn run_all(&self) {
        while self.run(0) {}
    }

    /// Forgets all work, as a process that stops does.
    pub fn forget(&self) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

struct Asleep;

impl Wake for Asleep {
    fn wake(self: Arc<Self>) {}
}

/// A handle to a door that wakes nobody: tests poll by themselves.
#[must_use]
pub fn io(door: impl IoDoor + 'static) -> Io {
    Io::new(Arc::new(door), Waker::from(Arc::new(Asleep)))
}
