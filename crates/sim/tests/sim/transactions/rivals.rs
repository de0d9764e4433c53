//! Rows 14 and 15: an old process comes back after a new one has taken over.

use std::time::Duration;

use staunch_engine::cluster::JobEvent;
use staunch_protocol::Reason;
use staunch_sim::job::{Shape, Start};
use staunch_sim::kernel::{Deed, Operation, ProcessId, Trap, When};
use staunch_sim::world::World;

use super::support::{open, topics};
use crate::support::{LONG, ends, finishes, hears, is_fenced, tail, well};

/// Longer than the second process needs.
const PAUSE: Duration = Duration::from_secs(90);

/// Hangs the first process at a step, lets a second one do the whole job, and wakes the first.
fn comes_back(shape: Shape, operation: Operation, path: &str, when: When, skip: u64) {
    let mut world = topics(shape);
    world.trap(Trap::new(operation, path, Deed::Hang(when, PAUSE)).skip(skip));
    let old = world.start(&Start::default());
    let hung = world.run_until(LONG, |world| world.machine().sprung() > 0);
    assert!(well(&world, hung), "the step was never reached: {operation:?} {when:?} {skip}\n{}", tail(&world));
    let new = world.start(&Start::default());
    assert_eq!(ends(&mut world, new), Reason::Final);
    let answer = world.checks.finished(&world.job);
    well(&world, answer);
    let before = (world.checks.topics.commits(), world.checks.ledger.entries().len());
    is_fenced(&mut world, old);
    assert_eq!((world.checks.topics.commits(), world.checks.ledger.entries().len()), before, "{}", tail(&world));
    let answer = world.once_more(&Start::default());
    well(&world, answer);
}

#[test]
fn row_14_an_old_coordinator_comes_back_and_is_fenced_wherever_it_stopped() {
    for (operation, path) in [
        (Operation::Rename, "manifests/"),
        (Operation::Rename, "ledger/0000000/0000000002"),
        (Operation::Rename, "ledger/0000000/0000000003"),
        (Operation::EndTransaction, "sim/"),
        (Operation::ListIds, "sim/"),
    ] {
        for when in [When::Before, When::After] {
            comes_back(Shape::Split, operation, path, when, 0);
        }
    }
}

#[test]
fn row_15_an_old_writer_goes_on_and_nothing_of_it_becomes_visible() {
    for operation in [Operation::TakeOver, Operation::Enroll, Operation::Produce, Operation::Describe] {
        for when in [When::Before, When::After] {
            for skip in [0, 1, 4] {
                comes_back(Shape::Rebalanced, operation, "sim/", when, skip);
            }
        }
    }
}

/// Runs the first process into a trap that hangs it; a second one until a durable epoch of it waits for its commit; then both at once.
fn meets_a_prepared_transaction(world: &mut World, trap: Trap) -> (ProcessId, ProcessId) {
    world.trap(trap);
    let old = world.start(&Start::default());
    let hung = world.run_until(LONG, |world| world.machine().sprung() > 0);
    assert!(well(world, hung), "the step was never reached\n{}", tail(world));
    let new = ProcessId(old.0 + 1);
    world.trap(Trap::new(Operation::EndTransaction, "sim/", Deed::Hang(When::Before, PAUSE)).of(new));
    assert_eq!(world.start(&Start::default()), new);
    hears(world, new, |event| matches!(event, JobEvent::EpochDurable { committables: 1.., .. }));
    let hung = world.run_until(LONG, |world| world.machine().sprung() > 1);
    assert!(well(world, hung), "{}", tail(world));
    assert!(!open(world).is_empty());
    world.machine().wake(old);
    (old, new)
}

#[test]
fn row_14_an_old_sweep_that_comes_late_leaves_prepared_transactions_of_a_newer_generation_alone() {
    for (operation, skip) in [(Operation::ListIds, 0), (Operation::Describe, 0), (Operation::Describe, 1)] {
        for when in [When::Before, When::After] {
            let mut world = topics(Shape::Straight);
            // There is something to sweep.
            let first = world.start(&Start::default());
            hears(&mut world, first, |event| matches!(event, JobEvent::EpochDurable { committables: 1.., .. }));
            world.kill(first);
            let trap = Trap::new(operation, "sim/", Deed::Hang(when, PAUSE)).of(ProcessId(2)).skip(skip);
            let (old, new) = meets_a_prepared_transaction(&mut world, trap);
            is_fenced(&mut world, old);
            let answer = world.finish_in(new);
            well(&world, answer);
            assert!(world.checks.topics.lost().is_empty());
            finishes(&mut world, &Start::default());
        }
    }
}
