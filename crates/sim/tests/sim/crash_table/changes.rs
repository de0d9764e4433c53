//! Rows 17 to 21: what people ask of a job: another parallelism, an older checkpoint, an end.

use std::time::Duration;

use staunch_engine::cluster::{JobEvent, Restore};
use staunch_format::ledger::{Body, Origin};
use staunch_protocol::Reason;
use staunch_sim::check::Timeline;
use staunch_sim::job::{Shape, Start};
use staunch_sim::kernel::{Deed, Operation, Trap, When};
use staunch_sim::world::World;
use staunch_types::Epoch;

use crate::rows::{dies_after_epochs, dies_at_each_step_of_a_stop, dies_at_each_step_of_two_writers, is_restored_twice, slow, with};
use crate::support::{dies_at, ends, finishes, hears, tail, world};

#[test]
fn row_17_prepared_output_of_vanished_tasks_is_committed_by_others() {
    for (operation, path, when) in [
        (Operation::Rename, ".prepared", When::After),
        (Operation::Rename, "/part-", When::Before),
        (Operation::Rename, "/part-", When::After),
    ] {
        for skip in 0..4 {
            let mut world = world(Shape::Split);
            dies_at(&mut world, &with((3, 3)), Trap::new(operation, path, Deed::Kill(when)).skip(skip));
            dies_at(&mut world, &with((5, 4)), Trap::new(Operation::Rename, "/part-", Deed::Kill(when)));
            finishes(&mut world, &with((2, 1)));
        }
    }
}

fn origins(world: &World) -> Vec<Origin> {
    let claims = world.checks.ledger.entries().iter().filter_map(|entry| match &entry.body {
        Body::Claimed(claimed) => Some(claimed.origin),
        Body::Sealed(_) | Body::Committed(_) | Body::Stopped(_) => None,
    });
    claims.collect()
}

#[test]
fn row_18_the_same_checkpoint_is_restored_twice_and_an_older_one_after_newer_ones_were_committed() {
    let mut world = world(Shape::Straight);
    let old = is_restored_twice(&mut world);
    let origins = origins(&world);
    assert_eq!(origins[1..3], [Origin::Epoch(old), Origin::Epoch(old)]);
    assert!(matches!(origins[3], Origin::Epoch(epoch) if epoch > old));
}

#[test]
fn row_18_a_rewind_that_dies_before_its_first_epoch_stays_a_rewind() {
    let mut world = world(Shape::Straight);
    world.checks.timeline(Timeline::Rewound);
    dies_after_epochs(&mut world, &slow(), 4);
    let old = Epoch(1);
    let id = world.start(&Start { restore: Restore::Epoch(old), ..slow() });
    hears(&mut world, id, |event| matches!(event, JobEvent::Running { .. }));
    world.kill(id);
    let id = world.start(&slow());
    hears(&mut world, id, |event| matches!(event, JobEvent::Running { .. }));
    assert_eq!(origins(&world)[1..], [Origin::Epoch(old), Origin::Epoch(old)], "{}", tail(&world));
}

#[test]
fn row_20_one_of_two_writers_has_reached_the_end_of_its_input() {
    let trap = Trap::new(Operation::Rename, ".prepared", Deed::Kill(When::After));
    let number = dies_at_each_step_of_two_writers(|| world(Shape::Rebalanced), &trap);
    assert!(number > 5, "there were only {number} prepared files");
}

#[test]
fn row_21_a_stop_ends_the_job_with_everything_committed_and_a_start_goes_on() {
    let mut world = world(Shape::Split);
    let id = world.start(&slow());
    hears(&mut world, id, |event| matches!(event, JobEvent::EpochDurable { .. }));
    world.stop(id, Reason::Stop);
    assert_eq!(ends(&mut world, id), Reason::Stop);
    let open = world.checks.ledger.sealed().values().filter(|sealed| !sealed.recorded && !sealed.committables.is_empty()).count();
    assert_eq!(open, 0, "{}", tail(&world));
    finishes(&mut world, &slow());
}

#[test]
fn row_21_a_kill_anywhere_in_a_stop_leaves_it_running_from_before_or_stopped_with_everything_committed() {
    let trap = Trap::new(Operation::Rename, "/", Deed::Kill(When::After));
    let number = dies_at_each_step_of_a_stop(|| world(Shape::Split), &trap);
    assert!(number > 3, "there were only {number} renames");
}

#[test]
fn row_21_a_job_at_the_end_of_its_input_can_still_be_stopped() {
    let mut world = world(Shape::Straight);
    let start = Start { interval: Duration::from_secs(30), ..Start::default() };
    let id = world.start(&start);
    hears(&mut world, id, |event| matches!(event, JobEvent::Running { .. }));
    world.stop(id, Reason::Stop);
    world.stop(id, Reason::Stop);
    let reason = ends(&mut world, id);
    assert!(matches!(reason, Reason::Stop | Reason::Final));
    finishes(&mut world, &start);
}
