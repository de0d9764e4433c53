//! Proves that the output is what the ledger says: re-reads each visible file and compares its lines.
//!
//! Owns: what a deviation is called. Does not own: the ledger; it is handed the bodies of all committables that it names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use staunch_api::{EntryKind, FileSystem, Metadata};
use staunch_types::{Digest, Result};

use crate::csv::{Cut, Dialect, Lines, cut_line};
use crate::sink::{OutputFormat, StoredFile, visible_owner};
use crate::source::{Chunk, Window};

/// Bytes read at once.
const CHUNK_BYTES: usize = 1 << 20;
/// Bytes of the longest line that is compared.
const LINE_BYTES_MAX: usize = 1 << 30;

/// How much of the ledger an audit was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditScope {
    /// All of it: a visible file of the sink that it does not name is a deviation.
    WholeLedger,
    /// Some epochs: files of others are left alone.
    Part,
}

/// What an audit saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Files that were read.
    pub files: u64,
    /// All their lines, headers excepted.
    pub lines: Digest,
    /// Where the output is not what the ledger says; empty when it is.
    pub findings: Vec<Finding>,
}

/// A place where the output is not what the ledger says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A file is gone.
    Missing {
        /// Where it should be.
        path: PathBuf,
        /// Records in it.
        records: u64,
    },
    /// A file was committed, says the ledger, and is still hidden.
    Hidden {
        /// Where it should be.
        path: PathBuf,
        /// Where it is.
        hidden: PathBuf,
    },
    /// The lines of a file are not those that were written.
    Changed {
        /// The file.
        path: PathBuf,
        /// What was written.
        expected: Digest,
        /// What is there.
        found: Digest,
    },
    /// The lines are those that were written; the header, the order or the compression are not.
    Rewritten {
        /// The file.
        path: PathBuf,
        /// What is other.
        what: String,
    },
    /// A file cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: String,
    },
    /// A visible file of this sink that the ledger does not name: its records are there without a commit, or twice.
    Unnamed {
        /// The file.
        path: PathBuf,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Missing { path, records } => write!(f, "the file is missing: file={} records={records}", path.display()),
            Finding::Hidden { path, hidden } => {
                write!(f, "the file is committed and still hidden: file={} hidden={}", path.display(), hidden.display())
            }
            Finding::Changed { path, expected, found } => {
                let what = match expected.records.cmp(&found.records) {
                    std::cmp::Ordering::Greater => format!("records are missing: {}", expected.records - found.records),
                    std::cmp::Ordering::Less => format!("there are more records than were written: {}", found.records - expected.records),
                    std::cmp::Ordering::Equal => "records were changed".to_string(),
                };
                write!(f, "{what}; expected records={} found records={} file={}", expected.records, found.records, path.display())
            }
            Finding::Rewritten { path, what } => write!(f, "the records are there, but {what}: file={}", path.display()),
            Finding::Unreadable { path, cause } => write!(f, "the file cannot be read: {cause}: file={}", path.display()),
            Finding::Unnamed { path } => {
                write!(f, "the file is in no ledger entry, so its records are there twice or without a commit: file={}", path.display())
            }
        }
    }
}

/// Compares the visible files of one sink with what the ledger says of them: `bodies` are those of its committed committables.
/// May block.
///
/// # Errors
/// `Corrupt` when a body is not one of a file sink.
pub fn audit<'b>(file_system: &dyn FileSystem, bodies: impl IntoIterator<Item = &'b [u8]>, scope: AuditScope) -> Result<Audit> {
    let mut named = BTreeMap::new();
    for body in bodies {
        let file = StoredFile::decode(body)?;
        named.insert(file.visible.clone(), file);
    }
    let mut audit = Audit::default();
    for file in named.values() {
        check(file_system, file, &mut audit);
    }
    if scope == AuditScope::WholeLedger {
        unnamed(file_system, &named, &mut audit);
    }
    Ok(audit)
}

fn check(file_system: &dyn FileSystem, file: &StoredFile, audit: &mut Audit) {
    let path = file.visible.clone();
    let bytes = match file_system.metadata(&path) {
        Ok(Some(Metadata { kind: EntryKind::File, bytes })) => bytes,
        Ok(Some(Metadata { kind: EntryKind::Directory | EntryKind::Other, .. })) => {
            return audit.findings.push(Finding::Unreadable { path, cause: "it is no file".into() });
        }
        Ok(None) => {
            let hidden = file.hidden.clone();
            return audit.findings.push(match file_system.metadata(&hidden) {
                Ok(Some(_)) => Finding::Hidden { path, hidden },
                Ok(None) | Err(_) => Finding::Missing { path, records: file.digest.records },
            });
        }
        Err(error) => return audit.findings.push(Finding::Unreadable { path, cause: error.to_string() }),
    };
    match lines(file_system, file) {
        Err(error) => audit.findings.push(Finding::Unreadable { path, cause: error.to_string() }),
        Ok(found) => {
            audit.files += 1;
            audit.lines.merge(&found.digest);
            if found.digest != file.digest {
                audit.findings.push(Finding::Changed { path, expected: file.digest, found: found.digest });
            } else if found.header != file.header {
                audit.findings.push(Finding::Rewritten { path, what: "the header is another".into() });
            } else if bytes != file.bytes {
                let what = format!("the file has another length, expected bytes={} found bytes={bytes}", file.bytes);
                audit.findings.push(Finding::Rewritten { path, what });
            }
        }
    }
}

struct Found {
    header: Option<Vec<u8>>,
    digest: Digest,
}

/// Reads all lines of a file.
fn lines(file_system: &dyn FileSystem, stored: &StoredFile) -> io::Result<Found> {
    let mut reader = stored.compression.read(Arc::from(file_system.open(&stored.visible)?), 0)?;
    let mut found = Found { header: None, digest: Digest::default() };
    let (mut window, mut used, mut ended, mut cells) = (Window::default(), None, false, Vec::new());
    let mut header_due = stored.header.is_some();
    loop {
        let data = window.data();
        let cut = match stored.format {
            _ if data.is_empty() => None,
            OutputFormat::JsonLines => cut_line(data, ended),
            OutputFormat::Csv { delimiter, .. } => {
                match (Dialect { delimiter, quotes: true, lines: Lines::Many }).cut(data, ended, &mut cells) {
                    Cut::Record { line, .. } | Cut::Bad { line, .. } => Some(line),
                    Cut::More => None,
                }
            }
        };
        match cut {
            Some(line) => {
                let content = &data[..line.bytes];
                if std::mem::take(&mut header_due) {
                    found.header = Some(content.to_vec());
                } else {
                    found.digest.add(content);
                }
                window.consume(line.consumed);
            }
            None if ended => return Ok(found),
            None if data.len() > LINE_BYTES_MAX => return Err(io::Error::other(format!("a line is longer than bytes={LINE_BYTES_MAX}"))),
            None => {
                let mut chunk = Chunk::new(used.take());
                let (read, outcome) = chunk.read(&mut *reader, CHUNK_BYTES);
                outcome?;
                ended = read < CHUNK_BYTES;
                used = window.append(chunk);
            }
        }
    }
}

/// Finds visible files of the same sink, in the same directories, that no entry names.
fn unnamed(file_system: &dyn FileSystem, named: &BTreeMap<PathBuf, StoredFile>, audit: &mut Audit) {
    let places: BTreeSet<(&Path, &str)> =
        named.values().filter_map(|file| file.visible.parent().map(|directory| (directory, file.tag.as_str()))).collect();
    for (directory, tag) in places {
        let entries = match file_system.list(directory) {
            Ok(entries) => entries,
            // Then its files are missing, which is told already.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                audit.findings.push(Finding::Unreadable { path: directory.to_path_buf(), cause: error.to_string() });
                continue;
            }
        };
        for entry in entries.into_iter().filter(|entry| !entry.name.starts_with('.')) {
            let path = directory.join(&entry.name);
            if visible_owner(&entry.name).is_some_and(|(owner, _, _)| owner == tag) && !named.contains_key(&path) {
                audit.findings.push(Finding::Unnamed { path });
            }
        }
    }
}
