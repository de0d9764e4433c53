//! What the mark costs that our sink leaves in each transaction: transactions with one message more, in a compacted topic, beside the same
//! without it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use staunch_kafka_testbed::Cluster;

use crate::topics::{self, STEP};
use crate::workload::copied;

const TRANSACTIONS: usize = 300;
const RECORDS: u64 = 100;
const VALUE_BYTES: usize = 100;
/// Transactional ids that take turns, as in the sink: one that was just used is still busy with its markers.
const IDS: usize = 3;
/// Transactions of one way, before it is the other's turn.
const TURN: usize = 30;

/// Microseconds until everything is acknowledged, and those of the commit.
pub(crate) struct Times {
    pub(crate) has_mark: bool,
    pub(crate) prepare: Histogram<u64>,
    pub(crate) commit: Histogram<u64>,
}

/// Measures both ways in turn.
pub(crate) fn measure(cluster: &Cluster, pass: usize) -> Result<[Times; 2]> {
    let brokers = cluster.bootstrap();
    let names = [format!("mark-data-{pass}"), format!("mark-side-{pass}")];
    names.iter().try_for_each(|topic| topics::create(&brokers, topic, 1))?;
    let ring = |way: &str| (0..IDS).map(|id| producer(&brokers, &format!("mark-{way}-{pass}-{id}"))).collect::<Result<Vec<_>>>();
    let rings = [ring("without")?, ring("with")?];
    let mut all = [times(false)?, times(true)?];
    for turn in 0..TRANSACTIONS / TURN {
        for (times, ring) in all.iter_mut().zip(&rings) {
            for number in 0..TURN {
                let [prepare, commit] = transaction(&ring[number % IDS], &names, times.has_mark, turn * TURN + number)?;
                times.prepare.saturating_record(prepare.as_micros() as u64);
                times.commit.saturating_record(commit.as_micros() as u64);
            }
        }
    }
    names.iter().try_for_each(|topic| topics::remove(&brokers, topic))?;
    Ok(all)
}

fn times(has_mark: bool) -> Result<Times> {
    let histogram = || Histogram::new_with_bounds(1, 60_000_000, 3);
    Ok(Times { has_mark, prepare: histogram()?, commit: histogram()? })
}

fn producer(brokers: &str, id: &str) -> Result<BaseProducer> {
    let producer: BaseProducer = topics::client(brokers).set("transactional.id", id).set("linger.ms", "0").create()?;
    producer.init_transactions(STEP)?;
    Ok(producer)
}

fn transaction(producer: &BaseProducer, [data, side]: &[String; 2], has_mark: bool, number: usize) -> Result<[Duration; 2]> {
    let mut value = Vec::new();
    copied(number as u64, VALUE_BYTES, &mut value);
    producer.begin_transaction()?;
    let began = Instant::now();
    (0..RECORDS).try_for_each(|_| topics::send(producer, BaseRecord::to(data).key(&b"key"[..]).payload(&value[..])))?;
    if has_mark {
        topics::send(producer, BaseRecord::to(side).key(number.to_string().as_bytes()).payload(&b"committed"[..]))?;
    }
    while producer.in_flight_count() > 0 {
        producer.poll(Duration::ZERO);
        ensure!(began.elapsed() < STEP, "the broker does not take all");
        std::thread::yield_now();
    }
    let prepared = began.elapsed();
    producer.commit_transaction(STEP)?;
    Ok([prepared, began.elapsed() - prepared])
}
