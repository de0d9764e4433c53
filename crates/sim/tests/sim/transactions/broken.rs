//! What the simulator is for: a driver that breaks one rule is found out.

use std::io;
use std::time::Duration;

use staunch_sim::check::Violation;
use staunch_sim::job::{JobSpec, Shape, Start};
use staunch_sim::kernel::{Deed, Operation, ProcessId, Trap, When};
use staunch_sim::sink::BrokenDriver;
use staunch_sim::world::World;

use super::support::{TIMEOUT, and_forgotten, away_for_long, topics_with};
use crate::support::LONG;

fn broken(rule: Option<BrokenDriver>, ring: u32) -> World {
    topics_with(Shape::Straight, |_, settings| {
        settings.broken = rule;
        settings.ring = ring;
    })
}

/// Starts the program and lets it run until it ends.
fn runs(world: &mut World) -> Result<(), Violation> {
    let id = world.start(&Start::default());
    world.run_out(id, LONG).map(drop)
}

/// A rule is broken in some worlds: at least one sees it; and none does when it is kept.
fn is_found_out(rule: BrokenDriver, check: &str, run: impl Fn(Option<BrokenDriver>, u64) -> Result<(), Violation>) {
    let mut found = Vec::new();
    for number in 0..12 {
        assert_eq!(run(None, number), Ok(()), "the rule is kept");
        found.extend(run(Some(rule), number).err());
    }
    assert!(found.iter().any(|violation| violation.check == check), "{rule:?} was not found out: {found:?}");
}

#[test]
fn a_writer_that_does_not_wait_for_acknowledgements() {
    is_found_out(BrokenDriver::PreparesUnacknowledged, "E2", |rule, number| {
        let mut world = broken(rule, 5);
        world.trap(Trap::new(Operation::Rename, "ledger/", Deed::Kill(When::After)).skip(number));
        runs(&mut world)?;
        world.finish(&Start::default())
    });
}

#[test]
fn a_writer_that_leaves_no_mark() {
    is_found_out(BrokenDriver::WritesNoMark, "E7", |rule, number| {
        let mut world = topics_with(Shape::Straight, |job, settings| {
            job.journal = true;
            settings.broken = rule;
            settings.timeout = TIMEOUT;
        });
        world.trap(Trap::new(Operation::EndTransaction, "", Deed::Kill(When::After)).skip(number % 3));
        runs(&mut world)?;
        and_forgotten(world).finish(&Start::default())
    });
}

#[test]
fn a_committer_that_does_not_look_when_a_transaction_began() {
    is_found_out(BrokenDriver::CommitsUnseen, "E1", |rule, number| {
        // With one id the next transaction of the same producer begins as soon as the last one is committed.
        let mut world = broken(rule, 1);
        // The commit is done and not recorded for a while.
        let refused = Deed::Refuse(io::ErrorKind::Other);
        world.trap(Trap::new(Operation::Create, "ledger/0000000/0000000003", refused).times(6));
        world.trap(Trap::new(Operation::Produce, "", Deed::Kill(When::After)).skip(40 + 3 * number));
        runs(&mut world)?;
        world.finish(&Start::default())
    });
}

/// The broker is slow with its markers, so the ring has come round when a commit is decided whose answer was lost.
#[test]
fn a_committer_that_repeats_a_commit_without_a_look_whether_it_is_done() {
    is_found_out(BrokenDriver::RepeatsUnseen, "E1", |rule, number| {
        let mut world = topics_with(Shape::Straight, |job, settings| {
            // So much that it lasts until then.
            *job = JobSpec { chunk_bytes: 64, ..JobSpec::new(Shape::Straight, 4, 1_000) };
            settings.broken = rule;
            settings.ring = 1;
        });
        world.machine().broker.settings.marker = (Duration::from_millis(50), Duration::from_millis(150));
        world.trap(Trap::new(Operation::EndTransaction, "", Deed::LoseAnswer(io::ErrorKind::TimedOut)).skip(number).times(3));
        let id = world.start(&Start { timeout: Duration::from_millis(300), failures_tolerated: 99, ..Start::default() });
        world.run_out(id, LONG)?;
        world.kill(id);
        world.finish(&Start::default())
    });
}

#[test]
fn a_committer_that_writes_again_without_a_look_for_the_mark() {
    is_found_out(BrokenDriver::ResendsUnseen, "E7", |rule, number| {
        let mut world = away_for_long(true, rule);
        let before = world.machine().sprung();
        let hang = |id| Trap::new(Operation::TakeOver, "again-", Deed::Hang(When::Before, LONG)).of(id).skip(number % 2);
        let (old, new) = (ProcessId(2), ProcessId(3));
        world.trap(hang(old));
        world.trap(hang(new));
        // Both have found it lost, one after the other.
        world.start(&Start::default());
        world.run_until(Duration::from_secs(9), |world| world.machine().sprung() > before)?;
        world.start(&Start::default());
        world.run_until(Duration::from_secs(9), |world| world.machine().sprung() > before + 1)?;
        world.machine().wake(old);
        world.run_out(old, Duration::from_secs(9))?;
        world.machine().wake(new);
        world.run_out(new, LONG)?;
        world.kill(old);
        world.kill(new);
        world.finish(&Start::default())
    });
}

/// Some markers are forgotten: not always those of all partitions.
fn forgetful(rule: Option<BrokenDriver>, ring: u32, number: u64) -> World {
    let world = broken(rule, ring);
    world.machine().broker.settings.markers_forgotten = 1_000 + 500 * number as u32;
    world
}

#[test]
fn a_committer_that_takes_what_the_coordinator_calls_committed_for_visible() {
    is_found_out(BrokenDriver::CommitsUnconfirmed, "E2", |rule, number| {
        let mut world = forgetful(rule, 5, number);
        let id = world.start(&Start { failures_tolerated: 999, ..Start::default() });
        world.run_out(id, LONG)?;
        world.kill(id);
        world.finish(&Start { failures_tolerated: 999, ..Start::default() })
    });
}

#[test]
fn a_writer_that_uses_an_id_again_whose_markers_are_missing() {
    is_found_out(BrokenDriver::ReusesUnconfirmed, "E7", |rule, number| {
        let mut world = forgetful(rule, 1, number);
        let id = world.start(&Start { failures_tolerated: 999, ..Start::default() });
        world.run_out(id, LONG)?;
        world.kill(id);
        world.finish(&Start { failures_tolerated: 999, ..Start::default() })
    });
}

#[test]
fn a_sweep_that_also_takes_what_checkpoints_name() {
    is_found_out(BrokenDriver::SweepsAll, "E5", |rule, number| {
        let mut world = topics_with(Shape::Straight, |job, settings| {
            job.journal = true;
            settings.broken = rule;
        });
        world.trap(Trap::new(Operation::EndTransaction, "", Deed::Refuse(io::ErrorKind::Other)).times(u64::MAX));
        let id = world.start(&Start::default());
        world.run_until(Duration::from_secs(20), |world| world.checks.ledger.sealed().len() as u64 >= 3 + number % 2)?;
        world.kill(id);
        world.machine().clear_traps();
        // Of the oldest durable epoch nothing is left.
        world.oldest_times_out();
        world.finish(&Start::default())
    });
}
