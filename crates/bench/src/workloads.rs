//! The workloads.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use staunch_engine::cluster::JobEvent;
use staunch_engine::job::{Environment, Settings};

use crate::generate::{Bid, Generator};
use crate::options::Options;
use crate::report;
use crate::sinks::Consume;
use crate::source::{GenSource, Measured};

pub(crate) fn run(options: &Options) -> Result<(), String> {
    match options.workload.as_str() {
        "q0" | "q0read" | "mapfilter" => throughput(options),
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
    match options.workload.as_str() {
        "q0" => bids.discard("out"),
        "q0read" => bids.sink("out", Consume::new(|b: Bid| std::hint::black_box(b).read())),
        _ => bids
            .map(|b: Bid| Bid { price: b.price * 908 / 1000, ..b })
            .filter(|b: &Bid| b.auction & 3 != 0)
            .sink("out", Consume::new(|b: Bid| std::hint::black_box(b).read())),
    }
    environment.execute("bench").map_err(|e| e.to_string())?;
    let measured = measured.lock().unwrap_or_else(PoisonError::into_inner);
    println!("{}", report::throughput(options, &measured, "")?);
    Ok(())
}
