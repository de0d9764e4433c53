//! `staunch verify`: proves that nothing is lost, nothing doubled, nothing changed, or names the place.
//!
//! Owns: the order of the proof. The ledger is one chain; manifests and state are what was stored ([`stored`]); inputs follow one
//! another and outputs add up ([`timeline`]); the output is what was written ([`sinks`]).
//! Does not own: the reading of a particular sink, which is its crate's.
//!
//! Invariants:
//! 1. Everything is looked at; a finding does not end the search for others, unless the chain itself is broken there.
//! 2. The job may be running: what it changes meanwhile is no finding.
//! 3. What could not be looked at is said, and counted as not proven.

mod report;
mod timeline;
mod stored;
mod sinks;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use staunch_types::Result;

use crate::job_folder::JobFolder;
use crate::options::BrokerOptions;
use crate::options::Epochs;
use crate::output::{self, Format};

pub(crate) use report::Report;

/// Options of `staunch verify`.
#[derive(Args)]
pub(crate) struct Options {
    /// Folder of the job, or a checkpoint directory with one job
    path: PathBuf,
    /// Only what these epochs stored and wrote: 7, 3..9 (both included), 3.., ..9; the chain is checked as a whole in any case
    #[arg(long, value_name = "A..B")]
    epochs: Option<Epochs>,
    #[command(flatten)]
    brokers: BrokerOptions,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Prints the answer; exit code 1 when something is not as it was written.
///
/// # Errors
/// `Invalid` when there is no such job; `Restart` when it cannot be read.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let folder = JobFolder::open(&options.path)?;
    let report = verify(&folder, options.epochs.unwrap_or(Epochs::ALL), &options.brokers)?;
    match options.format {
        Format::Json => output::print_json(&report),
        Format::Table => output::print(&report.render()),
    }
    for finding in report.findings() {
        output::complain(&finding.to_string());
    }
    Ok(if report.findings().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Looks at everything that a job stored and wrote.
///
/// # Errors
/// `Restart` when something cannot be read that is there.
pub(crate) fn verify(folder: &JobFolder, epochs: Epochs, brokers: &BrokerOptions) -> Result<Report> {
    let ledger = folder.ledger()?;
    let mut report = Report::new(folder, &ledger);
    if let Some(error) = &ledger.broken {
        report.find(error.clone());
    }
    let manifests = stored::check(folder, &ledger, epochs, &mut report)?;
    timeline::follow(folder, &ledger, &manifests, epochs, &mut report);
    sinks::audit(folder, &ledger, &manifests, (epochs, brokers), &mut report)?;
    Ok(report)
}
