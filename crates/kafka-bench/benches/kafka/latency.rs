//! From the time at which a record was due until a `read_committed` reader has it.
//!
//! Owns: the producer with its schedule, and the reader. A record that is late because the producer was held up is late all the same.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use hdrhistogram::Histogram;
use rdkafka::Message;
use rdkafka::consumer::BaseConsumer;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use staunch_kafka_testbed::Cluster;

use crate::options::Engine;
use crate::topics::{self, STEP};
use crate::workload::{Kind, Row, copied};
use crate::{Place, child_command, flink};

const VALUE_BYTES: usize = 100;
const INTERVAL: Duration = Duration::from_millis(100);
/// Records that lie there at the start; when they have come out, the job runs.
const FIRST: u64 = 2_000;
/// How long the job may take until it runs.
const START_MAX: Duration = Duration::from_secs(120);
/// The longest latency that is told apart.
const MICROSECONDS_MAX: u64 = 600_000_000;

/// A measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub(crate) partitions: i32,
    /// Records per second.
    pub(crate) rate: u64,
    pub(crate) seconds: u64,
    /// Of these seconds, the first ones that are not measured.
    pub(crate) skipped: u64,
}

impl Probe {
    pub(crate) fn name(&self) -> String {
        format!("kafka-latency-{}p", self.partitions)
    }
}

/// Latencies in microseconds.
pub(crate) struct Latencies {
    pub(crate) probe: Probe,
    pub(crate) engine: Engine,
    pub(crate) interval: Duration,
    pub(crate) all: Histogram<u64>,
}

/// Runs a job that copies, and measures.
pub(crate) fn measure(cluster: &Cluster, probe: &Probe, engine: Engine, pass: usize) -> Result<Latencies> {
    let name = format!("{}-{}-{pass}", probe.name(), engine.name());
    let total = FIRST + probe.rate * probe.seconds;
    let (input, output) = (format!("{name}-in"), format!("{name}-out"));
    let place = Place { brokers: cluster.bootstrap(), input, output, interval: INTERVAL, records: Some(total) };
    let row = Row { kind: Kind::Copy, value_bytes: VALUE_BYTES, partitions: probe.partitions, records: total };
    for topic in [&place.input, &place.output] {
        topics::create(&place.brokers, topic, probe.partitions)?;
    }
    let mut command = if engine == Engine::Flink { flink::command(&place, &row)? } else { child_command(&place, &row, engine)? };
    let job = Running(command.stdout(Stdio::null()).spawn().context("start the job")?);
    let all = pace(&place, probe, total).with_context(|| format!("the latency of {}", engine.name()))?;
    job.wait(&command)?;
    for topic in [&place.input, &place.output] {
        topics::remove(&place.brokers, topic)?;
    }
    Ok(Latencies { probe: *probe, engine, interval: INTERVAL, all })
}

/// A process that does not outlive this value.
struct Running(std::process::Child);

impl Running {
    fn wait(mut self, command: &Command) -> Result<()> {
        let status = self.0.wait()?;
        ensure!(status.success(), "the job failed: {command:?}");
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already, if all went well.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn pace(place: &Place, probe: &Probe, total: u64) -> Result<Histogram<u64>> {
    let mut config = topics::client(&place.brokers);
    config.set("enable.idempotence", "true").set("linger.ms", "1");
    let producer: BaseProducer = config.create()?;
    let reader = topics::reader(&place.brokers, &place.output, probe.partitions, &[("fetch.wait.max.ms", "100")])?;
    (0..FIRST).try_for_each(|number| send(&producer, place, probe, number, 0))?;
    producer.flush(STEP)?;
    let waited = Instant::now();
    for _ in 0..FIRST {
        ensure!(waited.elapsed() < START_MAX, "the job does not run");
        if let Some(message) = reader.poll(START_MAX) {
            message?;
        }
    }
    let began = Instant::now();
    thread::scope(|scope| {
        let reading = scope.spawn(|| read(&reader, probe, total - FIRST, began));
        let mut number = FIRST;
        while number < total {
            let due_us = |number: u64| (number - FIRST + 1) * 1_000_000 / probe.rate;
            while number < total && due_us(number) <= began.elapsed().as_micros() as u64 {
                send(&producer, place, probe, number, due_us(number))?;
                number += 1;
            }
            producer.poll(Duration::from_micros(500));
        }
        producer.flush(STEP)?;
        reading.join().map_err(|_| anyhow!("the reader failed"))?
    })
}

/// Sends a record with the time when it is due in the place of its number.
fn send(producer: &BaseProducer, place: &Place, probe: &Probe, number: u64, due_us: u64) -> Result<()> {
    let (mut value, key) = (Vec::with_capacity(VALUE_BYTES), number.to_be_bytes());
    copied(due_us, VALUE_BYTES, &mut value);
    let partition = (number % probe.partitions as u64) as i32;
    topics::send(producer, BaseRecord::to(&place.input).partition(partition).key(&key[..]).payload(&value[..]))
}

fn read(reader: &BaseConsumer, probe: &Probe, records: u64, began: Instant) -> Result<Histogram<u64>> {
    let mut all = Histogram::new_with_bounds(1, MICROSECONDS_MAX, 3)?;
    for _ in 0..records {
        let message = reader.poll(STEP).context("records do not come")??;
        let now = began.elapsed().as_micros() as u64;
        let digits = message.payload().and_then(|value| value.get(..12)).context("a value is too short")?;
        let due: u64 = std::str::from_utf8(digits)?.parse()?;
        if due > probe.skipped * 1_000_000 {
            all.saturating_record(now.saturating_sub(due).max(1));
        }
    }
    ensure!(reader.poll(Duration::from_millis(500)).is_none(), "more records came than were sent");
    Ok(all)
}
