//! `staunch ledger`: who ran, what each epoch read and wrote, what became visible.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use staunch_format::ledger::{Body, CommitOutcome, Committed, LedgerEntry, Origin, Outcome, Sealed};
use staunch_types::{Digest, Epoch, Result};

use crate::job_folder::{Entry, JobFolder};
use crate::options::Epochs;
use crate::output::{self, Format, Table};

/// Options of `staunch ledger`.
#[derive(Args)]
pub(crate) struct Options {
    /// Folder of the job, or a checkpoint directory with one job
    path: PathBuf,
    /// Only entries about these epochs: 7, 3..9 (both included), 3.., ..9
    #[arg(long, value_name = "A..B")]
    epochs: Option<Epochs>,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Prints the answer: the intact part, and exit code 1 when it is not all.
///
/// # Errors
/// `Invalid` when there is no such job; `Restart` when it cannot be read.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let ledger = JobFolder::open(&options.path)?.ledger()?;
    let wanted = |entry: &&Entry| options.epochs.is_none_or(|epochs| epoch_of(&entry.stored).is_some_and(|e| epochs.contains(e)));
    let entries: Vec<&Entry> = ledger.entries.iter().filter(wanted).collect();
    match options.format {
        Format::Json => {
            let all = entries.iter().map(|entry| as_json(entry)).collect::<Result<Vec<Value>>>()?;
            output::print_json(&all);
        }
        Format::Table => output::print(&table(&entries)),
    }
    match ledger.broken {
        Some(error) => Err(error),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn epoch_of(entry: &LedgerEntry) -> Option<Epoch> {
    match &entry.body {
        Body::Sealed(sealed) => Some(sealed.attempt.epoch),
        Body::Committed(committed) => Some(committed.epoch),
        Body::Claimed(_) | Body::Stopped(_) => None,
    }
}

fn as_json(entry: &Entry) -> Result<Value> {
    Ok(json!({ "hash": LedgerEntry::hash(&entry.bytes).to_string(), "entry": LedgerEntry::to_json(&entry.bytes)? }))
}

fn table(entries: &[&Entry]) -> String {
    let mut table = Table::new(&["SEQ>", "WHEN (UTC)", "GENERATION>", "ENTRY", "EPOCH>", "READ>", "WRITTEN>", "DETAIL", "HASH"]);
    for entry in entries {
        let stored = &entry.stored;
        let epoch = epoch_of(stored).map(|e| e.to_string()).unwrap_or_default();
        let (kind, read, written, detail) = match &stored.body {
            Body::Claimed(claimed) => {
                let from = match claimed.origin {
                    Origin::Empty => "begins with the input".into(),
                    Origin::Epoch(epoch) => format!("goes on from epoch {epoch}"),
                    Origin::Fork(epoch) => format!("forks from epoch {epoch} of another job"),
                };
                ("claim", String::new(), String::new(), format!("{from}; version {}", claimed.code_version))
            }
            Body::Sealed(sealed) => ("seal", records(&read_of(sealed)), records(&written_of(sealed)), seal_detail(sealed)),
            Body::Committed(committed) => {
                let sum = sum(committed.outcomes.iter().map(|o| &o.digest));
                ("commit", String::new(), records(&sum), commit_detail(committed))
            }
            Body::Stopped(stopped) => ("stop", String::new(), String::new(), stopped.reason.clone()),
        };
        let hash = LedgerEntry::hash(&entry.bytes).to_string();
        table.row(vec![
            stored.seq.to_string(),
            output::utc(stored.wall_ms),
            stored.generation.to_string(),
            kind.into(),
            epoch,
            read,
            written,
            detail,
            hash[..12].to_owned(),
        ]);
    }
    table.render()
}

fn seal_detail(sealed: &Sealed) -> String {
    let splits: usize = sealed.sources.iter().map(|s| s.ranges.len()).sum();
    let reason = format!("{:?}", sealed.reason).to_lowercase();
    format!("{reason}; {splits} ranges read, {} outputs prepared", sealed.committables.len())
}

fn commit_detail(committed: &Committed) -> String {
    let count = |wanted: fn(&Outcome) -> bool| committed.outcomes.iter().filter(|o: &&CommitOutcome| wanted(&o.outcome)).count();
    let visible = count(|o| matches!(o, Outcome::Committed { .. }));
    let resent = count(|o| matches!(o, Outcome::Resent { .. }));
    let lost = count(|o| matches!(o, Outcome::AcceptedLost { .. }));
    let mut text = format!("{visible} outputs committed");
    for (count, what) in [(resent, "written again"), (lost, "ACCEPTED AS LOST")] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    text
}

fn read_of(sealed: &Sealed) -> Digest {
    sum(sealed.sources.iter().flat_map(|s| &s.ranges).map(|r| &r.digest))
}

fn written_of(sealed: &Sealed) -> Digest {
    sum(sealed.committables.iter().map(|c| &c.digest))
}

fn sum<'a>(digests: impl Iterator<Item = &'a Digest>) -> Digest {
    let mut all = Digest::default();
    digests.for_each(|digest| all.merge(digest));
    all
}

fn records(digest: &Digest) -> String {
    output::number(digest.records)
}
