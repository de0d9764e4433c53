//! Output in doubt, and output that is provably lost.

use std::path::PathBuf;

use crate::harness::{Place, name, run, staunch};

/// A job that was killed between the seal of its only epoch, the last, and the record of its commit: the entries after the seal are gone.
/// Returns the seal's output files.
fn killed_before_its_last_commit() -> (Place, Vec<PathBuf>) {
    let place = Place::with_flights(600);
    run(place.job(&[]).args(["--checkpoint-interval", "1h"])).ends_with(0);
    let ledger = staunch(&["ledger", &place.job_folder(), "--format", "json"]).ends_with(0).json();
    let entries = ledger.as_array().expect("a list");
    let seals: Vec<usize> = (0..entries.len()).filter(|at| entries[*at]["entry"]["body"].get("Sealed").is_some()).collect();
    let last = *seals.last().expect("a seal");
    place.objects("ledger").iter().skip(last + 1).for_each(|file| std::fs::remove_file(file).expect("removed"));
    let committables = entries[last]["entry"]["body"]["Sealed"]["committables"].as_array().expect("a list").clone();
    let path = |c: &serde_json::Value| PathBuf::from(c["description"].as_str().expect("a path"));
    (place, committables.iter().map(path).collect())
}

#[test]
fn output_in_doubt_is_listed_and_is_no_deviation() {
    let (place, files) = killed_before_its_last_commit();
    assert!(!files.is_empty());
    let list = staunch(&["txn", "list", &place.job_folder()]).ends_with(0);
    for file in &files {
        assert!(list.out.contains(&name(file)), "{file:?} in\n{}", list.out);
    }
    let json = staunch(&["txn", "list", &place.job_folder(), "--format", "json"]).ends_with(0).json();
    assert_eq!(json["in_doubt"].as_array().map(Vec::len), Some(files.len()));
    staunch(&["verify", &place.job_folder()]).ends_with(0).says("1 in doubt");
    run(&mut place.job(&[])).ends_with(0);
    staunch(&["txn", "list", &place.job_folder()]).ends_with(0).says("no output is in doubt");
    assert_eq!(place.lines("on-time").len(), 30);
}

#[test]
fn lost_output_ends_the_start_with_5_until_a_person_accepts_it() {
    let (place, files) = killed_before_its_last_commit();
    let lost = files.iter().find(|file| file.starts_with(place.output().join("on-time"))).expect("windows fire at the end");
    let records = std::fs::read_to_string(lost).expect("there").lines().count() - 1;
    std::fs::remove_file(lost).expect("removed");
    staunch(&["verify", &place.job_folder()]).ends_with(1).complains("error[C307]").complains(&name(lost));

    let refused = run(&mut place.job(&[])).ends_with(5);
    refused.complains("error[C007]").complains("sink=on-time").complains("--accept-lost");
    run(place.job(&[]).args(["--accept-lost", "on-time"])).ends_with(0);
    assert_eq!(place.lines("on-time").len(), 30 - records);

    staunch(&["ledger", &place.job_folder()]).ends_with(0).says("1 ACCEPTED AS LOST");
    staunch(&["verify", &place.job_folder()]).ends_with(0).says("sink on-time: 1 outputs are lost, which a person has accepted");
}
