//! Rows 1 to 7: before an epoch is durable.

use std::time::Duration;

use staunch_engine::cluster::JobEvent;
use staunch_sim::job::{Shape, Start};
use staunch_sim::kernel::{Deed, Operation, Trap, When};

use super::support::{open, topics};
use crate::rows::{dies_with_the_barrier_partly_through, gives_an_epoch_up, with};
use crate::support::{dies_at, finishes, hears, tail};

/// The ledger's slot of the first seal.
const SEAL: &str = "ledger/0000000/0000000002";

#[test]
fn row_1_what_a_dead_generation_left_open_is_aborted_before_a_writer_starts() {
    for skip in [0, 3, 20] {
        let mut world = topics(Shape::Straight);
        let start = Start { interval: Duration::from_secs(5), ..Start::default() };
        dies_at(&mut world, &start, Trap::new(Operation::Produce, "", Deed::Kill(When::After)).skip(skip));
        assert!(world.checks.ledger.sealed().is_empty(), "an epoch was triggered\n{}", tail(&world));
        assert!(!open(&world).is_empty());
        let second = world.start(&start);
        hears(&mut world, second, |event| matches!(event, JobEvent::Running { .. }));
        assert_eq!(open(&world), Vec::<String>::new());
        world.kill(second);
        finishes(&mut world, &start);
    }
}

#[test]
fn row_2_a_kill_while_the_barrier_has_passed_one_task_of_two() {
    let mut world = topics(Shape::Rebalanced);
    dies_with_the_barrier_partly_through(&mut world, |world| !open(world).is_empty());
    finishes(&mut world, &with((2, 2)));
}

#[test]
fn row_2_an_epoch_that_is_given_up_is_committed_with_the_next_one() {
    let mut world = topics(Shape::Rebalanced);
    gives_an_epoch_up(&mut world);
    finishes(&mut world, &with((2, 2)));
}

#[test]
fn row_3_a_kill_while_state_is_on_its_way_to_the_store() {
    for operation in [Operation::Create, Operation::Rename] {
        for skip in [0, 3, 6] {
            let mut world = topics(Shape::Counted);
            dies_at(&mut world, &Start::default(), Trap::new(operation, "/state/", Deed::Kill(When::Before)).skip(skip));
            finishes(&mut world, &Start::default());
        }
    }
}

#[test]
fn row_4_a_kill_between_the_records_and_the_word_that_they_are_prepared() {
    for (operation, path) in [(Operation::Produce, "sim/"), (Operation::Enroll, "sim/"), (Operation::Describe, "sim/")] {
        for skip in [0, 1, 5, 11] {
            let mut world = topics(Shape::Split);
            dies_at(&mut world, &Start::default(), Trap::new(operation, path, Deed::Kill(When::Before)).skip(skip));
            finishes(&mut world, &Start::default());
        }
    }
}

#[test]
fn row_5_a_transaction_that_is_prepared_and_named_by_no_epoch_is_aborted() {
    for skip in 0..8 {
        let mut world = topics(Shape::Split);
        dies_at(&mut world, &Start::default(), Trap::new(Operation::Describe, "sim/", Deed::Kill(When::After)).skip(skip));
        let durable = world.checks.ledger.sealed().len();
        let second = world.start(&Start::default());
        hears(&mut world, second, |event| matches!(event, JobEvent::Running { .. }));
        assert_eq!(open(&world), Vec::<String>::new(), "durable epochs were {durable}\n{}", tail(&world));
        world.kill(second);
        finishes(&mut world, &Start::default());
    }
}

#[test]
fn row_6_all_have_acknowledged_and_the_manifest_is_not_written() {
    for trap in [
        Trap::new(Operation::Create, "manifests/", Deed::Kill(When::Before)),
        Trap::new(Operation::Rename, "manifests/", Deed::Kill(When::After)),
        Trap::new(Operation::Rename, SEAL, Deed::Kill(When::Before)),
        Trap::new(Operation::Rename, "manifests/", Deed::PowerLoss(When::Before)),
    ] {
        let mut world = topics(Shape::Rebalanced);
        dies_at(&mut world, &Start::default(), trap);
        assert_eq!((world.checks.ledger.sealed().len(), world.checks.topics.commits()), (0, 0));
        finishes(&mut world, &Start::default());
    }
}

#[test]
fn row_7_the_seal_is_written_and_the_writer_dies_before_it_knows() {
    for deed in [Deed::Kill(When::After), Deed::PowerLoss(When::After)] {
        let mut world = topics(Shape::Rebalanced);
        dies_at(&mut world, &Start::default(), Trap::new(Operation::Rename, SEAL, deed));
        assert_eq!(world.checks.ledger.sealed().len(), 1);
        finishes(&mut world, &Start::default());
    }
}
