//! RESULT lines, with the keys that the other benchmarks print, and the table of medians.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;

use crate::Costs;
use crate::latency::Latencies;
use crate::mark::Times;
use crate::options::{Engine, Options};
use crate::workload::Row;

/// One run.
pub(crate) struct Measured {
    pub(crate) row: Row,
    pub(crate) engine: Engine,
    pub(crate) interval: Duration,
    /// Records of the input per second.
    pub(crate) rate: f64,
    pub(crate) costs: Costs,
    pub(crate) broker_seconds: f64,
}

/// Figures of one engine on one row, by run.
type Figures = BTreeMap<(String, Engine), Vec<[f64; 4]>>;

/// All runs so far.
pub(crate) struct Report {
    file: Option<File>,
    throughput: Figures,
    latency: Figures,
}

impl Report {
    pub(crate) fn new(options: &Options) -> Result<Report> {
        let file = options.results.as_ref().map(|path| File::options().create(true).append(true).open(path)).transpose()?;
        Ok(Report { file, throughput: Figures::new(), latency: Figures::new() })
    }

    fn print(&mut self, line: &str) -> Result<()> {
        println!("{line}");
        if let Some(file) = &mut self.file {
            writeln!(file, "{line}")?;
        }
        Ok(())
    }

    pub(crate) fn add(&mut self, run: Measured) -> Result<()> {
        let (name, records) = (run.row.name(), run.row.records as f64);
        let (own_us, broker_us) = (run.costs.processor_seconds * 1e6 / records, run.broker_seconds * 1e6 / records);
        let cores = run.costs.processor_seconds / run.costs.seconds.max(1e-3);
        self.print(&format!(
            "{} events_per_s={:.0} cores={cores:.2} records={} cpu_us_per_event={own_us:.3} broker_us_per_event={broker_us:.3} threads={}",
            head(&name, run.engine, run.interval),
            run.rate,
            run.row.records,
            run.costs.threads,
        ))?;
        self.throughput.entry((name, run.engine)).or_default().push([run.rate, own_us, broker_us, cores]);
        Ok(())
    }

    pub(crate) fn add_latency(&mut self, run: Latencies) -> Result<()> {
        let at = |quantile: f64| run.all.value_at_quantile(quantile) as f64 / 1e3;
        let [p50, p99, p999, most] = [0.5, 0.99, 0.999, 1.0].map(at);
        self.print(&format!(
            "{} rate={} lat_n={} p50_ms={p50:.1} p99_ms={p99:.1} p999_ms={p999:.1} max_ms={most:.1}",
            head(&run.probe.name(), run.engine, run.interval),
            run.probe.rate,
            run.all.len(),
        ))?;
        self.latency.entry((run.probe.name(), run.engine)).or_default().push([p50, p99, p999, most]);
        Ok(())
    }

    /// Prints what a transaction took, with its mark or without.
    pub(crate) fn add_mark(&mut self, times: &Times) -> Result<()> {
        let at = |of: &Histogram<u64>, quantile: f64| of.value_at_quantile(quantile) as f64 / 1e3;
        self.print(&format!(
            "RESULT name=kafka-mark engine=loop mark={} transactions={} prepare_p50_ms={:.2} prepare_p99_ms={:.2} commit_p50_ms={:.2} commit_p99_ms={:.2}",
            if times.has_mark { "yes" } else { "no" },
            times.prepare.len(),
            at(&times.prepare, 0.5),
            at(&times.prepare, 0.99),
            at(&times.commit, 0.5),
            at(&times.commit, 0.99),
        ))
    }

    /// Prints the medians, and what ours is of the others: of the rate, of both processor times.
    pub(crate) fn finish(&self) {
        println!("\nMedians over the runs: thousand records per second; processor microseconds per record, own and the broker's.");
        println!("Ratios are ours to it: medians of the ratios of runs of the same pass, and the least and greatest of them.\n");
        println!("{:<22} {:<13} {:>4} {:>8} {:>8} {:>8}  ratio of rates", "row", "engine", "runs", "k/s", "own us", "broker");
        for ((name, engine), runs) in &self.throughput {
            let [rate, own, broker, _] = medians(runs);
            let ratios = self.throughput.get(&(name.clone(), Engine::Staunch)).filter(|_| *engine != Engine::Staunch).map(|ours| {
                let mut all: Vec<f64> = ours.iter().zip(runs).map(|(ours, its)| ours[0] / its[0]).collect();
                all.sort_by(f64::total_cmp);
                format!("{:.2} ({:.2} to {:.2})", median(&all), all[0], all[all.len() - 1])
            });
            println!(
                "{name:<22} {:<13} {:>4} {:>8.0} {own:>8.2} {broker:>8.2}  {}",
                engine.name(),
                runs.len(),
                rate / 1e3,
                ratios.unwrap_or_default()
            );
        }
        if !self.latency.is_empty() {
            println!("\nMilliseconds from when a record was due until a read_committed reader had it; medians over the runs.\n");
        }
        for ((name, engine), runs) in &self.latency {
            let [p50, p99, p999, most] = medians(runs);
            println!(
                "{name:<22} {:<13} p50 {p50:.1}, p99 {p99:.1}, p99.9 {p999:.1}, longest {most:.1} ({} runs)",
                engine.name(),
                runs.len()
            );
        }
    }
}

fn head(name: &str, engine: Engine, interval: Duration) -> String {
    let backend = match engine {
        Engine::Loop | Engine::LoopBatched => "none",
        Engine::Staunch => "memory",
        Engine::Flink => "hashmap",
    };
    format!("RESULT name={name} engine={} parallelism=1 backend={backend} checkpoint={}ms", engine.name(), interval.as_millis())
}

fn medians(runs: &[[f64; 4]]) -> [f64; 4] {
    std::array::from_fn(|at| {
        let mut all: Vec<f64> = runs.iter().map(|run| run[at]).collect();
        all.sort_by(f64::total_cmp);
        median(&all)
    })
}

/// Of values in order.
fn median(all: &[f64]) -> f64 {
    (all[(all.len() - 1) / 2] + all[all.len() / 2]) / 2.0
}
