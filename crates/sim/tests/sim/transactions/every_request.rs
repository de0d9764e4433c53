//! Every single request to the broker can be the last thing a process does.

use std::io;
use std::time::Duration;

use staunch_protocol::Reason;
use staunch_sim::job::{Shape, Start};
use staunch_sim::kernel::{Deed, Operation, Trap, Weather, When};

use super::support::{CHANGES, small, topics};
use crate::support::{LONG, finishes, tail, well};

fn fast() -> Start {
    Start { interval: Duration::from_millis(1), ..Start::default() }
}

#[test]
fn a_clean_run_gives_what_plain_loops_give() {
    for shape in Shape::ALL {
        let mut world = topics(shape);
        world.weather(Weather::fair());
        finishes(&mut world, &fast());
        assert!(world.checks.visible.lines() > 20, "{shape:?}");
        assert!(world.checks.topics.commits() > 1, "{shape:?}");
    }
}

/// Kills the program at the n-th request of one kind, for every n, and lets it finish then.
fn dies_everywhere(shape: Shape, deed: Deed) {
    for operation in CHANGES {
        for number in 0.. {
            let mut world = small(shape);
            world.trap(Trap::new(operation, "", deed).skip(number));
            let id = world.start(&fast());
            let ended = world.run_out(id, LONG);
            well(&world, ended);
            if world.machine().sprung() == 0 {
                assert!(operation == Operation::Fence || number > 2, "there are only {number} of {operation:?}");
                break;
            }
            finishes(&mut world, &fast());
        }
    }
}

#[test]
fn a_kill_before_any_request_that_changes_the_broker_loses_and_repeats_nothing() {
    dies_everywhere(Shape::Rebalanced, Deed::Kill(When::Before));
}

#[test]
fn a_kill_after_any_request_that_changes_the_broker_loses_and_repeats_nothing() {
    dies_everywhere(Shape::Straight, Deed::Kill(When::After));
}

/// The answer to the n-th request of one kind is lost, for every n; nobody has to start again.
fn loses_everywhere(deed: Deed) {
    for operation in CHANGES {
        for number in 0.. {
            let mut world = small(Shape::Split);
            world.trap(Trap::new(operation, "", deed).skip(number));
            let id = world.start(&fast());
            let ended = world.run_out(id, LONG);
            assert_eq!(well(&world, ended), Some(Ok(Reason::Final)), "{operation:?} {number}\n{}", tail(&world));
            if world.machine().sprung() == 0 {
                break;
            }
            finishes(&mut world, &fast());
        }
    }
}

#[test]
fn any_answer_of_the_broker_that_is_lost_loses_and_repeats_nothing() {
    loses_everywhere(Deed::LoseAnswer(io::ErrorKind::TimedOut));
}

#[test]
fn any_answer_of_the_broker_that_is_lost_after_a_while_loses_and_repeats_nothing() {
    loses_everywhere(Deed::LoseAnswerLate(Duration::from_millis(200)));
}
