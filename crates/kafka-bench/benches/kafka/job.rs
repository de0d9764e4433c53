//! Our job: the same work as a program that a user would write.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use staunch_engine::cluster::JobEvent;
use staunch_engine::job::{Environment, Settings};
use staunch_engine::operator::Watermarks;
use staunch_engine::operator::window::{Tumbling, WindowResult};
use staunch_kafka::{KafkaSink, KafkaSource, Message, MessageDraft, StopAt};
use staunch_types::Timestamp;

use crate::Place;
use crate::workload::{Kind, Payment, Row, Total, WINDOW_MS};

/// A message that is copied.
struct Copied {
    key: Vec<u8>,
    value: Vec<u8>,
}

/// Does a row's work, up to the end of the input or up to the place's offsets.
pub(crate) fn run(place: &Place, row: &Row) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut settings = Settings::new();
    settings.parallelism = 1;
    settings.checkpoint_directory = Some(folder.path().to_owned());
    settings.run.interval = place.interval;
    let mut environment = Environment::new(settings);
    let began = Instant::now();
    let tells_all = std::env::var_os("VERBOSE").is_some();
    environment.on_event(move |event| match event {
        JobEvent::EpochFailed { error, .. } | JobEvent::Restarting { error, .. } => eprintln!("{error}"),
        other if tells_all => eprintln!("{:.1} ms: {other:?}", began.elapsed().as_secs_f64() * 1e3),
        _ => {}
    });
    let stop = match place.records {
        None => StopAt::Latest,
        Some(records) => StopAt::Offsets(ends(&place.input, row, records)),
    };
    match row.kind {
        Kind::Copy => copy(&environment, place, stop),
        Kind::Window => windows(&environment, place, stop),
    }
    environment.execute(&place.output).map(drop).map_err(|error| anyhow!("{error}"))
}

/// Where the partitions end when so many records are in all of them, dealt out in turn.
fn ends(topic: &str, row: &Row, records: u64) -> BTreeMap<(String, i32), i64> {
    let partitions = row.partitions as u64;
    let count = |partition: u64| records / partitions + u64::from(partition < records % partitions);
    (0..partitions).map(|partition| ((topic.to_owned(), partition as i32), count(partition) as i64)).collect()
}

fn copy(environment: &Environment, place: &Place, stop: StopAt) {
    let decode = |message: &Message<'_>| {
        let (Some(key), Some(value)) = (message.key, message.value) else { return Err("expected a key and a value".to_owned()) };
        Ok(Copied { key: key.to_vec(), value: value.to_vec() })
    };
    let encode = |record: &Copied, message: &mut MessageDraft| {
        message.key(&record.key).value(&record.value);
        Ok(())
    };
    environment
        .source("in", KafkaSource::with(&place.brokers, &place.input, decode).stop(stop))
        .map(|mut record: Copied| {
            record.value.make_ascii_uppercase();
            record
        })
        .sink("out", KafkaSink::with(&place.brokers, &[&place.output], encode));
}

fn windows(environment: &Environment, place: &Place, stop: StopAt) {
    let decode = |message: &Message<'_>| Payment::read(message.key, message.value).ok_or_else(|| "expected a payment".to_owned());
    let encode = |window: &WindowResult<u64, (u64, u64)>, message: &mut MessageDraft| {
        let (count, sum) = window.value;
        message.key(&window.key.to_be_bytes()).value(&Total { start: window.start.0, count, sum }.bytes());
        Ok(())
    };
    environment
        .source("in", KafkaSource::with(&place.brokers, &place.input, decode).stop(stop))
        .event_time(|payment: &Payment| Timestamp(payment.time), Watermarks::ascending())
        .key_by(|payment: &Payment| payment.account)
        .window(Tumbling::of(Duration::from_millis(WINDOW_MS as u64)))
        .fold("totals", || (0, 0), |total: &mut (u64, u64), payment: &Payment| *total = (total.0 + 1, total.1 + payment.amount))
        .sink("out", KafkaSink::with(&place.brokers, &[&place.output], encode));
}
