//! What the ledger says was read: each split from its front to its end, without gap and without overlap.

use std::collections::BTreeMap;

use staunch_format::ledger::{Body, LedgerEntry, Origin};
use staunch_types::{Epoch, Name};

use super::Violation;
use crate::job::JobSpec;

const CHECK: &str = "input ranges";

/// A split of a source.
type SplitName = (Name, String);

/// How far each split was read, and how many records that were.
#[derive(Clone, Debug, Default)]
struct Position {
    splits: BTreeMap<SplitName, u64>,
    records: u64,
}

/// See the module.
#[derive(Default)]
pub(super) struct Input {
    now: Position,
    at: BTreeMap<Epoch, Position>,
}

impl Input {
    pub(super) fn appended(&mut self, entry: &LedgerEntry) -> Result<(), Violation> {
        match &entry.body {
            Body::Claimed(claimed) => {
                self.now = match claimed.origin {
                    Origin::Empty => Position::default(),
                    Origin::Epoch(epoch) | Origin::Fork(epoch) => self.at.get(&epoch).cloned().ok_or_else(|| {
                        Violation::new(CHECK, format!("generation {} starts from epoch {epoch}, which was never sealed", entry.generation))
                    })?,
                };
            }
            Body::Sealed(sealed) => {
                let mut ranges = Vec::new();
                for source in &sealed.sources {
                    for range in &source.ranges {
                        ranges.push(((source.source.clone(), range.split.clone()), range.from, range.to));
                        self.now.records += range.digest.records;
                    }
                }
                ranges.sort();
                for (split, from, to) in ranges {
                    // Records of a split begin behind what is no record: a header, or the end of the line before.
                    let start: u64 = split.1.rsplit_once('#').and_then(|(_, start)| start.parse().ok()).unwrap_or(0);
                    let before = self.now.splits.get(&split).copied();
                    let expected = before.unwrap_or(from.max(start));
                    if from != expected || to < from {
                        let what =
                            format!("epoch {}: split {split:?} read from {from} to {to}, expected from {expected}", sealed.attempt.epoch);
                        return Err(Violation::new(CHECK, what));
                    }
                    self.now.splits.insert(split, to);
                }
                self.at.insert(sealed.attempt.epoch, self.now.clone());
            }
            Body::Committed(_) | Body::Stopped(_) => {}
        }
        Ok(())
    }

    pub(super) fn finished(&self, job: &JobSpec) -> Result<(), Violation> {
        let rows = job.rows().count() as u64;
        if self.now.records == rows {
            return Ok(());
        }
        Err(Violation::new(CHECK, format!("the ledger counts {} records read, the input has {rows}", self.now.records)))
    }
}
