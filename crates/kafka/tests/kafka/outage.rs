//! A cluster of three that loses the coordinator while a transaction is in doubt.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use staunch_kafka::control::{Decision, Ended, Interrupt, Listed, Producer, TransactionPhase};
use staunch_kafka::{ClientSettings, Control};
use staunch_kafka_testbed::{Cluster, Options};
use staunch_types::ErrorKind;

use crate::writer::{Writer, committed, control, described, ended, judged_topic};

/// Times that a caller asks again; each is many attempts of the client.
const CALLS_MAX: u32 = 10;
/// Times that a broker dies and comes back.
const RESTARTS: u32 = 3;
/// Between two questions to brokers that are away.
const PAUSE: Duration = Duration::from_millis(2);
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

/// A broker that begins knows at first of no transaction, and does not say that it has not looked yet.
#[test]
fn a_list_is_whole_from_the_first_one_that_a_broker_gives_after_its_restart() {
    let mut cluster = Cluster::start(&Options::one()).expect("a broker");
    let ids = many_ids(&cluster, "whole");
    for _ in 0..RESTARTS {
        cluster.kill(1).expect("it runs");
        let asking = Asking::begin(&cluster, "whole/");
        cluster.restart(1).expect("it starts on its old storage");
        asking.end(&ids);
    }
}

/// The coordinators of a dead broker go to the others, which load what it knew, and back.
#[test]
fn a_list_is_whole_while_coordinators_move_between_brokers() {
    let mut cluster = Cluster::start(&Options::three()).expect("three brokers");
    let ids = many_ids(&cluster, "moved");
    for node in 1..=3 {
        let asking = Asking::begin(&cluster, "moved/");
        cluster.kill(node).expect("it runs");
        asking.end(&ids);
        let asking = Asking::begin(&cluster, "moved/");
        cluster.restart(node).expect("it starts on its old storage");
        asking.end(&ids);
    }
}

/// Ids that fall into every partition of the coordinators' topic.
fn many_ids(cluster: &Cluster, name: &str) -> Vec<String> {
    let mut ids: Vec<String> = (0..4 * STATE_PARTITIONS).map(|index| format!("{name}/{index}")).collect();
    ids.sort();
    for id in &ids {
        drop(Writer::open(cluster, id, 60_000));
    }
    ids
}

/// A client that asks for lists without a pause, and keeps those that it gets.
struct Asking {
    asker: JoinHandle<Vec<Vec<Listed>>>,
    stop: SyncSender<()>,
}

impl Asking {
    fn begin(cluster: &Cluster, prefix: &'static str) -> Asking {
        let settings = [("bootstrap.servers".to_owned(), cluster.bootstrap())].into();
        let settings = ClientSettings { attempts_max: 1, ..ClientSettings::parse(&settings).expect("settings") };
        let mut control = Control::new(settings, Interrupt::default()).expect("a client");
        let (stop, stopped) = sync_channel(1);
        let asker = thread::spawn(move || {
            let (mut lists, mut is_told) = (Vec::new(), false);
            loop {
                match control.list_transactions(prefix) {
                    Ok(list) => lists.push(list),
                    Err(error) if error.kind() == ErrorKind::Retry => {}
                    Err(error) => panic!("{error}"),
                }
                is_told |= stopped.recv_timeout(PAUSE) == Ok(());
                if is_told && !lists.is_empty() {
                    return lists;
                }
            }
        });
        Asking { asker, stop }
    }

    /// Each list so far, and one more if there was none, has all ids.
    fn end(self, ids: &[String]) {
        self.stop.send(()).expect("it waits for that");
        let lists = self.asker.join().expect("no other error");
        for (index, list) in lists.iter().enumerate() {
            let listed: Vec<&String> = list.iter().map(|listed| &listed.transactional_id).collect();
            assert_eq!(listed, ids.iter().collect::<Vec<_>>(), "list {index} of {}", lists.len());
        }
    }
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
