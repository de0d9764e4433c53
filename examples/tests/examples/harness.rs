//! A folder for an example, its processes, and what lies in its topics.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::Signal;
use serde::de::DeserializeOwned;
use staunch_e2e::process::{Finished, Running};
use staunch_examples::generated::Sent;
use staunch_kafka_testbed::{Bytes, Record, shared};
use tempfile::TempDir;

/// Long enough for anything that is to happen at all.
const PATIENCE: Duration = Duration::from_secs(120);
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
/// Kills at least, even when all input is written.
const KILLS_MIN: u32 = 8;
/// From one look at the topics to the next.
const LOOK: Duration = Duration::from_millis(300);

/// An example with its input.
pub(crate) struct Example {
    pub(crate) folder: TempDir,
    pub(crate) topic: &'static str,
    pub(crate) parts: u64,
    pub(crate) records: u64,
    /// Where event time begins.
    pub(crate) begin: i64,
}

impl Example {
    pub(crate) fn new(topic: &'static str, parts: u64, records: u64) -> Example {
        let now = SystemTime::UNIX_EPOCH.elapsed().expect("a clock behind 1970").as_millis() as i64;
        Example { folder: tempfile::tempdir().expect("a folder"), topic, parts, records, begin: now - now % DAY_MS - DAY_MS }
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("STAUNCH_")) {
            command.env_remove(name);
        }
        command.env("KAFKA_BROKERS", shared().bootstrap());
        command
    }

    fn generate(&self, part: u64) {
        let mut command = self.command(env!("CARGO_BIN_EXE_generate"));
        command.args([self.topic, "--part", &part.to_string(), "--records", &self.records.to_string(), "--begin", &self.begin.to_string()]);
        let finished = Running::start(command).and_then(|running| running.wait(PATIENCE)).expect("an end");
        finished.expect(0).unwrap_or_else(|error| panic!("{error:#}"));
    }

    fn start(&self, job: &str, parallelism: u64) -> Running {
        let mut command = self.command(job);
        command.args(["--checkpoint-interval", "100ms", "--parallelism", &parallelism.to_string()]);
        Running::start(command).expect("a process")
    }

    /// Runs the job while its input is written, killing it again and again; then lets it work until `is_done` says so, and stops it.
    pub(crate) fn run_and_kill(&self, job: &str, is_done: impl Fn() -> bool) {
        // Its topic exists then.
        self.generate(0);
        let written = AtomicBool::new(false);
        // Times without a pattern; each start is with another number of tasks.
        let mut numbers = 0x9E37_79B9_7F4A_7C15_u64;
        let mut kills = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (1..self.parts).for_each(|part| self.generate(part));
                written.store(true, Ordering::Relaxed);
            });
            while !written.load(Ordering::Relaxed) || kills < KILLS_MIN {
                numbers = numbers.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let finished = self.start(job, 1 + u64::from(kills) % 3).kill_after(Duration::from_millis(200 + (numbers >> 33) % 1_300));
                let finished = finished.expect("an end");
                assert!(finished.was_killed(), "{job} ended by itself: {} {}", finished.status, finished.errors);
                kills += 1;
            }
        });
        let mut running = self.start(job, 2);
        let began = Instant::now();
        while !is_done() {
            running.listen(LOOK);
            assert!(!running.has_ended() && began.elapsed() < PATIENCE, "not done: {:?}", running.kill());
        }
        running.signal(Signal::TERM).expect("a process");
        let Finished { .. } = running.wait(PATIENCE).and_then(|end| end.expect(0)).unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// What was sent: the messages in the generator's files.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        let file = |part| self.folder.path().join(format!("generated/{}-{part}.jsonl", self.topic));
        (0..self.parts).flat_map(|part| lines(&file(part))).collect()
    }
}

/// The lines of a file of JSON.
pub(crate) fn lines<T: DeserializeOwned>(file: &Path) -> Vec<T> {
    let text = std::fs::read_to_string(file).expect("a file");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// The messages of a topic that an independent client sees, once no transaction is open.
pub(crate) fn messages(topic: &str) -> Vec<Record> {
    let mut judge = shared().judge().expect("a judge");
    judge.settle(topic).expect("no open transaction");
    judge.read(topic).expect("the messages")
}

/// The messages that are committed by now, of topics that may not exist yet.
pub(crate) fn count_by_now(topics: &[&str]) -> usize {
    let mut judge = shared().judge().expect("a judge");
    topics.iter().map(|topic| judge.read(topic).map_or(0, |messages| messages.len())).sum()
}

/// The records in messages of JSON.
pub(crate) fn records<T: DeserializeOwned>(messages: &[Record]) -> Vec<T> {
    messages.iter().map(|message| serde_json::from_str(message.text().expect("a text")).expect("a record")).collect()
}

/// Each key in one partition.
pub(crate) fn one_partition_each(messages: &[Record]) {
    let mut partitions = BTreeMap::new();
    for message in messages {
        let Some(Bytes::Text(key)) = &message.key else { panic!("no key: {message:?}") };
        assert_eq!(*partitions.entry(key).or_insert(message.partition), message.partition, "{message:?}");
    }
}

/// The watermark of a job that has read a topic to its end: the greatest time in each partition, the least of these, less a bound.
pub(crate) fn watermark(messages: &[Record], bound_ms: i64, time: impl Fn(&str) -> Option<i64>) -> i64 {
    let mut latest: BTreeMap<i32, i64> = BTreeMap::new();
    for message in messages {
        if let Some(at) = time(message.text().expect("a text")) {
            let greatest = latest.entry(message.partition).or_insert(at);
            *greatest = at.max(*greatest);
        }
    }
    latest.values().min().expect("messages") - bound_ms - 1
}

/// How often each thing is there.
pub(crate) fn counts<T: Ord>(things: impl IntoIterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    things.into_iter().for_each(|thing| *counts.entry(thing).or_default() += 1);
    counts
}

/// Each thing is there once; what must be there is, and the rest is of what may be.
pub(crate) fn exactly<T: Ord + std::fmt::Debug>(found: Vec<T>, must: impl Fn(&T) -> bool, expected: Vec<T>) {
    let found = counts(found);
    let expected = counts(expected);
    let doubled: Vec<_> = found.iter().filter(|(_, count)| **count != 1).collect();
    assert!(doubled.is_empty(), "doubled: {doubled:?}");
    let wrong: Vec<_> = found.keys().filter(|thing| !expected.contains_key(*thing)).collect();
    assert!(wrong.is_empty(), "not expected: {wrong:?}");
    let lost: Vec<_> = expected.keys().filter(|thing| must(thing) && !found.contains_key(*thing)).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    assert!(found.keys().any(must), "nothing to compare");
}
