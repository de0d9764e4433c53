//! Prepared output that somebody took away: it is missed, named, and only given up when a person says so.

use std::fs;
use std::path::PathBuf;

use staunch_e2e::flights::Case;
use staunch_e2e::job::{Job, Start};
use staunch_e2e::lines::{self, Multiset};

use crate::support::{self, dies};

fn prepared(job: &Job, output: &str) -> PathBuf {
    let hidden = lines::hidden(&job.output(output)).expect("a list");
    PathBuf::from(hidden.into_iter().find(|f| f.ends_with(".prepared")).expect("prepared output"))
}

#[test]
fn row_11_prepared_output_that_is_gone_is_named_and_only_given_up_on_demand() {
    let (_folder, mut job) = support::january_job(Case::D);
    // At the second epoch, before its first commit, so that something is visible already.
    dies(&job, 1, "rename manifest 4, rename ledger 1, rename visible 1: kill before");
    let file = prepared(&job, "late");
    let mut lost = Multiset::new();
    lines::read_file(&file, &mut lost).expect("whole lines");
    let away = job.root.join("away");
    fs::rename(&file, &away).expect("a rename");
    for _ in 0..2 {
        let stopped = job.run(&Start::with(2)).and_then(|f| f.expect(5)).expect("a refusal");
        let records = format!("records={}", lost.values().sum::<u64>());
        for needed in ["sink=late", "epoch=4", &records, &file.display().to_string(), "--accept-lost"] {
            assert!(stopped.errors.contains(needed), "\"{needed}\" is not named:\n{}", stopped.errors);
        }
        assert!(!stopped.lines.iter().any(|l| l.starts_with("running")), "tasks ran: {:?}", stopped.lines);
    }
    let other = job.run(&Start::with(2).more(&["--accept-lost", "on-time"])).expect("an end");
    assert_eq!(other.code(), Some(5), "the loss of one sink was accepted for another: {}", other.errors);
    // Whoever brings the file back loses nothing.
    let whole = support::copy_of(&job);
    fs::rename(&away, &file).expect("a rename");
    job.run(&Start::with(3)).and_then(|f| f.expect(0)).expect("the job ends well");
    job.check().unwrap_or_else(|error| panic!("{error:#}"));
    whole.restore(&job);
    fs::remove_file(&away).ok();
    let ended = job.run(&Start::with(2).more(&["--accept-lost", "late"])).and_then(|f| f.expect(0)).expect("the job ends well");
    assert!(ended.lines.iter().any(|l| l == "committed 4"), "{:?}", ended.lines);
    let expected = job.expected.get_mut("late").expect("an output");
    for (line, times) in lost {
        *expected.get_mut(&line).expect("a line of the output") -= times;
    }
    expected.retain(|_, times| *times > 0);
    job.check().unwrap_or_else(|error| panic!("{error:#}"));
    let ledger =
        job.staunch(&["ledger", &job.folder().display().to_string()]).and_then(|f| f.expect(0)).expect("the ledger").lines.join("\n");
    assert!(ledger.contains("ACCEPTED AS LOST"), "the ledger does not tell of the loss:\n{ledger}");
}
