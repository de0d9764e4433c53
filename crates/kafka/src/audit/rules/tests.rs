//! Partitions written here batch by batch, with transactions of ours and of others, and what an audit says of them.

use super::*;
use crate::control::batch::take;
use crate::control::batch::tests::{Pair, batch};

const OURS: Producer = Producer { id: 7, epoch: 2 };
const OTHER: Producer = Producer { id: 8, epoch: 0 };
const PLAIN: Producer = Producer { id: -1, epoch: -1 };
const NOW_MS: i64 = 1_000_000_000;
const COMMIT: Part = Part::End(Decision::Commit);
const ABORT: Part = Part::End(Decision::Abort);

/// A partition being written.
#[derive(Default)]
struct Log {
    bytes: Vec<u8>,
    next: i64,
}

impl Log {
    fn add(&mut self, producer: Producer, part: Part, values: &[&str]) -> &mut Log {
        let pairs: Vec<Pair<'_>> = values.iter().map(|value| (Some(&b"key"[..]), Some(value.as_bytes()))).collect();
        let count = if values.is_empty() { 1 } else { values.len() };
        self.bytes.extend(batch(self.next, producer, part, &pairs));
        self.next += count as i64;
        self
    }
}

fn digest(values: &[&str]) -> Digest {
    let (mut digest, mut scratch) = (Digest::default(), Vec::new());
    for value in values {
        digest_bytes(Some(b"key"), Some(value.as_bytes()), &mut scratch);
        digest.add(&scratch);
    }
    digest
}

/// An output with these values between two offsets.
fn output(first: i64, last: i64, values: &[&str]) -> Output {
    let range = Range { topic: "t".into(), partition: 0, first, last, messages: values.len() as u64 };
    Output {
        epoch: Epoch(1),
        producer: OURS,
        fate: Fate::Committed,
        chosen: true,
        digest: digest(values),
        oldest_ms: NOW_MS - 1000,
        started_ms: NOW_MS - 1000,
        places: vec![Place { range, found: 0, end: None, reading: Reading::Read }],
        found: Digest::default(),
    }
}

fn own() -> Own {
    Own { producers: [OURS.id].into(), excused: [99].into() }
}

/// Reads a partition; what was committed and is named by nothing, and the messages of others.
fn read(log: &Log, outputs: &mut [Output]) -> (Vec<Span>, u64) {
    let own = own();
    let mut rules = PartitionRules::new("t", 0, outputs, &own);
    let (mut rest, mut foreign) = (&log.bytes[..], 0);
    while let Some(batch) = take(&mut rest).expect("a batch") {
        if rules.take(&batch, 0, outputs).expect("messages") == Whose::Foreign {
            foreign += batch.messages;
        }
    }
    (rules.unnamed, foreign)
}

fn verdict(output: &Output) -> Result<&'static str, Deviation> {
    verdict_with(output, Retention { compacts: false, limits: Some(Limits { ms: Some(3_600_000), ..Limits::default() }) })
}

fn verdict_with(output: &Output, retention: Retention) -> Result<&'static str, Deviation> {
    match judge(output, &[("t".to_owned(), retention)].into(), NOW_MS) {
        Verdict::Proven => Ok("proven"),
        Verdict::Open => Ok("open"),
        Verdict::DoubtfulAborted => Ok("aborted in doubt"),
        Verdict::Unproven(why) => Ok(why),
        Verdict::Deviates(findings) => Err(findings[0].deviation),
    }
}

/// What an audit says of an output with `expected` at the offsets 0 and 1 of a log.
fn says(log: &Log, expected: &[&str]) -> Result<&'static str, Deviation> {
    let mut outputs = [output(0, 1, expected)];
    read(log, &mut outputs);
    verdict(&outputs[0])
}

#[test]
fn messages_of_others_between_ours_change_nothing() {
    let mut log = Log::default();
    log.add(PLAIN, Part::Plain, &["x"]).add(OURS, Part::Transaction, &["a"]).add(OTHER, Part::Transaction, &["a"]);
    log.add(OTHER, ABORT, &[]).add(OURS, Part::Transaction, &["b"]).add(PLAIN, Part::Plain, &["a", "b"]).add(OURS, COMMIT, &[]);
    let mut outputs = [output(1, 4, &["b", "a"])];
    let (unnamed, foreign) = read(&log, &mut outputs);
    assert_eq!((verdict(&outputs[0]), unnamed, foreign), (Ok("proven"), Vec::new(), 4));
    assert_eq!(outputs[0].found, digest(&["a", "b"]));
}

#[test]
fn what_is_missing_added_changed_or_not_visible_is_called_so() {
    let mut log = Log::default();
    log.add(OURS, Part::Transaction, &["a", "b"]);
    assert_eq!(says(&log, &["a", "b"]), Err(Deviation::Hidden));
    assert_eq!(says(&log, &["a", "b", "c"]), Err(Deviation::Missing));
    log.add(OURS, COMMIT, &[]);
    assert_eq!(says(&log, &["a", "b"]), Ok("proven"));
    assert_eq!(says(&log, &["a", "b", "c"]), Err(Deviation::Missing));
    assert_eq!(says(&log, &["a"]), Err(Deviation::Added));
    assert_eq!(says(&log, &["a", "c"]), Err(Deviation::Changed));
    assert_eq!(says(&Log::default(), &["a", "b"]), Err(Deviation::Missing));
    let mut log = Log::default();
    log.add(OURS, Part::Transaction, &["a", "b"]).add(OURS, ABORT, &[]);
    assert_eq!(says(&log, &["a", "b"]), Err(Deviation::Aborted));
}

#[test]
fn transactions_of_one_producer_are_told_apart_by_their_ranges_and_end_one_after_the_other() {
    let mut log = Log::default();
    log.add(OURS, Part::Transaction, &["a"]).add(OURS, COMMIT, &[]).add(OURS, Part::Transaction, &["b"]).add(OURS, ABORT, &[]);
    log.add(OURS, Part::Transaction, &["c"]);
    let mut outputs = [output(0, 0, &["a"]), output(2, 2, &["b"]), output(4, 4, &["c"])];
    read(&log, &mut outputs);
    assert_eq!(outputs.each_ref().map(verdict), [Ok("proven"), Err(Deviation::Aborted), Err(Deviation::Hidden)]);
}

#[test]
fn what_our_producers_commit_and_no_epoch_names_is_found_and_what_they_abort_is_not() {
    let older = Producer { epoch: 1, ..OURS };
    let mut log = Log::default();
    log.add(older, Part::Transaction, &["a"]).add(older, ABORT, &[]).add(older, Part::Transaction, &["a", "b"]).add(older, COMMIT, &[]);
    log.add(Producer { id: 99, epoch: 0 }, Part::Transaction, &["z"]).add(OURS, Part::Transaction, &["c"]).add(OURS, COMMIT, &[]);
    log.add(OURS, Part::Transaction, &["open"]);
    // An epoch that wrote the same range, with the producer of another generation.
    let mut outputs = [output(6, 6, &["c"]), output(2, 3, &["a", "b"])];
    let (unnamed, foreign) = read(&log, &mut outputs);
    let span = Span { topic: "t".into(), partition: 0, producer_id: 7, first: 2, last: 3, messages: 2 };
    assert_eq!((unnamed, foreign), (vec![span], 0));
    assert_eq!(outputs.each_ref().map(verdict), [Ok("proven"), Err(Deviation::Missing)]);
}

#[test]
fn an_output_in_doubt_may_be_open_or_committed_and_is_compared_if_committed() {
    let doubtful = |log: &Log, values: &[&str]| {
        let mut outputs = [Output { fate: Fate::InDoubt, ..output(0, 0, values) }];
        read(log, &mut outputs);
        verdict(&outputs[0])
    };
    let mut log = Log::default();
    log.add(OURS, Part::Transaction, &["a"]);
    assert_eq!(doubtful(&log, &["a"]), Ok("open"));
    log.add(OURS, COMMIT, &[]);
    assert_eq!(doubtful(&log, &["a"]), Ok("proven"));
    assert_eq!(doubtful(&log, &["b"]), Err(Deviation::Changed));
    let mut log = Log::default();
    log.add(OURS, Part::Transaction, &["a"]).add(OURS, ABORT, &[]);
    assert_eq!(doubtful(&log, &["a"]), Ok("aborted in doubt"));
}

#[test]
fn what_is_deleted_is_lost_unless_retention_may_have_removed_it() {
    let mut deleted = output(0, 1, &["a", "b"]);
    deleted.places[0].reading = Reading::Deleted;
    let keeps = |ms, bytes, by_arrival| Retention { compacts: false, limits: Some(Limits { ms, bytes, by_arrival }) };
    let hour = 3_600_000;
    assert_eq!(verdict_with(&deleted, keeps(Some(hour), None, false)), Err(Deviation::Deleted));
    assert_eq!(verdict_with(&deleted, keeps(None, None, false)), Err(Deviation::Deleted));
    // Messages of long ago, as events may be, go at once.
    deleted.oldest_ms = NOW_MS - 2 * hour;
    assert!(verdict_with(&deleted, keeps(Some(hour), None, false)).expect("no finding").contains("no longer provable"));
    assert_eq!(verdict_with(&deleted, keeps(Some(hour), None, true)), Err(Deviation::Deleted));
    for may_remove in [keeps(None, Some(1), false), Retention { compacts: false, limits: None }] {
        assert!(verdict_with(&deleted, may_remove).expect("no finding").contains("no longer provable"));
    }
    deleted.places[0].reading = Reading::Compacted;
    assert!(verdict(&deleted).expect("no finding").contains("compacted"));
    deleted.places[0].reading = Reading::Absent;
    assert_eq!(verdict(&deleted), Err(Deviation::Missing));
}
