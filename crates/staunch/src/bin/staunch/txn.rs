//! `staunch txn`: output that a durable epoch names and whose commit is not recorded; and what lies open outside that nothing names.
//!
//! Output in doubt is not lost: the job commits it, or finds out what became of it, before it does anything else at its next start. When that
//! start is far off, a person can commit it, or abort what nothing names, while the job does not run.
//!
//! Owns: what is in doubt, by the ledger; whether the job may be running. Does not own: the outside, one module for each kind.
//!
//! Invariants:
//! 1. Only what a seal of an unbroken chain names is committed; nothing that one names is aborted.
//! 2. Nothing is written to the folder of the job: its next start finds out what was done.

#[cfg(feature = "kafka")]
mod kafka;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;
use staunch_format::ledger::{Body, CommittableTotal};
use staunch_types::{Epoch, Error, ErrorKind, Name, Result};

use crate::job_folder::{JobFolder, Ledger};
use crate::options::BrokerOptions;
use crate::output::{self, Format, Table};

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// List output in doubt, what the outside says of it now, and open transactions that nothing names
    List(Options),
    /// Commit output in doubt while the job does not run
    Commit(EndOptions),
    /// Abort open transactions of the job that no durable epoch names, while it does not run
    Abort(EndOptions),
}

/// Options of `staunch txn list`.
#[derive(Args)]
pub(crate) struct Options {
    /// Folder of the job, or a checkpoint directory with one job
    path: PathBuf,
    #[command(flatten)]
    brokers: BrokerOptions,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Options of `staunch txn commit` and `staunch txn abort`.
#[derive(Args)]
pub(crate) struct EndOptions {
    #[command(flatten)]
    of: Options,
    /// No process of the job runs: needed unless the ledger ends with a stop of the job
    #[arg(long)]
    stopped: bool,
    /// Only the transaction with this id; may be given several times
    #[arg(long, value_name = "TRANSACTIONAL_ID")]
    id: Vec<String>,
}

/// An output in doubt.
#[derive(Serialize)]
struct InDoubt {
    sink: String,
    kind: String,
    epoch: u64,
    generation: u64,
    task: String,
    records: u64,
    bytes: u64,
    output: String,
    /// What the outside says of it, by a word: `committed`, `unmarked`, `open`, `lost`, `unknown`; none when it was not asked.
    now: Option<&'static str>,
    /// In how many seconds the outside gives it up.
    seconds_left: Option<i64>,
    /// What was seen, or why it could not be asked.
    seen: Option<String>,
    #[serde(skip)]
    #[cfg_attr(not(feature = "kafka"), allow(dead_code, reason = "only brokers are asked"))]
    body: Vec<u8>,
}

/// Something open that no durable epoch names.
#[derive(Serialize)]
struct Unnamed {
    transactional_id: String,
    producer_id: i64,
    producer_epoch: i16,
    seconds_left: Option<i64>,
    /// What was done about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<String>,
}

/// The form of the answer in JSON.
#[derive(Serialize)]
struct Listed {
    in_doubt: Vec<InDoubt>,
    unnamed: Vec<Unnamed>,
    /// What should be known.
    notes: Vec<String>,
}

/// Prints the answer; of `commit` and `abort`, exit code 1 when something was not done.
///
/// # Errors
/// `Invalid` when there is no such job, or it may be running; `Restart` when it cannot be read; `Corrupt` when the ledger is broken.
pub(crate) fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::List(options) => list(options),
        Command::Commit(options) => end(options, commit),
        Command::Abort(options) => end(options, abort),
    }
}

fn list(options: &Options) -> Result<ExitCode> {
    let ledger = JobFolder::open(&options.path)?.ledger()?;
    let mut listed = Listed { in_doubt: in_doubt(&ledger), unnamed: Vec::new(), notes: Vec::new() };
    outside::ask(&ledger, options, &mut listed)?;
    listed.print(options.format);
    match ledger.broken {
        Some(error) => Err(error),
        None => Ok(ExitCode::SUCCESS),
    }
}

type Deed = fn(&Ledger, &EndOptions, &mut Listed) -> Result<bool>;

fn end(options: &EndOptions, deed: Deed) -> Result<ExitCode> {
    let ledger = JobFolder::open(&options.of.path)?.ledger()?;
    if let Some(error) = ledger.broken {
        return Err(error);
    }
    let is_over = matches!(ledger.entries.last().map(|entry| &entry.stored.body), Some(Body::Stopped(_)));
    if !is_over && !options.stopped {
        return Err(may_run(&ledger));
    }
    let mut listed = Listed { in_doubt: in_doubt(&ledger), unnamed: Vec::new(), notes: Vec::new() };
    let is_done = deed(&ledger, options, &mut listed)?;
    listed.print(options.of.format);
    Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn commit(_ledger: &Ledger, options: &EndOptions, listed: &mut Listed) -> Result<bool> {
    outside::commit(options, listed)
}

fn abort(ledger: &Ledger, options: &EndOptions, listed: &mut Listed) -> Result<bool> {
    outside::abort(ledger, options, listed)
}

fn in_doubt(ledger: &Ledger) -> Vec<InDoubt> {
    let committed = ledger.committed();
    let open = ledger.seals().filter(|s| !committed.contains(&s.attempt.epoch));
    open.flat_map(|sealed| sealed.committables.iter().map(|total| InDoubt::of(sealed.attempt.epoch, total))).collect()
}

/// The sinks of a kind that the ledger knows.
#[cfg_attr(not(feature = "kafka"), allow(dead_code, reason = "only brokers keep what nothing names"))]
fn sinks_of(ledger: &Ledger, kind: &str) -> BTreeSet<Name> {
    ledger.seals().flat_map(|s| &s.committables).filter(|total| total.kind == kind).map(|total| total.id.sink.clone()).collect()
}

#[cold]
fn may_run(ledger: &Ledger) -> Error {
    let newest = ledger.entries.last().map(|entry| (output::utc(entry.stored.wall_ms), entry.stored.generation));
    let newest = newest.map(|(time, generation)| format!("its newest entry is of {time}, by generation {generation}")).unwrap_or_default();
    Error::new(ErrorKind::Invalid, "C332", format!("the job may be running: its ledger does not end with a stop; {newest}"))
        .data("nothing was committed or aborted")
        .remedy(
            "a job that runs commits by itself, and could begin another transaction under the same id just now; see that no process of the job \
             runs, and say so with --stopped",
        )
}

impl InDoubt {
    fn of(epoch: Epoch, total: &CommittableTotal) -> InDoubt {
        InDoubt {
            sink: total.id.sink.to_string(),
            kind: total.kind.clone(),
            epoch: epoch.0,
            generation: total.id.attempt.generation.0,
            task: total.id.task.to_string(),
            records: total.digest.records,
            bytes: total.digest.bytes,
            output: total.description.clone(),
            now: None,
            seconds_left: None,
            seen: None,
            body: total.body.0.clone(),
        }
    }

    fn state(&self) -> String {
        match (self.now, self.seconds_left) {
            (Some(now), Some(left)) => format!("{now}, aborted in {left} s"),
            (Some(now), None) => now.to_owned(),
            (None, _) => "not asked".to_owned(),
        }
    }
}

impl Listed {
    fn print(&self, format: Format) {
        match format {
            Format::Json => output::print_json(self),
            Format::Table => output::print(&self.render()),
        }
    }

    fn render(&self) -> String {
        let mut out = String::new();
        if self.in_doubt.is_empty() {
            out += "no output is in doubt\n";
        } else {
            let mut table = Table::new(&["SINK", "KIND", "EPOCH>", "GENERATION>", "TASK", "RECORDS>", "BYTES>", "NOW", "OUTPUT"]);
            for one in &self.in_doubt {
                let (records, bytes) = (output::number(one.records), output::bytes(one.bytes));
                let (epoch, generation) = (one.epoch.to_string(), one.generation.to_string());
                let words = [one.sink.clone(), one.kind.clone(), epoch, generation, one.task.clone(), records, bytes, one.state()];
                table.row(words.into_iter().chain([one.output.clone()]).collect());
            }
            out += &table.render();
            for one in &self.in_doubt {
                if let Some(seen) = &one.seen {
                    out += &format!("epoch {} of sink {}: {seen}\n", one.epoch, one.sink);
                }
            }
        }
        if !self.unnamed.is_empty() {
            out += "\nopen, and named by no durable epoch; the job aborts it at its next start:\n";
            let mut table = Table::new(&["TRANSACTIONAL ID", "PRODUCER>", "EPOCH>", "ABORTED IN>", "DONE"]);
            for one in &self.unnamed {
                let left = one.seconds_left.map(|left| format!("{left} s")).unwrap_or_default();
                let (producer, epoch) = (one.producer_id.to_string(), one.producer_epoch.to_string());
                table.row(vec![one.transactional_id.clone(), producer, epoch, left, one.done.clone().unwrap_or_default()]);
            }
            out += &table.render();
        }
        for note in &self.notes {
            out += &format!("note: {note}\n");
        }
        out
    }
}

#[cfg(feature = "kafka")]
use kafka as outside;

/// Without brokers there is nothing to be asked.
#[cfg(not(feature = "kafka"))]
mod outside {
    use staunch_types::{Error, ErrorKind, Result};

    use super::{EndOptions, Ledger, Listed, Options};

    const NO_KAFKA: &str = "this build cannot read kind kafka; build with --features kafka (`make staunch`)";

    pub(super) fn ask(_ledger: &Ledger, _options: &Options, listed: &mut Listed) -> Result<()> {
        if listed.in_doubt.iter().any(|one| one.kind == "kafka") {
            listed.notes.push(NO_KAFKA.to_owned());
        }
        Ok(())
    }

    pub(super) fn commit(_options: &EndOptions, _listed: &mut Listed) -> Result<bool> {
        Err(refused())
    }

    pub(super) fn abort(_ledger: &Ledger, _options: &EndOptions, _listed: &mut Listed) -> Result<bool> {
        Err(refused())
    }

    fn refused() -> Error {
        Error::new(ErrorKind::Invalid, "C333", NO_KAFKA)
            .data("nothing was committed or aborted")
            .remedy("use a command that was built with Kafka; files are committed by the job at its next start")
    }
}
