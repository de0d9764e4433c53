//! What an audit expects of a partition, and what it finds there: rules without I/O.
//!
//! Owns: whose a batch is, when a transaction has ended, what is a deviation. Does not own: the reading of batches.
//!
//! A batch is ours if its producer id is. It belongs to an output if it also lies in that output's range, with its epoch. A transaction
//! of a producer ends, in a partition, with the producer's next mark: one producer writes one transaction after the other.
//!
//! Invariants:
//! 1. Messages of others between ours change nothing.
//! 2. Nothing is called lost that the retention of its topic may have removed.

use std::collections::{BTreeMap, BTreeSet};

use staunch_types::{Digest, Epoch};

use crate::control::batch::{Batch, Part, Stored};
use crate::control::{Decision, Producer};
use crate::sink::{Range, digest_bytes};

/// By how much clocks may differ where ages are compared.
const CLOCK_MARGIN_MS: i64 = 300_000;

/// What the ledger says of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its commit is recorded.
    Committed,
    /// It may be committed, or still be open.
    InDoubt,
    /// It is lost, and a person has accepted that.
    AcceptedLost,
}

/// An output that the ledger names.
#[derive(Clone, Debug)]
pub(super) struct Output {
    pub(super) epoch: Epoch,
    pub(super) producer: Producer,
    pub(super) fate: Fate,
    /// Whether its messages are compared; of others it is only known that they are ours.
    pub(super) chosen: bool,
    pub(super) digest: Digest,
    pub(super) oldest_ms: i64,
    pub(super) started_ms: i64,
    pub(super) places: Vec<Place>,
    /// What was found.
    pub(super) found: Digest,
}

/// What an output has in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) range: Range,
    pub(super) found: u64,
    pub(super) end: Option<Decision>,
    pub(super) reading: Reading,
}

/// How far a place could be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// It was not come to.
    Unread,
    /// It was, as far as the partition goes.
    Read,
    /// The partition begins behind its first message.
    Deleted,
    /// The topic or the partition does not exist.
    Absent,
    /// The topic is compacted: messages may be missing by right.
    Compacted,
}

/// What a topic's settings say about messages that are not there any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Retention {
    pub(super) compacts: bool,
    /// None when the settings could not be asked for.
    pub(super) limits: Option<Limits>,
}

/// How long and how much a topic keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) ms: Option<i64>,
    pub(super) bytes: Option<i64>,
    /// Messages have the time at which the broker got them.
    pub(super) by_arrival: bool,
}

/// A place where a topic is not what the ledger says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicFinding {
    /// What kind.
    pub deviation: Deviation,
    /// The epoch of the output, if it is about one.
    pub epoch: Option<Epoch>,
    /// What was expected and what was found.
    pub what: String,
    /// Topic, partition, offsets.
    pub place: String,
}

/// Kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deviation {
    /// Messages are not there.
    Missing,
    /// Messages were deleted that the topic should still keep.
    Deleted,
    /// More messages are there than were written.
    Added,
    /// The messages are others than those written.
    Changed,
    /// The transaction was aborted.
    Aborted,
    /// The transaction has no end: its messages are not visible.
    Hidden,
    /// A producer of the sink has committed what no epoch names.
    Unnamed,
    /// Another producer has written messages that are equal to ours.
    Doubled,
    /// Batches cannot be read.
    Unreadable,
}

/// Whose a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// Of an output of ours, at one of its places.
    Named(usize, usize),
    /// Of a producer of ours, and of no output.
    Unnamed,
    /// Of a producer of ours that writes a lost output again; not recorded yet.
    Excused,
    Foreign,
}

/// Messages that a producer of ours has committed and no epoch names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) producer_id: i64,
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) messages: u64,
}

/// Producers of this sink.
#[derive(Clone, Debug, Default)]
pub(super) struct Own {
    pub(super) producers: BTreeSet<i64>,
    pub(super) excused: BTreeSet<i64>,
}

/// One partition, as it is read.
pub(super) struct PartitionRules<'a> {
    topic: String,
    partition: i32,
    own: &'a Own,
    /// By producer id, in the order of offsets: last offset, output, place.
    index: BTreeMap<i64, Vec<(i64, usize, usize)>>,
    open: BTreeMap<i64, Span>,
    pub(super) unnamed: Vec<Span>,
    scratch: Vec<u8>,
}

impl<'a> PartitionRules<'a> {
    pub(super) fn new(topic: &str, partition: i32, outputs: &[Output], own: &'a Own) -> PartitionRules<'a> {
        let mut index: BTreeMap<i64, Vec<(i64, usize, usize)>> = BTreeMap::new();
        for (number, output) in outputs.iter().enumerate() {
            for (place, found) in output.places.iter().enumerate().filter(|(_, p)| p.range.is_in(topic, partition)) {
                index.entry(output.producer.id).or_default().push((found.range.last, number, place));
            }
        }
        index.values_mut().for_each(|places| places.sort_unstable());
        let (open, unnamed, scratch) = (BTreeMap::new(), Vec::new(), Vec::new());
        PartitionRules { topic: topic.to_owned(), partition, own, index, open, unnamed, scratch }
    }

    pub(super) fn whose(&self, batch: &Batch<'_>, outputs: &[Output]) -> Whose {
        if self.own.excused.contains(&batch.producer.id) {
            return Whose::Excused;
        }
        let places = self.index.get(&batch.producer.id).map_or(&[][..], Vec::as_slice);
        if let Some((_, output, place)) = places.get(places.partition_point(|(last, _, _)| *last < batch.first)) {
            let found = &outputs[*output];
            if found.places[*place].range.first <= batch.last && found.producer == batch.producer {
                return Whose::Named(*output, *place);
            }
        }
        if self.own.producers.contains(&batch.producer.id) { Whose::Unnamed } else { Whose::Foreign }
    }

    /// Takes the next batch of the partition, from an offset on; tells whose it is.
    ///
    /// # Errors
    /// What is wrong with the batch.
    pub(super) fn take(&mut self, batch: &Batch<'_>, from: i64, outputs: &mut [Output]) -> Result<Whose, String> {
        if let Part::End(decision) = batch.part {
            self.end(batch, decision, outputs);
            return Ok(Whose::Excused);
        }
        let whose = self.whose(batch, outputs);
        match whose {
            _ if batch.part == Part::Mark => return Ok(Whose::Excused),
            Whose::Named(output, place) if outputs[output].chosen => {
                let output = &mut outputs[output];
                let place = &mut output.places[place];
                batch.each(|message| {
                    if message.offset >= from.max(place.range.first) && message.offset <= place.range.last {
                        place.found += 1;
                        message.digest_bytes(&mut self.scratch);
                        output.found.add(&self.scratch);
                    }
                })?;
            }
            Whose::Unnamed if batch.part == Part::Plain => self.unnamed.push(self.span(batch)),
            Whose::Unnamed => {
                let span = self.span(batch);
                let open = self.open.entry(batch.producer.id).or_insert(Span { messages: 0, ..span });
                (open.last, open.messages) = (batch.last, open.messages + batch.messages);
            }
            Whose::Named(..) | Whose::Excused | Whose::Foreign => {}
        }
        Ok(whose)
    }

    fn span(&self, batch: &Batch<'_>) -> Span {
        let (topic, producer_id) = (self.topic.clone(), batch.producer.id);
        Span { topic, partition: self.partition, producer_id, first: batch.first, last: batch.last, messages: batch.messages }
    }

    fn end(&mut self, mark: &Batch<'_>, decision: Decision, outputs: &mut [Output]) {
        if let Some(span) = self.open.remove(&mark.producer.id)
            && decision == Decision::Commit
        {
            self.unnamed.push(span);
        }
        for (last, output, place) in self.index.get(&mark.producer.id).map_or(&[][..], Vec::as_slice) {
            if *last < mark.first {
                outputs[*output].places[*place].end.get_or_insert(decision);
            }
        }
    }
}

impl Stored<'_> {
    pub(super) fn digest_bytes(&self, out: &mut Vec<u8>) {
        digest_bytes(self.key, self.value, out);
    }
}

impl Range {
    pub(super) fn is_in(&self, topic: &str, partition: i32) -> bool {
        self.topic == topic && self.partition == partition
    }

    fn words(&self) -> String {
        format!("topic={} partition={} offsets={}..{}", self.topic, self.partition, self.first, self.last + 1)
    }
}

impl Retention {
    /// Whether it may have removed messages of an output by now.
    fn may_remove(&self, output: &Output, now_ms: i64) -> bool {
        let Some(limits) = self.limits else { return true };
        let oldest_ms = if limits.by_arrival { output.started_ms } else { output.oldest_ms };
        let is_old = |ms: i64| oldest_ms.saturating_add(ms) <= now_ms.saturating_add(CLOCK_MARGIN_MS);
        limits.bytes.is_some() || limits.ms.is_some_and(is_old)
    }
}

/// What there is to say about an output.
pub(super) enum Verdict {
    /// All of it is there.
    Proven,
    /// It is in doubt, and open.
    Open,
    /// It is in doubt, and was aborted.
    DoubtfulAborted,
    /// It cannot be proven, and why.
    Unproven(&'static str),
    /// It is not as it was written.
    Deviates(Vec<TopicFinding>),
}

/// What there is to say about one place of an output.
enum PlaceVerdict {
    Good,
    Unproven(&'static str),
    Deviates(Deviation, String),
}

impl Place {
    fn judge(&self, output: &Output, retention: Retention, now_ms: i64) -> PlaceVerdict {
        use PlaceVerdict::{Deviates, Good, Unproven};
        let (written, there) = (self.range.messages, self.found);
        match (self.reading, self.end) {
            (Reading::Compacted, _) => Unproven("their topic is compacted, which removes messages by right"),
            (Reading::Unread, _) => Unproven("their partition could not be read so far"),
            (Reading::Absent, _) => {
                Deviates(Deviation::Missing, format!("a partition that holds {written} messages of ours does not exist"))
            }
            (Reading::Deleted, _) if retention.may_remove(output, now_ms) => {
                Unproven("they are no longer provable: the retention of their topic may have removed messages")
            }
            (Reading::Deleted, _) => {
                Deviates(Deviation::Deleted, format!("messages of ours were deleted: of {written} written, at most {there} are there"))
            }
            (Reading::Read, Some(Decision::Abort)) => {
                Deviates(Deviation::Aborted, format!("a transaction recorded as committed was aborted, with {written} messages"))
            }
            (Reading::Read, None) if output.fate == Fate::InDoubt => Good,
            (Reading::Read, None) if there == written => Deviates(
                Deviation::Hidden,
                format!("a transaction recorded as committed has no end: its {written} messages are not visible"),
            ),
            (Reading::Read, None | Some(Decision::Commit)) if there < written => {
                Deviates(Deviation::Missing, format!("messages are missing: {written} were written, {there} are there"))
            }
            (Reading::Read, None | Some(Decision::Commit)) if there > written => {
                Deviates(Deviation::Added, format!("messages were added: {written} were written, {there} are there"))
            }
            (Reading::Read, None | Some(Decision::Commit)) => Good,
        }
    }
}

/// Judges an output whose partitions were read.
pub(super) fn judge(output: &Output, retentions: &BTreeMap<String, Retention>, now_ms: i64) -> Verdict {
    let ends = || output.places.iter().map(|place| place.end);
    if output.fate == Fate::InDoubt {
        if ends().any(|end| end == Some(Decision::Abort)) {
            return Verdict::DoubtfulAborted;
        }
        if ends().all(|end| end.is_none()) {
            return Verdict::Open;
        }
    }
    let (mut findings, mut unproven) = (Vec::new(), None);
    for place in &output.places {
        let retention = retentions.get(&place.range.topic).copied().unwrap_or_default();
        match place.judge(output, retention, now_ms) {
            PlaceVerdict::Good => {}
            PlaceVerdict::Unproven(why) => unproven = Some(why),
            PlaceVerdict::Deviates(deviation, what) => {
                findings.push(TopicFinding { deviation, epoch: Some(output.epoch), what, place: place.range.words() });
            }
        }
    }
    let is_whole = unproven.is_none() && ends().all(|end| end == Some(Decision::Commit));
    if findings.is_empty() && is_whole && output.found != output.digest {
        let ranges: Vec<String> = output.places.iter().map(|place| place.range.words()).collect();
        let (written, there) = (output.digest, output.found);
        let what = format!(
            "messages are changed: {} in {} bytes were written, {} in {} bytes are there",
            written.records, written.bytes, there.records, there.bytes
        );
        findings.push(TopicFinding { deviation: Deviation::Changed, epoch: Some(output.epoch), what, place: ranges.join("; ") });
    }
    match (findings.is_empty(), unproven) {
        (false, _) => Verdict::Deviates(findings),
        (true, Some(why)) => Verdict::Unproven(why),
        (true, None) => Verdict::Proven,
    }
}

#[cfg(test)]
mod tests;
