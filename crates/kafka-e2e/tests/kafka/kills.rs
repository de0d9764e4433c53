//! A short kill loop; `kafka-soak` is the long one.

use std::path::PathBuf;

use staunch_kafka_e2e::soak::Kills;

#[test]
fn kills_of_the_job_and_of_brokers_at_random_lose_and_double_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let kills = Kills { program: PathBuf::from(env!("CARGO_BIN_EXE_kafka-job")), kills: 15, broker_kills: 3, seed: 4 };
    let tally = kills.run(folder.path()).unwrap_or_else(|error| panic!("{error:#}"));
    println!("{tally}");
    assert!(tally.after_progress > 0 && tally.broker_kills == 3, "{tally:?}");
}
