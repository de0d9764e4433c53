//! A world in which a process dies, halts or is refused at a chosen step, or reads slowly.
//!
//! Owns: the naming of steps, the scripts that say what goes wrong at which, the file system and the sink that do so.
//! Does not own: what the job does there; without a script it is the operating system.

mod step;
mod fault;
mod throttle;
mod files;
mod sink;
mod pace;

pub use fault::{Action, HOLDS, Script};
pub use files::FaultyFiles;
pub use pace::PacedSource;
pub use sink::FaultySink;
pub use step::{Object, Operation, Step};
pub use throttle::Throttle;

use std::sync::Arc;

use staunch_engine::runtime::World;

/// Threads for blocking work: more than readers that wait for their turn, so that checkpoints do not wait behind them.
const IO_THREADS: usize = 32;

/// The real world, but for the script and the throttle.
#[must_use]
pub fn faulty(script: Arc<Script>, throttle: Option<Throttle>) -> World {
    let mut world = World::system(IO_THREADS);
    world.file_system = Arc::new(FaultyFiles::new(Arc::clone(&world.file_system), script, throttle));
    world
}
