//! The workloads.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use staunch_engine::cluster::JobEvent;
use staunch_engine::job::{Environment, Settings, Start, Stream};
use staunch_engine::operator::window::{Fold, Hopping, Tumbling};
use staunch_engine::operator::{Identity, Watermarks};

use crate::generate::{Bid, Generator, mix};
use crate::options::Options;
use crate::report;
use crate::sinks::Consume;
use crate::source::{GenSource, Measured};

pub(crate) fn run(options: &Options) -> Result<(), String> {
    match options.workload.as_str() {
        "q0" | "q0read" | "mapfilter" | "count" | "countproj" | "tumble" | "hop" | "bigstate" => throughput(options),
        other => Err(format!("staunch-bench: unknown workload {other}")),
    }
}

/// An environment as the options say.
fn environment(options: &Options) -> Result<Environment, String> {
    let mut settings = Settings::new();
    settings.parallelism = options.number("parallelism", 1)?;
    settings.workers = options.number("workers", settings.workers)?;
    settings.checkpoint_directory = options.text("ckptdir").map(PathBuf::from);
    settings.run.interval = options.checkpoint()?.unwrap_or(Duration::from_secs(1_000_000_000));
    settings.run.restore = staunch_engine::cluster::Restore::Nothing;
    let mut environment = Environment::new(settings);
    environment.on_event(|event| match event {
        JobEvent::EpochFailed { error, .. } | JobEvent::Restarting { error, .. } => eprintln!("{error}"),
        other => if std::env::var_os("VERBOSE").is_some() { eprintln!("{other:?}") },
    });
    Ok(environment)
}

fn throughput(options: &Options) -> Result<(), String> {
    let generator = Generator::new(options.number("keys", 100_000)?, options.number("populate", 0)?, options.number("eventRate", 1_000_000)?);
    let measured = Arc::new(Mutex::new(Measured::default()));
    let start = Instant::now();
    let source = GenSource::new(generator, options.schedule()?, Arc::clone(&measured), start);
    let environment = environment(options)?;
    let bids = environment.source("gen", source);
    pipeline(options, bids)?;
    environment.execute("bench").map_err(|e| e.to_string())?;
    let measured = measured.lock().unwrap_or_else(PoisonError::into_inner);
    println!("{}", report::throughput(options, &measured, "")?);
    Ok(())
}

/// What a key of `count` keeps.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct CountSum {
    count: u64,
    sum: u64,
}

/// About 100 bytes, rewritten by every record.
#[derive(Clone, Serialize, Deserialize)]
struct Payload {
    count: u64,
    #[serde(with = "serde_bytes")]
    bytes: [u8; 88],
}

fn payload() -> Payload {
    let mut bytes = [0; 88];
    let mut z = mix(1);
    for word in bytes.chunks_exact_mut(8) {
        word.copy_from_slice(&z.to_le_bytes());
        z = mix(z);
    }
    Payload { count: 0, bytes }
}

fn pipeline<S: Start<Item = Bid>>(options: &Options, bids: Stream<S, Identity>) -> Result<(), String> {
    let count = |state: &mut CountSum, price: u64| {
        state.count += 1;
        state.sum += price;
        (state.count, state.sum)
    };
    let seconds = Duration::from_secs;
    match options.workload.as_str() {
        "q0" => bids.discard("out"),
        "q0read" => bids.sink("out", Consume::new(|b: Bid| std::hint::black_box(b).read())),
        "mapfilter" => bids
            .map(|b: Bid| Bid { price: b.price * 908 / 1000, ..b })
            .filter(|b: &Bid| b.auction & 3 != 0)
            .sink("out", Consume::new(|b: Bid| std::hint::black_box(b).read())),
        "count" => bids
            .key_by(|b: &Bid| b.auction)
            .stateful_map("count", CountSum::default, move |s, b: &Bid| (b.auction, count(s, b.price)))
            .discard("out"),
        "countproj" => bids
            .map(|b: Bid| (b.auction, b.price))
            .key_by(|b: &(u64, u64)| b.0)
            .stateful_map("count", CountSum::default, move |s, b: &(u64, u64)| (b.0, count(s, b.1)))
            .discard("out"),
        "tumble" => bids
            .event_time(Bid::time, Watermarks::ascending())
            .key_by(|b: &Bid| b.auction)
            .window(Tumbling::of(seconds(10)))
            .fold("window", || 0u64, |n, _| *n += 1)
            .discard("out"),
        "hop" => bids
            .event_time(Bid::time, Watermarks::ascending())
            .key_by(|b: &Bid| b.auction)
            .window(Hopping::of(seconds(10), seconds(2)))
            .aggregate("window", Fold::new(|| 0u64, |n: &mut u64, _: &Bid| *n += 1).merge(|n, m| *n += m))
            .discard("out"),
        "bigstate" => bids
            .map(|b: Bid| (b.auction, b.price))
            .key_by(|b: &(u64, u64)| b.0)
            .stateful_map("payload", payload, |s, b: &(u64, u64)| {
                s.count += 1;
                s.bytes[(s.count % 88) as usize] = b.1 as u8;
                (b.0, s.count)
            })
            .discard("out"),
        other => return Err(format!("staunch-bench: unknown workload {other}")),
    }
    Ok(())
}
