//! The door to the world: time, threads, files and blocking work are reached through here and nowhere else.
//!
//! Owns: what a task is and how it is run in slices; the production executor, the pool for blocking work, the production file
//! system and clock. Does not own: what tasks do.
//!
//! Invariants:
//! 1. A task is run by one thread at a time, and never blocks it.
//! 2. After `Executor::clear` returns, no task of before runs or is alive.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "this is the door through which the rest goes")]

mod task;
mod wake;
mod mailbox;
mod clock;
mod slice_times;
mod executor;
mod io_pool;
mod file_system;
mod file_writer;
mod machine;

pub use clock::{Clock, SystemClock};
pub use executor::{Executor, Parking, ThreadExecutor};
pub use file_system::SystemFiles;
pub use io_pool::IoPool;
pub use machine::{TemporaryDirectory, cores, random_number};
pub use mailbox::{Mailbox, MailboxFull};
pub use slice_times::SliceTimes;
pub use task::{Phase, Slice, Task};
pub use wake::{Signal, WakeFlag};

use std::sync::Arc;

use staunch_api::{FileSystem, IoDoor, Metrics};

use crate::state::paging::backend::Backend;

/// The world as one job sees it.
#[derive(Clone)]
pub struct World {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Blocking work.
    pub door: Arc<dyn IoDoor>,
    /// Files.
    pub file_system: Arc<dyn FileSystem>,
    /// Figures.
    pub metrics: Metrics,
    /// What lies under keyed state; without it all of it is in memory.
    pub backend: Option<Backend>,
}

impl World {
    /// The real one, with `io_threads` threads for blocking work.
    #[must_use]
    pub fn system(io_threads: usize) -> World {
        World {
            clock: Arc::new(SystemClock::new()),
            door: Arc::new(IoPool::new(io_threads)),
            file_system: Arc::new(SystemFiles),
            metrics: Metrics::default(),
            backend: None,
        }
    }
}
