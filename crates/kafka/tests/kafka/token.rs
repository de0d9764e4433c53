//! The token: an offset committed into a private group within the transaction.

use std::time::Duration;

use staunch_kafka::control::{Decision, Described, Ended, TokenAnswer, TokenPlace};
use staunch_kafka::inquiry::Inquiry;
use staunch_kafka::resolve::{PreparedTransaction, Step, TokenMark};
use staunch_kafka_testbed::{Cluster, Options, shared};
use staunch_types::{Epoch, Generation, Timestamp};

use crate::writer::{QUESTIONS_MAX, Writer, committed, control, described, judged_topic};

const MINUTE_MS: u32 = 60_000;

fn place(name: &str) -> TokenPlace {
    TokenPlace { group: name.into(), topic: name.into(), partition: 0 }
}

fn mark(epoch: u64) -> TokenMark {
    TokenMark { generation: Generation(1), epoch: Epoch(epoch) }
}

#[test]
fn the_token_appears_with_the_commit_and_stays_after_the_next_abort() {
    let _judge = judged_topic(shared(), "token");
    let (mut control, place) = (control(shared()), place("token"));
    let writer = Writer::open(shared(), "token", MINUTE_MS);
    assert_eq!(control.token(&place).expect("an answer"), TokenAnswer::Absent);
    writer.begin();
    writer.write("token", &["a"]);
    writer.token(&place, mark(1));
    assert_eq!(control.token(&place).expect("an answer"), TokenAnswer::Unstable { last: None });
    assert!(described(&mut control, "token").partitions.iter().any(|(topic, _)| topic == "__consumer_offsets"), "it is in the transaction");
    writer.commit();
    let first = TokenAnswer::There(mark(1).token());
    assert_eq!(settled(&mut control, &place), first);

    writer.begin();
    writer.write("token", &["b"]);
    writer.token(&place, mark(2));
    assert_eq!(control.token(&place).expect("an answer"), TokenAnswer::Unstable { last: Some(mark(1).token()) });
    writer.abort();
    assert_eq!(settled(&mut control, &place), first, "an aborted transaction leaves no token");
}

#[test]
fn the_token_of_a_transaction_that_another_client_ends_counts_as_well() {
    let mut judge = judged_topic(shared(), "token-elsewhere");
    let (mut control, place) = (control(shared()), place("token-elsewhere"));
    let writer = Writer::open(shared(), "token-elsewhere", MINUTE_MS);
    writer.begin();
    writer.write("token-elsewhere", &["a"]);
    writer.token(&place, mark(9));
    drop(writer);
    let producer = described(&mut control, "token-elsewhere").producer;
    assert_eq!(control.end_transaction("token-elsewhere", producer, Decision::Commit).expect("an answer"), Ended::AsAsked);
    assert_eq!(committed(&mut judge, "token-elsewhere"), ["a"]);
    assert_eq!(settled(&mut control, &place), TokenAnswer::There(mark(9).token()));
}

#[test]
fn a_token_needs_a_partition_that_exists() {
    let _judge = judged_topic(shared(), "token-nowhere");
    let writer = Writer::open(shared(), "token-nowhere", MINUTE_MS);
    writer.begin();
    writer.write("token-nowhere", &["a"]);
    let nowhere = TokenPlace { partition: 1, ..place("token-nowhere") };
    // librdkafka asks again for as long as it may; the broker's answer is in the error.
    let error = writer.try_token(&nowhere, mark(1), Duration::from_secs(1)).expect_err("there is only partition 0");
    assert!(error.to_string().contains("Unknown topic or partition"), "{error}");
}

#[test]
fn a_record_in_a_shared_topic_waits_for_the_transactions_of_others() {
    let mut judge = judged_topic(shared(), "side");
    let stuck = Writer::open(shared(), "side-stuck", MINUTE_MS);
    stuck.begin();
    stuck.write("side", &["of somebody else"]);
    let writer = Writer::open(shared(), "side-done", MINUTE_MS);
    writer.begin();
    writer.write("side", &["token"]);
    writer.commit();
    assert_eq!(judge.read("side").expect("records"), [], "committed, and yet not readable");
    stuck.abort();
    assert_eq!(committed(&mut judge, "side"), ["token"]);
}

#[test]
fn the_token_outlives_the_coordinators_memory_of_the_id() {
    let options = Options::one().with("transactional.id.expiration.ms", "1000");
    let cluster = Cluster::start(&options.with("transaction.remove.expired.transaction.cleanup.interval.ms", "100")).expect("a broker");
    let mut judge = judged_topic(&cluster, "forgotten");
    let (mut control, place) = (control(&cluster), place("forgotten"));
    let writer = Writer::open(&cluster, "forgotten", MINUTE_MS);
    writer.begin();
    writer.write("forgotten", &["a"]);
    writer.token(&place, mark(3));
    let open = described(&mut control, "forgotten");
    writer.commit();
    assert_eq!(committed(&mut judge, "forgotten"), ["a"]);
    // Each question takes some time; the limit is what a busy machine may need.
    let forgotten = (0..QUESTIONS_MAX).any(|_| control.describe_transaction("forgotten").expect("an answer") == Described::Unknown);
    assert!(forgotten, "the coordinator forgets the id");
    assert_eq!(control.end_transaction("forgotten", open.producer, Decision::Commit).expect("an answer"), Ended::UnknownProducer);
    assert_eq!(control.token(&place).expect("an answer"), TokenAnswer::There(mark(3).token()));
    let start_ms = open.start_ms.expect("it had begun");
    for (epoch, committed) in [(3, true), (4, false)] {
        let prepared = PreparedTransaction { producer: open.producer, start_ms, mark: mark(epoch) };
        let inquiry = Inquiry { transactional_id: "forgotten", place: &place, prepared: &prepared };
        match inquiry.ask(&mut control, Timestamp(start_ms)).expect("an answer") {
            Step::Committed { .. } => assert!(committed, "{epoch}"),
            Step::Lost { .. } => assert!(!committed, "{epoch}"),
            step => panic!("{epoch} {step:?}"),
        }
    }
}

/// The token when no marker is under way to it any more.
fn settled(control: &mut staunch_kafka::Control, place: &TokenPlace) -> TokenAnswer {
    let stable = |answer: &TokenAnswer| !matches!(answer, TokenAnswer::Unstable { .. });
    let mut answers = (0..QUESTIONS_MAX).map(|_| control.token(place).expect("an answer"));
    answers.find(stable).expect("the markers come")
}
