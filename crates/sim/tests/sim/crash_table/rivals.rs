//! Rows 14 to 16: an old process comes back after a new one has taken over.

use std::time::Duration;

use staunch_protocol::Reason;
use staunch_sim::job::{Shape, Start};
use staunch_sim::kernel::{Deed, Operation, Trap, When};
use staunch_sim::world::World;

use crate::support::{LONG, deep, ends, is_fenced, tail, well, world};

/// Longer than the second process needs.
const PAUSE: Duration = Duration::from_secs(90);

/// Hangs the first process at a step, lets a second one do the whole job, and wakes the first.
fn comes_back(mut world: World, trap: Trap) -> World {
    world.weather(deep());
    world.trap(trap.clone());
    let old = world.start(&Start::default());
    let hung = world.run_until(LONG, |world| world.machine().sprung() > 0);
    assert!(well(&world, hung), "the step was never reached: {trap:?}\n{}", tail(&world));
    let new = world.start(&Start::default());
    assert_eq!(ends(&mut world, new), Reason::Final);
    let answer = world.checks.finished(&world.job);
    well(&world, answer);
    let before = (world.checks.visible.files(), world.checks.ledger.entries().len());
    is_fenced(&mut world, old);
    assert_eq!((world.checks.visible.files(), world.checks.ledger.entries().len()), before, "{}", tail(&world));
    let answer = world.once_more(&Start::default());
    well(&world, answer);
    world
}

#[test]
fn row_14_an_old_coordinator_comes_back_and_is_fenced_wherever_it_stopped() {
    let hang = |when| Deed::Hang(when, PAUSE);
    for trap in [
        Trap::new(Operation::Create, "manifests/", hang(When::Before)),
        Trap::new(Operation::Rename, "manifests/", hang(When::After)),
        Trap::new(Operation::Rename, "ledger/0000000/0000000002", hang(When::Before)),
        Trap::new(Operation::Rename, "ledger/0000000/0000000002", hang(When::After)),
        Trap::new(Operation::Rename, "ledger/0000000/0000000003", hang(When::Before)),
    ] {
        comes_back(world(Shape::Split), trap);
    }
}

#[test]
fn row_14_an_old_committer_comes_back_in_the_middle_of_a_commit() {
    for operation in [Operation::Metadata, Operation::Rename] {
        for when in [When::Before, When::After] {
            for skip in 0..3 {
                comes_back(world(Shape::Split), Trap::new(operation, "/part-", Deed::Hang(when, PAUSE)).skip(skip));
            }
        }
    }
}

#[test]
fn row_15_an_old_writer_goes_on_and_nothing_of_it_becomes_visible() {
    for (operation, path) in
        [(Operation::Create, ".open"), (Operation::Append, ".open"), (Operation::Sync, ".open"), (Operation::Rename, ".prepared")]
    {
        for when in [When::Before, When::After] {
            comes_back(world(Shape::Rebalanced), Trap::new(operation, path, Deed::Hang(when, PAUSE)).skip(1));
        }
    }
}

#[test]
fn row_15_an_old_reader_goes_on_and_nothing_of_it_becomes_visible() {
    for skip in [0, 5, 12] {
        comes_back(world(Shape::Straight), Trap::new(Operation::Read, "/in/", Deed::Hang(When::After, PAUSE)).skip(skip));
    }
}

#[test]
fn row_16_an_old_collector_removes_nothing_that_a_newer_generation_needs() {
    for path in ["manifests/", "state/"] {
        let mut world = world(Shape::Counted);
        world.weather(deep());
        let trap = Trap::new(Operation::Remove, path, Deed::Hang(When::Before, Duration::from_secs(3)));
        world.trap(trap);
        let start = Start { retained: 1, interval: Duration::from_millis(1), ..Start::default() };
        let old = world.start(&start);
        let hung = world.run_until(LONG, |world| world.machine().sprung() > 0);
        assert!(well(&world, hung), "nothing was collected under {path}\n{}", tail(&world));
        // The new one is in the middle of its work when the old one goes on.
        let new = world.start(&start);
        let answer = world.finish_in(new);
        well(&world, answer);
        is_fenced(&mut world, old);
        let answer = world.once_more(&start);
        well(&world, answer);
    }
}
