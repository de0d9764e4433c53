//! Rows 8 to 13: a durable epoch on its way to be visible.

use std::collections::BTreeSet;
use std::io;

use staunch_format::ledger::Outcome;
use staunch_protocol::Reason;
use staunch_sim::job::{CHECKPOINTS, Shape, Start, name};
use staunch_sim::kernel::{Deed, Operation, Trap, When};
use staunch_sim::world::World;
use staunch_types::ErrorKind;

use crate::support::{LONG, dies_at, ends, ends_in_error, finishes, tail, well, world, world_with};

const VISIBLE: &str = "/part-";

#[test]
fn row_8_a_durable_epoch_of_which_nothing_is_committed() {
    for deed in [Deed::Kill(When::Before), Deed::PowerLoss(When::Before)] {
        let mut world = world(Shape::Split);
        dies_at(&mut world, &Start::default(), Trap::new(Operation::Rename, VISIBLE, deed));
        assert_eq!(world.checks.visible.files(), 0);
        finishes(&mut world, &Start::default());
    }
}

#[test]
fn row_9_some_files_and_some_sinks_are_committed_and_others_not() {
    for skip in 1..8 {
        for deed in [Deed::Kill(When::Before), Deed::PowerLoss(When::After)] {
            let mut world = world(Shape::Split);
            dies_at(&mut world, &Start::default(), Trap::new(Operation::Rename, VISIBLE, deed).skip(skip));
            assert!(world.checks.visible.files() as u64 >= skip);
            finishes(&mut world, &Start::default());
        }
    }
    for path in ["/out/even/part-", "/out/odd/part-"] {
        let mut world = world(Shape::Split);
        dies_at(&mut world, &Start::default(), Trap::new(Operation::Rename, path, Deed::Kill(When::Before)));
        finishes(&mut world, &Start::default());
    }
}

#[test]
fn row_10_a_commit_is_done_and_its_answer_is_lost() {
    for skip in 0..4 {
        let mut world = world(Shape::Split);
        world.trap(Trap::new(Operation::Rename, VISIBLE, Deed::LoseAnswer(io::ErrorKind::TimedOut)).skip(skip).times(2));
        let id = world.start(&Start::default());
        assert_eq!(ends(&mut world, id), Reason::Final);
        assert_eq!(world.checks.ledger.generation().0, 1, "no restart was needed\n{}", tail(&world));
        finishes(&mut world, &Start::default());

        let mut world = crate::support::world(Shape::Split);
        dies_at(&mut world, &Start::default(), Trap::new(Operation::Rename, VISIBLE, Deed::Kill(When::After)).skip(skip));
        finishes(&mut world, &Start::default());
    }
}

/// Takes away a prepared file that a durable epoch names; its visible path.
fn somebody_takes_a_prepared_file_away(world: &mut World) -> String {
    dies_at(world, &Start::default(), Trap::new(Operation::Rename, VISIBLE, Deed::Kill(When::Before)).skip(1));
    let mut machine = world.machine();
    let hidden: Vec<String> = machine.disk.under("/out").filter(|path| path.ends_with(".prepared")).map(str::to_owned).collect();
    machine.disk.take_away(&hidden[0]);
    drop(machine);
    hidden[0].clone()
}

#[test]
fn row_11_prepared_output_that_is_gone_stops_the_job_and_is_named() {
    let mut world = world(Shape::Split);
    let gone = somebody_takes_a_prepared_file_away(&mut world);
    for _ in 0..2 {
        let error = ends_in_error(&mut world, &Start::default());
        assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
        assert!(error.to_string().contains(&gone), "{error}");
    }
}

#[test]
fn row_11_a_loss_that_a_person_accepts_is_recorded_and_the_rest_is_whole() {
    let mut world = world(Shape::Split);
    let gone = somebody_takes_a_prepared_file_away(&mut world);
    let sink = if gone.contains("/even/") { "even" } else { "odd" };
    let start = Start { accept_lost: BTreeSet::from([name(sink)]), ..Start::default() };
    let id = world.start(&start);
    let answer = world.finish_in(id);
    well(&world, answer);
    let outcomes = world.checks.ledger.sealed().values().flat_map(|sealed| &sealed.outcomes);
    let lost = outcomes.filter(|outcome| matches!(outcome, Outcome::AcceptedLost { .. })).count();
    assert_eq!(lost, 1, "{}", tail(&world));
    let missing = world.checks.finished(&world.job).expect_err("the lines of the lost file are missing");
    assert_eq!(missing.check, "E2");
}

/// A world whose sinks keep a journal, and of which a prepared file was taken away.
fn lost_with_a_journal() -> World {
    let mut world = world_with(Shape::Split, |job| job.journal = true);
    somebody_takes_a_prepared_file_away(&mut world);
    world
}

#[test]
fn row_11_lost_output_is_written_again_from_the_journal() {
    let mut world = lost_with_a_journal();
    finishes(&mut world, &Start::default());
    let outcomes = world.checks.ledger.sealed().values().flat_map(|sealed| &sealed.outcomes);
    assert_eq!(outcomes.filter(|outcome| matches!(outcome, Outcome::Resent { .. })).count(), 1, "{}", tail(&world));
}

#[test]
fn row_11_a_kill_at_any_change_while_lost_output_is_written_again_changes_nothing() {
    // A rename is known by its target, which is the prepared file.
    for (operation, path) in
        [(Operation::Create, "again-"), (Operation::Append, "again-"), (Operation::Sync, "again-"), (Operation::Rename, ".prepared")]
    {
        for deed in [Deed::Kill(When::Before), Deed::PowerLoss(When::After), Deed::LoseAnswer(io::ErrorKind::TimedOut)] {
            for number in 0.. {
                let mut world = lost_with_a_journal();
                let before = world.machine().sprung();
                world.trap(Trap::new(operation, path, deed).skip(number));
                let id = world.start(&Start::default());
                let ended = world.run_out(id, LONG);
                well(&world, ended);
                if world.machine().sprung() == before {
                    assert!(number > 0, "nothing is written again: {operation:?}");
                    break;
                }
                finishes(&mut world, &Start::default());
            }
        }
    }
}

#[test]
fn row_11_without_a_copy_lost_output_stops_the_job_and_says_so() {
    let mut world = lost_with_a_journal();
    {
        let mut machine = world.machine();
        let copies: Vec<String> = machine.disk.under(CHECKPOINTS).filter(|path| path.contains("/journal/")).map(str::to_owned).collect();
        assert!(!copies.is_empty());
        copies.iter().for_each(|copy| machine.disk.take_away(copy));
    }
    let error = ends_in_error(&mut world, &Start::default());
    assert_eq!(error.code(), "C025", "{error}");
}

#[test]
fn row_12_commits_are_confirmed_and_that_is_not_recorded() {
    for trap in [
        Trap::new(Operation::Create, "ledger/0000000/0000000003", Deed::Kill(When::Before)),
        Trap::new(Operation::Rename, "ledger/0000000/0000000003", Deed::Kill(When::Before)),
        Trap::new(Operation::Rename, "ledger/0000000/0000000003", Deed::Kill(When::After)),
    ] {
        let mut world = world(Shape::Straight);
        dies_at(&mut world, &Start::default(), trap);
        finishes(&mut world, &Start::default());
    }
}

#[test]
fn row_13_five_times_in_a_row_while_recovering() {
    let places = [
        (Operation::Rename, VISIBLE),
        (Operation::Rename, "/ledger/"),
        (Operation::Metadata, "/part-"),
        (Operation::List, "/out/"),
        (Operation::Open, "/ledger/"),
    ];
    for (operation, path) in places {
        for when in [When::Before, When::After] {
            let mut world = world(Shape::Split);
            dies_at(&mut world, &Start::default(), Trap::new(Operation::Rename, VISIBLE, Deed::Kill(When::Before)));
            for _ in 0..5 {
                dies_at(&mut world, &Start::default(), Trap::new(operation, path, Deed::Kill(when)));
            }
            finishes(&mut world, &Start::default());
        }
    }
}
