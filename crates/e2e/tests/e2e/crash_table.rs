//! The rows of the crash table that a process and its files can show: it dies at exactly that step, is started again, and the output is
//! complete, once, with nothing hidden left and a ledger that verifies.

use std::fs;

use staunch_e2e::flights::Case;
use staunch_e2e::job::Start;

use crate::support::{self, SLOW, dies, ends_well, in_doubt, restored_from, unfinished};

#[test]
fn row_1_before_the_first_trigger_the_job_begins_again() {
    let (_folder, job) = support::january_job(Case::D);
    let start = Start::with(3).slow(SLOW).interval(std::time::Duration::from_secs(3600)).script("read other 100: kill before");
    let died = job.run(&start).expect("an end");
    assert!(died.was_killed(), "{died:?}");
    let ended = ends_well(&job, 2);
    assert_eq!(restored_from(&ended), None);
}

#[test]
fn row_2_with_the_barrier_partly_through_the_epoch_is_abandoned() {
    let (_folder, job) = support::january_job(Case::D);
    dies(&job, 3, "rename manifest 2, sync open 1: kill before");
    let ended = ends_well(&job, 3);
    assert_eq!(restored_from(&ended), Some(2));
}

#[test]
fn row_3_half_written_state_is_never_used_and_is_collected() {
    let (_folder, job) = support::january_job(Case::D);
    dies(&job, 3, "rename manifest 2, append state 1: kill after");
    assert!(!unfinished(&job).is_empty(), "the crash left nothing to collect");
    let ended = ends_well(&job, 1);
    assert_eq!(restored_from(&ended), Some(2));
}

#[test]
fn row_4_flushed_and_not_prepared_output_is_written_again() {
    let (_folder, job) = support::january_job(Case::D);
    dies(&job, 2, "rename manifest 2, rename prepared 1: kill before");
    ends_well(&job, 3);
}

#[test]
fn row_5_prepared_output_that_no_epoch_names_is_removed_at_restart() {
    let (_folder, job) = support::january_job(Case::D);
    dies(&job, 2, "rename manifest 2, rename prepared 1: kill after");
    let ended = ends_well(&job, 3);
    assert!(ended.lines.iter().any(|l| l.starts_with("swept ")), "nothing was swept: {:?}", ended.lines);
}

#[test]
fn row_6_without_a_manifest_there_was_no_epoch() {
    let (_folder, job) = support::january_job(Case::D);
    dies(&job, 3, "rename manifest 3: kill before");
    let ended = ends_well(&job, 2);
    assert_eq!(restored_from(&ended), Some(2));
}

#[test]
fn row_6_a_manifest_without_a_seal_is_no_epoch_either() {
    let (_folder, job) = support::january_job(Case::D);
    dies(&job, 3, "rename manifest 3: kill after");
    let ended = ends_well(&job, 2);
    assert_eq!(restored_from(&ended), Some(2));
}

#[test]
fn row_7_a_sealed_epoch_is_found_and_committed_though_the_answer_was_lost() {
    let (_folder, job) = support::january_job(Case::D);
    dies(&job, 3, "rename manifest 3, rename ledger 1: kill after");
    assert!(in_doubt(&job).contains("on-time"), "{}", in_doubt(&job));
    let ended = ends_well(&job, 2);
    assert_eq!(restored_from(&ended), Some(3));
}

#[test]
fn row_7_a_lost_answer_of_the_store_stops_nothing() {
    let (_folder, job) = support::january_job(Case::D);
    let ended = job.run(&Start::with(3).slow(SLOW).script("rename manifest 3, rename ledger 1: broken after")).and_then(|f| f.expect(0));
    let ended = ended.expect("the job ends well");
    job.check().unwrap_or_else(|error| panic!("{error:#}"));
    assert!(!ended.lines.iter().any(|l| l.starts_with("restarting") || l.starts_with("failed")), "{:?}", ended.lines);
}

#[test]
fn row_8_durable_and_not_committed_output_is_committed_at_restart() {
    // With one sink, commits come one after the other.
    let (_folder, job) = support::january_job(Case::Copy);
    dies(&job, 3, "rename visible 1: kill before");
    assert!(job.visible_files().expect("a list").is_empty(), "output was visible before its commit");
    assert!(in_doubt(&job).contains("part-"), "{}", in_doubt(&job));
    ends_well(&job, 2);
}

#[test]
fn row_9_the_rest_of_a_half_committed_epoch_is_committed_at_restart() {
    let (_folder, job) = support::january_job(Case::D);
    dies(&job, 3, "rename visible 1: kill after");
    assert!(!job.visible_files().expect("a list").is_empty());
    assert!(in_doubt(&job).contains("part-"), "{}", in_doubt(&job));
    ends_well(&job, 1);
}

#[test]
fn row_10_a_commit_whose_answer_was_lost_is_not_done_twice() {
    let (_folder, job) = support::january_job(Case::D);
    let script = "rename visible 1: broken after; rename visible 3: broken after; rename visible 4: broken before";
    job.run(&Start::with(3).slow(SLOW).script(script)).and_then(|f| f.expect(0)).expect("the job ends well");
    job.check().unwrap_or_else(|error| panic!("{error:#}"));
}

#[test]
fn row_12_commits_that_were_not_recorded_are_found_done() {
    let (_folder, job) = support::january_job(Case::D);
    dies(&job, 1, "rename visible 2, rename ledger 1: kill before");
    assert!(in_doubt(&job).contains("on-time"), "{}", in_doubt(&job));
    ends_well(&job, 2);
}

#[test]
fn row_13_dying_again_and_again_while_recovering_changes_nothing() {
    let (_folder, job) = support::january_job(Case::D);
    dies(&job, 3, "rename visible 1: kill before");
    for (round, script) in ["rename visible 1: kill before"; 5].iter().enumerate() {
        dies(&job, 1 + round as u32, script);
    }
    // The claim is the first entry, the record of the commit the second.
    for (round, script) in
        ["rename visible 1: kill after", "rename visible 1: kill after", "rename ledger 2: kill before"].iter().enumerate()
    {
        dies(&job, 3 - round as u32, script);
    }
    for parallelism in [1, 4, 2, 3, 5] {
        dies(&job, parallelism, "rename ledger 2: kill before");
    }
    ends_well(&job, 2);
}

#[test]
fn row_17_output_of_tasks_that_are_gone_is_committed_by_others() {
    let scripts = ["rename manifest 2, rename prepared 1: kill after", "rename visible 1: kill before", "rename visible 1: kill after"];
    support::each(&scripts, |script| {
        let (_folder, job) = support::january_job(Case::D);
        dies(&job, 3, script);
        dies(&job, 5, script);
        ends_well(&job, 2);
    });
}

#[test]
fn row_18_a_checkpoint_can_be_restored_again_and_again() {
    let (_folder, job) = support::january_job(Case::D);
    dies(&job, 3, "rename manifest 5: kill before");
    for parallelism in [2, 1, 4] {
        let died = dies(&job, parallelism, "rename manifest 1: kill before");
        assert_eq!(restored_from(&died), Some(4));
    }
    ends_well(&job, 3);
}

#[test]
fn row_20_one_of_two_writers_is_at_its_end_when_the_job_dies() {
    let (folder, mut job) = support::january_job(Case::Copy);
    let text = fs::read_to_string(support::january()).expect("flights");
    let lines: Vec<&str> = text.lines().collect();
    job.input = folder.path().join("input");
    fs::create_dir(&job.input).expect("a folder");
    fs::write(job.input.join("long.csv"), [lines[0], &lines[1..20_000].join("\n"), ""].join("\n")).expect("room");
    fs::write(job.input.join("short.csv"), [lines[0], &lines[20_000..].join("\n"), ""].join("\n")).expect("room");
    dies(&job, 2, "rename manifest 5: kill before");
    dies(&job, 2, "rename manifest 3, rename visible 1: kill before");
    ends_well(&job, 2);
}

#[test]
fn row_20_the_last_epoch_is_committed_after_a_crash_at_its_end() {
    support::each(&["rename visible 1: kill before", "rename ledger 3: kill before", "rename ledger 3: kill after"], |script| {
        let (_folder, job) = support::january_job(Case::Copy);
        // At full speed there is one epoch: the last.
        let start = Start::with(2).interval(std::time::Duration::from_secs(3600)).script(script);
        let died = job.run(&start).expect("an end");
        assert!(died.was_killed(), "{script}: {died:?}");
        ends_well(&job, 3);
    });
}

#[test]
fn row_21_a_job_that_was_asked_to_stop_goes_on_from_there() {
    let (_folder, job) = support::january_job(Case::D);
    let mut running = job.start(&Start::with(3).slow(SLOW)).expect("a start");
    running.until(staunch_e2e::job::PATIENCE, "second epoch", |l| l.starts_with("durable 2")).expect("progress");
    running.signal(rustix::process::Signal::TERM).expect("a signal");
    let stopped = running.wait(staunch_e2e::job::PATIENCE).and_then(|f| f.expect(0)).expect("a stop");
    assert!(stopped.lines.iter().any(|l| l == "finished Stop"), "{:?}", stopped.lines);
    for (name, _) in job.case.outputs() {
        assert_eq!(staunch_e2e::lines::hidden(&job.output(name)).expect("a list"), Vec::<String>::new());
    }
    job.verify().and_then(|f| f.expect(0)).expect("a ledger that verifies");
    ends_well(&job, 2);
}

/// The next start either goes on, or brings the stop that was asked for to its end.
#[test]
fn row_21_a_crash_before_or_after_the_seal_of_the_last_checkpoint_loses_nothing() {
    let scripts =
        ["rename manifest 1: kill before", "rename manifest 1: kill after", "rename ledger 2: kill after", "rename visible 1: kill before"];
    support::each(&scripts, |script| {
        let (_folder, job) = support::january_job(Case::D);
        let hour = std::time::Duration::from_secs(3600);
        let start = Start::with(3).slow(SLOW).interval(hour).script(&format!("read other 60: stop after; {script}"));
        let died = job.run(&start).expect("an end");
        assert!(died.was_killed(), "{script}: {died:?}");
        let next = job.run(&Start::with(2).interval(hour).slow(SLOW).script("read other 50: kill before")).expect("an end");
        if !next.was_killed() {
            assert!(next.code() == Some(0) && next.lines.iter().any(|l| l == "finished Stop"), "{script}: {next:?}");
            assert!(!in_doubt(&job).contains("part-"), "{script}: stopped, and not all is committed: {}", in_doubt(&job));
            job.verify().and_then(|f| f.expect(0)).expect("a ledger that verifies");
        }
        ends_well(&job, 2);
    });
}
