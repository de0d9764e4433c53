//! What a start looks at before anything runs: whether another job has the same names, and whether transactions may be open for long enough.

use std::sync::Arc;
use std::time::Duration;

use staunch_api::testkit::{ImmediateDoor, MemoryFiles, MemoryStore, SinkCase};
use staunch_api::{Committer as _, Sink as _, SinkContext, SweepScope, WriterContext};
use staunch_kafka::KafkaSink;
use staunch_kafka_testbed::shared;
use staunch_types::{Epoch, Error, ErrorKind, Generation, LedgerId};

use crate::verdicts::{MINUTE, prepared, ready, with_case};
use crate::writer::judged_topic;

#[track_caller]
fn refused(error: &Error, code: &str, needed: &[&str]) {
    let text = error.to_string();
    assert_eq!((error.code(), error.kind()), (code, ErrorKind::Invalid), "{text}");
    for word in needed {
        assert!(text.contains(word), "\"{word}\" is not in: {text}");
    }
}

#[test]
fn report_08_a_job_of_the_same_name_is_refused_and_the_first_one_goes_on() {
    with_case(shared(), "namesake", MINUTE, |case| {
        let of = |ledger: Option<u64>| SinkContext { ledger: ledger.map(LedgerId), ..case.context(1) };
        let mut writer = ready(case, 1);
        let first = prepared(case, &mut writer, 1);
        for ledger in [None, Some(0), Some(99)] {
            let error = case.sink.check(&of(ledger)).expect_err("another job");
            refused(&error, "K065", &["named namesake", "named sink", "open", "ledger=0000000000000007", "--take-over sink"]);
        }
        case.sink.check(&case.context(1)).expect("it is this one");
        case.commit(1, &[first]);
        assert_eq!((case.visible)(), [1], "it is unharmed");
        // Nothing of it is open now; it has written all the same.
        refused(&case.sink.check(&of(Some(99))).expect_err("another job"), "K065", &["has written to"]);

        // A person says that it is over: what it has open is aborted, also by a first generation.
        let second = prepared(case, &mut writer, 2);
        let over = SinkContext { takes_over: true, ..of(Some(99)) };
        case.sink.check(&over).expect("a person knows better");
        let scope = SweepScope { generation: Generation(1), durable: Epoch(0), ..SweepScope::default() };
        let left = case.sink.committer(of(Some(99))).and_then(|mut committer| committer.sweep(&scope)).expect("swept");
        assert_eq!(left.removed, Vec::<String>::new(), "not without a person's word");
        let swept = case.sink.committer(over).and_then(|mut committer| committer.sweep(&scope)).expect("swept");
        let id = second.description.split(' ').nth(1).expect("an id");
        assert!(swept.removed.len() == 1 && swept.removed[0].contains(id), "{swept:?} is not {id}");
        assert_eq!((case.visible)(), [1]);
    });
}

#[test]
fn a_copy_of_a_ledger_that_others_went_on_with_is_refused() {
    with_case(shared(), "copied", MINUTE, |case| {
        let of = |generation: u64| SinkContext { generation: Generation(generation), ..case.context(1) };
        // The job went on from its third start; a copy of its directory knows of two.
        let mut writer = ready(case, 3);
        let output = prepared(case, &mut writer, 1);
        case.commit(3, &[output]);
        case.sink.check(&of(3)).expect("it is this one");
        for _ in 0..2 {
            refused(&case.sink.check(&of(2)).expect_err("a copy"), "K067", &["generation 3", "generation 2", "--take-over sink"]);
        }
        case.sink.check(&SinkContext { takes_over: true, ..of(2) }).expect("a person knows better");
    });
}

#[test]
fn a_topic_of_marks_that_forgets_is_refused() {
    let _judge = judged_topic(shared(), "forgetful");
    // Made by hand, with the policy that topics have unless they are made otherwise.
    let _marks = judged_topic(shared(), "forgetful-marks");
    let sink = KafkaSink::text(&shared().bootstrap(), "forgetful").mark_topic("forgetful-marks");
    let case = SinkCase::new(sink, Arc::new(MemoryFiles::default()), Arc::new(MemoryStore::default()), &|n| n.to_string(), &Vec::new);
    let error = case.sink.check(&case.context(1)).expect_err("marks would be deleted");
    refused(&error, "K068", &["forgetful-marks", "cleanup.policy", "\"delete\""]);
}

#[test]
fn what_a_job_without_a_checkpoint_directory_left_open_is_aborted_by_its_next_start() {
    with_case(shared(), "temporary", MINUTE, |case| {
        let of_it = WriterContext { ledger: LedgerId::default(), ..case.writer_context(1, 0, ImmediateDoor) };
        let mut writer = case.sink.writer(of_it, Vec::new()).expect("a writer");
        case.sink.check(&case.context(1)).expect("everything is there");
        let left = prepared(case, &mut writer, 1);
        drop(writer);
        let own = SinkContext { ledger: Some(LedgerId::default()), ..case.context(1) };
        case.sink.check(&own).expect("it is the same job");
        let scope = SweepScope { generation: Generation(1), durable: Epoch(0), ..SweepScope::default() };
        let swept = case.sink.committer(own).and_then(|mut committer| committer.sweep(&scope)).expect("swept");
        let id = left.description.split(' ').nth(1).expect("an id");
        assert!(swept.removed.len() == 1 && swept.removed[0].contains(id), "{swept:?} is not {id}");
        // A job with a checkpoint directory is not held up by what such a start wrote.
        case.sink.check(&SinkContext { ledger: None, ..case.context(1) }).expect("nothing is open");
    });
}

#[test]
fn transactions_that_time_out_before_the_next_checkpoint_or_in_the_allowed_downtime_are_refused() {
    let _judge = judged_topic(shared(), "outlasts");
    let check = |timeout: u64, downtime: u64, interval: u64| {
        let second = Duration::from_secs;
        let sink =
            KafkaSink::text(&shared().bootstrap(), "outlasts").transaction_timeout(second(timeout)).allowed_downtime(second(downtime));
        let case = SinkCase::new(sink, Arc::new(MemoryFiles::default()), Arc::new(MemoryStore::default()), &|n| n.to_string(), &Vec::new);
        case.sink.check(&SinkContext { interval: second(interval), ..case.context(1) })
    };
    check(30, 20, 10).expect("just long enough");
    refused(&check(30, 21, 10).expect_err("too short"), "K002", &["30000 ms", "10000 ms", "21000 ms", "transaction_timeout"]);
    refused(&check(30, 0, 31).expect_err("too short"), "K002", &["31000 ms"]);
    // The brokers allow 15 minutes.
    refused(&check(901, 0, 10).expect_err("too long"), "K002", &["901000 ms", "900000 ms"]);
}
