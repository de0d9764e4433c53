//! A piece of blocking work that can pause in the middle of a file operation.
//!
//! Each runs on a thread of its own, but never at the same time as anything else: the world hands its turn over and waits until it gets
//! it back. So there is one order of events, and the seed decides it.
#![allow(
    clippy::disallowed_methods,
    reason = "threads are used as coroutines, one runs at a time; nothing else pauses in the middle of a call"
)]

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use staunch_types::Tick;

/// Work as it is handed to the door.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

thread_local! {
    /// The fiber that runs on this thread.
    static CURRENT: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
}

struct Shared {
    turn: Mutex<Turn>,
    passed: Condvar,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Turn {
    Fiber,
    World(Outcome),
}

/// Where a fiber is when the world has its turn back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It goes on at this time.
    Paused(Tick),
    /// It is over.
    Over,
    /// It is over; its code panicked.
    Panicked(String),
}

/// A piece of work that has begun and is not over.
pub(crate) struct Fiber(Arc<Shared>);

impl Fiber {
    /// A fiber that begins when it is first resumed.
    pub(crate) fn new(work: Work) -> Fiber {
        let shared = Arc::new(Shared { turn: Mutex::new(Turn::World(Outcome::Over)), passed: Condvar::new() });
        let own = Arc::clone(&shared);
        let started = thread::Builder::new().name("fiber".into()).stack_size(256 * 1024).spawn(move || {
            drop(own.wait(|turn| *turn == Turn::Fiber));
            CURRENT.with(|current| *current.borrow_mut() = Some(Arc::clone(&own)));
            let outcome = run(work);
            own.give(Turn::World(outcome));
        });
        assert!(started.is_ok(), "the system refuses to start a thread");
        Fiber(shared)
    }

    /// Lets the fiber run until it pauses or is over.
    pub(crate) fn resume(&self) -> Outcome {
        self.0.give(Turn::Fiber);
        let turn = self.0.wait(|turn| matches!(turn, Turn::World(_)));
        match &*turn {
            Turn::World(outcome) => outcome.clone(),
            Turn::Fiber => Outcome::Over,
        }
    }
}

impl Shared {
    fn give(&self, turn: Turn) {
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = turn;
        self.passed.notify_all();
    }

    fn wait(&self, until: impl Fn(&Turn) -> bool) -> MutexGuard<'_, Turn> {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        while !until(&turn) {
            turn = self.passed.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
        turn
    }
}

/// Runs work to its end, whatever it does.
pub(crate) fn run(work: Work) -> Outcome {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(()) => Outcome::Over,
        Err(panic) => Outcome::Panicked(text(panic.as_ref())),
    }
}

/// What a panic says.
pub(crate) fn text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "something that is no text".into())
}

/// Whether the calling code can pause.
pub(crate) fn can_pause() -> bool {
    CURRENT.with(|current| current.borrow().is_some())
}

/// Gives the turn back to the world until a time; at once back when the caller is no fiber.
pub(crate) fn pause(until: Tick) {
    let Some(own) = CURRENT.with(|current| current.borrow().clone()) else { return };
    own.give(Turn::World(Outcome::Paused(until)));
    drop(own.wait(|turn| *turn == Turn::Fiber));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fiber_runs_only_between_resume_and_pause() {
        let steps = Arc::new(Mutex::new(Vec::new()));
        let own = Arc::clone(&steps);
        let say = move |step| own.lock().unwrap_or_else(PoisonError::into_inner).push(step);
        let fiber = Fiber::new(Box::new(move || {
            say(1);
            pause(Tick(7));
            say(2);
        }));
        let said = || steps.lock().unwrap_or_else(PoisonError::into_inner).clone();
        assert!(said().is_empty());
        assert_eq!((fiber.resume(), said()), (Outcome::Paused(Tick(7)), vec![1]));
        assert_eq!((fiber.resume(), said()), (Outcome::Over, vec![1, 2]));
    }

    #[test]
    fn a_pause_outside_of_a_fiber_does_nothing() {
        assert!(!can_pause());
        pause(Tick(1));
    }
}
