//! Proves that topics hold what the ledger says: reads them again, batch by batch, and compares.
//!
//! Owns: which partitions are read from where to where. Does not own: the ledger; it is handed the outputs that it names.
//!
//! librdkafka shows neither who wrote a message nor the marks that end transactions, so topics are read with the control client. That makes
//! an audit exact also in topics that others write to: ours is what lies in the ranges that the ledger names, by the producers it names.
//!
//! What a partition holds is looked at up to the end that it has when the audit comes to it, and beyond as long as a mark of ours is missing:
//! marks come a moment after a commit is decided.

mod rules;
mod copies;

use std::collections::{BTreeMap, BTreeSet};

use staunch_types::{Digest, Epoch, ErrorKind, Result};

use crate::codes;
use crate::control::batch::Part;
use crate::control::reader::{Reader, Step};
use crate::control::{Control, Decision};
use crate::ids::Ids;
use crate::sink::{Rewritten, StoredTransaction};
use copies::Copies;
use rules::{Limits, Output, Own, PartitionRules, Place, Reading, Retention, Span, Verdict, Whose, judge};

pub use rules::{Deviation, Fate, TopicFinding};

/// How often a missing mark is waited for, each for as long as a broker waits with its answer.
const MARK_WAITS_MAX: u32 = 25;
/// What is asked about a topic.
const TOPIC_SETTINGS: [&str; 4] = ["cleanup.policy", "retention.ms", "retention.bytes", "message.timestamp.type"];

/// An output that the ledger names.
#[derive(Clone, Copy, Debug)]
pub struct AuditedOutput<'a> {
    /// The epoch that names it.
    pub epoch: Epoch,
    /// What the sink keeps of it.
    pub body: &'a [u8],
    /// Its messages.
    pub digest: Digest,
    /// Where it is by the record of its commit, if elsewhere; else empty.
    pub place: &'a [u8],
    /// What the ledger says of it.
    pub fate: Fate,
    /// Whether its messages are to be compared.
    pub chosen: bool,
}

/// What is to be looked at.
#[derive(Clone, Debug, Default)]
pub struct AuditScope {
    /// The outputs are all that the ledger names: the topics are read as a whole, for what is there and should not be.
    pub whole: bool,
    /// Topics in which others may write messages that are equal to ours.
    pub shared: BTreeSet<String>,
    /// The time by our clock, in milliseconds since 1970.
    pub now_ms: i64,
}

/// What an audit saw.
#[derive(Clone, Debug, Default)]
pub struct TopicAudit {
    /// Outputs that are there, whole.
    pub outputs: u64,
    /// Their messages.
    pub messages: Digest,
    /// What is not as it was written; empty when all is.
    pub findings: Vec<TopicFinding>,
    /// Outputs that could not be proven, by the reason.
    pub unproven: BTreeMap<String, u64>,
    /// What is no deviation, and should be known.
    pub notes: Vec<String>,
}

/// Reads what the outputs of one sink wrote, and compares. When something is there that no output names, `by_now` is asked for the outputs
/// that the ledger names by now: the job may be running.
///
/// # Errors
/// `Corrupt` when an output cannot be read; `Retry` when the brokers do not answer, `Invalid` when they refuse us.
pub(crate) fn audit_topics<'a>(
    control: &mut Control,
    outputs: &[AuditedOutput<'a>],
    scope: &AuditScope,
    by_now: impl FnOnce() -> Result<Vec<(Vec<u8>, Vec<u8>)>>,
) -> Result<TopicAudit> {
    let mut stored = Vec::new();
    for output in outputs {
        stored.push(StoredTransaction::decode(output.body)?);
    }
    let mut work = Work::new(outputs, &stored)?;
    work.own.learn(control, &stored, outputs)?;
    let topics: BTreeSet<&String> = match scope.whole {
        true => stored.iter().flat_map(|s| s.topics.iter().chain(s.ranges.iter().map(|r| &r.topic))).collect(),
        false => stored.iter().zip(outputs).filter(|(_, o)| o.chosen).flat_map(|(s, _)| s.ranges.iter().map(|r| &r.topic)).collect(),
    };
    let mut copies = Vec::new();
    for topic in topics {
        copies.extend(work.topic(control, topic, scope)?);
    }
    let mut audit = std::mem::take(&mut work.audit);
    for output in work.outputs.iter().filter(|output| output.chosen && output.fate != Fate::AcceptedLost) {
        match judge(output, &work.retentions, scope.now_ms) {
            Verdict::Proven => {
                audit.outputs += 1;
                audit.messages.merge(&output.found);
            }
            Verdict::Open => {}
            Verdict::DoubtfulAborted => audit.notes.push(format!(
                "the transaction of an output in doubt was aborted, of epoch {}: the job will call it lost, or write it again",
                output.epoch
            )),
            Verdict::Unproven(why) => *audit.unproven.entry(why.to_owned()).or_default() += 1,
            Verdict::Deviates(findings) => audit.findings.extend(findings),
        }
    }
    if !work.unnamed.is_empty() || !copies.is_empty() {
        let mut own = Own::default();
        let mut named = Vec::new();
        for (body, place) in by_now()? {
            let stored = StoredTransaction::decode(&body)?;
            own.producers.insert(stored.producer_id);
            named.push(output(Epoch(0), &stored, &place, Fate::InDoubt, false)?);
        }
        own.learn(control, &stored, outputs)?;
        let is_named = |span: &Span| named.iter().any(|output| span.is_of(output));
        work.unnamed.retain(|span| !is_named(span));
        audit.findings.extend(work.unnamed.iter().map(Span::finding));
        audit.findings.extend(copies.into_iter().filter_map(|copies| copies.finding(&own)));
    }
    Ok(audit)
}

struct Work {
    outputs: Vec<Output>,
    own: Own,
    retentions: BTreeMap<String, Retention>,
    unnamed: Vec<Span>,
    audit: TopicAudit,
}

fn output(epoch: Epoch, stored: &StoredTransaction, place: &[u8], fate: Fate, chosen: bool) -> Result<Output> {
    let (mut producer, mut ranges) = (stored.producer(), stored.ranges.clone());
    if !place.is_empty() {
        let rewritten = Rewritten::decode(place)?;
        (producer.id, producer.epoch, ranges) = (rewritten.producer_id, rewritten.producer_epoch, rewritten.ranges);
    }
    let places = match fate {
        // Should a transaction that was called lost be committed after all, no output names its messages.
        Fate::AcceptedLost => Vec::new(),
        Fate::Committed | Fate::InDoubt => {
            ranges.into_iter().map(|range| Place { range, found: 0, end: None, reading: Reading::Unread }).collect()
        }
    };
    let StoredTransaction { digest, oldest_ms, started_ms, .. } = *stored;
    Ok(Output { epoch, producer, fate, chosen, digest, oldest_ms, started_ms, places, found: Digest::default() })
}

impl Own {
    /// The producers that the coordinators know of this sink, beside those of the ledger. One that writes an output in doubt again is
    /// excused, as nothing records yet where.
    fn learn(&mut self, control: &mut Control, stored: &[StoredTransaction], outputs: &[AuditedOutput<'_>]) -> Result<()> {
        self.producers.extend(stored.iter().map(|s| s.producer_id));
        let Some(first) = stored.first() else { return Ok(()) };
        let prefix = Ids::prefix_of(&first.id);
        let in_doubt = stored.iter().zip(outputs).filter(|(_, output)| output.fate == Fate::InDoubt);
        let again: BTreeSet<String> = in_doubt.map(|(s, _)| Ids::of_again(&s.id, &s.mark.key)).collect();
        match control.list_transactions(prefix) {
            Ok(listed) => {
                for one in listed {
                    let known = if again.contains(&one.transactional_id) { &mut self.excused } else { &mut self.producers };
                    known.insert(one.producer_id);
                }
                Ok(())
            }
            // Whoever may only read topics need not be told of transactions.
            Err(error) if error.code() == codes::NOT_ALLOWED => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Work {
    fn new(outputs: &[AuditedOutput<'_>], stored: &[StoredTransaction]) -> Result<Work> {
        let (mut all, mut own) = (Vec::new(), Own::default());
        for (given, stored) in outputs.iter().zip(stored) {
            let mut output = output(given.epoch, stored, given.place, given.fate, given.chosen)?;
            output.digest = given.digest;
            own.producers.insert(output.producer.id);
            all.push(output);
        }
        Ok(Work { outputs: all, own, retentions: BTreeMap::new(), unnamed: Vec::new(), audit: TopicAudit::default() })
    }

    /// Reads what has to be read of a topic; messages of others that are equal to ours.
    fn topic(&mut self, control: &mut Control, topic: &str, scope: &AuditScope) -> Result<Option<Copies>> {
        let Some(found) = control.topic(topic)? else {
            self.mark(topic, None, Reading::Absent);
            return Ok(None);
        };
        let retention = retention(control, topic)?;
        self.retentions.insert(topic.to_owned(), retention);
        if retention.compacts {
            self.mark(topic, None, Reading::Compacted);
            return Ok(None);
        }
        let mut copies = (!scope.shared.contains(topic)).then(|| Copies::new(topic));
        let (mut foreign, mut hidden) = (0, 0);
        let mut partitions: BTreeSet<i32> = self.places(topic).map(|place| place.range.partition).collect();
        if scope.whole && copies.is_some() {
            partitions.extend(found.partitions.iter().map(|partition| partition.number));
        }
        for partition in &partitions {
            let seen = self.partition(control, topic, *partition, scope.whole && copies.is_some(), copies.as_mut())?;
            (foreign, hidden) = (foreign + seen.foreign, hidden + seen.hidden);
        }
        if foreign > 0 {
            self.audit.notes.push(format!("topic {topic}: {foreign} messages of other producers lie beside or between ours"));
        }
        if hidden > 0 {
            self.audit.notes.push(format!(
                "topic {topic}: {hidden} committed outputs are not visible yet, as a transaction of another producer is open before them"
            ));
        }
        let Some(mut copies) = copies.filter(|copies| !copies.is_empty()) else { return Ok(None) };
        loop {
            for partition in &partitions {
                self.compare(control, topic, *partition, &mut copies)?;
            }
            if !copies.next_part() {
                return Ok(Some(copies));
            }
            for partition in &partitions {
                self.partition(control, topic, *partition, scope.whole, Some(&mut copies))?;
            }
        }
    }

    fn places(&self, topic: &str) -> impl Iterator<Item = &Place> {
        self.outputs.iter().filter(|o| o.chosen).flat_map(|o| &o.places).filter(move |p| p.range.topic == topic)
    }

    /// The first and the last offset of chosen outputs in a partition; the last is before the first when there is none.
    fn span(&self, topic: &str, partition: i32) -> (i64, i64) {
        let mine = self.places(topic).filter(|place| place.range.partition == partition);
        mine.fold((i64::MAX, -1), |(first, last), place| (first.min(place.range.first), last.max(place.range.last)))
    }

    /// Sets how far places could be looked at, in a topic or in one partition of it.
    fn mark(&mut self, topic: &str, partition: Option<i32>, reading: Reading) {
        for place in self.outputs.iter_mut().flat_map(|o| &mut o.places) {
            if place.range.topic == topic && partition.is_none_or(|partition| place.range.partition == partition) {
                place.reading = reading;
            }
        }
    }

    fn partition(
        &mut self,
        control: &mut Control,
        topic: &str,
        partition: i32,
        whole: bool,
        mut copies: Option<&mut Copies>,
    ) -> Result<Seen> {
        let mut seen = Seen::default();
        let Some(extent) = control.extent(topic, partition)? else {
            self.mark(topic, Some(partition), Reading::Absent);
            return Ok(seen);
        };
        let is_again = copies.as_ref().is_some_and(|copies| copies.is_later_part());
        let own = self.own.clone();
        let mut rules = PartitionRules::new(topic, partition, &self.outputs, &own);
        let (first, last) = self.span(topic, partition);
        let from = if whole { extent.start } else { extent.start.max(first.min(extent.end)) };
        if !is_again {
            self.mark(topic, Some(partition), Reading::Read);
            delete(&mut self.outputs, topic, partition, extent.start, extent.start);
        }
        let mut reader = Reader::new(topic, partition, extent, from);
        let mut scratch = Vec::new();
        let outputs = &mut self.outputs;
        loop {
            let is_past =
                if whole { reader.offset >= reader.extent.end } else { reader.offset > last || reader.offset >= reader.extent.end };
            if is_past && (is_again || is_done(outputs, topic, partition) || reader.waits >= MARK_WAITS_MAX) {
                break;
            }
            let is_committed = reader.offset < reader.extent.stable;
            let step = reader.next(control, is_past, |batch, offset, is_aborted| {
                let found = &mut *outputs;
                let whose = if is_again { rules.whose(batch, found) } else { rules.take(batch, offset, found)? };
                let is_visible = match batch.part {
                    Part::Plain => true,
                    Part::Transaction => is_committed && !is_aborted,
                    Part::End(_) | Part::Mark => false,
                };
                if whose != Whose::Foreign || !is_visible {
                    return Ok(());
                }
                seen.foreign += batch.messages;
                let Some(copies) = copies.as_deref_mut() else { return Ok(()) };
                batch.each(|message| {
                    if message.offset >= offset {
                        message.digest_bytes(&mut scratch);
                        copies.add(&scratch, partition, message.offset, batch.producer.id);
                    }
                })
            })?;
            match step {
                Step::Read => {}
                Step::Deleted { from, start } => delete(outputs, topic, partition, from, start),
                Step::Unreadable { what } => {
                    self.audit.findings.push(unreadable(&reader, what));
                    unread(outputs, topic, partition, reader.offset);
                    break;
                }
            }
        }
        if !is_again {
            self.unnamed.append(&mut rules.unnamed);
            let stable = reader.extent.stable;
            seen.hidden =
                self.places(topic).filter(|p| p.range.partition == partition && p.end.is_some() && p.range.last >= stable).count();
        }
        Ok(seen)
    }

    /// Looks, among our messages in a partition, for those that others have written too.
    fn compare(&self, control: &mut Control, topic: &str, partition: i32, copies: &mut Copies) -> Result<()> {
        let (first, last) = self.span(topic, partition);
        let Some(extent) = control.extent(topic, partition)?.filter(|_| last >= 0) else { return Ok(()) };
        let rules = PartitionRules::new(topic, partition, &self.outputs, &self.own);
        let mut reader = Reader::new(topic, partition, extent, first.max(extent.start));
        let mut scratch = Vec::new();
        while reader.offset <= last && reader.offset < reader.extent.end {
            let step = reader.next(control, false, |batch, offset, _| {
                let (Part::Transaction, Whose::Named(output, place)) = (batch.part, rules.whose(batch, &self.outputs)) else {
                    return Ok(());
                };
                let Place { range, end: Some(Decision::Commit), .. } = &self.outputs[output].places[place] else { return Ok(()) };
                batch.each(|message| {
                    if message.offset >= offset.max(range.first) && message.offset <= range.last {
                        message.digest_bytes(&mut scratch);
                        copies.compare(&scratch, partition, message.offset);
                    }
                })
            })?;
            if let Step::Unreadable { .. } = step {
                break;
            }
        }
        Ok(())
    }
}

/// What else was seen in a partition.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Messages of other producers.
    foreign: u64,
    /// Outputs that are committed, and behind a transaction that is open.
    hidden: usize,
}

/// Whether there is nothing left to find out about the outputs in a partition.
fn is_done(outputs: &[Output], topic: &str, partition: i32) -> bool {
    let mut places = outputs.iter().filter(|o| o.chosen && o.fate == Fate::Committed).flat_map(|o| &o.places);
    places.all(|place| !place.range.is_in(topic, partition) || place.end.is_some() || place.reading == Reading::Deleted)
}

/// A partition begins at `start` and was read up to `from`: what lies between cannot be read any more.
fn delete(outputs: &mut [Output], topic: &str, partition: i32, from: i64, start: i64) {
    for place in outputs.iter_mut().flat_map(|o| &mut o.places).filter(|p| p.range.is_in(topic, partition)) {
        if place.range.first < start && (from == start || place.range.last >= from) {
            place.reading = Reading::Deleted;
        }
    }
}

fn unread(outputs: &mut [Output], topic: &str, partition: i32, from: i64) {
    for place in outputs.iter_mut().flat_map(|o| &mut o.places).filter(|p| p.range.is_in(topic, partition)) {
        if place.range.last >= from || place.end.is_none() {
            place.reading = Reading::Unread;
        }
    }
}

fn retention(control: &mut Control, topic: &str) -> Result<Retention> {
    let settings = match control.topic_settings(topic, &TOPIC_SETTINGS) {
        Ok(settings) => settings,
        Err(error) if error.kind() == ErrorKind::Invalid => return Ok(Retention::default()),
        Err(error) => return Err(error),
    };
    let text = |name: &str| settings.get(name).map(String::as_str).unwrap_or_default();
    let limit = |name: &str| text(name).parse::<i64>().ok().filter(|limit| *limit >= 0);
    let limits = Limits {
        ms: limit("retention.ms"),
        bytes: limit("retention.bytes"),
        by_arrival: text("message.timestamp.type") == "LogAppendTime",
    };
    Ok(Retention { compacts: text("cleanup.policy").contains("compact"), limits: Some(limits) })
}

fn unreadable(reader: &Reader<'_>, what: String) -> TopicFinding {
    let place = format!("topic={} partition={} offset={}", reader.topic, reader.partition, reader.offset);
    TopicFinding { deviation: Deviation::Unreadable, epoch: None, what, place }
}
