//! `staunch txn list`: output that a durable epoch names and whose commit is not recorded.
//!
//! Such output is not lost: the job commits it, or finds out what became of it, before it does anything else at its next start.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use staunch_types::Result;

use crate::job_folder::JobFolder;
use crate::output::{self, Format, Table};

/// Options of `staunch txn list`.
#[derive(Args)]
pub(crate) struct Options {
    /// Folder of the job, or a checkpoint directory with one job
    path: PathBuf,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

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
}

/// Prints the answer.
///
/// # Errors
/// `Invalid` when there is no such job; `Restart` when it cannot be read; `Corrupt` when the ledger is broken.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let ledger = JobFolder::open(&options.path)?.ledger()?;
    let committed = ledger.committed();
    let mut all = Vec::new();
    for sealed in ledger.seals().filter(|s| !committed.contains(&s.attempt.epoch)) {
        for total in &sealed.committables {
            all.push(InDoubt {
                sink: total.id.sink.to_string(),
                kind: total.kind.clone(),
                epoch: sealed.attempt.epoch.0,
                generation: total.id.attempt.generation.0,
                task: total.id.task.to_string(),
                records: total.digest.records,
                bytes: total.digest.bytes,
                output: total.description.clone(),
            });
        }
    }
    match options.format {
        Format::Json => output::print_json(&all),
        Format::Table if all.is_empty() => output::print("no output is in doubt\n"),
        Format::Table => output::print(&table(&all)),
    }
    match ledger.broken {
        Some(error) => Err(error),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn table(all: &[InDoubt]) -> String {
    let mut table = Table::new(&["SINK", "KIND", "EPOCH>", "GENERATION>", "TASK", "RECORDS>", "BYTES>", "OUTPUT"]);
    for one in all {
        table.row(vec![
            one.sink.clone(),
            one.kind.clone(),
            one.epoch.to_string(),
            one.generation.to_string(),
            one.task.clone(),
            output::number(one.records),
            output::bytes(one.bytes),
            one.output.clone(),
        ]);
    }
    table.render()
}
