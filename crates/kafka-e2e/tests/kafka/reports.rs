//! Faults that users of other systems met, at a real broker.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use staunch_kafka_e2e::job::{Fed, PATIENCE, Start};

use crate::support::{FED, bed, bed_with, last_durable, slow};

/// Transactional ids of one task of a sink.
const IDS_MAX: usize = 5;

#[test]
fn report_03_restoring_twice_finds_the_commit_done() {
    let mut bed = bed("report-03");
    // Committed and not recorded; the next generation finds that and dies before its first checkpoint; and once more.
    bed.dies(2, "rename manifest 2, commit sink 1, rename ledger 1: kill before");
    for parallelism in [3, 1] {
        bed.dies(parallelism, "rename manifest 1: kill before");
    }
    bed.ends_well(2);
}

/// While commits do not come through, the writers run out of ids and wait: none is used again for an epoch that is in doubt.
#[test]
fn report_04_an_id_whose_transaction_is_in_doubt_is_not_used_for_a_newer_one() {
    let mut bed = bed_with("report-04", Fed { bad: 0, ..FED });
    let mut running = bed.holds(&slow(1, "commit sink 3: hold before"));
    let mut control = bed.job.control().expect("a client");
    let began = Instant::now();
    let mut before = BTreeSet::new();
    // Each of the transactions stays the one that it was, whatever comes after it.
    while began.elapsed() < Duration::from_secs(2) {
        let open = bed.job.open(&mut control).expect("an answer");
        assert!(open.is_superset(&before), "a transaction in doubt is gone: {before:?} {open:?}");
        before = open;
        running.listen(Duration::from_millis(20));
    }
    assert!((2..=IDS_MAX).contains(&before.len()), "{before:?}");
    running.kill().expect("a kill");
    bed.ends_well(2);
}

#[test]
fn report_07_epochs_without_output_open_no_transaction_and_the_record_after_them_comes_through() {
    let mut bed = bed_with("report-07", Fed { payments: 0, accounts: 1, bad: 0, partitions: 1 });
    let mut running = bed.job.start(&Start::with(2).more(&["--follow", "1000"])).expect("a start");
    running.until(PATIENCE, "third epoch", |line| line.starts_with("durable 3 ")).expect("progress");
    bed.judge.feed(&bed.job.topic("in"), 0..1, 1, 0).expect("a payment");
    running.until(PATIENCE, "epoch with output", |line| line.starts_with("durable ") && line.ends_with(" with 1")).expect("progress");
    running.signal(Signal::TERM).expect("a signal");
    let stopped = running.wait(PATIENCE).and_then(|finished| finished.expect(0)).expect("a stop");
    let empty: Vec<&String> = stopped.lines.iter().filter(|line| line.ends_with(" with 0")).collect();
    assert!(empty.len() >= 3 && last_durable(&stopped) > Some(3), "{:?}", stopped.lines);
    bed.job.fed.payments = 1;
    bed.job.check(&mut bed.judge).unwrap_or_else(|error| panic!("{error:#}"));
}

#[test]
fn report_08_the_same_job_started_a_second_time_is_refused_and_the_first_goes_on() {
    let mut bed = bed("report-08");
    let mut first = bed.job.start(&slow(2, "")).expect("a start");
    first.until(PATIENCE, "second epoch", |line| line.starts_with("committed 2")).expect("progress");
    let mut second = bed.job.clone();
    second.root = bed.job.root.join("second");
    let refused = |start: &Start| {
        let finished = second.run(start).and_then(|finished| finished.expect(4)).unwrap_or_else(|error| panic!("{error:#}"));
        for needed in ["K065", "another job named report-08", "--take-over", "writes a second time", "nothing of the other job was touched"]
        {
            assert!(finished.errors.contains(needed), "\"{needed}\" is not in: {}", finished.errors);
        }
    };
    refused(&slow(2, ""));
    let ended = first.wait(PATIENCE).and_then(|finished| finished.expect(0)).unwrap_or_else(|error| panic!("{error:#}"));
    assert!(!ended.lines.iter().any(|line| line.starts_with("restarting")), "{:?}", ended.lines);
    bed.job.check(&mut bed.judge).unwrap_or_else(|error| panic!("{error:#}"));
    // It is over; with other checkpoints everything would be written once more.
    refused(&slow(2, ""));
    bed.ends_well(3);
}

#[test]
fn report_08_what_a_job_left_open_whose_checkpoints_are_gone_is_aborted_when_a_person_says_so() {
    let mut bed = bed("report-08-gone");
    let long = Duration::from_secs(300);
    bed.job.dies(&Start { interval: long, ..slow(2, "write sink 3000: kill before") }).unwrap_or_else(|error| panic!("{error:#}"));
    assert!(bed.open() > 0);
    std::fs::remove_dir_all(bed.job.root.join("checkpoints")).expect("it was there");
    let refused = bed.job.run(&Start::with(2)).and_then(|finished| finished.expect(4)).unwrap_or_else(|error| panic!("{error:#}"));
    assert!(refused.errors.contains("K065") && bed.open() > 0, "{}", refused.errors);
    bed.ends_well_with(&Start::with(2).more(&["--take-over", "out,bad"]));
    // Once is enough: from now on it has ids of its own.
    bed.ends_well(1);
}

#[test]
fn report_09_many_checkpoints_need_no_more_ids_than_a_ring_for_each_task() {
    let mut bed = bed("report-09");
    let start = Start { interval: Duration::from_millis(5), ..Start::with(2).rate(500) };
    let ended = bed.job.run(&start).and_then(|finished| finished.expect(0)).unwrap_or_else(|error| panic!("{error:#}"));
    let with_output = ended.lines.iter().filter(|line| line.starts_with("durable ") && !line.ends_with(" with 0")).count();
    assert!(with_output > 4 * IDS_MAX, "only {with_output} checkpoints had output");
    // Two sinks of two tasks each.
    let mut ids = bed.job.control().and_then(|mut control| Ok(control.list_transactions(&bed.job.prefix())?)).expect("a list");
    ids.retain(|listed| !listed.transactional_id.ends_with("+probe"));
    assert!(ids.len() <= 2 * 2 * IDS_MAX, "{ids:?}");
    bed.job.check(&mut bed.judge).unwrap_or_else(|error| panic!("{error:#}"));
}
