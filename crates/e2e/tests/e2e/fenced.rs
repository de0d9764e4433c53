//! Two processes of one job: the older one, which halted and comes back, is fenced wherever it stopped.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use staunch_e2e::flights::Case;
use staunch_e2e::job::{Job, PATIENCE, Start};
use staunch_e2e::process::Running;

use crate::support::{self, SLOW, all_files, dies, ends_well};

/// Starts a job and waits until it halts as the script says.
fn halts(job: &Job, start: &Start) -> Running {
    let script = &start.script;
    let mut running = job.start(start).expect("a start");
    let deadline = Instant::now() + PATIENCE;
    while !running.is_halted().unwrap_or_default() {
        assert!(!running.has_ended(), "the script \"{script}\" did not halt the job: {:?}", running.wait(PATIENCE));
        assert!(Instant::now() < deadline, "the script \"{script}\" did not halt the job");
        running.listen(Duration::from_millis(10));
    }
    running
}

/// Everything on disk that a job may write: path and bytes.
fn tree(job: &Job) -> BTreeMap<String, Vec<u8>> {
    all_files(&job.root).into_iter().map(|path| (path.clone(), fs::read(&path).expect("a file"))).collect()
}

/// Whether a path is one under which the first generation alone writes, and which nobody reads unless an entry of the ledger names it.
fn is_only_of_the_first(path: &str) -> bool {
    let prepared = path.contains("/.staunch+") && path.contains("+g1-");
    let stored = (path.contains("/manifests/") || path.contains("/state/")) && path.contains("-g1");
    prepared || stored
}

/// The first process goes on: it must exit as fenced, change and remove nothing, and add nothing that anybody would read.
fn goes_on_and_is_fenced(job: &Job, first: Running, script: &str) {
    let before = tree(job);
    first.signal(Signal::CONT).expect("a signal");
    let fenced = first.wait(PATIENCE).and_then(|f| f.expect(3)).unwrap_or_else(|error| panic!("{script}: {error:#}"));
    assert!(fenced.errors.contains("error[C009]"), "{script}: {}", fenced.errors);
    assert!(!fenced.lines.iter().any(|l| l == "restarting C009"), "{script}: it said that it starts again: {:?}", fenced.lines);
    let after = tree(job);
    let harmed: Vec<&String> = before.keys().filter(|path| before.get(*path) != after.get(*path)).collect();
    let added: Vec<&String> = after.keys().filter(|path| !before.contains_key(*path) && !is_only_of_the_first(path)).collect();
    assert!(harmed.is_empty() && added.is_empty(), "{script}: the fenced process changed or removed {harmed:#?} and added {added:#?}");
    job.verify().and_then(|f| f.expect(0)).unwrap_or_else(|error| panic!("{script}: {error:#}"));
}

/// A second process takes over and ends, or dies in the middle; then the first goes on; a third finds everything as it must be.
fn is_fenced(script: &str) {
    let (_folder, job) = support::january_job(Case::D);
    let first = halts(&job, &Start::with(3).slow(SLOW).script(script));
    ends_well(&job, 2);
    goes_on_and_is_fenced(&job, first, script);
    ends_well(&job, 1);

    let (_folder, job) = support::january_job(Case::D);
    let first = halts(&job, &Start::with(3).slow(SLOW).script(script));
    dies(&job, 2, "rename visible 3: kill before");
    goes_on_and_is_fenced(&job, first, script);
    ends_well(&job, 1);
}

#[test]
fn row_14_a_process_that_comes_back_before_it_appends_to_the_ledger_is_fenced() {
    support::each(&["rename ledger 5: halt before", "rename ledger 6: halt before", "rename ledger 5: halt after"], is_fenced);
}

#[test]
fn row_14_a_process_that_comes_back_before_it_seals_is_fenced() {
    support::each(&["rename manifest 3: halt after", "rename state 4: halt before"], is_fenced);
}

#[test]
fn row_14_a_process_that_comes_back_in_the_middle_of_a_commit_is_fenced() {
    support::each(&["rename visible 3: halt before", "rename visible 3: halt after"], is_fenced);
}

#[test]
fn row_14_a_process_that_comes_back_while_it_prepares_is_fenced() {
    support::each(&["rename prepared 5: halt before", "create open 9: halt before"], is_fenced);
}

/// The old process halts where it would delete what no checkpoint that it keeps needs. The oldest of those it keeps is restored
/// meanwhile, by a process that dies; the deletion goes on; the same checkpoint is restored once more.
#[test]
fn row_16_an_old_process_deletes_nothing_that_a_restored_checkpoint_needs() {
    support::each(&["remove manifest 2: halt before", "remove state 1: halt before"], |script| {
        let (_folder, job) = support::january_job(Case::D);
        // With many epochs, as state is kept while it is part of a newer checkpoint.
        let first = halts(&job, &Start::with(3).slow(SLOW).interval(Duration::from_millis(20)).script(script));
        let oldest = oldest_of_three(&job);
        let restored = dies(&job, 2, "read other 5: kill before");
        let newest = support::restored_from(&restored);
        let restored = job.run(&Start::with(2).slow(SLOW).more(&["--restore", &oldest.to_string()]).script("read other 5: kill before"));
        let restored = restored.expect("an end");
        assert!(restored.was_killed(), "{script}: {restored:?}");
        assert_eq!(support::restored_from(&restored), Some(oldest), "{script}");
        assert!(newest > Some(oldest), "{script}: epoch {oldest} was not older than {newest:?}");
        first.signal(Signal::CONT).expect("a signal");
        first.wait(PATIENCE).and_then(|f| f.expect(3)).unwrap_or_else(|error| panic!("{script}: {error:#}"));
        job.verify().and_then(|f| f.expect(0)).unwrap_or_else(|error| panic!("{script}: {error:#}"));
        let ended = job.run(&Start::with(1)).and_then(|f| f.expect(0)).unwrap_or_else(|error| panic!("{script}: {error:#}"));
        assert_eq!(support::restored_from(&ended), Some(oldest), "{script}");
        job.verify().and_then(|f| f.expect(0)).unwrap_or_else(|error| panic!("{script}: {error:#}"));
    });
}

/// The oldest of the three newest checkpoints: three are kept.
fn oldest_of_three(job: &Job) -> u64 {
    let manifests = all_files(&job.folder().join("manifests"));
    let name = manifests.iter().rev().nth(2).and_then(|path| path.rsplit_once("/e")).expect("three manifests").1;
    name[..10].parse().expect("a number")
}
