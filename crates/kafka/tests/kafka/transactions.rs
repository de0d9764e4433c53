//! Transactions, their coordinator and their readers.

use staunch_kafka::control::{Decision, Described, Ended, Openness, Producer, TransactionPhase, Written};
use staunch_kafka_testbed::shared;

use crate::writer::{Writer, committed, control, described, ended, judged_topic};

const MINUTE_MS: u32 = 60_000;

#[test]
fn a_transaction_outlives_its_producer_and_another_client_commits_it() {
    let mut judge = judged_topic(shared(), "outlives");
    let mut control = control(shared());
    let writer = Writer::open(shared(), "outlives", MINUTE_MS);
    writer.begin();
    writer.write("outlives", &["a", "b"]);
    let open = described(&mut control, "outlives");
    assert_eq!((open.phase, open.timeout_ms), (TransactionPhase::Ongoing, 60_000));
    assert_eq!(open.partitions, [("outlives".to_owned(), vec![0])]);
    drop(writer);
    assert_eq!(described(&mut control, "outlives"), open, "the end of the producer changes nothing");
    let ends = judge.ends("outlives").expect("ends");
    assert_eq!((ends[0].high_watermark, ends[0].last_stable_offset), (2, 0), "written, and not visible");
    assert_eq!(judge.read("outlives").expect("records"), []);

    assert_eq!(control.end_transaction("outlives", open.producer, Decision::Commit).expect("an answer"), Ended::AsAsked);
    assert_eq!(committed(&mut judge, "outlives"), ["a", "b"]);
    let done = ended(&mut control, "outlives");
    assert_eq!((done.phase, done.producer, done.start_ms), (TransactionPhase::CompleteCommit, open.producer, open.start_ms));
}

#[test]
fn whatever_is_delivered_is_enrolled_so_that_a_flush_without_errors_is_a_prepare() {
    const PARTITIONS: i32 = 8;
    let mut judge = shared().judge().expect("a judge");
    judge.create_topic("enrolled", 8).expect("a topic");
    let mut control = control(shared());
    let writer = Writer::open(shared(), "enrolled", MINUTE_MS);
    writer.begin();
    writer.write_to("enrolled", 0..PARTITIONS, "a");
    let mut open = described(&mut control, "enrolled");
    open.partitions[0].1.sort_unstable();
    assert_eq!(open.partitions, [("enrolled".to_owned(), (0..PARTITIONS).collect())]);
    drop(writer);
    assert_eq!(control.end_transaction("enrolled", open.producer, Decision::Commit).expect("an answer"), Ended::AsAsked);
    judge.settle("enrolled").expect("no transaction stays open");
    let read: Vec<i32> = judge.read("enrolled").expect("records").iter().map(|record| record.partition).collect();
    assert_eq!(read, (0..PARTITIONS).collect::<Vec<_>>());
}

#[test]
fn a_repeated_commit_is_answered_like_the_first_and_changes_nothing() {
    let mut judge = judged_topic(shared(), "repeated");
    let mut control = control(shared());
    let writer = Writer::open(shared(), "repeated", MINUTE_MS);
    writer.begin();
    writer.write("repeated", &["a"]);
    let producer = described(&mut control, "repeated").producer;
    // The first repetition finds the markers under way, or not; the last one finds them written.
    for _ in 0..2 {
        assert_eq!(control.end_transaction("repeated", producer, Decision::Commit).expect("an answer"), Ended::AsAsked);
    }
    assert_eq!(committed(&mut judge, "repeated"), ["a"]);
    let end = judge.settle("repeated").expect("ends");
    assert_eq!(control.end_transaction("repeated", producer, Decision::Commit).expect("an answer"), Ended::AsAsked);
    assert_eq!(control.end_transaction("repeated", producer, Decision::Abort).expect("an answer"), Ended::NotOpen);
    assert_eq!(judge.settle("repeated").expect("ends"), end, "no further marker was written");
}

#[test]
fn a_commit_after_an_abort_is_refused() {
    let mut judge = judged_topic(shared(), "aborted");
    let mut control = control(shared());
    let writer = Writer::open(shared(), "aborted", MINUTE_MS);
    writer.begin();
    writer.write("aborted", &["a"]);
    let open = described(&mut control, "aborted");
    assert_eq!(control.end_transaction("aborted", open.producer, Decision::Abort).expect("an answer"), Ended::AsAsked);
    assert_eq!(control.end_transaction("aborted", open.producer, Decision::Commit).expect("an answer"), Ended::NotOpen);
    assert_eq!(committed(&mut judge, "aborted"), Vec::<String>::new());
    let done = ended(&mut control, "aborted");
    assert_eq!((done.phase, done.producer, done.start_ms), (TransactionPhase::CompleteAbort, open.producer, open.start_ms));
}

#[test]
fn a_transaction_past_its_timeout_is_aborted_with_its_epoch_raised_and_its_start_kept() {
    let mut judge = judged_topic(shared(), "expired");
    let mut control = control(shared());
    let writer = Writer::open(shared(), "expired", 2_000);
    writer.begin();
    writer.write("expired", &["a"]);
    let open = described(&mut control, "expired");
    assert_eq!(committed(&mut judge, "expired"), Vec::<String>::new());
    let done = ended(&mut control, "expired");
    let raised = Producer { epoch: open.producer.epoch + 1, ..open.producer };
    assert_eq!((done.phase, done.producer, done.start_ms), (TransactionPhase::CompleteAbort, raised, open.start_ms));
    assert_ne!(control.end_transaction("expired", open.producer, Decision::Commit).expect("an answer"), Ended::AsAsked);
    assert_eq!(committed(&mut judge, "expired"), Vec::<String>::new());
}

#[test]
fn an_id_that_was_never_used_is_unknown() {
    let mut control = control(shared());
    assert_eq!(control.describe_transaction("never-used").expect("an answer"), Described::Unknown);
    let nobody = Producer { id: 4711, epoch: 0 };
    assert_eq!(control.end_transaction("never-used", nobody, Decision::Commit).expect("an answer"), Ended::UnknownProducer);
}

#[test]
fn two_transactions_of_one_handle_differ_in_nothing_but_their_start() {
    let mut judge = judged_topic(shared(), "trap");
    let mut control = control(shared());
    let writer = Writer::open(shared(), "trap", MINUTE_MS);
    writer.begin();
    writer.write("trap", &["first"]);
    let first = described(&mut control, "trap");
    writer.commit();
    writer.begin();
    writer.write("trap", &["half of the second"]);
    let second = described(&mut control, "trap");
    assert_eq!((first.producer, first.phase), (second.producer, second.phase));
    assert!(first.start_ms < second.start_ms, "{first:?} {second:?}");
    // The trap: who ends the first by id and epoch commits the half of the second.
    assert_eq!(control.end_transaction("trap", first.producer, Decision::Commit).expect("an answer"), Ended::AsAsked);
    assert_eq!(committed(&mut judge, "trap"), ["first", "half of the second"]);
}

#[test]
fn a_new_handle_of_the_same_id_aborts_what_was_prepared() {
    let mut judge = judged_topic(shared(), "taken-over");
    let mut control = control(shared());
    let writer = Writer::open(shared(), "taken-over", MINUTE_MS);
    writer.begin();
    writer.write("taken-over", &["a"]);
    let open = described(&mut control, "taken-over");
    let _second = Writer::open(shared(), "taken-over", MINUTE_MS);
    assert_eq!(committed(&mut judge, "taken-over"), Vec::<String>::new());
    let now = ended(&mut control, "taken-over");
    assert_eq!((now.phase, now.producer.id, now.start_ms), (TransactionPhase::Empty, open.producer.id, None));
    assert!(now.producer.epoch > open.producer.epoch);
    assert_eq!(control.end_transaction("taken-over", open.producer, Decision::Commit).expect("an answer"), Ended::Fenced);
}

#[test]
fn a_fenced_handle_can_commit_nothing() {
    let mut judge = judged_topic(shared(), "fenced");
    let mut control = control(shared());
    let writer = Writer::open(shared(), "fenced", MINUTE_MS);
    writer.begin();
    writer.write("fenced", &["a"]);
    let open = described(&mut control, "fenced");
    let now = control.fence("fenced", 60_000).expect("the coordinator answers");
    assert!(now.epoch > open.producer.epoch, "{now:?}");
    writer.try_commit().expect_err("a newer producer has the id");
    assert_eq!(committed(&mut judge, "fenced"), Vec::<String>::new());
    let error = control.fence("fenced", 100_000_000).expect_err("above the broker's maximum");
    assert_eq!(error.code(), "K024", "{error}");
}

#[test]
fn a_handle_goes_on_after_another_client_committed_for_it() {
    let mut judge = judged_topic(shared(), "for-it");
    let mut control = control(shared());
    let writer = Writer::open(shared(), "for-it", MINUTE_MS);
    writer.begin();
    writer.write("for-it", &["a"]);
    let open = described(&mut control, "for-it");
    assert_eq!(control.end_transaction("for-it", open.producer, Decision::Commit).expect("an answer"), Ended::AsAsked);
    writer.commit();
    writer.begin();
    writer.write("for-it", &["b"]);
    writer.commit();
    assert_eq!(committed(&mut judge, "for-it"), ["a", "b"]);
    assert_eq!(described(&mut control, "for-it").producer, open.producer);
}

#[test]
fn the_list_has_every_id_with_the_prefix_and_agrees_with_the_tool_of_kafka() {
    let mut control = control(shared());
    let _judge = judged_topic(shared(), "listed");
    let writers = ["list/a", "list/b", "other/list/c"].map(|id| Writer::open(shared(), id, MINUTE_MS));
    writers[1].begin();
    writers[1].write("listed", &["open"]);
    let listed = control.list_transactions("list/").expect("a list");
    let seen: Vec<(&str, TransactionPhase)> = listed.iter().map(|l| (l.transactional_id.as_str(), l.phase)).collect();
    assert_eq!(seen, [("list/a", TransactionPhase::Empty), ("list/b", TransactionPhase::Ongoing)]);
    let tool = shared().transactions().expect("the tool's list");
    let of_tool = |id: &str| tool.iter().find(|t| t.transactional_id == id).map(|t| (t.producer_id, t.phase.clone()));
    for ours in &listed {
        assert_eq!(of_tool(&ours.transactional_id), Some((ours.producer_id, ours.phase.to_string())));
    }
    writers[1].abort();
}

/// A fact about brokers that a sweep has to live with: while a transaction is open only the producer's id is compared, not its epoch.
#[test]
fn taking_an_id_away_from_an_older_epoch_aborts_what_a_newer_epoch_of_the_same_producer_has_open() {
    let mut judge = judged_topic(shared(), "older-epoch");
    let mut control = control(shared());
    drop(Writer::open(shared(), "older-epoch", MINUTE_MS));
    let Described::Known(old) = control.describe_transaction("older-epoch").expect("an answer") else { panic!("the id was taken over") };
    let writer = Writer::open(shared(), "older-epoch", MINUTE_MS);
    writer.begin();
    writer.write("older-epoch", &["a"]);
    let open = described(&mut control, "older-epoch");
    assert_eq!(open.producer, Producer { epoch: old.producer.epoch + 1, ..old.producer });
    assert_eq!(control.fence_producer("older-epoch", old.producer, 60_000).expect("an answer"), None, "it is said to be left alone");
    assert_eq!(ended(&mut control, "older-epoch").phase, TransactionPhase::CompleteAbort);
    assert_eq!(committed(&mut judge, "older-epoch"), Vec::<String>::new());
}

#[test]
fn a_marker_that_is_not_the_coordinators_ends_a_transaction_and_shuts_the_partition_to_its_producer() {
    for (name, decision, expected) in [("marked", Decision::Commit, vec!["a"]), ("unmarked", Decision::Abort, vec![])] {
        let mut judge = judged_topic(shared(), name);
        let mut control = control(shared());
        let writer = Writer::open(shared(), name, MINUTE_MS);
        writer.begin();
        writer.write(name, &["a"]);
        let producer = described(&mut control, name).producer;
        let written = |last| [Written { topic: name.into(), partition: 0, last }];
        let open = control.open_in(producer.id, &written(0)).expect("an answer").open;
        assert_eq!(open.iter().map(|open| (open.partition, open.start, open.producer)).collect::<Vec<_>>(), [(0, 0, producer)]);
        // Of somebody else, or behind what is asked about, nothing is open.
        assert_eq!(control.open_in(producer.id + 1, &written(0)).expect("an answer"), Openness::default());
        assert_eq!(control.open_in(producer.id, &written(-1)).expect("an answer"), Openness::default());
        assert_eq!(
            control.open_in(producer.id, &[Written { topic: "no-such-topic".into(), partition: 0, last: 9 }]).expect("an answer"),
            Openness::default()
        );

        let next = Producer { epoch: producer.epoch + 1, ..producer };
        for _ in 0..2 {
            control.write_marker(&open[0], next, decision).expect("it is written");
        }
        assert_eq!(control.open_in(producer.id, &written(9)).expect("an answer"), Openness::default());
        assert_eq!(committed(&mut judge, name), expected);
        assert!(writer.try_write(name, "b").is_err(), "the partition takes more from the producer");
        assert_eq!(committed(&mut judge, name), expected);
        assert_eq!(control.end_transaction(name, producer, Decision::Abort).expect("an answer"), Ended::AsAsked);
    }
}
