//! Inputs follow one another without gap or overlap, and outputs add up to what was written, along the line of epochs that each
//! generation goes on from.
//!
//! Owns: what the ledger alone can prove. A claim says from which epoch a generation goes on; its first seal follows that epoch, each
//! further one the seal before.
//!
//! Invariants that are checked:
//! 1. A split is read from where the epoch before left it.
//! 2. A source handed over, or rejected, as many records as it read.
//! 3. A sink never named more records than it was given; as many, when nothing is carried over to a later epoch.
//! 4. No output is named twice, and what was committed is what was named.

use std::collections::{BTreeMap, BTreeSet};

use staunch_format::CommittableId;
use staunch_format::Reason;
use staunch_format::ledger::{Body, Committed, Origin, Sealed};
use staunch_format::manifest::Manifest;
use staunch_types::{Epoch, Error, ErrorKind, Name};

use super::Report;
use crate::job_folder::{JobFolder, Ledger};
use crate::options::Epochs;

/// What holds at an epoch.
#[derive(Clone, Default)]
struct Line {
    epoch: Epoch,
    /// Where each split was left.
    positions: BTreeMap<(Name, String), u64>,
    /// Of each sink: records given to it, records in the outputs that seals name.
    sinks: BTreeMap<Name, (u64, u64)>,
}

/// Follows the ledger, and counts what belongs to the chosen epochs.
pub(super) fn follow(folder: &JobFolder, ledger: &Ledger, manifests: &BTreeMap<Epoch, Manifest>, epochs: Epochs, report: &mut Report) {
    let mut line = Line::of(ledger.seals());
    let mut named: BTreeMap<CommittableId, Epoch> = BTreeMap::new();
    let mut seals: BTreeMap<Epoch, &Sealed> = BTreeMap::new();
    let mut parents: BTreeMap<Epoch, Epoch> = BTreeMap::new();
    for entry in &ledger.entries {
        let place = |error: Error| error.at(format!("file={} entry={}", folder.file(&entry.object), entry.stored.seq));
        match &entry.stored.body {
            Body::Claimed(claimed) => {
                let origin = match claimed.origin {
                    Origin::Epoch(epoch) => epoch,
                    Origin::Empty | Origin::Fork(_) => Epoch(0),
                };
                if origin != line.epoch {
                    report.note(rewind(line.epoch, origin));
                    line = line.rebuilt(origin, &seals, &parents);
                }
            }
            Body::Sealed(sealed) => {
                parents.insert(sealed.attempt.epoch, line.epoch);
                seals.insert(sealed.attempt.epoch, sealed);
                let mut errors = line.advance(sealed);
                errors.extend(line.left_over(sealed, manifests.get(&sealed.attempt.epoch)));
                errors.into_iter().for_each(|error| report.find(place(error)));
                for total in &sealed.committables {
                    if let Some(before) = named.insert(total.id.clone(), sealed.attempt.epoch) {
                        report.find(place(doubled(&total.id, before, sealed.attempt.epoch)));
                    }
                }
                if epochs.contains(sealed.attempt.epoch) {
                    count(sealed, report);
                }
            }
            Body::Committed(committed) => {
                if let Some(error) = seals.get(&committed.epoch).and_then(|sealed| other_than_named(sealed, committed)) {
                    report.find(place(error));
                }
            }
            Body::Stopped(_) => {}
        }
    }
    in_doubt(ledger, epochs, report);
}

fn in_doubt(ledger: &Ledger, epochs: Epochs, report: &mut Report) {
    let committed = ledger.committed();
    let open = ledger.seals().filter(|s| epochs.contains(s.attempt.epoch) && !s.committables.is_empty());
    report.epochs.in_doubt = open.filter(|s| !committed.contains(&s.attempt.epoch)).count() as u64;
}

fn rewind(from: Epoch, to: Epoch) -> String {
    format!(
        "a generation was started from epoch {to} after epoch {from}, by a person's choice: what epochs after {to} wrote before stays visible, and \
         their input was read again"
    )
}

impl Line {
    /// The line before the first epoch, of a ledger with these seals: an operator that any of them has an output of is a sink.
    fn of<'a>(seals: impl Iterator<Item = &'a Sealed>) -> Line {
        let sinks = seals.flat_map(|sealed| &sealed.committables).map(|total| (total.id.sink.clone(), (0, 0)));
        Line { sinks: sinks.collect(), ..Line::default() }
    }

    /// The line at an epoch, from its ancestors.
    fn rebuilt(&self, epoch: Epoch, seals: &BTreeMap<Epoch, &Sealed>, parents: &BTreeMap<Epoch, Epoch>) -> Line {
        let mut ancestors = Vec::new();
        let mut at = epoch;
        while let Some(sealed) = seals.get(&at) {
            ancestors.push(*sealed);
            at = parents.get(&at).copied().unwrap_or_default();
        }
        let mut line = Line { sinks: self.sinks.keys().map(|sink| (sink.clone(), (0, 0))).collect(), ..Line::default() };
        for sealed in ancestors.into_iter().rev() {
            // What was found on the way was reported when the ancestor was met.
            drop(line.advance(sealed));
        }
        line.epoch = epoch;
        line
    }

    /// Goes on to the next epoch of the line; what does not follow.
    fn advance(&mut self, sealed: &Sealed) -> Vec<Error> {
        let mut errors = Vec::new();
        for reads in &sealed.sources {
            for range in &reads.ranges {
                let before = self.positions.insert((reads.source.clone(), range.split.clone()), range.to);
                let expected = before.unwrap_or(range.from);
                if range.from != expected || range.to < range.from {
                    errors.push(jump(&reads.source, &range.split, expected, (range.from, range.to), sealed));
                }
            }
            let read: u64 = reads.ranges.iter().map(|r| r.digest.records).sum();
            let counts = sealed.operators.iter().find(|o| o.operator == reads.source).map(|o| o.counts).unwrap_or_default();
            if read != counts.records_in + counts.rejected {
                let what = format!(
                    "source {} read {read} records in epoch {}, but {} went on and {} were rejected",
                    reads.source, sealed.attempt.epoch, counts.records_in, counts.rejected
                );
                errors.push(mismatch(what));
            }
        }
        for (sink, (given, named)) in &mut self.sinks {
            let counts = sealed.operators.iter().find(|o| o.operator == *sink).map(|o| o.counts).unwrap_or_default();
            *given += counts.records_in;
            *named += sealed.committables.iter().filter(|c| c.id.sink == *sink).map(|c| c.digest.records).sum::<u64>();
            if *named > *given {
                errors.push(mismatch(held(sink, sealed, *given, *named)));
            }
        }
        self.epoch = sealed.attempt.epoch;
        errors
    }

    /// Sinks that hold back records although nothing is carried over.
    fn left_over(&self, sealed: &Sealed, manifest: Option<&Manifest>) -> Vec<Error> {
        let ended = matches!(sealed.reason, Reason::Final | Reason::Drain);
        let open: Option<BTreeSet<&Name>> = manifest.map(|m| m.operators.iter().filter(|o| carries(o)).map(|o| &o.name).collect());
        let may_hold = |sink: &Name| !ended && open.as_ref().is_none_or(|open| open.contains(sink));
        let holding = self.sinks.iter().filter(|(sink, (given, named))| named < given && !may_hold(sink));
        holding.map(|(sink, (given, named))| mismatch(held(sink, sealed, *given, *named))).collect()
    }
}

fn held(sink: &Name, sealed: &Sealed, given: u64, named: u64) -> String {
    format!("sink {sink} was given {given} records up to epoch {}, but its outputs hold {named}", sealed.attempt.epoch)
}

/// Whether an operator carries output over to a later epoch.
fn carries(operator: &staunch_format::manifest::OperatorPart) -> bool {
    operator.tasks.iter().flat_map(|task| &task.inline).any(|inline| inline.kind == "carried" && !inline.bytes.0.is_empty())
}

fn count(sealed: &Sealed, report: &mut Report) {
    let epoch = sealed.attempt.epoch.0;
    report.epochs.count += 1;
    report.epochs.first = Some(report.epochs.first.map_or(epoch, |first| first.min(epoch)));
    report.epochs.last = Some(report.epochs.last.map_or(epoch, |last| last.max(epoch)));
    for reads in &sealed.sources {
        let part = report.sources.entry(reads.source.to_string()).or_default();
        part.ranges += reads.ranges.len() as u64;
        part.records += reads.ranges.iter().map(|r| r.digest.records).sum::<u64>();
        part.bytes += reads.ranges.iter().map(|r| r.digest.bytes).sum::<u64>();
    }
    for operator in &sealed.operators {
        let part = report.operators.entry(operator.operator.to_string()).or_default();
        part.records_in += operator.counts.records_in;
        part.records_out += operator.counts.records_out;
        part.late += operator.counts.late;
        part.rejected += operator.counts.rejected;
    }
    for total in &sealed.committables {
        let part = report.sinks.entry(total.id.sink.to_string()).or_default();
        part.kind.clone_from(&total.kind);
        part.outputs += 1;
        part.records += total.digest.records;
    }
}

fn jump(source: &Name, split: &str, expected: u64, (from, to): (u64, u64), sealed: &Sealed) -> Error {
    let what = match from.cmp(&expected) {
        std::cmp::Ordering::Less => format!("source {source} read positions {from} to {} of a split twice", expected.min(to)),
        std::cmp::Ordering::Greater => format!("source {source} passed over positions {expected} to {from} of a split"),
        std::cmp::Ordering::Equal => format!("source {source} went back from {from} to {to} in a split"),
    };
    Error::new(ErrorKind::Corrupt, "C308", what)
        .at(format!("epoch={} split={split}", sealed.attempt.epoch))
        .data("records of these positions are in the output twice, or not at all")
        .remedy("keep the ledger as evidence, and report it")
}

fn mismatch(what: String) -> Error {
    Error::new(ErrorKind::Corrupt, "C309", what)
        .data("records are in the output twice, or not at all")
        .remedy("keep the ledger as evidence, and report it")
}

fn doubled(id: &CommittableId, before: Epoch, again: Epoch) -> Error {
    let what = format!("an output of sink {} is named by epoch {before} and again by epoch {again}", id.sink);
    Error::new(ErrorKind::Corrupt, "C310", what)
        .at(format!("task={} number={} attempt={}/{}", id.task, id.number, id.attempt.epoch, id.attempt.generation))
        .data("its records count twice")
        .remedy("keep the ledger as evidence, and report it")
}

/// Whether a record of commits speaks of other outputs than the seal named.
fn other_than_named(sealed: &Sealed, committed: &Committed) -> Option<Error> {
    let named: BTreeMap<&CommittableId, _> = sealed.committables.iter().map(|c| (&c.id, &c.digest)).collect();
    let done: BTreeMap<&CommittableId, _> = committed.outcomes.iter().map(|o| (&o.id, &o.digest)).collect();
    if named == done {
        return None;
    }
    let what = format!(
        "epoch {} names {} outputs; the record of its commit speaks of others, {} in number",
        committed.epoch,
        named.len(),
        done.len()
    );
    Some(
        Error::new(ErrorKind::Corrupt, "C311", what)
            .data("it is not certain which output is visible")
            .remedy("keep the ledger as evidence, and report it"),
    )
}

#[cfg(test)]
mod tests;
