//! What topics may hold that makes other readers hang, stop early or go wrong: markers, aborted and open transactions, new partitions,
//! partitions without messages, messages that are too large. Whole jobs, in this process.

use std::path::Path;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use staunch_engine::cluster::JobEvent;
use staunch_engine::job::{Environment, Settings};
use staunch_engine::operator::Watermarks;
use staunch_engine::operator::window::Tumbling;
use staunch_kafka::{KafkaSink, KafkaSource, Message, MessageDraft, StartAt, StopAt};
use staunch_kafka_testbed::{Bytes, shared};
use staunch_protocol::Reason;
use staunch_types::{ErrorKind, Result, Timestamp};

use crate::jobs::{seen, topics};

const ANSWER: Duration = Duration::from_secs(20);

fn environment(folder: &Path, parallelism: u32) -> Environment {
    let mut settings = Settings::new();
    settings.parallelism = parallelism;
    settings.checkpoint_directory = Some(folder.to_owned());
    settings.run.interval = Duration::from_millis(50);
    Environment::new(settings)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn producer(transactional_id: Option<&str>) -> BaseProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", shared().bootstrap()).set("linger.ms", "0");
    if let Some(id) = transactional_id {
        config.set("transactional.id", id);
    }
    let producer: BaseProducer = config.create().expect("a producer");
    if transactional_id.is_some() {
        producer.init_transactions(ANSWER).expect("the id is ours");
    }
    producer
}

/// Writes texts to a partition.
fn write(producer: &BaseProducer, topic: &str, partition: i32, texts: &[&str]) {
    for text in texts {
        producer.send(BaseRecord::<(), str>::to(topic).partition(partition).payload(text)).expect("room");
    }
    producer.flush(ANSWER).expect("acknowledged");
}

fn commit(producer: &BaseProducer, topic: &str, texts: &[&str]) {
    producer.begin_transaction().expect("a transaction");
    write(producer, topic, 0, texts);
    producer.commit_transaction(ANSWER).expect("committed");
}

/// What readers of committed messages see.
fn texts(topic: &str) -> Vec<String> {
    let mut texts: Vec<String> = seen(topic).iter().map(|record| record.text().expect("a text").to_owned()).collect();
    texts.sort();
    texts
}

fn source(topic: &str) -> KafkaSource<String, staunch_kafka::Text> {
    KafkaSource::text(&shared().bootstrap(), topic)
}

fn copy(environment: Environment, source: KafkaSource<String, staunch_kafka::Text>, name: &str) -> Result<Reason> {
    let sink = KafkaSink::text(&shared().bootstrap(), &format!("{name}-out"));
    environment.source("in", source).map(|text| text).sink("out", sink);
    environment.execute(name)
}

/// Copies `NAME-in` to `NAME-out`, up to the end that it has now.
fn copy_to_the_end(folder: &Path, name: &str) {
    let source = source(&format!("{name}-in")).stop(StopAt::Latest);
    assert_eq!(copy(environment(folder, 1), source, name).unwrap_or_else(|error| panic!("{error}")), Reason::Final);
}

/// Copies until so many messages are read, by this run, in so many epochs at least, and then stops.
fn copy_until(folder: &Path, name: &str, source: KafkaSource<String, staunch_kafka::Text>, read: (u64, u32), then: impl Fn() + 'static) {
    let mut environment = environment(folder, 2);
    let (stopper, mut epochs, mut found) = (environment.stopper(), 0, 0);
    environment.on_event(move |event| {
        if let JobEvent::EpochDurable { counts, .. } = event {
            epochs += 1;
            found += counts.iter().find(|(name, _)| name.to_string() == "in").map_or(0, |(_, counts)| counts.records_in);
            if epochs == 2 {
                then();
            }
            if found >= read.0 && epochs >= read.1 {
                stopper.stop(Reason::Stop);
            }
        }
    });
    copy(environment, source, name).unwrap_or_else(|error| panic!("{error}"));
}

/// Job and sink have names of nearly 40,000 characters that differ in the last one only: each has ids and marks of its own.
#[test]
fn report_10_jobs_and_sinks_with_very_long_names_have_ids_of_their_own() {
    topics(&[("report-10-in", 1), ("report-10-out", 1)]);
    write(&producer(None), "report-10-in", 0, &["a"]);
    let folder = folder();
    for last in ["x", "y"] {
        let name = format!("{}{last}", "ü€".repeat(19_999));
        let environment = environment(folder.path(), 1);
        let sink = KafkaSink::text(&shared().bootstrap(), "report-10-out");
        environment.source("in", source("report-10-in").stop(StopAt::Latest)).map(|text| text).sink(&name, sink);
        environment.execute(&name).unwrap_or_else(|error| panic!("{error:.2000}"));
    }
    assert_eq!(texts("report-10-out"), ["a", "a"]);
    let ids: Vec<String> = shared().transactions().expect("a list").into_iter().map(|found| found.transactional_id).collect();
    assert!(ids.iter().all(|id| id.len() < 250), "{ids:?}");
}

#[test]
fn report_11_a_tail_of_markers_does_not_hold_a_job_that_reads_to_the_end() {
    topics(&[("report-11-in", 1), ("report-11-out", 1)]);
    commit(&producer(Some("report-11")), "report-11-in", &["a"]);
    copy_to_the_end(folder().path(), "report-11");
    assert_eq!(texts("report-11-out"), ["a"]);
}

#[test]
fn report_12_a_long_aborted_stretch_is_passed_and_the_checkpoint_knows() {
    topics(&[("report-12-in", 1), ("report-12-out", 1)]);
    let writer = producer(Some("report-12"));
    writer.begin_transaction().expect("a transaction");
    write(&writer, "report-12-in", 0, &["never"; 1000]);
    writer.abort_transaction(ANSWER).expect("aborted");
    let folder = folder();
    copy_until(folder.path(), "report-12", source("report-12-in"), (0, 60), || {});
    // The stretch is removed: whoever still had to read it would miss it.
    let end = shared().judge().expect("a judge").ends("report-12-in").expect("ends")[0].high_watermark;
    assert!(end > 1000);
    remove_before("report-12-in", end);
    commit(&writer, "report-12-in", &["a"]);
    copy_until(folder.path(), "report-12", source("report-12-in"), (1, 1), || {});
    assert_eq!(texts("report-12-out"), ["a"]);
}

fn remove_before(topic: &str, offset: i64) {
    use rdkafka::admin::{AdminClient, AdminOptions};
    use rdkafka::{Offset, TopicPartitionList, client::DefaultClientContext};
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", shared().bootstrap()).create().expect("a client");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Offset(offset)).expect("an offset");
    futures_executor::block_on(admin.delete_records(&list, &AdminOptions::new())).expect("an answer");
}

#[test]
fn report_13_a_partition_added_while_a_job_runs_or_is_down_is_read_from_its_beginning() {
    topics(&[("report-13-in", 1), ("report-13-out", 1)]);
    write(&producer(None), "report-13-in", 0, &["before the start"]);
    let folder = folder();
    let source = || source("report-13-in").start(StartAt::Latest).discovery(Some(Duration::from_millis(100)));
    let grow = |partitions: u32, prefix: &'static str| {
        shared().judge().expect("a judge").grow_topic("report-13-in", partitions).expect("a partition more");
        let added: Vec<String> = (0..5).map(|number| format!("{prefix} {number}")).collect();
        let added: Vec<&str> = added.iter().map(String::as_str).collect();
        write(&producer(None), "report-13-in", partitions as i32 - 1, &added);
    };
    copy_until(folder.path(), "report-13", source(), (5, 3), move || grow(2, "running"));
    grow(3, "down");
    copy_until(folder.path(), "report-13", source(), (5, 3), || {});
    let wanted: Vec<String> = ["down", "running"].iter().flat_map(|prefix| (0..5).map(move |n| format!("{prefix} {n}"))).collect();
    assert_eq!(texts("report-13-out"), wanted);
}

#[test]
fn topics_by_a_pattern_are_read_also_those_that_are_made_later_and_no_others() {
    let no_input = ["pattern-in-1-not", "not-pattern-in-1", "staunch-commits-pattern-in-1", "__pattern-in-1"];
    topics(&[("pattern-in-1", 1), ("pattern-out", 1)]);
    topics(&no_input.map(|topic| (topic, 1)));
    for topic in no_input.into_iter().chain(["pattern-in-1"]) {
        write(&producer(None), topic, 0, &[topic]);
    }
    let folder = folder();
    let source = || source("unused").topic_pattern("(__|staunch-commits-)?pattern-in-[0-9]+").discovery(Some(Duration::from_millis(100)));
    let make = |topic: &'static str| {
        topics(&[(topic, 2)]);
        write(&producer(None), topic, 1, &[topic]);
    };
    copy_until(folder.path(), "pattern", source(), (2, 3), move || make("pattern-in-2"));
    make("pattern-in-30");
    copy_until(folder.path(), "pattern", source(), (1, 1), || {});
    assert_eq!(texts("pattern-out"), ["pattern-in-1", "pattern-in-2", "pattern-in-30"]);
    let error =
        copy(environment(folder.path(), 1), self::source("unused").topic_pattern("pattern-in-["), "pattern").expect_err("no pattern");
    assert!(error.to_string().contains("pattern-in-["), "{error}");
}

/// Messages `KEY TIME` into windows of ten, and how many there were.
fn windows(
    name: &str,
    parallelism: u32,
    inputs: Vec<KafkaSource<(String, i64), Parse>>,
    windows: u64,
    mut meanwhile: impl FnMut() + 'static,
) -> Vec<String> {
    let (folder, brokers) = (folder(), shared().bootstrap());
    let mut environment = environment(folder.path(), parallelism);
    let (stopper, mut fired) = (environment.stopper(), 0);
    environment.on_event(move |event| {
        if let JobEvent::EpochDurable { counts, .. } = event {
            meanwhile();
            fired += counts.iter().find(|(name, _)| name.to_string() == "out").map_or(0, |(_, counts)| counts.records_in);
            if fired >= windows {
                stopper.stop(Reason::Stop);
            }
        }
    });
    let idle = || Watermarks::bounded(Duration::ZERO).idle_after(Duration::from_secs(2));
    let mut streams = inputs.into_iter().enumerate().map(|(number, input)| {
        environment.source(&format!("in {number}"), input).event_time(|(_, time)| Timestamp(*time), idle()).map(|record| record).rebalance()
    });
    let first = streams.next().expect("an input").map(|record| record).rebalance();
    let all = streams.fold(first, |all, more| all.union(more).map(|record| record).rebalance());
    all.key_by(|(key, _): &(String, i64)| key.clone())
        .window(Tumbling::of(Duration::from_millis(10)))
        .fold("count", || 0_u64, |count, _| *count += 1)
        .map(|window| format!("{} {} {}", window.key, window.start.0, window.value))
        .sink("out", KafkaSink::text(&brokers, &format!("{name}-out")));
    environment.execute(name).unwrap_or_else(|error| panic!("{error}"));
    texts(&format!("{name}-out"))
}

type Parse = fn(&Message<'_>) -> std::result::Result<(String, i64), String>;

fn timed(topic: &str) -> KafkaSource<(String, i64), Parse> {
    let parse: Parse = |message| {
        let text = std::str::from_utf8(message.value.unwrap_or_default()).map_err(|error| error.to_string())?;
        let (key, time) = text.split_once(' ').ok_or("expected a key and a time")?;
        Ok((key.to_owned(), time.parse().map_err(|_| "expected a time")?))
    };
    KafkaSource::with(&shared().bootstrap(), topic, parse)
}

#[test]
fn report_16_partitions_without_a_message_and_tasks_without_a_partition_do_not_hold_windows_open() {
    topics(&[("report-16-in", 3), ("report-16-out", 1)]);
    write(&producer(None), "report-16-in", 0, &["a 1", "a 2", "a 11", "a 35"]);
    assert_eq!(windows("report-16", 5, vec![timed("report-16-in")], 2, || {}), ["a 0 2", "a 10 1"]);
}

#[test]
fn report_18_a_source_that_has_ended_and_one_that_is_silent_hold_nothing() {
    topics(&[("report-18-ended", 1), ("report-18-silent", 2), ("report-18-live", 1), ("report-18-out", 1)]);
    write(&producer(None), "report-18-ended", 0, &["a 1", "a 2", "a 3", "a 4", "a 5"]);
    write(&producer(None), "report-18-live", 0, &["b 1", "b 11", "b 35"]);
    let inputs = vec![timed("report-18-ended").stop(StopAt::Latest), timed("report-18-silent"), timed("report-18-live")];
    let live = producer(None);
    let goes_on = move || write(&live, "report-18-live", 0, &["b 36"]);
    assert_eq!(windows("report-18", 2, inputs, 3, goes_on), ["a 0 5", "b 0 1", "b 10 1"]);
}

#[test]
fn report_38_a_message_that_is_too_large_stops_the_job_with_its_key_and_size_and_no_checkpoint_passes_it() {
    // Refused by the client, and by the broker.
    for (name, client_max) in [("report-38", "1000000"), ("report-38-broker", "4000000")] {
        let (from, to) = (format!("{name}-in"), format!("{name}-out"));
        topics(&[(&from, 1), (&to, 1)]);
        write(&producer(None), &from, 0, &["small", "large"]);
        let folder = folder();
        let run = |large: usize| {
            let environment = environment(folder.path(), 1);
            let encode = move |text: &String, message: &mut MessageDraft| {
                message.key(text.as_bytes()).value(&vec![b'x'; if text == "large" { large } else { 10 }]);
                Ok(())
            };
            let sink = KafkaSink::with(&shared().bootstrap(), &[&to], encode).property("message.max.bytes", client_max);
            environment.source("in", source(&from).stop(StopAt::Latest)).map(|text| text).sink("out", sink);
            environment.execute(name)
        };
        for _ in 0..2 {
            let began = Instant::now();
            let error = run(1_100_000).expect_err("a refusal");
            assert!(began.elapsed() < ANSWER, "{name}: it went round in circles for {:?}", began.elapsed());
            let said = error.to_string();
            assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, "K066"), "{said}");
            assert!(said.contains(r#"key=Some("large")"#) && said.contains("bytes=1100"), "{said}");
        }
        // Made smaller, it comes through: no checkpoint had passed it.
        run(100).unwrap_or_else(|error| panic!("{error}"));
        let keys: Vec<Option<Bytes>> = seen(&to).into_iter().map(|record| record.key).collect();
        assert_eq!(keys, ["small", "large"].map(|key| Some(Bytes::Text(key.into()))));
    }
}

/// Committed messages above a transaction that is open belong to what is there: a job that reads to the end waits for it.
#[test]
fn report_41_a_job_that_reads_to_the_end_waits_for_an_open_transaction_below_committed_messages() {
    topics(&[("report-41-in", 1), ("report-41-out", 1)]);
    let (open, other) = (producer(Some("report-41-open")), producer(Some("report-41-other")));
    open.begin_transaction().expect("a transaction");
    write(&open, "report-41-in", 0, &["open"]);
    commit(&other, "report-41-in", &["committed"]);
    let folder = folder();
    let mut environment = environment(folder.path(), 1);
    let mut epochs = 0;
    environment.on_event(move |event| {
        // Some checkpoints after the start it still waits; then the transaction ends.
        if let JobEvent::EpochDurable { .. } = event {
            epochs += 1;
            if epochs == 5 {
                open.commit_transaction(ANSWER).expect("committed");
            }
        }
    });
    assert_eq!(copy(environment, source("report-41-in").stop(StopAt::Latest), "report-41").expect("an end"), Reason::Final);
    assert_eq!(texts("report-41-out"), ["committed", "open"]);
}

/// Flips a byte of a message, on the disk of the broker: brokers hand out what is there.
fn damage(topic: &str, text: &str) {
    let segment = format!("broker-1/data/{topic}-0/00000000000000000000.log");
    let path = shared().folder().join(segment);
    let mut bytes = std::fs::read(&path).expect("the segment of the partition");
    let at = bytes.windows(text.len()).position(|found| found == text.as_bytes()).expect("the message");
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).expect("written in place");
}

/// The client tells of a batch whose checksum is wrong, and then reads it again and again: a job that does not listen stands still in silence.
#[test]
fn a_batch_that_is_damaged_on_the_brokers_disk_stops_the_job_and_no_checkpoint_passes_it() {
    topics(&[("damaged-in", 1), ("damaged-out", 1)]);
    let writer = producer(None);
    ["before", "middle", "behind"].iter().for_each(|text| write(&writer, "damaged-in", 0, &[text]));
    damage("damaged-in", "middle");
    let folder = folder();
    for _ in 0..2 {
        let source = source("damaged-in").stop(StopAt::Latest);
        let error = copy(environment(folder.path(), 1), source, "damaged").expect_err("a message is missing");
        assert_eq!((error.kind(), error.code()), (ErrorKind::Corrupt, "K045"), "{error}");
        assert!(error.to_string().contains("offset 1"), "{error}");
    }
    // Brought back, all of it comes through: no checkpoint had passed it.
    damage("damaged-in", "liddle");
    copy_to_the_end(folder.path(), "damaged");
    assert_eq!(texts("damaged-out"), ["before", "behind", "middle"]);
}

/// Clients put messages together up to their own limit, and a broker refuses what is above that of the topic as a whole.
#[test]
fn many_messages_come_through_to_a_topic_that_takes_only_small_batches() {
    use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
    use rdkafka::client::DefaultClientContext;
    topics(&[("small-in", 1)]);
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", shared().bootstrap()).create().expect("a client");
    let topic = NewTopic::new("small-out", 1, TopicReplication::Fixed(1)).set("max.message.bytes", "5000");
    for made in futures_executor::block_on(admin.create_topics([&topic], &AdminOptions::new())).expect("an answer") {
        made.expect("a topic");
    }
    let long: Vec<String> = (10..30).map(|number| format!("{number}{}", "x".repeat(1000))).collect();
    write(&producer(None), "small-in", 0, &long.iter().map(String::as_str).collect::<Vec<_>>());
    copy_to_the_end(folder().path(), "small");
    assert_eq!(texts("small-out"), long);
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

/// Both would write what came after the copy was made.
#[test]
fn a_job_that_went_on_with_a_copy_of_its_checkpoints_is_not_started_with_the_original() {
    topics(&[("original-in", 1), ("original-out", 1)]);
    let (writer, original, moved) = (producer(None), folder(), folder());
    write(&writer, "original-in", 0, &["first"]);
    copy_until(original.path(), "original", source("original-in"), (1, 1), || {});
    copy_folder(original.path(), moved.path());
    write(&writer, "original-in", 0, &["second"]);
    copy_until(moved.path(), "original", source("original-in"), (1, 1), || {});
    for _ in 0..2 {
        let error = copy(environment(original.path(), 1), source("original-in").stop(StopAt::Latest), "original").expect_err("refused");
        assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, "K067"), "{error}");
    }
    write(&writer, "original-in", 0, &["third"]);
    copy_until(moved.path(), "original", source("original-in"), (1, 1), || {});
    assert_eq!(texts("original-out"), ["first", "second", "third"]);
}
