//! The output is what was written: each sink's outputs are read again by the code of its kind.
//!
//! An output whose commit is recorded must be there, and nothing beside it. One in doubt may be there or still be prepared: the job commits it
//! when it starts again. And the job may be running: a file that no epoch named when the ledger was read may be named by a newer one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use staunch_engine::runtime::SystemFiles;
use staunch_files::{AuditScope, FILE_SINK_KIND, Finding};
use staunch_format::CommittableId;
use staunch_format::ledger::CommittableTotal;
use staunch_format::manifest::Manifest;
use staunch_types::{Digest, Epoch, Error, ErrorKind, Result};

use super::Report;
use super::timeline::accepted_lost;
use crate::epochs::Epochs;
use crate::job_folder::{JobFolder, Ledger};

/// What is to be found of one sink.
#[derive(Default)]
struct Expected<'a> {
    kind: &'a str,
    committed: Vec<&'a [u8]>,
    in_doubt: Vec<&'a [u8]>,
    /// Of all outputs, also of epochs that were not chosen: the epoch by the description.
    epochs: BTreeMap<&'a str, Epoch>,
    /// Descriptions of outputs in doubt.
    doubtful: BTreeSet<&'a str>,
    /// Outputs of an older version's epochs, whose bytes for the sink are gone with their manifest.
    unknown: u64,
    accepted_lost: u64,
}

/// Reads the output of all sinks again.
///
/// # Errors
/// `Restart` when the ledger cannot be read again.
pub(super) fn audit(
    folder: &JobFolder,
    ledger: &Ledger,
    manifests: &BTreeMap<Epoch, Manifest>,
    epochs: Epochs,
    report: &mut Report,
) -> Result<()> {
    for (sink, expected) in expected(ledger, manifests, epochs) {
        let part = report.sinks.entry(sink.to_owned()).or_default();
        part.in_doubt = expected.doubtful.len() as u64;
        part.accepted_lost = expected.accepted_lost;
        part.outputs_unproven = expected.unknown;
        if expected.unknown > 0 {
            report.unproven(format!("sink {sink}: {} outputs could not be read again, as their manifests are retired", expected.unknown));
        }
        if expected.accepted_lost > 0 {
            report.note(format!("sink {sink}: {} outputs are lost, which a person has accepted", expected.accepted_lost));
        }
        if expected.kind == FILE_SINK_KIND {
            let whole = epochs.is_all() && ledger.broken.is_none() && expected.unknown == 0;
            match files(sink, &expected, whole, report) {
                Ok(findings) => tell(folder, sink, &expected, findings, report)?,
                Err(error) => report.find(error.at(format!("sink={sink}"))),
            }
        } else {
            let outputs = (expected.committed.len() + expected.in_doubt.len()) as u64;
            report.sinks.entry(sink.to_owned()).or_default().outputs_unproven += outputs;
            report.unproven(format!("sink {sink}: this build cannot read output of kind \"{}\" again", expected.kind));
        }
    }
    Ok(())
}

fn expected<'a>(ledger: &'a Ledger, manifests: &'a BTreeMap<Epoch, Manifest>, epochs: Epochs) -> BTreeMap<&'a str, Expected<'a>> {
    let bodies: BTreeMap<&CommittableId, &[u8]> =
        manifests.values().flat_map(|m| &m.committables).map(|c| (&c.id, c.body.0.as_slice())).collect();
    let (recorded, lost) = (ledger.committed(), accepted_lost(ledger));
    let mut all: BTreeMap<&str, Expected<'_>> = BTreeMap::new();
    for sealed in ledger.seals() {
        let epoch = sealed.attempt.epoch;
        for total in &sealed.committables {
            let CommittableTotal { id, kind, description, body, .. } = total;
            let sink = all.entry(id.sink.as_str()).or_default();
            sink.kind = kind;
            sink.epochs.insert(description, epoch);
            let is_lost = lost.contains(id);
            if !recorded.contains(&epoch) {
                sink.doubtful.insert(description);
            }
            if !epochs.contains(epoch) {
                continue;
            }
            let kept = (!body.0.is_empty()).then_some(body.0.as_slice());
            match kept.or_else(|| bodies.get(id).copied()) {
                _ if is_lost => sink.accepted_lost += 1,
                None => sink.unknown += 1,
                Some(body) if recorded.contains(&epoch) => sink.committed.push(body),
                Some(body) => sink.in_doubt.push(body),
            }
        }
    }
    all
}

/// Reads the files of one sink again; what is not as it should be.
fn files(sink: &str, expected: &Expected<'_>, whole: bool, report: &mut Report) -> Result<Vec<Finding>> {
    let scope = if whole { AuditScope::WholeLedger } else { AuditScope::Part };
    let committed = staunch_files::audit(&SystemFiles, expected.committed.iter().copied(), scope)?;
    let look = || staunch_files::audit(&SystemFiles, expected.in_doubt.iter().copied(), AuditScope::Part);
    let mut in_doubt = look()?;
    if in_doubt.findings.iter().any(|f| matches!(f, Finding::Missing { .. })) {
        // Missed under both of its names: it may have been renamed in between.
        in_doubt = look()?;
    }
    let mut lines = Digest::default();
    lines.merge(&committed.lines);
    lines.merge(&in_doubt.lines);
    report.sinks.entry(sink.to_owned()).or_default().read(committed.files + in_doubt.files, &lines);
    let of_doubtful = in_doubt.findings.into_iter().filter(|f| !matches!(f, Finding::Hidden { .. }));
    Ok(committed.findings.into_iter().chain(of_doubtful).collect())
}

/// Reports what is still so now.
fn tell(folder: &JobFolder, sink: &str, expected: &Expected<'_>, findings: Vec<Finding>, report: &mut Report) -> Result<()> {
    let named = if findings.is_empty() { BTreeSet::new() } else { named_by_now(&folder.ledger()?) };
    for finding in findings {
        let path = path_of(&finding).display().to_string();
        if matches!(finding, Finding::Unnamed { .. }) && named.contains(&path) {
            continue;
        }
        let epoch = expected.epochs.get(path.as_str()).map(|epoch| format!(" epoch={epoch}")).unwrap_or_default();
        report.find(deviation(&finding).at(format!("sink={sink}{epoch} file={path}")));
    }
    Ok(())
}

/// The descriptions of all outputs that any epoch names.
fn named_by_now(ledger: &Ledger) -> BTreeSet<String> {
    ledger.seals().flat_map(|s| &s.committables).map(|c| c.description.clone()).collect()
}

fn path_of(finding: &Finding) -> &Path {
    match finding {
        Finding::Missing { path, .. }
        | Finding::Hidden { path, .. }
        | Finding::Changed { path, .. }
        | Finding::Rewritten { path, .. }
        | Finding::Unreadable { path, .. }
        | Finding::Unnamed { path } => path,
    }
}

fn deviation(finding: &Finding) -> Error {
    let (what, data) = match finding {
        Finding::Missing { records, .. } => (format!("a committed file is gone, with {records} records"), "its records are lost"),
        Finding::Hidden { .. } => ("a file that is recorded as committed is still hidden".into(), "its records are not visible"),
        Finding::Changed { expected, found, .. } => changed(expected, found),
        Finding::Rewritten { what, .. } => (format!("the records of a file are there, but {what}"), "no record is lost or doubled"),
        Finding::Unreadable { cause, .. } => {
            (format!("a committed file cannot be read: {cause}"), "whether its records are there is not known")
        }
        Finding::Unnamed { .. } => ("a file of this sink is named by no epoch".into(), "its records are there twice, or without a commit"),
    };
    Error::new(ErrorKind::Corrupt, "C307", what).data(data).remedy("find out who changed the output, and bring the file back from a copy")
}

fn changed(expected: &Digest, found: &Digest) -> (String, &'static str) {
    let (written, there) = (expected.records, found.records);
    let data = match there.cmp(&written) {
        std::cmp::Ordering::Less => "records are lost",
        std::cmp::Ordering::Greater => "records are doubled or added",
        std::cmp::Ordering::Equal => "records are changed",
    };
    (format!("a committed file is changed: {written} records were written, {there} are there"), data)
}
