//! Every single change of the disk can be the last thing a process does.

use std::time::Duration;

use staunch_protocol::Reason;
use staunch_sim::job::{JobSpec, Shape, Start};
use staunch_sim::kernel::{Deed, Operation, Trap, Weather, When};
use staunch_sim::world::World;

use crate::support::{LONG, well};

const CHANGES: [Operation; 5] = [Operation::Create, Operation::Append, Operation::Sync, Operation::Rename, Operation::Remove];

fn small(shape: Shape) -> World {
    let mut job = JobSpec::new(shape, 2, 20);
    job.split_bytes = 300;
    job.chunk_bytes = 150;
    if shape == Shape::Straight {
        job.roll_every = Some(Duration::from_millis(3));
    }
    World::new(11, job)
}

/// Kills the program at the n-th change of one kind, for every n, and lets it finish then.
fn dies_everywhere(shape: Shape, deed: Deed) {
    let start = Start { interval: Duration::from_millis(1), ..Start::default() };
    for operation in CHANGES {
        for number in 0.. {
            let mut world = small(shape);
            world.trap(Trap::new(operation, "/", deed).skip(number));
            let id = world.start(&start);
            let ended = world.run_out(id, LONG);
            well(&world, ended);
            if world.machine().sprung() == 0 {
                assert!(number > 2, "there are only {number} of {operation:?}");
                break;
            }
            let answer = world.finish(&start);
            well(&world, answer);
        }
    }
}

#[test]
fn a_kill_before_any_change_of_the_disk_loses_and_repeats_nothing() {
    dies_everywhere(Shape::Rebalanced, Deed::Kill(When::Before));
}

#[test]
fn a_kill_after_any_change_of_the_disk_loses_and_repeats_nothing() {
    dies_everywhere(Shape::Straight, Deed::Kill(When::After));
}

#[test]
fn a_power_loss_after_any_change_of_the_disk_loses_and_repeats_nothing() {
    dies_everywhere(Shape::Split, Deed::PowerLoss(When::After));
}

#[test]
fn any_lost_answer_loses_and_repeats_nothing() {
    let start = Start { interval: Duration::from_millis(1), ..Start::default() };
    for operation in [Operation::Create, Operation::Sync, Operation::Rename, Operation::Remove] {
        for number in 0.. {
            let mut world = small(Shape::Split);
            // What a start tries first is refused with a reason, not tried again; it is over after the first claim.
            world.trap(Trap::new(operation, "/", Deed::LoseAnswer(std::io::ErrorKind::TimedOut)).skip(number));
            let id = world.start(&start);
            let ended = world.run_out(id, LONG);
            let ended = well(&world, ended);
            if world.machine().sprung() == 0 {
                assert!(number > 2, "there are only {number} of {operation:?}");
                break;
            }
            match ended {
                Some(Ok(Reason::Final)) => {}
                Some(Err(error)) if world.checks.ledger.entries().is_empty() => {
                    assert!(["C011", "F051"].contains(&error.code()), "{error}")
                }
                other => panic!("{operation:?} {number}: {other:?}\n{}", crate::support::tail(&world)),
            }
            let answer = world.finish(&start);
            well(&world, answer);
        }
    }
}

#[test]
fn a_clean_run_gives_what_plain_loops_give() {
    for shape in Shape::ALL {
        let mut world = World::new(1, JobSpec::new(shape, 3, 100));
        world.weather(Weather::fair());
        let answer = world.finish(&Start::default());
        well(&world, answer);
        assert!(world.checks.visible.lines() > 20, "{shape:?}");
    }
}
