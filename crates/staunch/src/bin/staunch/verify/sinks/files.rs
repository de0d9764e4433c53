//! Files: each is read again by the code that wrote it.

use std::collections::BTreeSet;
use std::path::Path;

use staunch_engine::runtime::SystemFiles;
use staunch_files::{AuditScope, Finding};
use staunch_types::{Digest, Error, ErrorKind, Result};

use super::{Fate, Look, Report};
use crate::job_folder::Ledger;

/// Looks at the files of one sink.
///
/// # Errors
/// `Restart` when the ledger cannot be read again.
pub(super) fn audit(look: &Look<'_>, report: &mut Report) -> Result<()> {
    match read(look, report) {
        Ok(findings) => tell(look, findings, report),
        Err(error) => {
            report.find(error.at(format!("sink={}", look.sink)));
            Ok(())
        }
    }
}

/// Reads the files of one sink again; what is not as it should be.
fn read(look: &Look<'_>, report: &mut Report) -> Result<Vec<Finding>> {
    let scope = if look.whole { AuditScope::WholeLedger } else { AuditScope::Part };
    let of = |fate: Fate| look.expected.outputs.iter().filter(move |o| o.chosen && o.fate == fate).map(|o| o.body);
    let committed = staunch_files::audit(&SystemFiles, of(Fate::Committed), scope)?;
    let again = || staunch_files::audit(&SystemFiles, of(Fate::InDoubt), AuditScope::Part);
    let mut in_doubt = again()?;
    if in_doubt.findings.iter().any(|f| matches!(f, Finding::Missing { .. })) {
        // Missed under both of its names: it may have been renamed in between.
        in_doubt = again()?;
    }
    let mut lines = Digest::default();
    lines.merge(&committed.lines);
    lines.merge(&in_doubt.lines);
    report.sinks.entry(look.sink.to_owned()).or_default().read(committed.files + in_doubt.files, &lines);
    let of_doubtful = in_doubt.findings.into_iter().filter(|f| !matches!(f, Finding::Hidden { .. }));
    Ok(committed.findings.into_iter().chain(of_doubtful).collect())
}

/// Reports what is still so now.
fn tell(look: &Look<'_>, findings: Vec<Finding>, report: &mut Report) -> Result<()> {
    let named = if findings.is_empty() { BTreeSet::new() } else { named_by_now(&look.folder.ledger()?) };
    for finding in findings {
        let path = path_of(&finding).display().to_string();
        if matches!(finding, Finding::Unnamed { .. }) && named.contains(&path) {
            continue;
        }
        let epoch = look.expected.epochs.get(path.as_str()).map(|epoch| format!(" epoch={epoch}")).unwrap_or_default();
        report.find(deviation(&finding).at(format!("sink={}{epoch} file={path}", look.sink)));
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
