//! From the start of the process to the first committed row of a small file, and the memory that takes.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use staunch_engine::cluster::JobEvent;
use staunch_engine::job::{Environment, Settings};
use staunch_files::{FileSink, FileSource};

use crate::options::Options;
use crate::report;

/// Lines of the file.
const LINES: usize = 1000;

#[derive(Serialize, Deserialize)]
struct Payment {
    account: u64,
    cents: i64,
}

/// Runs a job with a key, durable checkpoints and a committed file; `began` is when the process did.
pub(crate) fn run(options: &Options, began: Instant) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let (input, out) = (folder.path().join("in.csv"), folder.path().join("out"));
    let lines: String = (0..LINES).map(|n| format!("{},{}\n", n % 50, n * 7)).collect();
    std::fs::write(&input, format!("account,cents\n{lines}")).map_err(|e| e.to_string())?;
    let prepared = began.elapsed();
    let mut settings = Settings::new();
    settings.parallelism = options.number("parallelism", settings.parallelism)?;
    settings.checkpoint_directory = Some(folder.path().join("checkpoints"));
    let mut environment = Environment::new(settings);
    let committed: Rc<Cell<Option<Duration>>> = Rc::default();
    let heard = Rc::clone(&committed);
    environment.on_event(move |event| {
        if matches!(event, JobEvent::EpochCommitted { .. }) && heard.get().is_none() {
            heard.set(Some(began.elapsed()));
        }
    });
    environment
        .source("payments", FileSource::csv::<Payment>(&input))
        .key_by(|p: &Payment| p.account)
        .stateful_map("balance", i64::default, |balance, p: &Payment| {
            *balance += p.cents;
            (p.account, *balance)
        })
        .sink("balances", FileSink::csv(&out).header(false));
    environment.execute("first-row").map_err(|e| e.to_string())?;
    let ended = began.elapsed() - prepared;
    let rows = committed_rows(&out)?;
    if rows != LINES {
        return Err(format!("staunch-bench: {rows} of {LINES} rows are committed"));
    }
    let first = committed.get().ok_or("staunch-bench: nothing was committed")? - prepared;
    println!(
        "{} first_row_ms={:.1} end_ms={:.1} resident_mb={:.1}",
        report::head(options)?,
        first.as_secs_f64() * 1e3,
        ended.as_secs_f64() * 1e3,
        resident_most()?
    );
    Ok(())
}

fn committed_rows(out: &Path) -> Result<usize, String> {
    let mut rows = 0;
    let mut folders: Vec<PathBuf> = vec![out.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).map_err(|e| e.to_string())? {
            let path = entry.map_err(|e| e.to_string())?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
                rows += text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).count();
            }
        }
    }
    Ok(rows)
}

/// Megabytes of memory that the process had resident at most.
fn resident_most() -> Result<f64, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|e| e.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("/proc/self/status has no VmHWM")?;
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().map_err(|e| format!("{line}: {e}"))?;
    Ok(kilobytes / 1024.0)
}
