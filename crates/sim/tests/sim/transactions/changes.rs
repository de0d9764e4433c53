//! Rows 17 to 21: what people ask of a job: another parallelism, an older checkpoint, an end.

use std::time::Duration;

use staunch_protocol::transaction::Described;
use staunch_sim::job::Shape;
use staunch_sim::kernel::{Deed, Operation, Place, ProcessId, Trap, When};

use super::support::topics;
use crate::rows::{dies_at_each_step_of_a_stop, dies_at_each_step_of_two_writers, is_restored_twice, slow, with};
use crate::support::{dies_at, finishes, well};

#[test]
fn row_17_transactions_of_vanished_tasks_are_committed_by_others() {
    for (operation, when) in
        [(Operation::Describe, When::After), (Operation::EndTransaction, When::Before), (Operation::EndTransaction, When::After)]
    {
        for skip in 0..4 {
            let mut world = topics(Shape::Split);
            dies_at(&mut world, &with((3, 3)), Trap::new(operation, "sim/", Deed::Kill(when)).skip(skip));
            dies_at(&mut world, &with((5, 4)), Trap::new(Operation::EndTransaction, "sim/", Deed::Kill(when)));
            finishes(&mut world, &with((2, 1)));
        }
    }
}

#[test]
fn row_18_the_same_checkpoint_is_restored_twice_and_an_older_one_after_newer_ones_were_committed() {
    let mut world = topics(Shape::Straight);
    is_restored_twice(&mut world);
    let answer = world.once_more(&slow());
    well(&world, answer);
}

#[test]
fn row_19_transactions_of_other_jobs_with_similar_names_are_left_alone() {
    let mut world = topics(Shape::Straight);
    let others = ["sim2/out/t0-0", "sim-out/t0-0", "si/m/t0-0"];
    let place = Place { topic: "sim.out".into(), partition: 9 };
    let (hour, nobody) = (Duration::from_secs(3_600), ProcessId(99));
    let held: Vec<Described> = others
        .map(|id| {
            let mut machine = world.machine();
            let machine = &mut *machine;
            let producer = machine.broker.take_over(id, None, hour, nobody, machine.now, &mut machine.random).expect("nobody has it");
            machine.broker.enroll(id, producer, &place, machine.now).expect("it is theirs");
            machine.broker.describe(id)
        })
        .into();
    for skip in 0..3 {
        dies_at(&mut world, &slow(), Trap::new(Operation::EndTransaction, "sim/", Deed::Kill(When::After)).skip(skip));
    }
    finishes(&mut world, &slow());
    assert_eq!(others.map(|id| world.machine().broker.describe(id)).to_vec(), held);
}

#[test]
fn row_20_one_of_two_writers_has_reached_the_end_of_its_input() {
    let trap = Trap::new(Operation::Describe, "sim/", Deed::Kill(When::After));
    let number = dies_at_each_step_of_two_writers(|| topics(Shape::Rebalanced), &trap);
    assert!(number > 5, "there were only {number} descriptions");
}

#[test]
fn row_21_a_kill_anywhere_in_a_stop_leaves_it_running_from_before_or_stopped_with_everything_committed() {
    for operation in [Operation::Describe, Operation::EndTransaction, Operation::Rename] {
        dies_at_each_step_of_a_stop(|| topics(Shape::Split), &Trap::new(operation, "", Deed::Kill(When::After)));
    }
}
