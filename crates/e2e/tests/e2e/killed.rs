//! Killed 25 times at random moments, with another number of tasks after each, a job gives what it gives undisturbed.

use std::time::Duration;

use staunch_e2e::flights::Case;
use staunch_e2e::kills::Kills;

use crate::support;

/// Kills of each job.
const KILLS: u32 = 25;
/// A job that is not killed earlier is killed after so long.
const RUN_MAX: Duration = Duration::from_millis(800);

fn survives_kills(case: Case) {
    let (_folder, job) = support::year_job(case);
    let seed = u64::from(case.word().as_bytes()[0]);
    let kills = Kills::spread_over_input(&job, KILLS, RUN_MAX, seed).expect("the flights");
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
