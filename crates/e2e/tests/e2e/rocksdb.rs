//! Keyed state in RocksDB: killed at random moments, with another number of tasks after each, a job gives what it gives undisturbed.

use std::fs;
use std::time::Duration;

use staunch_e2e::flights::Case;
use staunch_e2e::job::{Job, Start};
use staunch_e2e::kills::Kills;

use crate::support;

/// Kills of each job.
const KILLS: u32 = 25;
/// A job that is not killed earlier is killed after so long.
const RUN_MAX: Duration = Duration::from_millis(800);
/// Bytes of objects: so few that most of the state is on disk only.
const FEW_OBJECTS: &str = "60000";
/// More than the state needs.
const MANY_OBJECTS: &str = "8000000";

fn on_rocksdb(start: Start, objects: &str) -> Start {
    start.more(&["--rocksdb-objects", objects])
}

fn survives_kills(case: Case, objects: &str) {
    let (_folder, job) = support::year_job(case);
    let seed = u64::from(case.word().as_bytes()[0]) + 100;
    let mut kills = Kills::spread_over_input(&job, KILLS, RUN_MAX, seed).expect("the flights");
    kills.start = on_rocksdb(kills.start, objects);
    let tally = kills.run(&job).unwrap_or_else(|error| panic!("{error:#}"));
    println!("case {}: {tally:?}", case.word());
    assert!(tally.after_progress > 0, "no kill came after an epoch: {tally:?}");
    // What the killed processes left on the disk is removed; the last one may end while a thread still holds its own.
    let left: Vec<_> = fs::read_dir(job.root.join("databases")).expect("a directory").collect();
    assert!(left.len() <= 1, "{left:?}");
}

#[test]
fn tumbling_windows_in_rocksdb_survive_25_kills() {
    survives_kills(Case::A, FEW_OBJECTS);
}

#[test]
fn hopping_windows_in_rocksdb_survive_25_kills() {
    survives_kills(Case::B, FEW_OBJECTS);
}

#[test]
fn sessions_in_rocksdb_survive_25_kills() {
    survives_kills(Case::C, FEW_OBJECTS);
}

#[test]
fn late_records_with_state_in_rocksdb_survive_25_kills() {
    survives_kills(Case::D, MANY_OBJECTS);
}

/// The job dies when it has some checkpoints.
fn dies(job: &Job, start: Start) {
    let died = job.run(&start.script("rename ledger 12: kill after")).and_then(|finished| finished.expect_killed("the ledger"));
    died.unwrap_or_else(|error| panic!("{error:#}"));
}

#[test]
fn a_checkpoint_of_state_in_memory_goes_on_in_rocksdb() {
    for (case, objects) in [(Case::B, FEW_OBJECTS), (Case::C, MANY_OBJECTS)] {
        let (_folder, job) = support::year_job(case);
        dies(&job, Start::with(3).slow(400_000));
        job.run(&on_rocksdb(Start::with(2), objects)).and_then(|finished| finished.expect(0)).unwrap_or_else(|error| panic!("{error:#}"));
        job.check().unwrap_or_else(|error| panic!("case {}: {error:#}", case.word()));
    }
}

/// A checkpoint is restored by the kind of backend that made it, and by no other; nothing is lost by trying.
#[test]
fn a_checkpoint_of_another_backend_is_refused_and_intact() {
    let (_folder, job) = support::year_job(Case::A);
    let slow = Start::with(2).slow(400_000);
    dies(&job, on_rocksdb(slow, FEW_OBJECTS));
    let refused = job.run(&Start::with(2)).and_then(|finished| finished.expect(4)).unwrap_or_else(|error| panic!("{error:#}"));
    for word in ["S204", "rocksdb", "memory", "operator="] {
        assert!(refused.errors.contains(word), "\"{word}\" is not said: {}", refused.errors);
    }
    let named = job.staunch(&["inspect", &job.folder().display().to_string()]).and_then(|finished| finished.expect(0));
    let named = named.unwrap_or_else(|error| panic!("{error:#}")).lines.join("\n");
    assert!(named.contains("pane"), "the states are named: {named}");
    job.run(&on_rocksdb(Start::with(3), MANY_OBJECTS)).and_then(|finished| finished.expect(0)).unwrap_or_else(|error| panic!("{error:#}"));
    job.check().unwrap_or_else(|error| panic!("{error:#}"));
}

#[test]
fn a_job_in_rocksdb_gives_the_same_with_any_number_of_tasks() {
    for parallelism in [1, 3, 7] {
        let (_folder, job) = support::year_job(Case::B);
        let start = on_rocksdb(Start::with(parallelism), FEW_OBJECTS);
        job.run(&start).and_then(|finished| finished.expect(0)).unwrap_or_else(|error| panic!("{error:#}"));
        job.check().unwrap_or_else(|error| panic!("{parallelism} tasks: {error:#}"));
    }
}
