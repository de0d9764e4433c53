//! Whether what the coordinator calls committed has come through to readers, and what is done if not.
//!
//! Owns: when coordinator and partitions are asked, and how long. Does not own: what their answers mean (`staunch_protocol::transaction::resolve`).
//!
//! A coordinator may forget markers (KAFKA-20734): its transaction is committed, and a partition has it open for ever. Then the markers are written
//! here, as the coordinator would have: by a request to the leader of each partition. Nothing is begun for it and nothing left behind, so it can be
//! done again by anybody, and a crash between two requests does no harm.

use std::time::Duration;

use staunch_protocol::transaction::Markers;
use staunch_protocol::transaction::resolve::{self, Confirm};
use staunch_types::{Error, ErrorKind, Result};

use super::super::stored::{Range, Rewritten, StoredTransaction};
use super::not_known;
use crate::codes;
use crate::control::{Control, Decision, OpenAt, Openness, Producer, Transaction, Written};

/// Looks at partitions whose markers may be on their way; some five seconds.
const LOOKS_MAX: u32 = 60;
/// The first and the longest wait between two looks.
const WAIT: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));
/// What stands in a message for people about a partition that cannot be asked for.
const READ_NEEDED: &str = "markers were not asked for, as the right READ is missing on topics";

/// A committed transaction, and where it wrote.
pub(in crate::sink) struct Committed {
    pub(in crate::sink) id: String,
    pub(in crate::sink) producer: Producer,
    pub(in crate::sink) written: Vec<Written>,
}

/// What came of it.
pub(in crate::sink) enum Outcome {
    /// Readers get past it, as far as can be told; a note for people, or nothing.
    Through(String),
    /// Nobody will write the markers that are missing in these partitions; they are to be written as of this producer.
    Forgotten(Producer, Vec<OpenAt>),
}

impl Committed {
    pub(in crate::sink) fn of(stored: &StoredTransaction) -> Committed {
        let mut written = places(&stored.ranges);
        written.push(Written { topic: stored.mark.topic.clone(), partition: stored.mark.partition, last: stored.mark.offset });
        Committed { id: stored.id.clone(), producer: stored.producer(), written }
    }

    /// The one that wrote a lost one again. Its mark was seen, so that has come through.
    pub(in crate::sink) fn again(rewritten: &Rewritten) -> Committed {
        let producer = Producer { id: rewritten.producer_id, epoch: rewritten.producer_epoch };
        Committed { id: rewritten.id.clone(), producer, written: places(&rewritten.ranges) }
    }

    /// Waits until all its markers are there, or the missing ones are forgotten.
    ///
    /// # Errors
    /// `Retry` when they are being written for long, or brokers do not answer.
    pub(in crate::sink) fn confirm(&self, control: &mut Control) -> Result<Outcome> {
        // Mostly they are there by now, and the coordinator need not be asked.
        let mut openness = control.open_in(self.producer.id, &self.written)?;
        let mut wait = WAIT.0;
        for look in 0..LOOKS_MAX {
            if openness.open.is_empty() {
                return Ok(Outcome::Through(note(&openness)));
            }
            if look > 0 {
                control.pause(wait)?;
                wait = (wait * 2).min(WAIT.1);
            }
            // In this order: what is missing after the coordinator has done is forgotten.
            let described = control.describe_transaction(&self.id)?.found();
            openness = control.open_in(self.producer.id, &self.written)?;
            match resolve::confirm(self.producer, &described, markers(&openness)) {
                Confirm::Confirmed | Confirm::Unconfirmed => return Ok(Outcome::Through(note(&openness))),
                Confirm::Forgotten(next) => return Ok(Outcome::Forgotten(next, openness.open)),
                Confirm::AskAgain => {}
            }
        }
        let what = format!("it is committed, and its markers are being written: {}", in_words(&openness.open));
        Err(not_known(format!("transactional id={} {}", self.id, self.producer), &what))
    }

    /// Writes the markers that are forgotten, as of this producer.
    ///
    /// # Errors
    /// `Invalid` when this user may not; `Retry` when brokers do not answer.
    pub(in crate::sink) fn repair(&self, control: &mut Control, producer: Producer, open: &[OpenAt]) -> Result<()> {
        for place in open {
            match control.write_marker(place, producer, Decision::Commit) {
                Err(error) if error.code() == codes::NOT_ALLOWED => return Err(self.not_allowed(open, &error)),
                answer => answer?,
            }
        }
        Ok(())
    }

    /// The error that has a commit looked into.
    pub(in crate::sink) fn forgotten(&self, open: &[OpenAt]) -> Error {
        let what = "a transaction is committed, and a broker has forgotten to tell partitions so (KAFKA-20734)";
        self.at(Error::new(ErrorKind::Restart, codes::MARKERS_FORGOTTEN, what), open)
            .data("its messages are not lost: readers of committed messages stop before them, until the markers are written")
            .remedy("nothing: they are written next; if it goes on, see the brokers' logs")
    }

    fn not_allowed(&self, open: &[OpenAt], cause: &Error) -> Error {
        let what = "a transaction is committed, a broker has forgotten to tell partitions so (KAFKA-20734), and this user may not write the markers";
        self.at(Error::new(ErrorKind::Invalid, codes::MARKERS_REFUSED, what), open)
            .cause(cause)
            .data("its messages are not lost: readers of committed messages stop before them, until the markers are written")
            .remedy(
                "allow the operation ALTER on the cluster to this user, with kafka-acls, and start again; or have somebody who is allowed to run \
                 `staunch txn commit` on this job; never abort that transaction with kafka-transactions: committed messages would be gone",
            )
    }

    fn at(&self, error: Error, open: &[OpenAt]) -> Error {
        error.at(format!("transactional id={} {}: {}", self.id, self.producer, in_words(open)))
    }
}

/// After a transaction was aborted as its id was taken away: writes the markers that were forgotten. What came of it, for people; nothing else
/// depends on it, so who may not do it goes on.
///
/// # Errors
/// `Retry` when brokers do not answer.
pub(super) fn mend_abort(control: &mut Control, transaction: &Transaction) -> Result<String> {
    let producer = transaction.producer;
    let all = |(topic, partitions): &(String, Vec<i32>)| -> Vec<Written> {
        partitions.iter().map(|partition| Written { topic: topic.clone(), partition: *partition, last: i64::MAX }).collect()
    };
    let written: Vec<Written> = transaction.partitions.iter().flat_map(all).collect();
    let open = control.open_in(producer.id, &written)?.open;
    let next = Producer { epoch: producer.epoch.saturating_add(1), ..producer };
    for place in &open {
        match control.write_marker(place, next, Decision::Abort) {
            Err(error) if error.code() == codes::NOT_ALLOWED => return Ok(format!("; markers are missing: {}", in_words(&open))),
            answer => answer?,
        }
    }
    Ok(if open.is_empty() { String::new() } else { format!("; forgotten markers were written: {}", in_words(&open)) })
}

fn places(ranges: &[Range]) -> Vec<Written> {
    ranges.iter().map(|range| Written { topic: range.topic.clone(), partition: range.partition, last: range.last }).collect()
}

/// What partitions say, in the words of the rules.
pub(in crate::sink) fn markers(openness: &Openness) -> Markers {
    match (openness.open.is_empty(), openness.not_told.is_empty()) {
        (false, _) => Markers::Missing,
        (true, true) => Markers::Arrived,
        (true, false) => Markers::NotTold,
    }
}

fn note(openness: &Openness) -> String {
    if openness.not_told.is_empty() { String::new() } else { format!("; {READ_NEEDED}: {}", openness.not_told.join(", ")) }
}

pub(in crate::sink) fn in_words(open: &[OpenAt]) -> String {
    let words: Vec<String> = open
        .iter()
        .map(|open| format!("topic={} partition={} offset={} {}", open.topic, open.partition, open.start, open.producer))
        .collect();
    words.join(", ")
}
