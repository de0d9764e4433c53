//! What a reader of the output sees: whole files of durable epochs (E1), each line as often as a clean run gives it (E2, E7, E8, E10).

use std::collections::BTreeMap;

use super::{Ledger, Timeline, Violation};
use crate::job::{Lines, Output};
use crate::kernel::{Change, ChangeKind, Disk};

/// See the module.
pub struct Visible {
    pub(super) timeline: Timeline,
    expected: Output,
    seen: Output,
    /// The content of each visible file: it never changes.
    files: BTreeMap<String, Vec<u8>>,
}

/// Whether a file of the output is hidden.
pub(super) fn is_hidden(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with('.'))
}

/// The sink that a file belongs to: the name of its folder.
fn sink_of(path: &str) -> &str {
    path.rsplit('/').nth(1).unwrap_or_default()
}

impl Visible {
    pub(super) fn new(expected: Output) -> Visible {
        Visible { timeline: Timeline::Straight, expected, seen: Output::new(), files: BTreeMap::new() }
    }

    /// Visible files.
    #[must_use]
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Visible lines of all sinks.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.seen.values().flat_map(BTreeMap::values).sum()
    }

    pub(super) fn changed(&mut self, disk: &Disk, ledger: &Ledger, change: &Change) -> Result<(), Violation> {
        let path = change.path.as_str();
        if is_hidden(path) {
            return Ok(());
        }
        let bytes = disk.bytes(path);
        if let Some(known) = self.files.get(path) {
            return match bytes {
                Some(bytes) if bytes == known => Ok(()),
                _ => Err(Violation::new("E2", format!("a visible file was changed or removed: {path} {:?}", change.kind))),
            };
        }
        let Some(bytes) = bytes else { return Ok(()) };
        if change.kind != ChangeKind::Renamed {
            return Err(Violation::new("E1", format!("a file was visible before it was whole: {path} {:?}", change.kind)));
        }
        if ledger.names(path).is_none() {
            return Err(Violation::new("E1", format!("a file is visible and no durable epoch names it: {path}")));
        }
        self.files.insert(path.to_owned(), bytes.to_vec());
        self.add(path, bytes)
    }

    fn add(&mut self, path: &str, bytes: &[u8]) -> Result<(), Violation> {
        let text = String::from_utf8_lossy(bytes);
        text.lines().skip(1).try_for_each(|line| self.see(sink_of(path), line, path))
    }

    /// A line becomes visible.
    pub(super) fn see(&mut self, sink: &str, line: &str, place: &str) -> Result<(), Violation> {
        let count = self.seen.entry(sink.to_owned()).or_default().entry(line.to_owned()).or_default();
        *count += 1;
        let allowed = self.expected.get(sink).and_then(|expected| expected.get(line)).copied().unwrap_or(0);
        if allowed == 0 {
            return Err(Violation::new("E10", format!("sink {sink} has a line that no clean run gives: {line:?} in {place}")));
        }
        if *count > allowed && self.timeline == Timeline::Straight {
            return Err(Violation::new(
                "E7",
                format!("sink {sink} has a line {count} times, expected {allowed}: {line:?}, again in {place}"),
            ));
        }
        Ok(())
    }

    /// All lines of all sinks that are visible.
    pub(super) fn seen(&self) -> &Output {
        &self.seen
    }

    /// Every line is there, but for those that may be missing.
    pub(super) fn finished(&self, missing: &Output) -> Result<(), Violation> {
        for (sink, expected) in &self.expected {
            let none = Lines::new();
            let seen = self.seen.get(sink).unwrap_or(&none);
            for (line, count) in expected {
                let found = seen.get(line).copied().unwrap_or(0);
                let missing = missing.get(sink).and_then(|lines| lines.get(line)).copied().unwrap_or(0);
                if found + missing < *count {
                    let what = format!(
                        "sink {sink} lacks a line: {line:?}, found {found} times, expected {count}; lines found {}, expected {}",
                        seen.len(),
                        expected.len()
                    );
                    return Err(Violation::new("E2", what));
                }
            }
        }
        Ok(())
    }
}
