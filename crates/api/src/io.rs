//! The door to blocking work.
//!
//! Owns: how a task hands a closure to somebody who may block, and learns that it is done. Does not own: who that is. In
//! production it is a small pool of threads, in simulation a seeded queue in virtual time.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

/// Somebody who runs blocking closures elsewhere.
///
/// Guarantees: each closure is run at most once; closures may run in any order and at the same time; when the process stops, some
/// may never run. Implemented by the thread pool and by the simulator.
pub trait IoDoor: Send + Sync {
    /// Takes a closure to run soon. Does not block.
    fn submit(&self, work: Box<dyn FnOnce() + Send>);
}

/// A task's own handle to the door: work done wakes the task.
#[derive(Clone)]
pub struct Io {
    door: Arc<dyn IoDoor>,
    waker: Waker,
}

impl Io {
    /// A handle which wakes with `waker` whenever a piece of work is done.
    #[must_use]
    pub fn new(door: Arc<dyn IoDoor>, waker: Waker) -> Io {
        Io { door, waker }
    }

    /// Runs `work` where blocking is allowed. The caller keeps the answer and polls it; it bounds how many are under way.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Pending<T> {
        let slot = Arc::new(Mutex::new(None));
        let (result, waker) = (Arc::clone(&slot), self.waker.clone());
        self.door.submit(Box::new(move || {
            let value = work();
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
            waker.wake();
        }));
        Pending { slot }
    }

    /// What wakes the task.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        &self.waker
    }
}

/// The answer of work that may still be under way. Dropping it gives the answer up, not the work.
pub struct Pending<T> {
    slot: Arc<Mutex<Option<T>>>,
}

impl<T> Pending<T> {
    /// The answer, once, when it is there.
    pub fn poll(&mut self) -> Option<T> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<T> std::fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pending")
    }
}
