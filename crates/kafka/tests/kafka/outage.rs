//! A cluster of three that loses the coordinator while a transaction is in doubt.

use staunch_kafka::control::{Decision, Ended, Interrupt, Producer, TransactionPhase};
use staunch_kafka::{ClientSettings, Control};
use staunch_kafka_testbed::{Cluster, Options};
use staunch_types::ErrorKind;

use crate::writer::{Writer, committed, control, described, ended, judged_topic};

/// Times that a caller asks again; each is many attempts of the client.
const CALLS_MAX: u32 = 10;
/// As the testbed sets it.
const STATE_PARTITIONS: i32 = 4;

#[test]
fn a_commit_follows_the_coordinator_to_another_broker() {
    let mut cluster = Cluster::start(&Options::three()).expect("three brokers");
    let mut judge = judged_topic(&cluster, "outage");
    let mut control = control(&cluster);
    let writer = Writer::open(&cluster, "outage", 60_000);
    writer.begin();
    writer.write("outage", &["a", "b"]);
    let open = described(&mut control, "outage");
    drop(writer);
    let coordinator = coordinator(&mut control, "outage");
    cluster.kill(u32::try_from(coordinator).expect("nodes count from 1")).expect("it runs");
    assert_eq!(commit(&mut control, "outage", open.producer), Ended::AsAsked);
    assert_eq!(committed(&mut judge, "outage"), ["a", "b"]);
    let done = ended(&mut control, "outage");
    assert_eq!((done.phase, done.producer, done.start_ms), (TransactionPhase::CompleteCommit, open.producer, open.start_ms));
    assert_eq!(control.list_transactions("out").expect("the living brokers answer").len(), 1);
    assert_eq!(commit(&mut control, "outage", open.producer), Ended::AsAsked, "as often as one likes");
    assert_eq!(committed(&mut judge, "outage"), ["a", "b"]);
}

#[test]
fn a_prepared_transaction_outlives_its_only_broker() {
    let mut cluster = Cluster::start(&Options::one()).expect("a broker");
    let mut judge = judged_topic(&cluster, "killed");
    let mut control = control(&cluster);
    let writer = Writer::open(&cluster, "killed", 600_000);
    writer.begin();
    writer.write("killed", &["a", "b"]);
    let open = described(&mut control, "killed");
    cluster.kill(1).expect("it runs");
    drop(writer);
    cluster.restart(1).expect("it starts on its old storage");
    assert_eq!(described(&mut control, "killed"), open, "also the start is the same");
    assert_eq!(judge.ends("killed").expect("ends")[0].last_stable_offset, 0);
    assert_eq!(commit(&mut control, "killed", open.producer), Ended::AsAsked);
    assert_eq!(committed(&mut judge, "killed"), ["a", "b"]);
}

#[test]
fn a_broker_that_is_gone_is_an_error_that_may_pass() {
    let mut cluster = Cluster::start(&Options::one()).expect("a broker");
    let settings = [("bootstrap.servers".to_owned(), cluster.bootstrap())].into();
    // Enough for the connection that breaks, and for some that are refused.
    let settings = ClientSettings { attempts_max: 8, ..ClientSettings::parse(&settings).expect("settings") };
    let mut control = Control::new(settings, Interrupt::default()).expect("a client");
    control.cluster().expect("it answers");
    cluster.kill(1).expect("it runs");
    let error = control.cluster().expect_err("nobody is there");
    assert_eq!((error.code(), error.kind()), ("K010", ErrorKind::Retry), "{error}");
    assert!(error.to_string().contains(&cluster.bootstrap()), "{error}");
    cluster.restart(1).expect("it starts again");
    control.cluster().expect("the same client goes on");
}

/// The broker that leads the partition of the coordinators' topic into which an id falls.
fn coordinator(control: &mut Control, transactional_id: &str) -> i32 {
    let hash = transactional_id.bytes().fold(0_i32, |hash, byte| hash.wrapping_mul(31).wrapping_add(i32::from(byte)));
    let topic = control.topic("__transaction_state").expect("an answer").expect("it was made for the first transaction");
    let partition = &topic.partitions[usize::try_from((hash & i32::MAX) % STATE_PARTITIONS).expect("not negative")];
    partition.leader.expect("it has a leader")
}

fn commit(control: &mut Control, transactional_id: &str, producer: Producer) -> Ended {
    let mut answers = (0..CALLS_MAX).map(|_| control.end_transaction(transactional_id, producer, Decision::Commit));
    let last = answers.find(|answer| !answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Retry));
    last.expect("a new coordinator is found").expect("an answer")
}
