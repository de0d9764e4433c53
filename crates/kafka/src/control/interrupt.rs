//! Waiting that can be ended from another thread.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Ends the waiting of every client that holds a clone of it, now and later.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    interrupted: Mutex<bool>,
    changed: Condvar,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    Through,
    Interrupted,
}

impl Interrupt {
    /// Ends all waiting. Requests that are under way still run into their time limits.
    pub fn interrupt(&self) {
        *self.0.interrupted.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
    }

    /// Waits, unless interrupted before or meanwhile.
    pub(super) fn wait(&self, time: Duration) -> Waited {
        let interrupted = self.0.interrupted.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.changed.wait_timeout_while(interrupted, time, |interrupted| !*interrupted);
        let (interrupted, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *interrupted { Waited::Interrupted } else { Waited::Through }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_client_waits_no_more() {
        let interrupt = Interrupt::default();
        assert_eq!(interrupt.wait(Duration::from_millis(1)), Waited::Through);
        interrupt.clone().interrupt();
        // Would end the test by its time limit if it waited.
        assert_eq!(interrupt.wait(Duration::from_secs(3600)), Waited::Interrupted);
    }
}
