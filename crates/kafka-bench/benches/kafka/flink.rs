//! The same work by Flink, on a cluster of its own.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workload::{Kind, Row};
use crate::{Costs, Place};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/flink/one.sh");
/// State is small and on the heap; the default split of memory is for RocksDB.
const MEMORY: &str = "-Dtaskmanager.memory.process.size=3072m -Dtaskmanager.memory.managed.fraction=0.1";

/// The command that runs a job; it needs `FLINKBENCH_WORK`, where bench/flink/setup_kafka.sh has run.
pub(crate) fn command(place: &Place, row: &Row) -> Result<Command> {
    let work = std::env::var("FLINKBENCH_WORK").context("Flink needs FLINKBENCH_WORK; `make bench-kafka` sets it up")?;
    let kind = if row.kind == Kind::Copy { "copy" } else { "window" };
    let mut command = Command::new(SCRIPT);
    command.args([MEMORY, "KafkaBench", "--workload", kind, "--parallelism", "1"]);
    command.args(["--checkpoint", &place.interval.as_millis().to_string(), "--partitions", &row.partitions.to_string()]);
    command.args(["--brokers", &place.brokers, "--in", &place.input, "--out", &place.output]);
    if let Some(records) = place.records {
        command.args(["--records", &records.to_string()]);
    }
    command.env("BENCH_JAR", format!("{work}/kafka.jar")).env("RESULTS", "/dev/null").env("JOB_TIMEOUT", "400");
    Ok(command)
}

/// Does a row's work.
pub(crate) fn run(place: &Place, row: &Row) -> Result<Costs> {
    let output = command(place, row)?.output().context("run bench/flink/one.sh")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.starts_with("RESULT "));
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(line.is_some(), "Flink gave no result on {}: {text}{errors}", row.name());
    let field = |name: &str| line.and_then(|line| line.split_whitespace().find_map(|word| word.strip_prefix(name)?.parse::<f64>().ok()));
    let (processor_seconds, seconds) = (field("cpu_s=").context("no cpu_s")?, field("wall_s=").context("no wall_s")?);
    Ok(Costs { processor_seconds, seconds, threads: String::new() })
}
