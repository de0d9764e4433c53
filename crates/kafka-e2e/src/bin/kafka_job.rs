//! The job program of the end-to-end tests on Kafka: counts and sums payments per account, in a world where things go wrong.
//!
//! Reads topic `NAME-in`, writes to `NAME-out`; what is no payment goes to `NAME-bad`. Says on standard output what happens.
#![allow(clippy::disallowed_methods, reason = "a program reads its options")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use staunch::{Environment, JobOptions};
use staunch_e2e::events;
use staunch_e2e::world::{self, FaultySink, Object, PacedSource, Script};
use staunch_files::FileSink;
use staunch_kafka::{KafkaSink, KafkaSource, MessageDraft, StopAt};
use staunch_kafka_e2e::{Booked, Payment};

/// Books payments from one topic to another.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    job: JobOptions,
    /// Name of the job, and what its topics begin with
    #[arg(long)]
    name: String,
    /// What the topics begin with, if not with the job's name
    #[arg(long)]
    topics: Option<String>,
    /// Addresses of brokers
    #[arg(long)]
    brokers: String,
    /// How long a prepared transaction may be in doubt, in milliseconds
    #[arg(long, default_value_t = 600_000)]
    transaction_timeout: u64,
    /// Keep copies of what is not committed yet
    #[arg(long)]
    journal: bool,
    /// Also write what is booked to files in this directory
    #[arg(long)]
    files: Option<PathBuf>,
    /// Go on at the end of the topic; look for new partitions each so many milliseconds
    #[arg(long)]
    follow: Option<u64>,
    /// Tell this consumer group how far the job has come
    #[arg(long)]
    group: Option<String>,
    /// What goes wrong at which step
    #[arg(long, default_value = "")]
    faults: String,
    /// Payments that are booked in a second; 0 for as fast as it goes
    #[arg(long, default_value_t = 0)]
    rate: u64,
    /// Restarts without a checkpoint that are survived
    #[arg(long)]
    restarts_tolerated: Option<u32>,
}

/// What is kept of an account.
type Sums = (u64, i64);

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let mut env = Environment::from_options(&options.job);
    let run = &mut env.settings().run;
    run.restarts.failures_tolerated = options.restarts_tolerated.unwrap_or(run.restarts.failures_tolerated);
    let script = Arc::new(options.faults.parse::<Script>()?);
    env.world(world::faulty(Arc::clone(&script), None));
    env.on_event(|event| println!("{}", events::line(event)));
    write(&env, &options, &script);
    env.execute(&options.name)?;
    Ok(())
}

/// Writes the job down.
fn write(env: &Environment, options: &Options, script: &Arc<Script>) {
    let topic = |what: &str| format!("{}-{what}", options.topics.as_ref().unwrap_or(&options.name));
    let source = KafkaSource::json::<Payment>(&options.brokers, &topic("in"));
    let source = match options.follow {
        Some(discovery) => source.discovery(Some(Duration::from_millis(discovery))),
        None => source.stop(StopAt::Latest),
    };
    let source = options.group.iter().fold(source, |source, group| source.group(group));
    let (payments, bad) = env.source_with_dead_letter("in", PacedSource::new(source, options.rate));
    let booked = payments
        .key_by(|payment| payment.account)
        .stateful_map("book", Sums::default, |(nth, total): &mut Sums, payment: &Payment| {
            (*nth, *total) = (*nth + 1, *total + payment.cents);
            Booked { account: payment.account, cents: payment.cents, nth: *nth, total: *total }
        })
        .share();
    let timeout = Duration::from_millis(options.transaction_timeout);
    let mut out = KafkaSink::json::<Booked>(&options.brokers, &topic("out"))
        .key(|booked: &Booked| booked.account.to_string().into_bytes())
        .transaction_timeout(timeout);
    let raw = |rejected: &staunch_api::Rejected, message: &mut MessageDraft| {
        message.key(rejected.place.as_bytes()).value(rejected.raw.as_bytes());
        Ok(())
    };
    let mut side = KafkaSink::with(&options.brokers, &[&topic("bad")], raw).transaction_timeout(timeout);
    if options.journal {
        (out, side) = (out.journal(), side.journal());
    }
    booked.stream().sink("out", FaultySink::new(out, Arc::clone(script), Object::Sink));
    bad.sink("bad", FaultySink::new(side, Arc::clone(script), Object::Side));
    if let Some(directory) = &options.files {
        booked.stream().sink("files", FileSink::json_lines::<Booked>(directory));
    }
}
