//! Rows 1 to 5: before an epoch is complete.

use std::time::Duration;

use staunch_engine::cluster::JobEvent;
use staunch_sim::job::{Shape, Start};
use staunch_sim::kernel::{Deed, Operation, Trap, When};
use staunch_types::Epoch;

use crate::rows::{dies_with_the_barrier_partly_through, gives_an_epoch_up, with};
use crate::support::{dies_at, finishes, hears, hidden_of, tail, well, world};

/// Rolls files often, so that output is hidden on the disk before any barrier.
fn rolling(shape: Shape) -> staunch_sim::world::World {
    let mut world = world(shape);
    let mut job = (*world.job).clone();
    job.roll_bytes = Some(150);
    world.job = std::rc::Rc::new(job);
    world
}

#[test]
fn row_1_what_a_dead_generation_left_open_is_gone_before_a_writer_starts() {
    let mut world = rolling(Shape::Straight);
    let start = Start { interval: Duration::from_secs(5), ..Start::default() };
    dies_at(&mut world, &start, Trap::new(Operation::Rename, ".prepared", Deed::Kill(When::After)).skip(3));
    assert!(world.checks.ledger.sealed().is_empty(), "an epoch was triggered\n{}", tail(&world));
    assert!(hidden_of(&world, 1).len() >= 4);
    let second = world.start(&start);
    hears(&mut world, second, |event| matches!(event, JobEvent::Running { .. }));
    assert_eq!(hidden_of(&world, 1), Vec::<String>::new());
    world.kill(second);
    finishes(&mut world, &start);
}

#[test]
fn row_2_a_kill_while_the_barrier_has_passed_one_task_of_two() {
    let mut world = world(Shape::Rebalanced);
    dies_with_the_barrier_partly_through(&mut world, |world| !hidden_of(world, 1).is_empty());
    finishes(&mut world, &with((2, 2)));
}

#[test]
fn row_2_an_epoch_that_is_given_up_is_committed_with_the_next_one_and_late_words_about_it_are_ignored() {
    gives_an_epoch_up(&mut world(Shape::Rebalanced));
}

#[test]
fn row_3_a_kill_while_state_is_on_its_way_to_the_store() {
    for shape in [Shape::Counted, Shape::Windowed, Shape::Sessions] {
        for operation in [Operation::Create, Operation::Append, Operation::Sync, Operation::Rename] {
            for skip in [0, 3, 6] {
                let mut world = world(shape);
                dies_at(&mut world, &Start::default(), Trap::new(operation, "/state/", Deed::Kill(When::Before)).skip(skip));
                let named = world.checks.ledger.sealed().len();
                finishes(&mut world, &Start::default());
                let unfinished = world.machine().disk.under("/checkpoints").filter(|path| path.ends_with(".unfinished")).count();
                assert_eq!(unfinished, 0, "half-written objects are left, epochs {named}\n{}", tail(&world));
            }
        }
    }
}

#[test]
fn row_3_a_store_that_refuses_state_for_a_while_only_delays_epochs() {
    let mut world = world(Shape::Counted);
    world.trap(Trap::new(Operation::Sync, "/state/", Deed::Refuse(std::io::ErrorKind::Other)).skip(2).times(3));
    let id = world.start(&Start { failures_tolerated: 5, ..Start::default() });
    hears(&mut world, id, |event| matches!(event, JobEvent::EpochFailed { .. }));
    let answer = world.finish_in(id);
    well(&world, answer);
    finishes(&mut world, &Start::default());
}

#[test]
fn row_4_a_kill_between_the_flush_and_the_prepared_name() {
    for trap in [
        Trap::new(Operation::Sync, ".open", Deed::Kill(When::Before)),
        Trap::new(Operation::Sync, ".open", Deed::Kill(When::After)),
        Trap::new(Operation::Rename, ".prepared", Deed::Kill(When::Before)),
    ] {
        for skip in 0..3 {
            let mut world = world(Shape::Split);
            dies_at(&mut world, &Start::default(), trap.clone().skip(skip));
            finishes(&mut world, &Start::default());
        }
    }
}

#[test]
fn row_5_a_kill_between_the_prepared_name_and_the_word_to_the_coordinator() {
    for skip in 0..4 {
        let mut world = world(Shape::Split);
        dies_at(&mut world, &Start::default(), Trap::new(Operation::Rename, ".prepared", Deed::Kill(When::After)).skip(skip));
        let second = world.start(&Start::default());
        hears(&mut world, second, |event| matches!(event, JobEvent::Running { .. }));
        let named: Vec<Epoch> = world.checks.ledger.sealed().keys().copied().collect();
        let kept = world.checks.carried(&world.machine().disk, &world.job);
        let left: Vec<String> = hidden_of(&world, 1).into_iter().filter(|path| !kept.contains(path)).collect();
        assert!(left.is_empty(), "prepared output that no epoch of {named:?} names is there: {left:?}");
        world.kill(second);
        finishes(&mut world, &Start::default());
    }
}
