//! What scenarios share.

use std::time::Duration;

use staunch_engine::cluster::JobEvent;
use staunch_protocol::Reason;
use staunch_sim::check::Violation;
use staunch_sim::job::{JobSpec, Shape, Start};
use staunch_sim::kernel::{Deed, ProcessId, Trap, Weather};
use staunch_sim::world::World;
use staunch_types::Error;

/// Long enough for anything that is to happen at all.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// Fair weather in which every piece of work can pause in the middle, as traps that hang a process need it.
pub(crate) fn deep() -> Weather {
    Weather { deep: 10_000, ..Weather::fair() }
}

/// A world with a small job.
pub(crate) fn world(shape: Shape) -> World {
    world_with(shape, |_| {})
}

/// A world with a small job in which something is otherwise.
pub(crate) fn world_with(shape: Shape, change: impl FnOnce(&mut JobSpec)) -> World {
    let mut job = JobSpec::new(shape, 4, 120);
    job.split_bytes = 500;
    job.chunk_bytes = 120;
    change(&mut job);
    let world = World::new(7, job);
    world.weather(deep());
    world
}

/// The value, or the end of the history and what was not well.
#[track_caller]
pub(crate) fn well<T>(world: &World, answer: Result<T, Violation>) -> T {
    answer.unwrap_or_else(|violation| panic!("{}\n{violation}", tail(world)))
}

/// The end of the history and the ledger.
pub(crate) fn tail(world: &World) -> String {
    format!("{}\n{}", world.machine().history.tail(80), world.checks.ledger.text())
}

/// Starts the program and lets it run into a trap that kills it.
#[track_caller]
pub(crate) fn dies_at(world: &mut World, start: &Start, trap: Trap) -> ProcessId {
    assert!(matches!(trap.deed, Deed::Kill(_) | Deed::PowerLoss(_)), "the trap kills nobody");
    let before = world.machine().sprung();
    world.trap(trap);
    let id = world.start(start);
    let ended = world.run_out(id, LONG);
    let ended = well(world, ended);
    assert!(world.machine().sprung() > before, "the step was never reached: {ended:?}\n{}", tail(world));
    assert!(world.alive().all(|other| other != id), "{id} is alive\n{}", tail(world));
    id
}

/// Starts the program; it must end with an error.
#[track_caller]
pub(crate) fn ends_in_error(world: &mut World, start: &Start) -> Error {
    let id = world.start(start);
    let ended = world.run_out(id, LONG);
    match well(world, ended) {
        Some(Err(error)) => error,
        other => panic!("{id} should have ended with an error, and came to {other:?}\n{}", tail(world)),
    }
}

/// Runs until the job has told something in a process.
#[track_caller]
pub(crate) fn hears(world: &mut World, id: ProcessId, event: impl Fn(&JobEvent) -> bool) {
    let reached = world.run_until(LONG, |world| world.told(id).iter().any(&event));
    assert!(well(world, reached), "{id} never told\n{}", tail(world));
}

/// Brings the job to its end, and checks everything.
#[track_caller]
pub(crate) fn finishes(world: &mut World, start: &Start) {
    let answer = world.finish(start);
    well(world, answer);
}

/// A process must end fenced.
#[track_caller]
pub(crate) fn is_fenced(world: &mut World, id: ProcessId) {
    let ended = world.run_out(id, LONG);
    match well(world, ended) {
        Some(Err(error)) if error.kind() == staunch_types::ErrorKind::Fenced => {}
        other => panic!("{id} should be fenced, and came to {other:?}\n{}", tail(world)),
    }
}

/// How the job ended in a process that runs out within time.
#[track_caller]
pub(crate) fn ends(world: &mut World, id: ProcessId) -> Reason {
    let ended = world.run_out(id, LONG);
    match well(world, ended) {
        Some(Ok(reason)) => reason,
        other => panic!("{id} should have ended, and came to {other:?}\n{}", tail(world)),
    }
}

/// Hidden files of a generation in the output.
pub(crate) fn hidden_of(world: &World, generation: u64) -> Vec<String> {
    let mark = format!("+g{generation}-");
    world.machine().disk.under("/out").filter(|path| path.contains(&mark)).map(str::to_owned).collect()
}
