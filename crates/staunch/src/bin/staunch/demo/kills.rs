//! The starting and killing of the job.
//!
//! Owns: when to kill, with which parallelism to start again, what is shown meanwhile. The job is a process of its own and gets SIGKILL, which
//! it cannot hear.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use staunch_engine::runtime::random_number;
use staunch_types::{Error, ErrorKind, Result};

use super::{Options, Places};
use crate::job_folder::JobFolder;
use crate::output::{self, number};

/// The longest life of a job that will be killed.
const LIFE_MS_MAX: u64 = 1000;
/// The longest life of every third one, which is killed while it starts.
const SHORT_LIFE_MS_MAX: u64 = 60;
/// A job that goes on longer than this is stuck.
const LAST_LIFE_MAX: Duration = Duration::from_secs(90);
/// Between two looks at the ledger.
const LOOK: Duration = Duration::from_millis(100);
/// Lines of the job that are kept for the case that it fails, and that may wait to be looked at.
const LINES_MAX: usize = 1000;
/// Parallelism of each start, in turn.
const PARALLELISM: [u32; 5] = [2, 4, 1, 3, 5];

/// How a life ended.
enum Ended {
    Killed(Duration),
    Finished,
}

/// Runs the job to its end, killing it again and again before; how often it was killed.
///
/// # Errors
/// `Bug` when the job ends before it was killed so often, or not as it should.
pub(super) fn run_killed(options: &Options, places: &Places, rows: u64) -> Result<u32> {
    let bar = Bar::new(rows);
    for kill in 0..options.kills {
        let longest = if kill % 3 == 2 { SHORT_LIFE_MS_MAX } else { LIFE_MS_MAX };
        let life = Duration::from_millis((random_number() % u128::from(longest)) as u64);
        let parallelism = PARALLELISM[kill as usize % PARALLELISM.len()];
        match live(options, places, parallelism, Some(life), &bar)? {
            Ended::Killed(after) => {
                let (epochs, records) = progress(places);
                bar.say(&format!(
                    "kill {} of {}: parallelism {parallelism}, after {} ms; {} epochs and {} of {} records are durable",
                    kill + 1,
                    options.kills,
                    after.as_millis(),
                    number(epochs),
                    number(records),
                    number(rows)
                ));
            }
            Ended::Finished => {
                return Err(failed(format!("the job finished after {kill} kills, before it could be killed {} times", options.kills))
                    .remedy("kill it less often (--kills)"));
            }
        }
    }
    let parallelism = PARALLELISM[options.kills as usize % PARALLELISM.len()];
    let last = live(options, places, parallelism, None, &bar)?;
    bar.end();
    match last {
        Ended::Finished => Ok(options.kills),
        Ended::Killed(after) => Err(failed(format!("the job did not finish within {} s", after.as_secs()))),
    }
}

fn failed(what: String) -> Error {
    Error::new(ErrorKind::Bug, "B103", what).data("the demonstration has its own data; no other is touched")
}

/// One life of the job. Without a given one it may finish.
fn live(options: &Options, places: &Places, parallelism: u32, life: Option<Duration>, bar: &Bar) -> Result<Ended> {
    let began = Instant::now();
    let (mut child, lines) = start(options, places, parallelism)?;
    let until = life.unwrap_or(LAST_LIFE_MAX);
    let mut said: Vec<String> = Vec::new();
    loop {
        let left = until.saturating_sub(began.elapsed());
        match lines.recv_timeout(left.min(LOOK)) {
            Ok(line) if said.len() < LINES_MAX => said.push(line),
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => bar.look(places),
            // It closes its error output when it ends, however it ends.
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if began.elapsed() >= until {
            child.kill().and_then(|()| child.wait()).map_err(|error| failed("the job cannot be killed".into()).cause(error))?;
            return Ok(Ended::Killed(began.elapsed()));
        }
    }
    let status = child.wait().map_err(|error| failed("the job cannot be waited for".into()).cause(error))?;
    if status.success() {
        return Ok(Ended::Finished);
    }
    Err(failed(format!("the job ended by itself: {status}")).cause(said.join("\n")))
}

/// Starts the job; what it says comes through the channel.
fn start(options: &Options, places: &Places, parallelism: u32) -> Result<(Child, Receiver<String>)> {
    let cannot = |error: std::io::Error| failed("the job cannot be started".into()).cause(error);
    let mut child = Command::new(std::env::current_exe().map_err(cannot)?)
        .arg("demo-worker")
        .args(["--parallelism", &parallelism.to_string(), "--rate", &options.rate.to_string()])
        .arg("--checkpoint-dir")
        .arg(&places.checkpoints)
        .arg("--input")
        .arg(&places.input)
        .arg("--output")
        .arg(&places.output)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(cannot)?;
    let (tx, rx) = sync_channel(LINES_MAX);
    if let Some(errors) = child.stderr.take() {
        std::thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(std::io::Result::ok) {
                if tx.send(line).is_err() {
                    return;
                }
            }
        });
    }
    Ok((child, rx))
}

/// Epochs and records that are durable, by the ledger.
fn progress(places: &Places) -> (u64, u64) {
    // A ledger that is not there yet, or is being written, is looked at again soon; the proof comes at the end.
    let Ok(ledger) = JobFolder::open(&places.checkpoints).and_then(|folder| folder.ledger()) else { return (0, 0) };
    let ranges = ledger.seals().flat_map(|s| &s.sources).flat_map(|s| &s.ranges);
    (ledger.seals().count() as u64, ranges.map(|r| r.digest.records).sum())
}

/// What a person sees: a bar on a terminal, lines elsewhere.
struct Bar(ProgressBar);

impl Bar {
    fn new(rows: u64) -> Bar {
        let bar = ProgressBar::with_draw_target(Some(rows), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{elapsed} [{bar:40}] {human_pos}/{human_len} records durable, {msg}") {
            bar.set_style(style);
        }
        Bar(bar)
    }

    fn look(&self, places: &Places) {
        if !self.0.is_hidden() {
            let (epochs, records) = progress(places);
            self.0.set_position(records);
            self.0.set_message(format!("{} epochs", number(epochs)));
        }
    }

    fn say(&self, line: &str) {
        self.0.suspend(|| output::print(&format!("{line}\n")));
    }

    fn end(&self) {
        self.0.finish_and_clear();
    }
}
