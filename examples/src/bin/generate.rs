//! Fills the topic `payments` or `clicks`: writes the messages of a part to a file, and sends that file by a job of its own.
//!
//! It may be killed and started again: each message is sent once.
#![allow(clippy::disallowed_methods, reason = "a program that writes a file")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use clap::{Parser, ValueEnum};
use staunch::engine::job::Settings;
use staunch::prelude::*;
use staunch_examples::brokers;
use staunch_examples::generated::{self, Sent, Wanted};
use staunch_kafka::{KafkaSink, MessageDraft};

/// Partitions of the topic, if it does not exist.
const PARTITIONS: u32 = 3;
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Sends messages to the topic of an example; the brokers are those of KAFKA_BROKERS, or localhost:9092.
#[derive(Parser)]
struct Options {
    /// The topic
    topic: Topic,
    /// Which stretch of event time: payments have ten minutes in each, clicks thirty
    #[arg(long, default_value_t = 0)]
    part: u64,
    /// Charges or clicks
    #[arg(long, default_value_t = 10_000)]
    records: u64,
    /// Another seed gives other messages
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where part 0 begins, in milliseconds since 1970 [default: the beginning of yesterday]
    #[arg(long)]
    begin: Option<i64>,
    /// Folder for files of messages
    #[arg(long, default_value = "generated")]
    folder: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Topic {
    Payments,
    Clicks,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let (topic, make): (_, fn(Wanted) -> Vec<Sent>) = match options.topic {
        Topic::Payments => ("payments", generated::payments),
        Topic::Clicks => ("clicks", generated::clicks),
    };
    let begin = Timestamp(options.begin.unwrap_or_else(yesterday));
    let messages = make(Wanted { seed: options.seed, part: options.part, records: options.records, begin });
    let file = options.folder.join(format!("{topic}-{}.jsonl", options.part));
    let sent = write(&file, &messages).map_err(|error| format!("{}: {error}", file.display())).and_then(|()| {
        let job = format!("generate-{topic}-{}", options.part);
        send(topic, &file, &options.folder, &job).map_err(|error| error.to_string())
    });
    match sent {
        Ok(()) => {
            println!("{} messages in {topic}, the same as in {}", messages.len(), file.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn yesterday() -> i64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_millis() as i64);
    now - now % DAY_MS - DAY_MS
}

/// Writes the messages, one line each; the file appears whole, and one that is there stays.
fn write(file: &Path, messages: &[Sent]) -> std::io::Result<()> {
    if file.exists() {
        return Ok(());
    }
    fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
    let lines: Vec<String> = messages.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    let unfinished = file.with_extension("unfinished");
    fs::write(&unfinished, lines.join("\n") + "\n")?;
    fs::rename(unfinished, file)
}

/// Sends a file, in its order.
fn send(topic: &str, file: &Path, folder: &Path, job: &str) -> staunch::Result<()> {
    let mut env = Environment::new(Settings::new());
    env.settings().parallelism = 1;
    env.checkpoints(Checkpoints::every(millis(200)).to(folder.join("checkpoints")));
    let message = |sent: &Sent, message: &mut MessageDraft| {
        message.key(sent.key.as_bytes()).value(sent.value.as_bytes());
        Ok(())
    };
    env.source("file", FileSource::json_lines::<Sent>(file).one_split())
        .sink("topic", KafkaSink::with(&brokers(), &[topic], message).make_topics(PARTITIONS).mark_topic("staunch-commits-generate"));
    env.execute(job)
}
