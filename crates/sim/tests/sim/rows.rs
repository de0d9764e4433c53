//! Rows of the crash table that are the same for output in files and in topics.
//!
//! Owns: what happens to a job, step by step. Does not own: the world, and what is to be found in its output at a step.

use std::time::Duration;

use staunch_engine::cluster::{JobEvent, Restore};
use staunch_protocol::Reason;
use staunch_sim::check::Timeline;
use staunch_sim::job::Start;
use staunch_sim::kernel::{ProcessId, Trap};
use staunch_sim::world::World;
use staunch_types::{Epoch, TaskId};

use crate::support::{LONG, ends, finishes, hears, tail, well};

/// One of two tasks, which lets barriers wait.
const SLOW_TASK: TaskId = TaskId { chain: 1, index: 1 };

pub(crate) fn with(parallelism: (u32, u32)) -> Start {
    Start { parallelism, ..Start::default() }
}

/// Small enough steps that there are several epochs before the end.
pub(crate) fn slow() -> Start {
    Start { interval: Duration::from_millis(1), retained: 10, ..Start::default() }
}

/// Starts the program, and lets it make an epoch durable.
#[track_caller]
fn durable_in(world: &mut World, start: &Start) -> ProcessId {
    let id = world.start(start);
    hears(world, id, |event| matches!(event, JobEvent::EpochDurable { .. }));
    id
}

/// Row 2: one of two tasks is held until the other one's output is there; then all is killed.
#[track_caller]
pub(crate) fn dies_with_the_barrier_partly_through(world: &mut World, is_there: impl Fn(&World) -> bool) {
    let id = durable_in(world, &with((2, 2)));
    world.hold_task(id, SLOW_TASK, Duration::from_secs(60));
    let before = world.checks.ledger.entries().len();
    let partly = world.run_until(Duration::from_secs(3), is_there);
    assert!(well(world, partly), "{}", tail(world));
    world.kill(id);
    assert!(world.checks.ledger.entries().len() <= before + 1, "only a commit may have been recorded\n{}", tail(world));
}

/// Row 2: an epoch takes too long and is given up; the job goes on to its end.
#[track_caller]
pub(crate) fn gives_an_epoch_up(world: &mut World) {
    let start = Start { timeout: Duration::from_millis(300), ..with((2, 2)) };
    let id = durable_in(world, &start);
    world.hold_task(id, SLOW_TASK, Duration::from_millis(700));
    hears(world, id, |event| matches!(event, JobEvent::EpochFailed { .. }));
    has_finished(world, id);
}

/// The job comes to its end in this process, and all is checked.
#[track_caller]
fn has_finished(world: &mut World, id: ProcessId) {
    let answer = world.finish_in(id);
    well(world, answer);
    let answer = world.checks.finished(&world.job);
    well(world, answer);
}

/// Starts the program, and kills it when so many more epochs are durable.
#[track_caller]
pub(crate) fn dies_after_epochs(world: &mut World, start: &Start, epochs: usize) {
    let id = world.start(start);
    let durable = |world: &World| world.checks.ledger.sealed().len();
    let before = durable(world);
    let reached = world.run_until(LONG, |world| durable(world) >= before + epochs);
    assert!(well(world, reached), "{}", tail(world));
    world.kill(id);
}

/// Row 18: the first of several epochs is restored twice; then the job comes to its end. Gives that epoch.
#[track_caller]
pub(crate) fn is_restored_twice(world: &mut World) -> Epoch {
    world.checks.timeline(Timeline::Rewound);
    dies_after_epochs(world, &slow(), 4);
    let old = *world.checks.ledger.sealed().keys().next().expect("there are epochs");
    for _ in 0..2 {
        let id = durable_in(world, &Start { restore: Restore::Epoch(old), ..slow() });
        world.kill(id);
    }
    let id = world.start(&slow());
    has_finished(world, id);
    old
}

/// Row 20: a trap that springs at one writer or the other, at its end too. Gives how often it can spring.
#[track_caller]
pub(crate) fn dies_at_each_step_of_two_writers(world: impl Fn() -> World, trap: &Trap) -> u64 {
    for number in 0.. {
        let mut world = world();
        world.trap(trap.clone().skip(number));
        let id = world.start(&with((2, 2)));
        let ended = world.run_out(id, LONG);
        well(&world, ended);
        if world.machine().sprung() == 0 {
            return number;
        }
        finishes(&mut world, &with((2, 2)));
    }
    unreachable!("a trap springs without end")
}

/// Row 21: a trap that springs anywhere in a stop. Gives how often it can spring.
#[track_caller]
pub(crate) fn dies_at_each_step_of_a_stop(world: impl Fn() -> World, trap: &Trap) -> u64 {
    for number in 0.. {
        let mut world = world();
        let id = durable_in(&mut world, &slow());
        world.stop(id, Reason::Stop);
        world.trap(trap.clone().skip(number));
        let ended = world.run_out(id, LONG);
        let ended = well(&world, ended);
        if world.machine().sprung() == 0 {
            assert_eq!(ended, Some(Ok(Reason::Stop)));
            return number;
        }
        // Only what was stopped ends at once; everything else reads on to the end.
        let next = world.start(&slow());
        assert!(matches!(ends(&mut world, next), Reason::Stop | Reason::Final), "{}", tail(&world));
        finishes(&mut world, &slow());
    }
    unreachable!("a trap springs without end")
}
