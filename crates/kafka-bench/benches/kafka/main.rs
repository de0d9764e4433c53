//! Kafka to Kafka: our job beside a bare loop over librdkafka and beside Flink, on one broker, in one run.
//!
//! usage: cargo bench -p staunch-kafka-bench -- [--name value …]
//!   --passes 3   --rows copy-100B-1p,window-100B-1p,latency-1p,mark,…   --engines loop,loop-batched,staunch,flink   --scale 1   --seconds 25
//!
//! Owns: the order in which things are measured. A rate is that of the output as the broker dates it, after the first part of it, in which
//! programs warm up; the output is read with `read_committed` and checked: everything once.
//! `cargo test` runs all but Flink with few records, for the checks.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a benchmark measures the real clock, and starts what it measures")]

mod workload;
mod topics;
mod bare;
mod job;
mod flink;
mod latency;
mod mark;
mod usage;
mod options;
mod report;

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use staunch_kafka_testbed::Cluster;

use crate::options::{Engine, Options, Work};
use crate::report::{Measured, Report};
use crate::workload::{Kind, Row};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The part of the output that is not measured: programs warm up.
const WARM_UP: f64 = 0.3;

/// Where a program reads and writes, and how often it commits.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) brokers: String,
    pub(crate) input: String,
    pub(crate) output: String,
    pub(crate) interval: Duration,
    /// Records after which the input ends; it ends where it ends at the start, if not given.
    pub(crate) records: Option<u64>,
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.split_first() {
        Some((first, rest)) if first == "child" => child(rest),
        _ => measure(&Options::parse(&words)?),
    }
}

fn measure(options: &Options) -> Result<()> {
    let mut broker = staunch_kafka_testbed::Options::one().for_load();
    broker = broker.with("log.segment.bytes", "268435456").with("num.network.threads", "2");
    let cluster = Cluster::start(&broker)?;
    let mut report = Report::new(options)?;
    for row in options.rows.iter().filter_map(Work::row) {
        let input = format!("{}-in", row.name());
        topics::create(&cluster.bootstrap(), &input, row.partitions)?;
        topics::fill(&cluster.bootstrap(), &input, &row)?;
    }
    for pass in 0..options.passes {
        for work in &options.rows {
            if let Work::Mark = work {
                mark::measure(&cluster, pass)?.iter().try_for_each(|times| report.add_mark(times))?;
            }
            let mut engines = options.engines.clone();
            if pass % 2 == 1 {
                engines.reverse();
            }
            for engine in engines {
                match work {
                    Work::Throughput(row) => report.add(throughput(&cluster, row, engine, pass)?)?,
                    Work::Latency(probe) if engine == Engine::Staunch || engine == Engine::Flink => {
                        report.add_latency(latency::measure(&cluster, probe, engine, pass)?)?;
                    }
                    Work::Latency(_) | Work::Mark => {}
                }
            }
        }
    }
    report.finish();
    Ok(())
}

/// Runs one engine on one row, and checks its output.
fn throughput(cluster: &Cluster, row: &Row, engine: Engine, pass: usize) -> Result<Measured> {
    let output = format!("{}-{}-{pass}", row.name(), engine.name());
    let interval = Duration::from_secs(1);
    let place = Place { brokers: cluster.bootstrap(), input: format!("{}-in", row.name()), output, interval, records: None };
    topics::create(&place.brokers, &place.output, row.partitions)?;
    let broker_before = usage::processor_seconds_of(broker_process(cluster)?);
    let costs = if engine == Engine::Flink { flink::run(&place, row)? } else { own(&place, row, engine)? };
    let broker_seconds = usage::processor_seconds_of(broker_process(cluster)?) - broker_before;
    let times = topics::check(&place.brokers, &place.output, *row).with_context(|| format!("the output of {}", engine.name()))?;
    topics::remove(&place.brokers, &place.output)?;
    if std::env::var_os("VERBOSE").is_some() {
        let mut counts = vec![0; ((times[times.len() - 1] - times[0]) / 100 + 1) as usize];
        times.iter().for_each(|time| counts[((time - times[0]) / 100) as usize] += 1);
        eprintln!("records per 100 ms: {counts:?}");
    }
    let skipped = ((times.len() as f64 * WARM_UP) as usize).max(1);
    let seconds = (times[times.len() - 1] - times[skipped - 1]) as f64 / 1e3;
    let records = row.records as f64 * (times.len() - skipped) as f64 / times.len() as f64;
    let rate = records / seconds.max(1e-3);
    Ok(Measured { row: *row, engine, interval, rate, costs, broker_seconds })
}

fn broker_process(cluster: &Cluster) -> Result<u32> {
    Ok(fs::read_to_string(cluster.folder().join("broker-1/pid"))?.trim().parse()?)
}

/// What a run cost.
#[derive(Clone, Debug, Default)]
pub(crate) struct Costs {
    pub(crate) processor_seconds: f64,
    pub(crate) seconds: f64,
    /// Processor seconds by the names of threads.
    pub(crate) threads: String,
}

/// The words that [`child`] reads.
pub(crate) fn child_command(place: &Place, row: &Row, engine: Engine) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    let kind = if row.kind == Kind::Copy { "copy" } else { "window" };
    command.args(["child", engine.name(), &place.brokers, &place.input, &place.output, &place.interval.as_millis().to_string()]);
    command.args([kind, &row.value_bytes.to_string(), &row.partitions.to_string(), &row.records.to_string()]);
    command.args(place.records.map(|records| records.to_string()));
    Ok(command)
}

/// Runs the loop or our job in a process of its own.
fn own(place: &Place, row: &Row, engine: Engine) -> Result<Costs> {
    let output = child_command(place, row, engine)?.stderr(Stdio::inherit()).output().context("start this program again")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{} failed on {}", engine.name(), row.name());
    let line = text.lines().find_map(|line| line.strip_prefix("COSTS ")).context("it did not say what it cost")?;
    let words: Vec<&str> = line.splitn(3, ' ').collect();
    let [processor, seconds, threads] = words[..] else { bail!("expected three words, found {line:?}") };
    Ok(Costs { processor_seconds: processor.parse()?, seconds: seconds.parse()?, threads: threads.to_owned() })
}

fn child(words: &[String]) -> Result<()> {
    let [engine, brokers, input, output, interval_ms, kind, value_bytes, partitions, records, end @ ..] = words else {
        bail!("words are missing: {words:?}")
    };
    let place = Place {
        brokers: brokers.clone(),
        input: input.clone(),
        output: output.clone(),
        interval: Duration::from_millis(interval_ms.parse()?),
        records: end.first().map(|word| word.parse()).transpose()?,
    };
    let kind = if kind == "copy" { Kind::Copy } else { Kind::Window };
    let row = Row { kind, value_bytes: value_bytes.parse()?, partitions: partitions.parse()?, records: records.parse()? };
    let (began, threads) = (Instant::now(), usage::Threads::watch());
    match Engine::parse(engine)? {
        Engine::Loop => bare::run(&place, &row, bare::Way::Plain)?,
        Engine::LoopBatched => bare::run(&place, &row, bare::Way::Batched)?,
        Engine::Staunch => job::run(&place, &row)?,
        Engine::Flink => bail!("Flink does not run in this program"),
    }
    let (seconds, processor) = (began.elapsed().as_secs_f64(), usage::processor_seconds());
    let threads: Vec<String> = threads.finish().into_iter().map(|(name, seconds)| format!("{name}:{seconds:.2}")).collect();
    println!("COSTS {processor:.3} {seconds:.3} {}", threads.join(","));
    Ok(())
}
