//! Commits transactions at the simulated broker, tells what became of them, and writes lost ones again.
//!
//! Owns: the dealings with the broker. Does not own: the rules of a verdict and of a sweep (`staunch_protocol::transaction::resolve`).

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use staunch_api::{CommitPermit, Committable, Committer, Proof, Resolution, SinkContext, SweepScope, Swept, no_copy};
use staunch_protocol::transaction::resolve::{self, Confirm, MarkReading, Owner, Step, Sweep};
use staunch_protocol::transaction::{Described, Found, Identity, Producer, TransactionPhase};
use staunch_types::{Digest, Error, ErrorKind, Generation, Result};

use super::{AGAIN, BrokenDriver, StoredTransaction, TopicSink, mark_topic, not_done, prefix};
use crate::kernel::{Answer, Body, Decision, Place, Refusal};

/// Bytes of a journal that are read at once.
const READ_BYTES: u64 = 1 << 16;
/// Looks at partitions whose markers may be on their way, and the first and longest wait between two.
const LOOKS_MAX: u32 = 40;
const WAIT_FIRST: Duration = Duration::from_micros(200);
const WAIT_MAX: Duration = Duration::from_millis(100);

/// See the module.
pub struct TopicCommitter {
    sink: TopicSink,
    context: SinkContext,
}

impl TopicCommitter {
    pub(super) fn new(sink: TopicSink, context: SinkContext) -> TopicCommitter {
        TopicCommitter { sink, context }
    }

    fn step(&self, stored: &StoredTransaction) -> Result<Step> {
        let mut described = self.describe(&stored.id)?;
        if let (Described::Known(found), true) = (&mut described, self.sink.settings.breaks(BrokenDriver::CommitsUnseen)) {
            found.start_ms = Some(stored.identity.start_ms);
        }
        let step = resolve::resolve(stored.identity, &described, &MarkReading::NotAsked);
        if step != Step::AskMark {
            return Ok(step);
        }
        // Only now: what is found is final once the coordinator's answer is about something else.
        Ok(resolve::resolve(stored.identity, &described, &self.mark(stored)?))
    }

    fn end(&self, stored: &StoredTransaction) -> Answer<()> {
        if self.sink.settings.breaks(BrokenDriver::RepeatsUnseen) {
            return self.sink.broker.end(&stored.id, stored.identity.producer, Decision::Commit);
        }
        self.sink.broker.end_described(&stored.id, stored.identity, Decision::Commit)
    }

    /// Waits until readers get past a committed transaction, or nobody will write what keeps them from it.
    fn confirm(&self, stored: &StoredTransaction) -> Result<Confirm> {
        if self.sink.settings.breaks(BrokenDriver::CommitsUnconfirmed) {
            return Ok(Confirm::Confirmed);
        }
        let mut wait = WAIT_FIRST;
        for _ in 0..LOOKS_MAX {
            // In this order: what is missing after the coordinator has done is forgotten.
            let described = self.describe(&stored.id)?;
            let markers = self.sink.broker.markers(&stored.id, stored.identity.producer, &stored.places);
            let markers = markers.map_err(|error| unanswered("tell of markers", &stored.id, &error))?;
            match resolve::confirm(stored.identity.producer, &described, markers) {
                Confirm::AskAgain => self.sink.broker.wait(wait),
                known @ (Confirm::Confirmed | Confirm::Unconfirmed | Confirm::Forgotten(_)) => return Ok(known),
            }
            wait = (wait * 2).min(WAIT_MAX);
        }
        Ok(Confirm::AskAgain)
    }

    /// The proof of a commit, when it has come through.
    fn confirmed(&self, stored: &StoredTransaction, proof: Proof) -> Result<Proof> {
        match self.confirm(stored)? {
            Confirm::Confirmed | Confirm::Unconfirmed => Ok(proof),
            Confirm::AskAgain => Err(not_known(stored, "its markers are being written")),
            Confirm::Forgotten(_) => Err(Error::new(ErrorKind::Restart, "sim-unmarked", "markers are forgotten").at(stored.describe())),
        }
    }

    /// Writes the markers that are forgotten.
    fn repair(&self, stored: &StoredTransaction, next: Producer) -> Result<()> {
        for (place, _) in &stored.places {
            let written = self.sink.broker.write_marker(&stored.id, next, place);
            written.map_err(|error| unanswered("write a marker", &stored.id, &error))?;
        }
        Ok(())
    }

    fn describe(&self, id: &str) -> Result<Described> {
        self.sink.broker.describe(id).map_err(|error| unanswered("describe a transaction", id, &error))
    }

    fn mark_place(&self) -> Place {
        Place { topic: mark_topic(&self.context.job), partition: 0 }
    }

    fn mark(&self, stored: &StoredTransaction) -> Result<MarkReading> {
        let is_there = self.sink.broker.has_mark(&self.mark_place(), stored.mark_offset, &stored.mark);
        let is_there = is_there.map_err(|error| unanswered("show the marks", &stored.id, &error))?;
        Ok(if is_there { MarkReading::There } else { MarkReading::Absent })
    }

    /// Writes the records of a copy in a transaction of its own, which nobody else may have open, and commits it.
    fn write_again(&self, committable: &Committable, stored: &StoredTransaction) -> Result<Proof> {
        let copy = stored.copy.as_deref().ok_or_else(|| no_copy(committable))?;
        // Whoever else writes it again uses the same id; taking it over fences them.
        let id = format!("{}{AGAIN}{}", prefix(&self.context.job, &self.context.sink), stored.mark);
        let producer = done("give the id", &id, self.sink.broker.take_over(&id, None, self.sink.settings.timeout))?;
        match self.mark(stored)? {
            _ if self.sink.settings.breaks(BrokenDriver::ResendsUnseen) => {}
            MarkReading::There => return Ok(Proof::seen(format!("mark={}", stored.mark))),
            MarkReading::Absent | MarkReading::NotAsked => {}
            MarkReading::PlaceGone { why } => return Err(unknowable(stored, &why)),
        }
        let mut digest = Digest::default();
        let mut number = 0;
        for line in self.copied(copy)?.ok_or_else(|| no_copy(committable))?.lines() {
            digest.add(line.as_bytes());
            number += 1;
            let partition = number as u32 % self.sink.settings.partitions;
            let place = Place { topic: self.sink.topic.clone(), partition };
            done("take a record", &id, self.sink.broker.send(&id, producer, &place, number, &Body::Line(line.to_owned())))?;
        }
        if digest != committable.digest {
            return Err(Error::new(ErrorKind::Corrupt, "sim-copy", format!("copy {copy} has another digest than its transaction")));
        }
        let mark = Body::Mark(stored.mark.clone());
        done("take the mark", &id, self.sink.broker.send(&id, producer, &self.mark_place(), number + 1, &mark))?;
        done("commit", &id, self.sink.broker.end(&id, producer, Decision::Commit))?;
        Ok(Proof::seen(format!("written again from copy={copy} mark={}", stored.mark)))
    }

    fn copied(&self, copy: &str) -> Result<Option<String>> {
        let mut bytes = Vec::new();
        loop {
            let Some(more) = self.context.journal.read(copy, bytes.len() as u64, READ_BYTES)? else { return Ok(None) };
            if more.is_empty() {
                return Ok(Some(String::from_utf8_lossy(&bytes).into_owned()));
            }
            bytes.extend_from_slice(&more);
        }
    }

    fn sweep_copies(&self, scope: &SweepScope, swept: &mut Swept) -> Result<()> {
        let kept = scope.committables.iter().map(|committable| Ok(StoredTransaction::decode(&committable.body)?.copy));
        let kept: Vec<Option<String>> = kept.collect::<Result<_>>()?;
        for name in self.context.journal.names()? {
            if generation_of(&name).is_some_and(|g| g < scope.generation) && !kept.contains(&Some(name.clone())) {
                self.context.journal.remove(&name)?;
                swept.removed.push(format!("copy {name}"));
            }
        }
        Ok(())
    }

    fn to_fence(&self, owner: Owner, id: &str, kept: &[Identity]) -> Result<Option<Found>> {
        let described = self.describe(id)?;
        let kept = if self.sink.settings.breaks(BrokenDriver::SweepsAll) { &[] } else { kept };
        match resolve::sweep(owner, &described, kept) {
            Sweep::Fence(found) => Ok(Some(found)),
            Sweep::Nothing | Sweep::Leave => Ok(None),
        }
    }
}

impl Committer for TopicCommitter {
    fn commit(&mut self, committable: &Committable, permit: &CommitPermit) -> Result<Proof> {
        let stored = StoredTransaction::decode(&committable.body)?;
        assert!(committable.epoch <= permit.epoch(), "a permit of epoch={} was used for {}", permit.epoch(), stored.describe());
        match self.step(&stored)? {
            Step::Committed { proof } => self.confirmed(&stored, Proof::seen(proof)),
            Step::Pending => match self.end(&stored) {
                Ok(Ok(())) => self.confirmed(&stored, Proof::seen(format!("committed {}", stored.describe()))),
                // A commit that is under way is decided.
                Ok(Err(Refusal::Concurrent)) => Err(not_known(&stored, "a decision is under way")),
                Ok(Err(refusal)) => {
                    let what = format!("a transaction was open and is not any more: {refusal:?}");
                    Err(Error::new(ErrorKind::Restart, "sim-gone", what).at(stored.describe()))
                }
                Err(error) => Err(unanswered("commit", &stored.id, &error)),
            },
            Step::Lost { evidence } => Err(lost(&stored, &evidence)),
            Step::AskMark | Step::AskAgain { .. } | Step::Unknowable { .. } => Err(not_known(&stored, "it is between two phases")),
        }
    }

    fn resolve(&mut self, committable: &Committable) -> Result<Resolution> {
        let stored = StoredTransaction::decode(&committable.body)?;
        match self.step(&stored)? {
            Step::Committed { proof } => {
                if let Confirm::Forgotten(next) = self.confirm(&stored)? {
                    self.repair(&stored, next)?;
                }
                self.confirmed(&stored, Proof::seen(proof)).map(Resolution::Committed)
            }
            Step::Pending => Ok(Resolution::Pending),
            Step::Lost { evidence } => Ok(Resolution::Lost { evidence: format!("{evidence}: {}", stored.describe()) }),
            Step::AskMark => Err(not_known(&stored, "the mark was not looked for")),
            Step::AskAgain { why } => Err(not_known(&stored, &why)),
            Step::Unknowable { why } => Err(unknowable(&stored, &why)),
        }
    }

    fn resend(&mut self, committable: &Committable, permit: &CommitPermit) -> Result<Proof> {
        let stored = StoredTransaction::decode(&committable.body)?;
        assert!(committable.epoch <= permit.epoch(), "a permit of epoch={} was used for {}", permit.epoch(), stored.describe());
        self.write_again(committable, &stored)
    }

    fn forget(&mut self, committable: &Committable) -> Result<()> {
        let stored = StoredTransaction::decode(&committable.body)?;
        if let Some(copy) = &stored.copy {
            self.context.journal.remove(copy)?;
        }
        self.sink.broker.clear(&self.mark_place(), &stored.mark);
        Ok(())
    }

    fn sweep(&mut self, scope: &SweepScope) -> Result<Swept> {
        let mut swept = Swept::default();
        let mut kept: BTreeMap<String, Vec<Identity>> = BTreeMap::new();
        for committable in &scope.committables {
            let stored = StoredTransaction::decode(&committable.body)?;
            kept.entry(stored.id.clone()).or_default().push(stored.identity);
        }
        let prefix = prefix(&self.context.job, &self.context.sink);
        for id in self.sink.broker.list(&prefix).map_err(|error| unanswered("list ids", &prefix, &error))? {
            let owner = Owner::of(generation_of(id.strip_prefix(&prefix).unwrap_or(&id)), scope.generation, scope.swept);
            let Some(found) = self.to_fence(owner, &id, kept.get(&id).map_or(&[], Vec::as_slice))? else { continue };
            match self.sink.broker.take_over(&id, Some(found.producer), self.sink.settings.timeout) {
                Ok(Ok(_) | Err(Refusal::Fenced | Refusal::UnknownProducer)) if found.phase == TransactionPhase::Ongoing => {
                    swept.removed.push(format!("open transaction {id} {}", found.producer));
                }
                Ok(Ok(_) | Err(Refusal::Fenced | Refusal::UnknownProducer)) => {}
                Ok(Err(refusal)) => return Err(unanswered("take an id away", &id, &io::Error::other(format!("{refusal:?}")))),
                Err(error) => return Err(unanswered("take an id away", &id, &error)),
            }
        }
        self.sweep_copies(scope, &mut swept)?;
        Ok(swept)
    }
}

/// The generation that a name begins with; none for the id of lost output that is written again.
fn generation_of(own: &str) -> Option<Generation> {
    own.strip_prefix('g')?.split_once('-')?.0.parse().ok().map(Generation)
}

/// The answer of a broker that has one.
fn done<T>(what: &str, id: &str, answer: Answer<T>) -> Result<T> {
    match answer {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(refusal)) => Err(not_done(what, id, &Ok(refusal))),
        Err(error) => Err(not_done(what, id, &Err(error))),
    }
}

fn unanswered(what: &str, id: &str, error: &io::Error) -> Error {
    Error::new(ErrorKind::Retry, "sim-unanswered", format!("the broker did not {what}: {error}")).at(format!("id={id}"))
}

fn not_known(stored: &StoredTransaction, why: &str) -> Error {
    Error::new(ErrorKind::Retry, "sim-not-known", format!("it is not known yet what became of a transaction: {why}")).at(stored.describe())
}

fn unknowable(stored: &StoredTransaction, why: &str) -> Error {
    Error::new(ErrorKind::Corrupt, "sim-unknowable", format!("it cannot be known what became of a transaction: {why}"))
        .at(stored.describe())
}

fn lost(stored: &StoredTransaction, evidence: &str) -> Error {
    Error::new(ErrorKind::Lost, "sim-lost", format!("a prepared transaction was not committed and cannot be: {evidence}"))
        .at(stored.describe())
}
