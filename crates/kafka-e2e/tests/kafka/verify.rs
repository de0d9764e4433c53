//! `staunch verify` on topics: proves what is there, also between the messages of others, and finds what is not as it was written.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::Value;
use staunch_engine::job::{Environment, Settings};
use staunch_format::Sha256;
use staunch_format::ledger::{Body, LedgerEntry};
use staunch_kafka::{KafkaSink, KafkaSource, StopAt};
use staunch_kafka_e2e::Payment;
use staunch_kafka_e2e::job::Start;
use staunch_kafka_testbed::{Record, shared};

use crate::command::staunch;
use crate::jobs::{cents, fill, once_each, seen, topics};
use crate::support::{bed, slow};

/// Copies `NAME-in` to `NAME-out`, in several epochs, as far as there is input.
fn copy(name: &str, folder: &Path) {
    let brokers = shared().bootstrap();
    let mut settings = Settings::new();
    settings.parallelism = 2;
    settings.checkpoint_directory = Some(folder.to_owned());
    settings.run.interval = Duration::from_millis(20);
    let environment = Environment::new(settings);
    let sink = KafkaSink::json::<Payment>(&brokers, &format!("{name}-out")).key(|p: &Payment| p.account.to_string().into_bytes());
    let source = KafkaSource::json::<Payment>(&brokers, &format!("{name}-in")).stop(StopAt::Latest);
    environment.source("in", source).map(|payment| payment).sink("out", sink);
    environment.execute(name).unwrap_or_else(|error| panic!("{error}"));
}

/// A job that has run; gives the folder of its checkpoints.
fn ran(name: &str, messages: i64) -> tempfile::TempDir {
    topics(&[(&format!("{name}-in"), 3), (&format!("{name}-out"), 2)]);
    fill(&format!("{name}-in"), 0..messages);
    let folder = tempfile::tempdir().expect("a folder");
    copy(name, folder.path());
    folder
}

fn report(folder: &Path, code: i32, more: &[&str]) -> Value {
    let more: Vec<&str> = more.iter().copied().chain(["--format", "json"]).collect();
    staunch(&["verify"], folder, &more).expect(code).json()
}

/// The findings of a report, as text.
fn findings(report: &Value) -> Vec<String> {
    report["findings"].as_array().expect("a list").iter().map(ToString::to_string).collect()
}

fn notes(report: &Value) -> String {
    report["notes"].to_string()
}

fn is_proof(report: &Value, messages: u64) {
    assert_eq!((&report["verified"], &report["complete"]), (&Value::Bool(true), &Value::Bool(true)), "{report:#}");
    let sink = &report["sinks"]["out"];
    assert_eq!((&sink["records"], &sink["records_read"]), (&messages.into(), &messages.into()), "{report:#}");
}

fn producer(transactional: Option<&str>) -> BaseProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", shared().bootstrap()).set("linger.ms", "0");
    if let Some(id) = transactional {
        config.set("transactional.id", id);
    }
    config.create().expect("a producer")
}

const PATIENCE: Duration = Duration::from_secs(20);

fn bytes(part: Option<&staunch_kafka_testbed::Bytes>) -> &[u8] {
    match part {
        Some(staunch_kafka_testbed::Bytes::Text(text)) => text.as_bytes(),
        other => panic!("expected a text, found {other:?}"),
    }
}

/// Writes a message again as somebody else would.
fn double(record: &Record) {
    let producer = producer(None);
    let (key, value) = (bytes(record.key.as_ref()), bytes(record.value.as_ref()));
    producer.send(BaseRecord::to(&record.topic).key(key).payload(value)).expect("room");
    producer.flush(PATIENCE).expect("acknowledged");
}

#[test]
fn a_topic_is_proven_also_where_others_write_between_our_messages() {
    topics(&[("mixed-in", 3), ("mixed-out", 2)]);
    fill("mixed-in", 0..2_000);
    let folder = tempfile::tempdir().expect("a folder");
    let (plain, transactional) = (producer(None), producer(Some("somebody-else")));
    transactional.init_transactions(PATIENCE).expect("initialized");
    let value = |round: i32, number: i32| format!("other {round} {number}");
    let send = |producer: &BaseProducer, round: i32, number: i32| {
        producer.send(BaseRecord::<str, str>::to("mixed-out").partition(number % 2).payload(&value(round, number))).expect("room");
        producer.flush(PATIENCE).expect("acknowledged");
    };
    let mut written = 0;
    std::thread::scope(|scope| {
        // Transactions of others are open before, while and after the job writes; every third is aborted.
        let job = scope.spawn(|| copy("mixed", folder.path()));
        for round in 0.. {
            transactional.begin_transaction().expect("begun");
            (0..4).for_each(|number| send(&transactional, round, number));
            (4..8).for_each(|number| send(&plain, round, number));
            match round % 3 {
                2 => transactional.abort_transaction(PATIENCE).expect("aborted"),
                _ => transactional.commit_transaction(PATIENCE).expect("committed"),
            }
            written += if round % 3 == 2 { 4 } else { 8 };
            if round >= 2 && job.is_finished() {
                break;
            }
        }
    });
    let report = report(folder.path(), 0, &[]);
    is_proof(&report, 2_000);
    assert!(notes(&report).contains(&format!("topic mixed-out: {written} messages of other producers")), "{report:#}");
}

#[test]
fn a_message_that_was_deleted_is_found_to_be_lost() {
    let folder = ran("deleted", 400);
    is_proof(&report(folder.path(), 0, &[]), 400);
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", shared().bootstrap()).create().expect("a client");
    let first = seen("deleted-out").into_iter().find(|record| record.partition == 0).expect("a message");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("deleted-out", 0, Offset::Offset(first.offset + 1)).expect("a place");
    futures_executor::block_on(admin.delete_records(&list, &AdminOptions::new())).expect("deleted");
    let report = report(folder.path(), 1, &[]);
    let found = findings(&report);
    assert_eq!(found.len(), 1, "{report:#}");
    for needed in ["C330", "were deleted", "sink=out", "topic=deleted-out partition=0", "epoch="] {
        assert!(found[0].contains(needed), "{needed}: {found:?}");
    }
}

#[test]
fn messages_that_retention_may_have_removed_are_not_called_lost() {
    let folder = ran("retained", 400);
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", shared().bootstrap()).create().expect("a client");
    let resource = rdkafka::admin::AlterConfig::new(rdkafka::admin::ResourceSpecifier::Topic("retained-out")).set("retention.ms", "1");
    futures_executor::block_on(admin.alter_configs([&resource], &AdminOptions::new())).expect("set");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("retained-out", 0, Offset::Offset(1)).expect("a place");
    futures_executor::block_on(admin.delete_records(&list, &AdminOptions::new())).expect("deleted");
    let report = report(folder.path(), 0, &[]);
    assert_eq!((&report["verified"], &report["complete"]), (&Value::Bool(true), &Value::Bool(false)), "{report:#}");
    assert!(notes(&report).contains("no longer provable"), "{report:#}");
}

#[test]
fn a_message_that_somebody_doubled_by_hand_is_found_unless_others_may_write_the_same() {
    let folder = ran("doubled", 400);
    let record = seen("doubled-out").into_iter().nth(7).expect("a message");
    double(&record);
    let found = report(folder.path(), 1, &[]);
    let list = findings(&found);
    assert_eq!(list.len(), 1, "{found:#}");
    let original = format!("is equal to partition={} offset={}", record.partition, record.offset);
    for needed in ["C330", "messages are doubled: 1 of other producers", "topic=doubled-out", &original] {
        assert!(list[0].contains(needed), "{needed}: {list:?}");
    }
    let shared = report(folder.path(), 0, &["--shared", "doubled-out"]);
    is_proof(&shared, 400);
    assert!(notes(&shared).contains("1 messages of other producers"), "{shared:#}");
    assert_eq!(cents(&seen("doubled-out")).len(), once_each(0..400).len());
}

#[test]
fn brokers_that_do_not_answer_prove_nothing_and_make_nothing_false() {
    let folder = ran("silent", 50);
    let config = folder.path().join("client.properties");
    std::fs::write(&config, "# quick\nsocket.connection.setup.timeout.ms=200\nsocket.timeout.ms=200\n").expect("written");
    let file = config.display().to_string();
    let report = report(folder.path(), 0, &["--kafka-brokers", "127.0.0.1:1", "--kafka-config", &file]);
    assert_eq!((&report["verified"], &report["complete"]), (&Value::Bool(true), &Value::Bool(false)), "{report:#}");
    assert!(notes(&report).contains("the brokers at 127.0.0.1:1 could not be asked"), "{report:#}");
    std::fs::write(&config, "a=b\nnonsense\n").expect("written");
    let answer = staunch(&["verify"], folder.path(), &["--kafka-config", &file]).expect(1);
    assert!(answer.complaints.contains("K061") && answer.complaints.contains("line=2"), "{}", answer.complaints);
}

/// Writes the ledger anew as one chain, with another sum of the first output.
fn expect_others(folder: &Path) {
    let (mut previous, mut changed) = (Sha256::default(), None);
    let ledger = files(&folder.join("ledger"));
    for path in ledger {
        let mut entry = LedgerEntry::decode(&std::fs::read(&path).expect("bytes")).expect("an entry");
        entry.previous = previous;
        match &mut entry.body {
            Body::Sealed(sealed) => {
                for total in &mut sealed.committables {
                    if *changed.get_or_insert_with(|| total.id.clone()) == total.id {
                        total.digest.sum += 1;
                    }
                }
            }
            Body::Committed(committed) => {
                committed.outcomes.iter_mut().filter(|o| changed.as_ref() == Some(&o.id)).for_each(|o| o.digest.sum += 1);
            }
            Body::Claimed(_) | Body::Stopped(_) => {}
        }
        let bytes = entry.encode().expect("bytes");
        previous = LedgerEntry::hash(&bytes);
        std::fs::write(&path, bytes).expect("written");
    }
}

/// All files below a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all.sort();
    all
}

#[test]
fn an_expectation_that_was_changed_is_found() {
    let folder = ran("changed", 400);
    let job = std::fs::read_dir(folder.path()).expect("a folder").next().expect("a job").expect("a job").path();
    expect_others(&job);
    let report = report(folder.path(), 1, &[]);
    let found = findings(&report);
    assert!(found.len() == 1 && found[0].contains("C330") && found[0].contains("messages are changed"), "{report:#}");
}

#[test]
fn output_that_was_lost_and_written_again_is_proven_where_it_is_now() {
    let mut bed = bed("again-proven");
    let start = |start: Start, timeout| Start { journal: true, timeout: Duration::from_secs(timeout), ..start };
    bed.job.dies(&start(slow(2, "commit sink 3: kill before"), 2)).unwrap_or_else(|error| panic!("{error:#}"));
    let began = Instant::now();
    while bed.open() > 0 {
        assert!(began.elapsed() < 5 * PATIENCE, "the broker never aborted the transactions");
    }
    let folder = bed.job.folder();
    let doubtful = report(&folder, 0, &[]);
    assert!(notes(&doubtful).contains("of an output in doubt was aborted"), "{doubtful:#}");
    bed.ends_well_with(&start(Start::with(3), 600));
    is_proof(&report(&folder, 0, &[]), bed.job.fed.payments);
    let ledger = staunch(&["ledger"], &folder, &["--format", "json"]).expect(0);
    assert!(ledger.out.contains("written again from copy="), "{}", ledger.out);
}
