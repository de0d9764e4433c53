//! What the executors run.

use staunch_types::{Result, TaskId, Tick};

/// A task: a value that runs in slices.
///
/// Guarantees it needs: `run` is called by one thread at a time; it is called again after its flag was raised, after `Ready`, and
/// when the time of `Waiting` has come. Guarantees it gives: `run` returns within milliseconds and never blocks.
pub trait Task: Send {
    /// Which one.
    fn id(&self) -> TaskId;

    /// Does a bounded amount of work.
    ///
    /// # Errors
    /// The task is over; the kind tells what to do about the job.
    fn run(&mut self, slice: Slice) -> Result<Phase>;

    /// The operator whose code is running or ran last, for the report when it panics.
    fn running(&self) -> String;
}

/// What one call of `run` may use.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// The time at its start.
    pub now: Tick,
    /// Wall-clock milliseconds at its start, for processing-time timers.
    pub wall_ms: i64,
    /// Records it may take in.
    pub budget: usize,
}

/// What a task is doing after a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It has more to do at once.
    Ready,
    /// It waits: for its flag, or for this time.
    Waiting(Option<Tick>),
}
