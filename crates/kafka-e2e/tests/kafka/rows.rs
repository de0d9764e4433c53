//! The crash table at a real broker: the job dies at exactly that step, is started again, and the judge finds each payment booked once, in
//! order per account, and no transaction open.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use staunch_kafka_e2e::job::{Fed, PATIENCE, Start};
use staunch_kafka_testbed::shared;

use crate::support::{FED, bed, bed_named, bed_with, last_durable, restored_from, slow, swept};

/// Longer than a run, and shorter than a transaction may be open.
const LONG: Duration = Duration::from_secs(300);

#[test]
fn row_01_what_a_dead_generation_left_open_is_aborted_before_a_writer_starts() {
    let mut bed = bed("row-01");
    let mut first = bed.holds(&Start { interval: LONG, ..slow(2, "write sink 3000: hold before") });
    bed.until_open();
    assert_eq!(restored_from(&first.kill().expect("a kill")), None);
    // At its first write the new generation has nothing of the old one beside it. On a busy machine an epoch may come before a record.
    let mut control = bed.job.control().expect("a client");
    let before = bed.job.open(&mut control).expect("an answer");
    let mut second = bed.holds(&Start { interval: LONG, ..slow(3, "write sink 1: hold before") });
    assert!(bed.job.open(&mut control).expect("an answer").is_disjoint(&before));
    second.kill().expect("a kill");
    let ended = bed.ends_well(1);
    assert_eq!(restored_from(&ended), None);
    // The tool of Kafka says the same as our client.
    let open = shared().transactions().expect("a list").into_iter().filter(|t| t.transactional_id.starts_with(&bed.job.prefix()));
    assert!(open.into_iter().all(|t| !["Ongoing", "PrepareCommit", "PrepareAbort"].contains(&t.phase.as_str())));
}

#[test]
fn row_02_an_epoch_whose_barrier_came_to_some_writers_only_is_written_again() {
    let mut bed = bed("row-02");
    let died = bed.dies(3, "rename manifest 2, prepare sink 1: kill after");
    let ended = bed.ends_well(3);
    assert_eq!(restored_from(&ended), last_durable(&died));
}

#[test]
fn row_03_with_an_upload_under_way_the_epoch_is_written_again() {
    let mut bed = bed("row-03");
    let died = bed.dies(3, "rename manifest 2, append state 2: kill after");
    let ended = bed.ends_well(1);
    assert_eq!(restored_from(&ended), last_durable(&died));
}

#[test]
fn row_04_what_was_flushed_and_not_prepared_never_becomes_visible() {
    let mut bed = bed("row-04");
    let mut first = bed.holds(&slow(2, "rename manifest 2, prepare sink 2: hold before"));
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (written, visible) = bed.written_and_visible();
        if written > visible {
            break;
        }
        assert!(Instant::now() < deadline, "nothing was flushed: {written} {visible}");
    }
    let died = first.kill().expect("a kill");
    assert!(died.was_killed());
    let ended = bed.ends_well(3);
    assert_eq!(restored_from(&ended), last_durable(&died));
}

#[test]
fn row_05_what_was_prepared_and_not_acknowledged_is_aborted() {
    let mut bed = bed("row-05");
    let died = bed.dies(2, "rename manifest 2, answer sink 1: kill before");
    assert!(bed.open() > 0, "nothing was left open");
    let ended = bed.ends_well(3);
    assert_eq!(restored_from(&ended), last_durable(&died));
    assert!(swept(&ended), "nothing was swept: {:?}", ended.lines);
}

#[test]
fn row_06_with_all_acknowledged_and_no_seal_the_epoch_is_aborted() {
    for (name, script) in
        [("row-06", "answer sink 1, rename manifest 1: kill before"), ("row-06-manifest", "answer sink 1, rename manifest 1: kill after")]
    {
        let mut bed = bed(name);
        let died = bed.dies(3, script);
        assert!(bed.open() > 0, "nothing was left open");
        let ended = bed.ends_well(2);
        assert_eq!(restored_from(&ended), last_durable(&died));
    }
}

#[test]
fn row_07_a_seal_whose_answer_was_lost_is_found_and_its_transactions_are_committed() {
    let mut bed = bed("row-07");
    let died = bed.dies(3, "answer sink 1, rename manifest 1, rename ledger 1: kill after");
    assert!(bed.open() > 0, "nothing was left open");
    let ended = bed.ends_well(2);
    assert!(restored_from(&ended) > last_durable(&died), "the seal was not found");
}

#[test]
fn row_08_transactions_of_a_durable_epoch_are_committed_at_the_restart() {
    let mut bed = bed("row-08");
    for (parallelism, script) in
        [(2, "commit sink 1: kill before"), (1, "commit sink 2, commit sink 1: kill before"), (3, "commit side 1: kill before")]
    {
        bed.dies(parallelism, script);
        assert!(bed.open() > 0, "nothing was left open");
    }
    bed.ends_well(2);
}

#[test]
fn row_09_the_rest_of_a_half_committed_epoch_is_committed_at_the_restart() {
    // Of one sink some transactions; of two topics one; of a topic and files one or the other.
    let scripts = ["commit sink 1: kill after", "commit side 1: kill after", "rename visible 1: kill after"];
    for (number, script) in scripts.iter().enumerate() {
        let mut bed = bed(&format!("row-09-{number}"));
        let with_files = |start: Start| Start { files: true, ..start };
        bed.job.dies(&with_files(slow(3, script))).unwrap_or_else(|error| panic!("{error:#}"));
        bed.ends_well_with(&with_files(Start::with(2)));
        bed.job.check_files().unwrap_or_else(|error| panic!("{script}: {error:#}"));
    }
}

#[test]
fn row_10_a_commit_whose_answer_was_lost_is_not_done_twice() {
    let mut bed = bed("row-10");
    let script = "commit sink 1: broken after; commit sink 4: broken after; commit side 2: broken before; commit side 5: broken after";
    let ended = bed.job.run(&slow(3, script)).and_then(|finished| finished.expect(0)).unwrap_or_else(|error| panic!("{error:#}"));
    assert!(!ended.lines.iter().any(|line| line.starts_with("restarting")), "{:?}", ended.lines);
    bed.job.check(&mut bed.judge).unwrap_or_else(|error| panic!("{error:#}"));
}

#[test]
fn row_12_commits_that_were_not_recorded_are_found_done() {
    let mut bed = bed("row-12");
    for (parallelism, script) in
        [(1, "commit sink 1, commit side 1, rename ledger 1: kill before"), (2, "commit sink 2, rename ledger 1: kill before")]
    {
        bed.dies(parallelism, script);
    }
    bed.ends_well(2);
}

/// Each of the steps 8 to 12 five times in a row, with another number of tasks each time.
#[test]
fn row_13_dying_again_and_again_while_recovering_changes_nothing() {
    let mut bed = bed("row-13");
    bed.dies(3, "commit sink 2: kill before");
    for parallelism in [1, 3, 2, 4, 2] {
        bed.dies(parallelism, "resolve sink 1: kill before");
    }
    for parallelism in [2, 1, 3, 2, 1] {
        bed.dies(parallelism, "commit sink 1: kill before");
    }
    for parallelism in [3, 1, 2, 4, 1] {
        bed.dies(parallelism, "commit sink 1: kill after");
    }
    // The claim is the first entry.
    for parallelism in [1, 2, 3, 1, 2] {
        bed.dies(parallelism, "rename ledger 2: kill before");
    }
    for parallelism in [2, 3, 1, 2, 3] {
        bed.dies(parallelism, "sweep sink 1: kill after");
    }
    bed.ends_well(2);
}

/// A second process takes over while the first is halted; then the first goes on.
#[test]
fn row_15_transactions_of_a_worker_that_comes_back_never_become_visible() {
    let scripts =
        ["write sink 3000: halt before", "prepare sink 5: halt before", "answer sink 5: halt before", "commit sink 3: halt before"];
    for (number, script) in scripts.iter().enumerate() {
        let mut bed = bed(&format!("row-15-{number}"));
        let first = bed.halts(&slow(2, script));
        if number % 2 == 0 {
            bed.ends_well(3);
        } else {
            // What durable epochs of the first name, it has committed by then.
            bed.dies(3, "rename manifest 2, commit sink 1: kill before");
        }
        let visible = bed.visible();
        first.signal(Signal::CONT).expect("a signal");
        let fenced = first.wait(PATIENCE).and_then(|finished| finished.expect(3)).unwrap_or_else(|error| panic!("{script}: {error:#}"));
        assert!(fenced.errors.contains("newer generation"), "{script}: {}", fenced.errors);
        assert_eq!(bed.visible(), visible, "{script}: something became visible");
        bed.ends_well(1);
    }
}

#[test]
fn row_17_transactions_of_tasks_that_are_gone_are_committed_by_others() {
    let scripts = ["rename manifest 2, answer sink 1: kill after", "commit sink 1: kill before", "commit sink 1: kill after"];
    for (number, script) in scripts.iter().enumerate() {
        let mut bed = bed(&format!("row-17-{number}"));
        bed.dies(3, script);
        bed.dies(5, script);
        bed.ends_well(2);
    }
}

#[test]
fn row_18_a_checkpoint_can_be_restored_again_and_again() {
    let mut bed = bed("row-18");
    let first = last_durable(&bed.dies(3, "answer sink 5, rename manifest 2: kill before"));
    // Each dies before its first checkpoint.
    let restored = [2, 1, 4].map(|parallelism| restored_from(&bed.dies(parallelism, "rename manifest 1: kill before")));
    assert!(restored[0] >= first && restored.iter().all(|epoch| *epoch == restored[0]), "{first:?} {restored:?}");
    bed.ends_well(3);
}

/// A person takes the job back: what follows the point is new output, nothing of it is skipped, and the job says so.
#[test]
fn row_18_after_a_rewind_what_follows_is_new_output_and_nothing_is_skipped() {
    let mut bed = bed_with("row-18-rewind", Fed { bad: 0, partitions: 1, ..FED });
    let mut running = bed.job.start(&slow(2, "")).expect("a start");
    for _ in 0..6 {
        let has_output = |line: &str| line.starts_with("durable ") && !line.ends_with(" with 0");
        running.until(PATIENCE, "epoch with output", has_output).expect("progress");
    }
    running.signal(Signal::TERM).expect("a signal");
    let stopped = running.wait(PATIENCE).and_then(|finished| finished.expect(0)).expect("a stop");
    let first = bed.visible_texts();
    let back = last_durable(&stopped).expect("an epoch") - 2;
    let rewound = bed.job.run(&Start::with(3).more(&["--restore", &back.to_string()])).and_then(|finished| finished.expect(0));
    let rewound = rewound.unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(restored_from(&rewound), Some(back));
    assert!(rewound.errors.contains("again"), "it does not say that output is repeated:\n{}", rewound.errors);
    let all = bed.visible_texts();
    assert!(all.starts_with(&first), "what was committed has changed");
    // The second timeline ends as an undisturbed job does, and goes on from a point of the first one.
    let second: BTreeSet<&String> = all[first.len()..].iter().collect();
    let kept = first.iter().filter(|text| !second.contains(text)).count();
    assert_eq!(second.len(), all.len() - first.len(), "the second timeline has doubles");
    assert_eq!(second.len() + kept, usize::try_from(bed.job.fed.payments).expect("a number"), "the second timeline has holes");
    assert!(kept < first.len(), "nothing was written again: the rewind went nowhere");
    assert_eq!(bed.open(), 0);
}

/// A checkpoint of a running job is no beginning for another one; a second job beside it leaves the first one's transactions alone.
#[test]
fn row_19_a_job_of_another_name_touches_nothing_of_a_running_one() {
    let mut bed = bed("row-19");
    let mut first = bed.job.start(&slow(2, "")).expect("a start");
    first.until(PATIENCE, "third epoch", |line| line.starts_with("committed 3")).expect("progress");
    let manifests = bed.job.folder().join("manifests");
    let manifest = std::fs::read_dir(&manifests).expect("manifests").next().expect("a manifest").expect("an entry").path();
    let mut fork = bed.job.clone();
    fork.name = "row-19-out".into();
    let restore = manifest.display().to_string();
    let refused = fork.run(&slow(2, "").more(&["--restore", &restore])).and_then(|finished| finished.expect(4));
    let refused = refused.unwrap_or_else(|error| panic!("{error:#}"));
    assert!(refused.errors.contains("J106"), "{}", refused.errors);
    // From the beginning, to topics of its own, at the same time.
    let mut second = bed_named("row-19-out", "row-19-second");
    second.ends_well(3);
    let ended = first.wait(PATIENCE).and_then(|finished| finished.expect(0)).unwrap_or_else(|error| panic!("{error:#}"));
    assert!(!ended.lines.iter().any(|line| line.starts_with("restarting")), "{:?}", ended.lines);
    bed.job.check(&mut bed.judge).unwrap_or_else(|error| panic!("{error:#}"));
}

/// One partition has all payments, the other a few texts that go to the dead letters: who reads that one, and writes those, is early at the end.
#[test]
fn row_20_one_of_two_writers_is_at_its_end_when_the_job_dies() {
    let mut bed = bed_with("row-20", Fed { accounts: 1, partitions: 2, ..FED });
    bed.dies(2, "rename manifest 5: kill before");
    bed.dies(2, "rename manifest 3, commit side 1: kill before");
    bed.ends_well(2);
}

#[test]
fn row_20_the_last_epoch_is_committed_after_a_crash_at_its_end() {
    for (number, script) in ["commit sink 1: kill before", "commit sink 1: kill after", "rename ledger 3: kill before"].iter().enumerate() {
        let mut bed = bed(&format!("row-20-{number}"));
        // At full speed there is one epoch: the last.
        bed.job.dies(&Start { interval: LONG, ..Start::with(2).faults(script) }).unwrap_or_else(|error| panic!("{error:#}"));
        bed.ends_well(3);
    }
}

#[test]
fn row_21_a_job_that_was_asked_to_stop_has_committed_everything_and_goes_on_from_there() {
    let mut bed = bed("row-21");
    let mut running = bed.job.start(&slow(3, "")).expect("a start");
    running.until(PATIENCE, "second epoch", |line| line.starts_with("durable 2")).expect("progress");
    running.signal(Signal::TERM).expect("a signal");
    let stopped = running.wait(PATIENCE).and_then(|finished| finished.expect(0)).expect("a stop");
    assert!(stopped.lines.iter().any(|line| line == "finished Stop"), "{:?}", stopped.lines);
    assert_eq!(bed.open(), 0);
    bed.ends_well(2);
}

#[test]
fn row_21_a_crash_before_or_after_the_seal_of_the_last_checkpoint_loses_nothing() {
    let scripts =
        ["rename manifest 1: kill before", "rename ledger 2: kill after", "commit sink 1: kill before", "commit sink 1: kill after"];
    for (number, script) in scripts.iter().enumerate() {
        let mut bed = bed(&format!("row-21-{number}"));
        let start = Start { interval: LONG, ..slow(3, &format!("write sink 2000: stop after; {script}")) };
        bed.job.dies(&start).unwrap_or_else(|error| panic!("{script}: {error:#}"));
        // The next start either goes on, or brings the stop to its end.
        let next = bed.job.run(&Start { interval: LONG, ..slow(2, "write sink 500: kill before") }).expect("an end");
        if !next.was_killed() {
            assert!(next.code() == Some(0) && next.lines.iter().any(|line| line == "finished Stop"), "{script}: {next:?}");
            assert_eq!(bed.open(), 0, "{script}: stopped, and not all is committed");
        }
        bed.ends_well(2);
    }
}
