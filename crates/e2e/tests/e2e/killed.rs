//! Killed 25 times at random moments, with another number of tasks after each, a job gives what it gives undisturbed.

use std::time::Duration;

use staunch_e2e::flights::Case;
use staunch_e2e::job::Start;
use staunch_e2e::kills::Kills;

use crate::support;

/// Kills of each job.
const KILLS: u32 = 25;
/// A job that is not killed earlier is killed after so long.
const RUN_MAX: Duration = Duration::from_millis(1600);

fn survives_kills(case: Case) {
    let (_folder, job) = support::year_job(case);
    let bytes = std::fs::metadata(&job.input).map(|m| m.len()).expect("the flights");
    // So slow that all kills together cannot read the whole input.
    let slow = bytes * 1000 / (u64::from(KILLS) * RUN_MAX.as_millis() as u64);
    let kills = Kills { kills: KILLS, seed: u64::from(case.word().as_bytes()[0]), start: Start::with(1).slow(slow), run_max: RUN_MAX };
    let tally = kills.run(&job).unwrap_or_else(|error| panic!("{error:#}"));
    println!("case {}: {tally:?}", case.word());
    assert!(tally.after_progress > 0, "no kill came after an epoch: {tally:?}");
}

#[test]
fn tumbling_windows_survive_25_kills() {
    survives_kills(Case::A);
}

#[test]
fn hopping_windows_survive_25_kills() {
    survives_kills(Case::B);
}

#[test]
fn sessions_survive_25_kills() {
    survives_kills(Case::C);
}

#[test]
fn late_records_survive_25_kills() {
    survives_kills(Case::D);
}
