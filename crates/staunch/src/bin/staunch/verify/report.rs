//! What a verification saw, for people and for programs.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use staunch_format::ledger::{Body, Origin};
use staunch_types::{Digest, Error};

use crate::job_folder::{JobFolder, Ledger};
use crate::output::{bytes, number};

/// What was seen. Its form in JSON is stable: fields are added, none is changed.
#[derive(Serialize)]
pub(crate) struct Report {
    job: String,
    folder: String,
    /// Whether everything that was looked at is as it was written.
    verified: bool,
    /// Whether everything that belongs to the chosen epochs was looked at.
    complete: bool,
    ledger: LedgerPart,
    pub(super) epochs: EpochPart,
    pub(super) manifests: ManifestPart,
    pub(super) state: StatePart,
    pub(super) sources: BTreeMap<String, SourcePart>,
    pub(super) operators: BTreeMap<String, OperatorPart>,
    pub(super) sinks: BTreeMap<String, SinkPart>,
    /// What is no deviation, and should be known.
    notes: Vec<String>,
    findings: Vec<FindingPart>,
    #[serde(skip)]
    errors: Vec<Error>,
}

#[derive(Serialize)]
struct LedgerPart {
    entries: usize,
    generations: usize,
    head: String,
}

#[derive(Default, Serialize)]
pub(super) struct EpochPart {
    pub(super) count: u64,
    pub(super) first: Option<u64>,
    pub(super) last: Option<u64>,
    /// Durable, with output whose commit is not recorded.
    pub(super) in_doubt: u64,
}

#[derive(Default, Serialize)]
pub(super) struct ManifestPart {
    pub(super) intact: u64,
    /// Removed by the job, as newer ones took their place.
    pub(super) retired: u64,
}

#[derive(Default, Serialize)]
pub(super) struct StatePart {
    pub(super) segments: u64,
    pub(super) bytes: u64,
}

#[derive(Default, Serialize)]
pub(super) struct SourcePart {
    pub(super) ranges: u64,
    pub(super) records: u64,
    pub(super) bytes: u64,
}

#[derive(Default, Serialize)]
pub(super) struct OperatorPart {
    pub(super) records_in: u64,
    pub(super) records_out: u64,
    pub(super) late: u64,
    pub(super) rejected: u64,
}

#[derive(Default, Serialize)]
pub(super) struct SinkPart {
    pub(super) kind: String,
    /// Outputs that durable epochs name, and the records in them.
    pub(super) outputs: u64,
    pub(super) records: u64,
    /// Files or the like that were read again, and their records.
    pub(super) outputs_read: u64,
    pub(super) records_read: u64,
    /// Outputs that could not be looked at.
    pub(super) outputs_unproven: u64,
    pub(super) in_doubt: u64,
    pub(super) accepted_lost: u64,
    /// Sum of the hashes of all records read, so that two reports can be compared.
    pub(super) sum: String,
}

#[derive(Serialize)]
struct FindingPart {
    code: String,
    what: String,
    place: Option<String>,
}

impl Report {
    /// A report that has seen the ledger.
    pub(super) fn new(folder: &JobFolder, ledger: &Ledger) -> Report {
        let claims = || {
            ledger.entries.iter().filter_map(|entry| match &entry.stored.body {
                Body::Claimed(claimed) => Some(claimed),
                Body::Sealed(_) | Body::Committed(_) | Body::Stopped(_) => None,
            })
        };
        let head = ledger.entries.last().map(|e| staunch_format::ledger::LedgerEntry::hash(&e.bytes).to_string()).unwrap_or_default();
        let forked = claims().any(|c| matches!(c.origin, Origin::Fork(_)));
        Report {
            job: ledger.job().map(ToString::to_string).unwrap_or_default(),
            folder: folder.root().display().to_string(),
            verified: true,
            complete: true,
            ledger: LedgerPart { entries: ledger.entries.len(), generations: claims().count(), head },
            epochs: EpochPart::default(),
            manifests: ManifestPart::default(),
            state: StatePart::default(),
            sources: BTreeMap::new(),
            operators: BTreeMap::new(),
            sinks: BTreeMap::new(),
            notes: if forked {
                vec!["the job began as a fork of another; what that one read and wrote is in its own ledger".into()]
            } else {
                Vec::new()
            },
            findings: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Something is not as it was written.
    pub(super) fn find(&mut self, error: Error) {
        self.verified = false;
        let part = FindingPart { code: error.code().into(), what: error.what().into(), place: error.place().map(str::to_owned) };
        self.findings.push(part);
        self.errors.push(error);
    }

    /// Something should be known.
    pub(super) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// Something could not be looked at.
    pub(super) fn unproven(&mut self, text: String) {
        self.complete = false;
        self.notes.push(text);
    }

    /// All deviations.
    pub(crate) fn findings(&self) -> &[Error] {
        &self.errors
    }

    /// Whether everything was looked at and is as it was written.
    pub(crate) fn is_proof(&self) -> bool {
        self.verified && self.complete
    }

    /// Durable epochs among the chosen ones.
    pub(crate) fn epochs(&self) -> u64 {
        self.epochs.count
    }

    /// Records that a source read in the chosen epochs.
    pub(crate) fn records_read(&self) -> u64 {
        self.sources.values().map(|s| s.records).sum()
    }

    /// The report for people.
    pub(crate) fn render(&self) -> String {
        let mut out = format!("job {}: {}\n", self.job, self.folder);
        let mut line = |label: &str, text: String| out += &format!("  {label:10} {text}\n");
        let head: String = self.ledger.head.chars().take(12).collect();
        line(
            "ledger",
            format!("{} entries in one chain, {} generations, head {head}", number(self.ledger.entries as u64), self.ledger.generations),
        );
        let range = self.epochs.first.zip(self.epochs.last).map(|(first, last)| format!(", from {first} to {last}")).unwrap_or_default();
        line("epochs", format!("{}{range}; {} in doubt", number(self.epochs.count), self.epochs.in_doubt));
        line("manifests", format!("{} read, {} retired", number(self.manifests.intact), number(self.manifests.retired)));
        line("state", format!("{} segments read, {}", number(self.state.segments), bytes(self.state.bytes)));
        for (name, part) in &self.sources {
            line("source", format!("{name}: {} records, {} in {} ranges", number(part.records), bytes(part.bytes), number(part.ranges)));
        }
        for (name, part) in &self.operators {
            let OperatorPart { records_in, records_out, late, rejected } = part;
            let counts = [(records_in, "in"), (records_out, "out"), (late, "late"), (rejected, "rejected")];
            let counts: Vec<String> = counts.iter().filter(|(n, _)| **n > 0).map(|(n, what)| format!("{} {what}", number(**n))).collect();
            if !counts.is_empty() {
                line("operator", format!("{name}: {}", counts.join(", ")));
            }
        }
        for (name, part) in &self.sinks {
            line("sink", format!("{name} ({}): {}", part.kind, part.render()));
        }
        for note in &self.notes {
            line("note", note.clone());
        }
        out + &format!("{}\n", self.verdict())
    }

    fn verdict(&self) -> String {
        match (self.findings.len(), self.complete) {
            (0, true) => "verified: nothing lost, nothing doubled, nothing changed".into(),
            (0, false) => {
                "verified as far as looked at: nothing lost, nothing doubled, nothing changed; see the notes for what was not".into()
            }
            (count, _) => format!("NOT verified: {count} findings"),
        }
    }
}

impl SinkPart {
    /// Adds what was read again.
    pub(super) fn read(&mut self, outputs: u64, digest: &Digest) {
        self.outputs_read += outputs;
        self.records_read += digest.records;
        self.sum = format!("{:032x}", digest.sum);
    }

    fn render(&self) -> String {
        let mut text = format!(
            "{} records in {} outputs; read again {} in {}",
            number(self.records),
            number(self.outputs),
            number(self.records_read),
            number(self.outputs_read)
        );
        for (count, what) in
            [(self.in_doubt, "in doubt"), (self.accepted_lost, "accepted as lost"), (self.outputs_unproven, "NOT looked at")]
        {
            if count > 0 {
                let _ = write!(text, "; {} {what}", number(count));
            }
        }
        text
    }
}
