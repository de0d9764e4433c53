//! Reading what a job stored: checkpoints, ledger, state; and what is said when there is nothing.

use std::collections::BTreeSet;

use serde_json::json;

use crate::harness::{Place, command, run, staunch};

/// An epoch of a finished job in which windows were open.
fn epoch_with_state(place: &Place) -> String {
    let all = staunch(&["checkpoints", &place.job_folder(), "--format", "json"]).ends_with(0).json();
    let with_state = all.as_array().expect("a list").iter().find(|c| c["state_bytes"].as_u64() > Some(0)).expect("windows were open");
    with_state["epoch"].to_string()
}

#[test]
fn checkpoints_lists_what_can_be_restored() {
    let place = Place::with_finished_job();
    let all = staunch(&["checkpoints", &place.checkpoints().display().to_string()]).ends_with(0);
    let header = all.out.lines().next().expect("a header");
    assert!(header.starts_with("JOB") && header.contains("RESTORABLE"), "{header}");
    assert_eq!(all.out.lines().count(), place.objects("manifests").len() + 1);
    let other = staunch(&["checkpoints", &place.job_folder(), "another-job"]).ends_with(1);
    other
        .complains("error[C301]: no job \"another-job\" has checkpoints at the path")
        .complains("name one of those that have: flights-per-hour");

    let object = place.objects("state").remove(0);
    std::fs::remove_file(&object).expect("removed");
    staunch(&["checkpoints", &place.job_folder()]).ends_with(0).says(&format!("no: state/{} is missing", crate::harness::name(&object)));
}

#[test]
fn the_ledger_is_one_list_in_both_forms() {
    let place = Place::with_finished_job();
    let entries = place.objects("ledger").len();
    let table = staunch(&["ledger", &place.job_folder()]).ends_with(0).says("begins with the input").says("final");
    assert_eq!(table.out.lines().count(), entries + 1);
    let json = staunch(&["ledger", &place.job_folder(), "--format", "json"]).ends_with(0).json();
    assert_eq!(json.as_array().map(Vec::len), Some(entries));
    assert_eq!(json[0]["entry"]["seq"], json!(1));
    assert_eq!(json[1]["entry"]["previous"], json[0]["hash"], "each entry carries the hash of the one before");
    let some = staunch(&["ledger", &place.job_folder(), "--epochs", "2..3"]).ends_with(0);
    assert!(some.out.lines().skip(1).all(|line| line.contains("seal") || line.contains("commit")), "{}", some.out);
}

#[test]
fn inspect_lists_operators_and_prints_entries_by_key() {
    let place = Place::with_finished_job();
    let epoch = epoch_with_state(&place);
    let folder = place.job_folder();
    let inspect = |words: &[&str]| {
        let mut all = vec!["inspect", folder.as_str(), "--epoch", epoch.as_str()];
        all.extend(words);
        staunch(&all)
    };
    let overview = inspect(&[]).ends_with(0).says("OPERATOR").says("totals").says("splits").says("event-time");
    assert!(overview.out.contains("flights"), "{}", overview.out);

    let all = inspect(&["totals", "--state", "window", "--format", "json"]).ends_with(0).json();
    let rows = all.as_array().expect("a list");
    let keys: BTreeSet<&str> = rows.iter().filter_map(|row| row["key"].as_str()).collect();
    assert_eq!(keys, BTreeSet::from(["EWR", "JFK", "LGA"]), "open windows of each airport: one or two, as far as the checkpoint had come");
    let one = inspect(&["totals", "--key", "JFK", "--format", "json"]).ends_with(0).json();
    assert_eq!(one.as_array(), Some(&rows.iter().filter(|row| row["key"] == "JFK").cloned().collect()));
    assert_eq!(one[0]["value"].as_array().map(Vec::len), Some(2), "flights and distance");
    let csv = inspect(&["totals", "--key", "JFK", "--format", "csv"]).ends_with(0);
    assert!(csv.out.starts_with("state,namespace,key,value\nwindow,") && csv.out.contains(",JFK,\"["), "{}", csv.out);
    inspect(&["flights", "--format", "csv"]).ends_with(0).says("flights.csv offset=");
}

#[test]
fn inspect_says_what_there_is_when_asked_for_what_there_is_not() {
    let place = Place::with_finished_job();
    let folder = place.job_folder();
    let unknown = staunch(&["inspect", &folder, "total"]).ends_with(1);
    unknown.complains("error[C312]: the checkpoint has no operator \"total\"").complains("it has: ").complains("totals");
    let epoch = epoch_with_state(&place);
    let state = staunch(&["inspect", &folder, "totals", "--epoch", &epoch, "--state", "sums"]).ends_with(1);
    state.complains("operator \"totals\" has no state \"sums\"").complains("it has: window");
    staunch(&["inspect", &folder, "--epoch", "999"]).ends_with(1).complains("error[C312]: there is no checkpoint 999");
    staunch(&["inspect", &folder, "--state", "window"]).ends_with(2);
}

#[test]
fn a_path_without_or_with_several_jobs_is_refused_with_what_to_do() {
    let place = Place::with_finished_job();
    let empty = place.path("empty");
    std::fs::create_dir(&empty).expect("made");
    for word in ["ledger", "verify", "inspect", "checkpoints"] {
        let answer = staunch(&[word, &empty.display().to_string()]).ends_with(1);
        answer.complains("error[C301]: no job has checkpoints at the path").complains("--checkpoint-dir");
    }
    std::fs::create_dir_all(place.checkpoints().join("other/ledger")).expect("made");
    let several = staunch(&["ledger", &place.checkpoints().display().to_string()]).ends_with(1);
    several.complains("error[C302]: the directory holds 2 jobs").complains("name one of them");
}

#[test]
fn bench_hands_over_or_says_how_to_get_the_program() {
    let place = Place::with_flights(1);
    let program = place.path("staunch");
    std::fs::copy(command(&[]).get_program(), &program).expect("copied");
    let missing = run(std::process::Command::new(&program).args(["bench", "q0"])).ends_with(1);
    missing.complains("error[R102]").complains("make bench");
    std::fs::copy("/bin/echo", place.path("staunch-bench")).expect("copied");
    run(std::process::Command::new(&program).args(["bench", "q0", "--parallelism", "2"])).ends_with(0).says("q0 --parallelism 2");
}
