//! Rows 17 to 21: what people ask of a job: another parallelism, an older checkpoint, an end.

use std::time::Duration;

use staunch_engine::cluster::{JobEvent, Restore};
use staunch_protocol::Reason;
use staunch_protocol::transaction::Described;
use staunch_sim::check::Timeline;
use staunch_sim::job::{Shape, Start};
use staunch_sim::kernel::{Deed, Operation, Place, ProcessId, Trap, When};

use super::support::topics;
use crate::support::{LONG, dies_at, ends, finishes, hears, tail, well};

fn with(parallelism: (u32, u32)) -> Start {
    Start { parallelism, ..Start::default() }
}

/// Small enough steps that there are several epochs before the end.
fn slow() -> Start {
    Start { interval: Duration::from_millis(1), retained: 10, ..Start::default() }
}

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
    world.checks.timeline(Timeline::Rewound);
    let id = world.start(&slow());
    let reached = world.run_until(LONG, |world| world.checks.ledger.sealed().len() >= 4);
    assert!(well(&world, reached), "{}", tail(&world));
    world.kill(id);
    let old = *world.checks.ledger.sealed().keys().next().expect("there are epochs");
    for _ in 0..2 {
        let id = world.start(&Start { restore: Restore::Epoch(old), ..slow() });
        hears(&mut world, id, |event| matches!(event, JobEvent::EpochDurable { .. }));
        world.kill(id);
    }
    let id = world.start(&slow());
    let answer = world.finish_in(id);
    well(&world, answer);
    let answer = world.checks.finished(&world.job);
    well(&world, answer);
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
    for number in 0.. {
        let mut world = topics(Shape::Rebalanced);
        world.trap(Trap::new(Operation::Describe, "sim/", Deed::Kill(When::After)).skip(number));
        let id = world.start(&with((2, 2)));
        let ended = world.run_out(id, LONG);
        well(&world, ended);
        if world.machine().sprung() == 0 {
            assert!(number > 5, "there were only {number} descriptions");
            return;
        }
        finishes(&mut world, &with((2, 2)));
    }
}

#[test]
fn row_21_a_kill_anywhere_in_a_stop_leaves_it_running_from_before_or_stopped_with_everything_committed() {
    for operation in [Operation::Describe, Operation::EndTransaction, Operation::Rename] {
        for number in 0.. {
            let mut world = topics(Shape::Split);
            let id = world.start(&slow());
            hears(&mut world, id, |event| matches!(event, JobEvent::EpochDurable { .. }));
            world.stop(id, Reason::Stop);
            world.trap(Trap::new(operation, "", Deed::Kill(When::After)).skip(number));
            let ended = world.run_out(id, LONG);
            let ended = well(&world, ended);
            if world.machine().sprung() == 0 {
                assert_eq!(ended, Some(Ok(Reason::Stop)));
                break;
            }
            let next = world.start(&slow());
            assert!(matches!(ends(&mut world, next), Reason::Stop | Reason::Final), "{}", tail(&world));
            finishes(&mut world, &slow());
        }
    }
}
