//! The workloads: the same records and steps as in the Flink programs and the plain loops.
//!
//! Owns: the pipelines, and the order in which `all` runs them. Does not own: how a rate is measured (source), how it is printed (report).

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use staunch_engine::cluster::JobEvent;
use staunch_engine::job::{Environment, Settings, Start, Stream};
use staunch_engine::operator::window::{Fold, Hopping, Tumbling};
use staunch_engine::operator::{Identity, Watermarks};
use staunch_files::{FileSink, FileSource};
use staunch_rocksdb::RocksDb;

use crate::first_row;
use crate::generate::{Bid, Generator, mix};
use crate::moment::Moment;
use crate::options::Options;
use crate::report;
use crate::sinks::{self, Consume, Latencies};
use crate::source::{GenSource, Make, Measured, processor_seconds};

/// Runs one workload; `began` is when the process did.
pub(crate) fn run(options: &Options, began: Instant) -> Result<(), String> {
    match options.workload.as_str() {
        "q0" | "q0read" | "mapfilter" | "count" | "countproj" | "tumble" | "hop" | "bigstate" | "filesink" => throughput(options),
        "latency" => latency(options),
        "make-files" => make_files(options),
        "files" => files(options),
        "firstrow" => first_row::run(options, began),
        "all" => all(options, began),
        other => Err(format!("staunch-bench: unknown workload {other}")),
    }
}

/// Every workload once, with the options of the goals.
fn all(options: &Options, began: Instant) -> Result<(), String> {
    let second = ("checkpoint", "1000");
    run(&options.with("firstrow", &[]), began)?;
    for workload in ["q0", "q0read", "mapfilter", "count", "countproj", "tumble", "hop"] {
        run(&options.with(workload, &[second]), began)?;
    }
    let ten_million = [("keys", "10000000"), ("populate", "10000000")];
    run(&options.with("count", &[("name", "count-10M"), second, ten_million[0], ten_million[1]]), began)?;
    for checkpoint in ["0", "1000"] {
        run(&options.with("bigstate", &[("parallelism", "2"), ("checkpoint", checkpoint), ten_million[0], ten_million[1]]), began)?;
    }
    let directory = tempfile::tempdir().map_err(|e| e.to_string())?;
    let out = directory.path().join("out").display().to_string();
    run(&options.with("filesink", &[second, ("outDir", &out)]), began)?;
    run(&options.with("latency", &[second, ("rate", "100000"), ("keys", "100000")]), began)?;
    for format in ["csv", "json"] {
        let data = directory.path().join(format).display().to_string();
        let files = [("format", format), ("outDir", data.as_str()), ("input", data.as_str())];
        run(&options.with("make-files", &files), began)?;
        run(&options.with("files", &[files[0], files[2], second]), began)?;
    }
    Ok(())
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
    match options.text("backend") {
        None | Some("memory" | "hashmap") => {}
        Some("rocksdb") => {
            let mut backend = RocksDb::default().memory(options.number("memory", 1 << 30)?);
            if let Some(bytes) = options.text("objects") {
                backend = backend.objects(bytes.parse().map_err(|_| format!("--objects {bytes} is not a number"))?);
            }
            if let Some(directory) = options.text("dbdir") {
                backend = backend.directory(directory);
            }
            environment.state(backend);
        }
        Some(other) => return Err(format!("staunch-bench: --backend {other} is neither memory nor rocksdb")),
    }
    environment.on_event(|event| match event {
        JobEvent::EpochFailed { error, .. } | JobEvent::Restarting { error, .. } => eprintln!("{error}"),
        other => {
            if std::env::var_os("VERBOSE").is_some() {
                eprintln!("{other:?}")
            }
        }
    });
    Ok(environment)
}

fn throughput(options: &Options) -> Result<(), String> {
    let generator =
        Generator::new(options.number("keys", 100_000)?, options.number("populate", 0)?, options.number("eventRate", 1_000_000)?);
    let measured = Arc::new(Mutex::new(Measured::default()));
    let source = GenSource::new(generator, options.schedule()?, Arc::clone(&measured), Instant::now());
    let environment = environment(options)?;
    let bids = environment.source("gen", source);
    let out = options.text("outDir").map(PathBuf::from);
    match (options.workload.as_str(), &out) {
        ("filesink", Some(out)) => bids.map(Line::from).sink("out", FileSink::csv(out).header(false)),
        ("filesink", None) => return Err("staunch-bench: filesink needs --outDir".into()),
        _ => pipeline(options, bids)?,
    }
    let slices = environment.slice_times();
    environment.execute("bench").map_err(|e| e.to_string())?;
    let measured = measured.lock().unwrap_or_else(PoisonError::into_inner);
    let extra = match (options.workload.as_str(), out) {
        ("filesink", Some(out)) => {
            let (files, bytes) = report::measure_directory(&out);
            format!(" bytes_per_record={:.1} files={files}", bytes as f64 / measured.records.max(1) as f64)
        }
        _ => String::new(),
    };
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let extra = format!(
        "{extra} slices={} slice_p50_ms={:.3} slice_p99_ms={:.3} slice_p999_ms={:.3} slice_max_ms={:.3}",
        slices.count(),
        milliseconds(slices.quantile(0.5)),
        milliseconds(slices.quantile(0.99)),
        milliseconds(slices.quantile(0.999)),
        milliseconds(slices.longest())
    );
    println!("{}", report::throughput(options, &measured, &extra)?);
    Ok(())
}

/// A bid as a line of the file workloads, in Flink's order of columns.
#[derive(Serialize, Deserialize)]
struct Line {
    auction: u64,
    bidder: u64,
    price: u64,
    channel: Cow<'static, str>,
    url: Cow<'static, str>,
    #[serde(rename = "dateTime")]
    date_time: u64,
    extra: Cow<'static, str>,
}

impl From<Bid> for Line {
    fn from(bid: Bid) -> Line {
        let Bid { auction, bidder, price, channel, url, date_time, extra } = bid;
        Line { auction, bidder, price, channel: channel.into(), url: url.into(), date_time, extra: extra.into() }
    }
}

/// A bid as a line of JSON, whose time Flink's SQL reads as a timestamp.
#[derive(Serialize, Deserialize)]
struct JsonLine {
    auction: u64,
    bidder: u64,
    price: u64,
    channel: Cow<'static, str>,
    url: Cow<'static, str>,
    date_time: Moment,
    extra: Cow<'static, str>,
}

impl From<Bid> for JsonLine {
    fn from(bid: Bid) -> JsonLine {
        let Bid { auction, bidder, price, channel, url, date_time, extra } = bid;
        JsonLine { auction, bidder, price, channel: channel.into(), url: url.into(), date_time: Moment(date_time), extra: extra.into() }
    }
}

/// Writes the input of the file workloads.
fn make_files(options: &Options) -> Result<(), String> {
    let generator = Generator::new(options.number("keys", 100_000)?, 0, 1_000_000);
    let records = options.number("maxRecords", 4_000_000u64)?;
    let limited = options.with(&options.workload, &[("maxRecords", &records.to_string()), ("windows", "0")]);
    let source = GenSource::new(generator, limited.schedule()?, Arc::default(), Instant::now());
    let environment = environment(options)?;
    let bids = environment.source("gen", source);
    let out = PathBuf::from(options.text("outDir").ok_or("staunch-bench: make-files needs --outDir")?);
    match options.text("format") {
        Some("json") => bids.map(JsonLine::from).sink("out", FileSink::json_lines(&out)),
        _ => bids.map(Line::from).sink("out", FileSink::csv(&out)),
    }
    environment.execute("make-files").map(drop).map_err(|e| e.to_string())
}

/// Reads files into structs and projects them.
fn files(options: &Options) -> Result<(), String> {
    let environment = environment(options)?;
    let input = PathBuf::from(options.text("input").ok_or("staunch-bench: files needs --input")?);
    let records = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&records);
    let consume = Consume::new(move |(auction, price, time): (u64, u64, u64)| {
        seen.fetch_add(1, Ordering::Relaxed);
        std::hint::black_box(auction + price + time)
    });
    match options.text("format") {
        Some("json") => environment
            .source("files", FileSource::json_lines::<JsonLine>(&input))
            .map(|line: JsonLine| (line.auction, line.price, line.date_time.0))
            .sink("out", consume),
        _ => environment
            .source("files", FileSource::csv::<Line>(&input))
            .map(|line: Line| (line.auction, line.price, line.date_time))
            .sink("out", consume),
    }
    let (start, processor) = (Instant::now(), processor_seconds());
    environment.execute("files").map_err(|e| e.to_string())?;
    let (seconds, cores) = (start.elapsed().as_secs_f64(), processor_seconds() - processor);
    let (_, bytes) = report::measure_directory(&input);
    let records = records.load(Ordering::Relaxed);
    println!(
        "{} format={} events_per_s={:.0} cores={:.2} records={records} mb_per_s={:.1} bytes_per_record={:.1}",
        report::head(options)?,
        options.text("format").unwrap_or("csv"),
        records as f64 / seconds,
        cores / seconds,
        bytes as f64 / 1e6 / seconds,
        bytes as f64 / records.max(1) as f64
    );
    Ok(())
}

/// A bid with the time at which it was due.
#[derive(Clone, Copy)]
struct DueBids(Generator);

impl Make<(Bid, u64)> for DueBids {
    #[inline(always)]
    fn make(&self, seq: u64, due: u64) -> (Bid, u64) {
        (self.0.make(seq), due)
    }
}

/// Time from when a record was due until it has gone through one keyed hop.
fn latency(options: &Options) -> Result<(), String> {
    let generator = Generator::new(options.number("keys", 100_000)?, 0, 1_000_000);
    let options = options.with("latency", &[("rate", "100000"), ("windows", "5"), ("warmup", "2")]);
    let (schedule, start) = (options.schedule()?, Instant::now());
    let histogram = hdrhistogram::Histogram::new_with_bounds(1, 60_000_000_000, 3).map_err(|e| e.to_string())?;
    let latencies: Latencies = Arc::new(Mutex::new(histogram));
    let measured = Arc::new(Mutex::new(Measured::default()));
    let source = GenSource::new(DueBids(generator), schedule, Arc::clone(&measured), start);
    let environment = environment(&options)?;
    let skip = schedule.warmup.as_nanos() as u64;
    environment
        .source("gen", source)
        .key_by(|(bid, _): &(Bid, u64)| bid.auction)
        .stateful_map("count", CountSum::default, |state, (bid, due): &(Bid, u64)| {
            state.count += 1;
            state.sum += bid.price;
            (*due, state.count)
        })
        .sink("out", Consume::new(sinks::latency(|(due, _): &(u64, u64)| *due, start, skip, Arc::clone(&latencies))));
    environment.execute("latency").map_err(|e| e.to_string())?;
    let all = latencies.lock().unwrap_or_else(PoisonError::into_inner);
    let at = |quantile: f64| all.value_at_quantile(quantile) as f64 / 1e6;
    let extra = format!(
        " lat_n={} p50_ms={:.3} p90_ms={:.3} p99_ms={:.3} p999_ms={:.3} max_ms={:.3}",
        all.len(),
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999),
        at(1.0)
    );
    println!("{}", report::throughput(&options, &measured.lock().unwrap_or_else(PoisonError::into_inner), &extra)?);
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
