//! Rows 8 to 13: a durable epoch on its way to be visible.

use std::collections::BTreeSet;
use std::io;

use staunch_engine::cluster::JobEvent;
use staunch_format::ledger::Outcome;
use staunch_protocol::Reason;
use staunch_sim::job::{Shape, Start, name};
use staunch_sim::kernel::{Deed, Operation, Trap, When};
use staunch_sim::world::World;
use staunch_types::ErrorKind;

use super::support::{CHANGES, TIMEOUT, and_forgotten, away_for_long, open, topics, topics_with};
use crate::support::{LONG, dies_at, ends, ends_in_error, finishes, hears, tail, well};

#[test]
fn row_8_a_durable_epoch_of_which_nothing_is_committed() {
    for deed in [Deed::Kill(When::Before), Deed::PowerLoss(When::Before)] {
        let mut world = topics(Shape::Split);
        dies_at(&mut world, &Start::default(), Trap::new(Operation::EndTransaction, "", deed));
        assert_eq!(world.checks.topics.commits(), 0);
        finishes(&mut world, &Start::default());
    }
}

#[test]
fn row_9_some_transactions_and_some_sinks_are_committed_and_others_not() {
    for skip in 1..6 {
        for deed in [Deed::Kill(When::Before), Deed::PowerLoss(When::After)] {
            let mut world = topics(Shape::Split);
            dies_at(&mut world, &Start::default(), Trap::new(Operation::EndTransaction, "", deed).skip(skip));
            finishes(&mut world, &Start::default());
        }
    }
    for sink in ["sim/even/", "sim/odd/"] {
        let mut world = topics(Shape::Split);
        dies_at(&mut world, &Start::default(), Trap::new(Operation::EndTransaction, sink, Deed::Kill(When::Before)));
        finishes(&mut world, &Start::default());
    }
}

#[test]
fn row_10_a_commit_is_done_and_its_answer_is_lost() {
    for skip in 0..4 {
        let mut world = topics(Shape::Split);
        world.trap(Trap::new(Operation::EndTransaction, "", Deed::LoseAnswer(io::ErrorKind::TimedOut)).skip(skip).times(2));
        let id = world.start(&Start::default());
        assert_eq!(ends(&mut world, id), Reason::Final);
        assert_eq!(world.checks.ledger.generation().0, 1, "no restart was needed\n{}", tail(&world));
        finishes(&mut world, &Start::default());

        let mut world = topics(Shape::Split);
        dies_at(&mut world, &Start::default(), Trap::new(Operation::EndTransaction, "", Deed::Kill(When::After)).skip(skip));
        finishes(&mut world, &Start::default());
    }
}

fn outcomes(world: &World, like: impl Fn(&Outcome) -> bool) -> usize {
    world.checks.ledger.sealed().values().flat_map(|sealed| &sealed.outcomes).filter(|outcome| like(outcome)).count()
}

#[test]
fn row_11_a_transaction_that_timed_out_stops_the_job_which_names_it() {
    for forgotten in [false, true] {
        let mut world = away_for_long(false, None);
        if forgotten {
            world = and_forgotten(world);
        }
        for _ in 0..2 {
            let error = ends_in_error(&mut world, &Start::default());
            assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
            assert!(error.to_string().contains("start_ms="), "{error}");
        }
        assert!(!world.checks.topics.lost().is_empty());
    }
}

#[test]
fn row_11_a_loss_that_a_person_accepts_is_recorded_and_the_rest_is_whole() {
    for forgotten in [false, true] {
        let mut world = away_for_long(false, None);
        if forgotten {
            world = and_forgotten(world);
        }
        let start = Start { accept_lost: BTreeSet::from([name("even"), name("odd")]), ..Start::default() };
        finishes(&mut world, &start);
        assert_eq!(outcomes(&world, |outcome| matches!(outcome, Outcome::AcceptedLost { .. })), world.checks.topics.lost().len());
    }
}

#[test]
fn row_11_lost_output_is_written_again_from_the_journal_however_long_the_job_was_away() {
    for forgotten in [false, true] {
        let mut world = away_for_long(true, None);
        if forgotten {
            world = and_forgotten(world);
        }
        finishes(&mut world, &Start::default());
        let resent = outcomes(&world, |outcome| matches!(outcome, Outcome::Resent { .. }));
        assert_eq!(resent, world.checks.topics.lost().len(), "{}", tail(&world));
        assert!(resent > 0);
    }
}

#[test]
fn row_11_a_kill_at_any_request_while_lost_output_is_written_again_changes_nothing() {
    for operation in CHANGES {
        for deed in [Deed::Kill(When::Before), Deed::Kill(When::After), Deed::LoseAnswer(io::ErrorKind::TimedOut)] {
            for number in 0..4 {
                let mut world = away_for_long(true, None);
                let before = world.machine().sprung();
                let path = if operation == Operation::Fence { "" } else { "again-" };
                world.trap(Trap::new(operation, path, deed).skip(number));
                let id = world.start(&Start::default());
                let ended = world.run_out(id, LONG);
                well(&world, ended);
                assert!(number > 0 || world.machine().sprung() > before, "nothing is written again: {operation:?}");
                finishes(&mut world, &Start::default());
            }
        }
    }
}

#[test]
fn row_11_a_commit_that_is_forgotten_by_the_broker_is_known_by_its_mark() {
    for skip in 0..4 {
        let mut world = topics_with(Shape::Split, |_, settings| settings.timeout = TIMEOUT);
        dies_at(&mut world, &Start::default(), Trap::new(Operation::EndTransaction, "", Deed::Kill(When::After)).skip(skip));
        let (sink, committed) = (world.checks.topics.commits(), world.checks.visible.lines());
        assert!(sink > 0 && committed > 0);
        let mut world = and_forgotten(world);
        let accept = Start { accept_lost: BTreeSet::from([name("even"), name("odd")]), ..Start::default() };
        finishes(&mut world, &accept);
        let lost = outcomes(&world, |outcome| matches!(outcome, Outcome::AcceptedLost { .. }));
        assert_eq!(lost, world.checks.topics.lost().len(), "what was committed was called lost\n{}", tail(&world));
    }
}

#[test]
fn a_transaction_that_times_out_before_its_epoch_ends_restarts_the_job_and_nobody_is_said_to_be_newer() {
    let mut world = topics_with(Shape::Straight, |_, settings| settings.timeout = TIMEOUT);
    let id = world.start(&Start { interval: 3 * TIMEOUT, ..Start::default() });
    let written = world.run_until(LONG, |world| !open(world).is_empty());
    assert!(well(&world, written), "{}", tail(&world));
    world.oldest_times_out();
    hears(&mut world, id, |event| matches!(event, JobEvent::Restarting { .. }));
    assert_eq!(ends(&mut world, id), Reason::Final, "{}", tail(&world));
    finishes(&mut world, &Start::default());
}

#[test]
fn a_loss_is_found_while_later_transactions_wait_for_that_verdict() {
    let mut world = topics_with(Shape::Straight, |job, _| job.journal = true);
    world.trap(Trap::new(Operation::EndTransaction, "", Deed::Refuse(io::ErrorKind::Other)).times(u64::MAX));
    let id = world.start(&Start::default());
    let sealed = world.run_until(LONG, |world| world.checks.ledger.sealed().len() >= 3);
    assert!(well(&world, sealed), "{}", tail(&world));
    world.kill(id);
    world.machine().clear_traps();
    world.oldest_times_out();
    // The marks of the others, which are open, lie behind its own.
    assert!(!open(&world).is_empty());
    finishes(&mut world, &Start::default());
    assert_eq!(outcomes(&world, |outcome| matches!(outcome, Outcome::Resent { .. })), 1);
}

#[test]
fn row_12_commits_are_confirmed_and_that_is_not_recorded() {
    for trap in [
        Trap::new(Operation::Create, "ledger/0000000/0000000003", Deed::Kill(When::Before)),
        Trap::new(Operation::Rename, "ledger/0000000/0000000003", Deed::Kill(When::After)),
    ] {
        let mut world = topics(Shape::Straight);
        dies_at(&mut world, &Start::default(), trap);
        finishes(&mut world, &Start::default());
    }
}

#[test]
fn row_13_five_times_in_a_row_while_recovering() {
    let places = [
        (Operation::EndTransaction, ""),
        (Operation::Describe, "sim/"),
        (Operation::ListIds, "sim/"),
        (Operation::Rename, "/ledger/"),
        (Operation::Open, "/ledger/"),
    ];
    for (operation, path) in places {
        for when in [When::Before, When::After] {
            let mut world = topics(Shape::Split);
            dies_at(&mut world, &Start::default(), Trap::new(Operation::EndTransaction, "", Deed::Kill(When::Before)));
            for _ in 0..5 {
                dies_at(&mut world, &Start::default(), Trap::new(operation, path, Deed::Kill(when)));
            }
            finishes(&mut world, &Start::default());
        }
    }
}
