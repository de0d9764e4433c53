//! The output is what was written: each sink's outputs are read again by the code of its kind.
//!
//! Owns: what the ledger expects of each sink, and which code looks at which kind. Does not own: the looking, one module for each kind.
//!
//! An output whose commit is recorded must be there, and nothing beside it. One in doubt may be there or still be prepared: the job commits it
//! when it starts again. And the job may be running: what no epoch named when the ledger was read may be named by a newer one.

mod files;
#[cfg(feature = "kafka")]
mod kafka;

use std::collections::BTreeMap;

use staunch_files::FILE_SINK_KIND;
use staunch_format::CommittableId;
use staunch_format::ledger::{Body, CommittableTotal, Outcome};
use staunch_format::manifest::Manifest;
use staunch_types::{Digest, Epoch, Result};

use super::Report;
use crate::job_folder::{JobFolder, Ledger};
use crate::options::BrokerOptions;
use crate::options::Epochs;

/// What is to be found of one sink.
#[derive(Default)]
pub(super) struct Expected<'a> {
    kind: &'a str,
    /// All that the ledger names and whose bytes for the sink are kept, also of epochs that were not chosen.
    outputs: Vec<Output<'a>>,
    /// Of all outputs: the epoch by the description.
    epochs: BTreeMap<&'a str, Epoch>,
    in_doubt: u64,
    /// Outputs of an older version's epochs, whose bytes for the sink are gone with their manifest.
    unknown: u64,
    accepted_lost: u64,
}

/// An output that the ledger names.
#[cfg_attr(not(feature = "kafka"), allow(dead_code, reason = "what files need is in their bodies"))]
struct Output<'a> {
    epoch: Epoch,
    body: &'a [u8],
    digest: Digest,
    /// Where it is, if it was written again; else empty.
    place: &'a [u8],
    fate: Fate,
    /// Whether its epoch was chosen.
    chosen: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Committed,
    InDoubt,
    AcceptedLost,
}

/// What the code of a kind works with.
#[cfg_attr(not(feature = "kafka"), allow(dead_code, reason = "only brokers have options"))]
struct Look<'a> {
    folder: &'a JobFolder,
    sink: &'a str,
    expected: &'a Expected<'a>,
    /// All that the ledger names is known: what is there beside it should not be.
    whole: bool,
    brokers: &'a BrokerOptions,
}

/// Looks at the outputs of one sink.
type Auditor = fn(&Look<'_>, &mut Report) -> Result<()>;

/// The code for each kind that this build can read.
const AUDITORS: &[(&str, Auditor)] = &[
    (FILE_SINK_KIND, files::audit),
    #[cfg(feature = "kafka")]
    (staunch_kafka::KAFKA_SINK_KIND, kafka::audit),
];

/// Reads the output of all sinks again.
///
/// # Errors
/// `Restart` when the ledger cannot be read again.
pub(super) fn audit(
    folder: &JobFolder,
    ledger: &Ledger,
    manifests: &BTreeMap<Epoch, Manifest>,
    (epochs, brokers): (Epochs, &BrokerOptions),
    report: &mut Report,
) -> Result<()> {
    for (sink, expected) in &expected(ledger, manifests, epochs) {
        let part = report.sinks.entry((*sink).to_owned()).or_default();
        part.in_doubt = expected.in_doubt;
        part.accepted_lost = expected.accepted_lost;
        part.outputs_unproven = expected.unknown;
        if expected.unknown > 0 {
            report.unproven(format!("sink {sink}: {} outputs could not be read again, as their manifests are retired", expected.unknown));
        }
        if expected.accepted_lost > 0 {
            report.note(format!("sink {sink}: {} outputs are lost, which a person has accepted", expected.accepted_lost));
        }
        let whole = epochs.is_all() && ledger.broken.is_none() && expected.unknown == 0;
        let look = Look { folder, sink, expected, whole, brokers };
        match AUDITORS.iter().find(|(kind, _)| *kind == expected.kind) {
            Some((_, auditor)) => auditor(&look, report)?,
            None => look.unproven(report, &unreadable(expected.kind)),
        }
    }
    Ok(())
}

fn unreadable(kind: &str) -> String {
    match kind {
        "kafka" => "this build cannot read kind kafka; build with --features kafka (`make staunch`)".into(),
        kind => format!("this build cannot read output of kind \"{kind}\" again"),
    }
}

impl Look<'_> {
    /// Nothing of the sink could be looked at.
    fn unproven(&self, report: &mut Report, why: &str) {
        let outputs = self.expected.outputs.iter().filter(|o| o.chosen && o.fate != Fate::AcceptedLost).count() as u64;
        report.sinks.entry(self.sink.to_owned()).or_default().outputs_unproven += outputs;
        report.unproven(format!("sink {}: {why}", self.sink));
    }
}

fn expected<'a>(ledger: &'a Ledger, manifests: &'a BTreeMap<Epoch, Manifest>, epochs: Epochs) -> BTreeMap<&'a str, Expected<'a>> {
    let bodies: BTreeMap<&CommittableId, &[u8]> =
        manifests.values().flat_map(|m| &m.committables).map(|c| (&c.id, c.body.0.as_slice())).collect();
    let (recorded, outcomes) = (ledger.committed(), outcomes(ledger));
    let mut all: BTreeMap<&str, Expected<'_>> = BTreeMap::new();
    for sealed in ledger.seals() {
        let epoch = sealed.attempt.epoch;
        for total in &sealed.committables {
            let CommittableTotal { id, kind, description, body, digest } = total;
            let sink = all.entry(id.sink.as_str()).or_default();
            sink.kind = kind;
            sink.epochs.insert(description, epoch);
            let (fate, place) = match outcomes.get(id) {
                Some(Outcome::AcceptedLost { .. }) => (Fate::AcceptedLost, &[][..]),
                Some(Outcome::Committed { place, .. } | Outcome::Resent { place, .. }) => (Fate::Committed, place.0.as_slice()),
                None if recorded.contains(&epoch) => (Fate::Committed, &[][..]),
                None => (Fate::InDoubt, &[][..]),
            };
            let chosen = epochs.contains(epoch);
            sink.in_doubt += u64::from(fate == Fate::InDoubt);
            sink.accepted_lost += u64::from(chosen && fate == Fate::AcceptedLost);
            let kept = (!body.0.is_empty()).then_some(body.0.as_slice());
            match kept.or_else(|| bodies.get(id).copied()) {
                Some(body) => sink.outputs.push(Output { epoch, body, digest: *digest, place, fate, chosen }),
                None => sink.unknown += u64::from(chosen && fate != Fate::AcceptedLost),
            }
        }
    }
    all
}

/// What became of each committable, by the records of commits.
fn outcomes(ledger: &Ledger) -> BTreeMap<&CommittableId, &Outcome> {
    let records = ledger.entries.iter().filter_map(|entry| match &entry.stored.body {
        Body::Committed(committed) => Some(committed),
        Body::Claimed(_) | Body::Sealed(_) | Body::Stopped(_) => None,
    });
    records.flat_map(|committed| &committed.outcomes).map(|outcome| (&outcome.id, &outcome.outcome)).collect()
}
