//! How a sleeping task is told that there is something to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

/// Wakes whoever runs the tasks. Implemented by a worker thread's parker, by the coordinator's, and by the simulator.
pub trait Signal: Send + Sync {
    /// Some flag of yours was raised.
    fn signal(&self);
}

/// A task's flag: raised by anyone, lowered by its executor before it runs the task.
pub struct WakeFlag {
    raised: AtomicBool,
    signal: Arc<dyn Signal>,
}

impl WakeFlag {
    /// A lowered flag.
    #[must_use]
    pub fn new(signal: Arc<dyn Signal>) -> Arc<WakeFlag> {
        Arc::new(WakeFlag { raised: AtomicBool::new(false), signal })
    }

    /// Raises the flag; signals when it was low.
    pub fn raise(&self) {
        // SeqCst orders "message in the queue" before "flag seen low": the reader lowers the flag first and looks at its queues after.
        if !self.raised.swap(true, Ordering::SeqCst) {
            self.signal.signal();
        }
    }

    /// Lowers the flag; whether it was raised.
    pub fn lower(&self) -> bool {
        self.raised.load(Ordering::Relaxed) && self.raised.swap(false, Ordering::SeqCst)
    }

    /// Whether it is raised.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::SeqCst)
    }

    /// The flag as a standard waker.
    #[must_use]
    pub fn waker(self: &Arc<WakeFlag>) -> Waker {
        Waker::from(Arc::clone(self))
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.raise();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.raise();
    }
}
