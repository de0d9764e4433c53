//! A broker that forgets markers: a decision counts as done, and partitions have its transaction open still (KAFKA-20734).

use std::io;
use std::time::Duration;

use staunch_protocol::Reason;
use staunch_sim::job::{Shape, Start};
use staunch_sim::kernel::{Deed, Operation, Trap, When};
use staunch_sim::world::World;

use super::support::{small, topics};
use crate::support::{LONG, dies_at, ends, finishes, tail, well};

/// The requests of a repair.
const REPAIR: [Operation; 2] = [Operation::AskMarkers, Operation::WriteMarker];

fn forgetful(world: World) -> World {
    world.machine().broker.settings.markers_forgotten = 10_000;
    world
}

/// The first transactions that were decided have no markers, the job is dead, and the broker forgets no more.
fn left_unmarked(world: World) -> World {
    let mut world = forgetful(world);
    dies_at(&mut world, &Start::default(), Trap::new(Operation::EndTransaction, "", Deed::Kill(When::After)).skip(1));
    world.machine().broker.settings.markers_forgotten = 0;
    assert!(world.checks.topics.commits() > 0);
    world
}

#[test]
fn a_job_whose_broker_forgets_every_marker_writes_them_and_comes_to_its_end() {
    for shape in [Shape::Straight, Shape::Split] {
        let mut world = forgetful(topics(shape));
        world.trap(Trap::new(Operation::WriteMarker, "", Deed::Note));
        let id = world.start(&Start { failures_tolerated: 999, ..Start::default() });
        assert_eq!(ends(&mut world, id), Reason::Final, "{}", tail(&world));
        assert!(world.machine().sprung() > 0, "no marker was written");
        finishes(&mut world, &Start::default());
    }
}

#[test]
fn row_10_markers_that_were_forgotten_while_the_job_was_away_are_written_by_the_next_one() {
    for shape in [Shape::Straight, Shape::Split] {
        let mut world = left_unmarked(topics(shape));
        world.trap(Trap::new(Operation::WriteMarker, "", Deed::Note));
        finishes(&mut world, &Start::default());
        assert!(world.machine().sprung() > 1, "no marker was written");
    }
}

#[test]
fn row_13_a_kill_or_a_lost_answer_at_any_request_that_mends_markers_changes_nothing() {
    let late = Deed::LoseAnswerLate(Duration::from_millis(200));
    for operation in REPAIR {
        for deed in [Deed::Kill(When::Before), Deed::Kill(When::After), Deed::LoseAnswer(io::ErrorKind::TimedOut), late] {
            for number in 0..12 {
                let mut world = left_unmarked(small(Shape::Split));
                let before = world.machine().sprung();
                world.trap(Trap::new(operation, "", deed).skip(number));
                let id = world.start(&Start::default());
                let ended = world.run_out(id, LONG);
                well(&world, ended);
                assert!(number > 1 || world.machine().sprung() > before, "nothing is mended: {operation:?} {number}\n{}", tail(&world));
                finishes(&mut world, &Start::default());
            }
        }
    }
}
