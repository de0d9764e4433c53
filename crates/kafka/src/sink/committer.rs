//! Commits transactions, tells what became of them, and writes lost ones again.
//!
//! Owns: the dealings with the coordinator of transactions for one sink. Does not own: the rules of a verdict and of a sweep
//! (`staunch_protocol::transaction::resolve`).

pub(super) mod confirm;

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext};
use staunch_api::{CommitPermit, Committable, Committer, Proof, Resolution, SinkContext, SweepScope, Swept, Term, no_copy};
use staunch_protocol::transaction::Identity;
use staunch_protocol::transaction::resolve::{self, MarkReading, Owner, Step, Sweep};
use staunch_types::{Digest, Error, ErrorKind, Generation, LedgerId, Result};

use super::batch::OutMessage;
use super::handle::{Handle, batch_bytes_max};
use super::stored::{MARKED, Rewritten, StoredTransaction};
use super::{Settings, mark};
use crate::codes;
use crate::control::{Control, Decision, Described, Ended, Transaction};
use crate::ids::{Ids, Of};
use confirm::{Committed, Outcome};

/// Bytes of a journal that are read at once.
const READ_BYTES: u64 = 1 << 20;
/// How long the last cleared marks may take, in steps.
const CLEAR_STEPS: usize = 500;
const CLEAR_STEP: Duration = Duration::from_millis(1);

/// Commits the transactions of one sink.
pub struct KafkaCommitter {
    settings: Settings,
    context: SinkContext,
    control: Control,
    clearing: Option<BaseProducer<Quiet>>,
    /// What the mark held that was looked for last; empty when none was.
    seen: Vec<u8>,
}

/// Hears nothing: a mark that is not cleared costs a little room, nothing else.
#[derive(Clone, Copy)]
struct Quiet;

impl ClientContext for Quiet {}

impl ProducerContext for Quiet {
    type DeliveryOpaque = ();

    fn delivery(&self, _result: &DeliveryResult<'_>, (): ()) {}
}

impl KafkaCommitter {
    pub(super) fn new(settings: Settings, context: SinkContext) -> Result<KafkaCommitter> {
        let control = settings.client.control()?;
        Ok(KafkaCommitter { settings, context, control, clearing: None, seen: Vec::new() })
    }

    fn step(&mut self, stored: &StoredTransaction) -> Result<Step> {
        let (next, seen) = step(&mut self.control, stored)?;
        self.seen = seen;
        Ok(next)
    }

    /// The proof of a commit that has come through to readers.
    fn confirmed(&mut self, committed: &Committed, text: &str, held: &[u8]) -> Result<Proof> {
        match committed.confirm(&mut self.control)? {
            Outcome::Through(note) => Ok(proof(format!("{text}{note}"), held)),
            Outcome::Forgotten(_, open) => Err(committed.forgotten(&open)),
        }
    }

    /// As [`Self::confirmed`], after forgotten markers were written.
    fn mended(&mut self, committed: &Committed, text: &str, held: &[u8]) -> Result<Proof> {
        match committed.confirm(&mut self.control)? {
            Outcome::Through(note) => Ok(proof(format!("{text}{note}"), held)),
            Outcome::Forgotten(next, open) => {
                committed.repair(&mut self.control, next, &open)?;
                let text = format!("{text}; forgotten markers were written: {}", confirm::in_words(&open));
                self.confirmed(committed, &text, held)
            }
        }
    }

    /// Writes the messages of a copy, to the topics that the sink had then, in a transaction of its own, which nobody else may have open, and
    /// commits it.
    fn write_again(&mut self, committable: &Committable, stored: &StoredTransaction) -> Result<Proof> {
        let copy = stored.copy.as_deref().ok_or_else(|| no_copy(committable))?;
        // Whoever else writes it again uses the same id; taking it over fences them.
        let id = Ids::of_again(&stored.id, &stored.mark.key);
        let batch = batch_bytes_max(&mut self.control, &stored.topics);
        let handle = Handle::take_over(&self.settings, id, batch)?;
        let (reading, held) = mark::look_for(&mut self.control, &stored.mark)?;
        match reading {
            MarkReading::There => return self.mended(&visible(stored, &held)?, &format!("mark={}", stored.mark.key), &held),
            MarkReading::Absent | MarkReading::NotAsked => {}
            MarkReading::PlaceGone { why } => return Err(unknowable(stored, &why)),
        }
        handle.begin()?;
        let (mut at, mut rest, mut digest, mut scratch) = (0, Vec::new(), Digest::default(), Vec::new());
        loop {
            let bytes = self.context.journal.read(copy, at, READ_BYTES)?.ok_or_else(|| no_copy(committable))?;
            if bytes.is_empty() {
                break;
            }
            at += bytes.len() as u64;
            rest.extend_from_slice(&bytes);
            let mut from = 0;
            while let Some((length, tail)) = rest[from..].split_first_chunk::<4>() {
                let length = u32::from_le_bytes(*length) as usize;
                let Some(message) = tail.get(..length) else { break };
                let message: OutMessage<'_> = postcard::from_bytes(message).map_err(|error| copy_changed(copy, &error.to_string()))?;
                message.digest_bytes(&mut scratch);
                digest.add(&scratch);
                handle.send(&stored.topics, &message)?;
                from += 4 + length;
            }
            rest.drain(..from);
        }
        if !rest.is_empty() || digest != stored.digest {
            return Err(copy_changed(copy, &format!("expected records={}, found records={}", stored.digest.records, digest.records)));
        }
        handle.drain()?;
        let rewritten = self.rewritten(&handle, &stored.topics)?;
        let place = rewritten.encode()?;
        handle.send_mark(&stored.mark.topic, &stored.mark.key, &place)?;
        handle.finish()?;
        let text = format!("written again from copy={copy} mark={} as {}", stored.mark.key, rewritten.describe());
        self.confirmed(&Committed::again(&rewritten), &text, &place)
    }

    /// Where the messages are that an open transaction of ours was just given.
    fn rewritten(&mut self, handle: &Handle, topics: &[String]) -> Result<Rewritten> {
        let described = self.control.describe_transaction(&handle.id)?;
        let Described::Known(Transaction { producer, .. }) = described else {
            let what = "the transaction that writes a lost one again is not known to its coordinator";
            return Err(Error::new(ErrorKind::Retry, codes::TRANSACTION_GONE, what).at(format!("transactional id={}", handle.id)));
        };
        let ranges = handle.deliveries.ranges(topics);
        Ok(Rewritten { id: handle.id.clone(), producer_id: producer.id, producer_epoch: producer.epoch, ranges })
    }

    fn ledger(&self) -> LedgerId {
        self.context.ledger.unwrap_or_default()
    }

    fn sweep_copies(&self, scope: &SweepScope, swept: &mut Swept) -> Result<()> {
        let kept: Vec<String> = scope
            .committables
            .iter()
            .map(|c| StoredTransaction::decode(&c.body))
            .filter_map(|s| s.map(|s| s.copy).transpose())
            .collect::<Result<_>>()?;
        let generation = |name: &str| name.strip_prefix('g')?.split_once('-')?.0.parse().ok().map(Generation);
        for name in self.context.journal.names()? {
            if generation(&name).is_some_and(|g| g < scope.generation) && !kept.contains(&name) {
                self.context.journal.remove(&name)?;
                swept.removed.push(format!("copy {name}"));
            }
        }
        Ok(())
    }
}

impl Drop for KafkaCommitter {
    fn drop(&mut self) {
        // A producer that is dropped forgets what it has not sent.
        let Some(producer) = &self.clearing else { return };
        for _ in 0..CLEAR_STEPS {
            if producer.in_flight_count() == 0 {
                return;
            }
            producer.poll(CLEAR_STEP);
        }
    }
}

impl Committer for KafkaCommitter {
    fn commit(&mut self, committable: &Committable, permit: &CommitPermit) -> Result<Proof> {
        let stored = StoredTransaction::decode(&committable.body)?;
        if committable.epoch > permit.epoch() {
            let what = format!("a permit of epoch={} was used for a transaction of epoch={}", permit.epoch(), committable.epoch);
            return Err(Error::new(ErrorKind::Bug, codes::KAFKA_BUG, what).at(format!("transactional id={}", stored.id)));
        }
        match self.step(&stored)? {
            Step::Committed { proof: text } => {
                let held = std::mem::take(&mut self.seen);
                self.confirmed(&visible(&stored, &held)?, &text, &held)
            }
            Step::Pending => match self.control.end_described(&stored.id, stored.identity(), Decision::Commit)? {
                Ended::AsAsked => {
                    let text = format!("EndTxn committed transactional id={} {}", stored.id, stored.producer());
                    self.confirmed(&Committed::of(&stored), &text, &[])
                }
                ended @ (Ended::NotOpen | Ended::Fenced | Ended::UnknownProducer) => Err(Error::new(
                    ErrorKind::Restart,
                    codes::TRANSACTION_GONE,
                    format!("a transaction was open and is not any more: {ended:?}"),
                )
                .at(stored.describe())
                .data("what became of it is found out next")
                .remedy("nothing: it is asked again")),
            },
            Step::Lost { evidence } => Err(lost(&stored, &evidence)),
            Step::AskMark | Step::AskAgain { .. } | Step::Unknowable { .. } => {
                Err(not_known(stored.describe(), "the transaction is between two phases"))
            }
        }
    }

    fn resolve(&mut self, committable: &Committable) -> Result<Resolution> {
        let stored = StoredTransaction::decode(&committable.body)?;
        match self.step(&stored)? {
            Step::Committed { proof: text } => {
                let held = std::mem::take(&mut self.seen);
                self.mended(&visible(&stored, &held)?, &text, &held).map(Resolution::Committed)
            }
            Step::Pending => Ok(Resolution::Pending),
            Step::Lost { evidence } => Ok(Resolution::Lost { evidence: format!("{evidence}: {}", stored.describe()) }),
            Step::AskMark => Err(not_known(stored.describe(), "the mark was not looked for")),
            Step::AskAgain { why } => Err(not_known(stored.describe(), &why)),
            Step::Unknowable { why } if self.context.accepts_lost => {
                Ok(Resolution::Lost { evidence: format!("nobody can know, and that is accepted: {why}: {}", stored.describe()) })
            }
            Step::Unknowable { why } => Err(unknowable(&stored, &why)),
        }
    }

    fn resend(&mut self, committable: &Committable, permit: &CommitPermit) -> Result<Proof> {
        let stored = StoredTransaction::decode(&committable.body)?;
        if committable.epoch > permit.epoch() {
            return self.commit(committable, permit);
        }
        self.write_again(committable, &stored)
    }

    fn forget(&mut self, committable: &Committable) -> Result<()> {
        let stored = StoredTransaction::decode(&committable.body)?;
        if let Some(copy) = &stored.copy {
            self.context.journal.remove(copy)?;
        }
        if self.clearing.is_none() {
            let producer = self.settings.clearing().create_with_context(Quiet).map_err(|error| codes::refused_setting(&error))?;
            self.clearing = Some(producer);
        }
        if let Some(producer) = &self.clearing {
            let record =
                BaseRecord::<[u8], [u8], ()>::to(&stored.mark.topic).key(stored.mark.key.as_bytes()).partition(stored.mark.partition);
            drop(producer.send(record));
            // Not waited for: the next commit would be late by as much, and `flush` takes 100 ms at least.
            producer.poll(Duration::ZERO);
        }
        Ok(())
    }

    fn term(committable: &Committable) -> Option<Term> {
        let StoredTransaction { started_ms, timeout_ms, .. } = StoredTransaction::decode(&committable.body).ok()?;
        Some(Term { began_ms: started_ms, ends_ms: started_ms.saturating_add(i64::from(timeout_ms)) })
    }

    fn sweep(&mut self, scope: &SweepScope) -> Result<Swept> {
        let mut swept = Swept::default();
        let mut kept: BTreeMap<String, Vec<Identity>> = BTreeMap::new();
        for committable in &scope.committables {
            let stored = StoredTransaction::decode(&committable.body)?;
            kept.entry(stored.id.clone()).or_default().push(stored.identity());
        }
        let ids = Ids::new(&self.context.job, &self.context.sink, self.ledger());
        let of_all = Ids::of_sink(&self.context.job, &self.context.sink);
        for listed in self.control.list_transactions(if self.context.takes_over { &of_all } else { ids.prefix() })? {
            let id = listed.transactional_id;
            let owner = match ids.owner(&id) {
                // Nobody knows which generations of it are over: a new process begins with the first one again.
                Of::Ours(Some(_)) if self.ledger().is_temporary() => Owner::Older,
                Of::Ours(generation) => Owner::of(generation, scope.generation, scope.swept),
                Of::Other(_) if self.context.takes_over => Owner::Older,
                Of::Other(_) | Of::Nobody => continue,
            };
            // Without a question to its coordinator.
            if !owner.is_swept(listed.phase.is_open()) {
                continue;
            }
            let described = self.control.describe_transaction(&id)?;
            if let Sweep::Fence(found) = resolve::sweep(owner, &described.found(), kept.get(&id).map_or(&[], Vec::as_slice)) {
                let is_fenced = self.control.fence_producer(&id, found.producer, self.settings.timeout_ms())?.is_some();
                if is_fenced && found.phase.is_open() {
                    let note = match (owner, &described) {
                        // Another process may have committed it since.
                        (Owner::Anybody | Owner::Newer, _) | (_, Described::Unknown) => String::new(),
                        (Owner::Swept | Owner::Older, Described::Known(known)) => confirm::mend_abort(&mut self.control, known)?,
                    };
                    swept.removed.push(format!("open transaction {id} {}{note}", found.producer));
                }
            }
        }
        self.sweep_copies(scope, &mut swept)?;
        Ok(swept)
    }
}

/// What became of a transaction, and what its mark holds if it was looked for.
pub(super) fn step(control: &mut Control, stored: &StoredTransaction) -> Result<(Step, Vec<u8>)> {
    let described = control.describe_transaction(&stored.id)?.found();
    let step = resolve::resolve(stored.identity(), &described, &MarkReading::NotAsked);
    if step != Step::AskMark {
        return Ok((step, Vec::new()));
    }
    // Only now: what is found is final once the coordinator's answer is about something else.
    let (reading, held) = mark::look_for(control, &stored.mark)?;
    Ok((resolve::resolve(stored.identity(), &described, &reading), held))
}

/// A proof; a mark that is not an ordinary one tells where the output is.
fn proof(text: String, held: &[u8]) -> Proof {
    Proof { text, place: if held == MARKED { Vec::new() } else { held.to_vec() } }
}

/// The transaction by which an output is visible, by what its mark holds, if it was looked for: another one, when it was written again.
pub(super) fn visible(stored: &StoredTransaction, held: &[u8]) -> Result<Committed> {
    if held.is_empty() || held == MARKED {
        return Ok(Committed::of(stored));
    }
    Rewritten::decode(held).map(|rewritten| Committed::again(&rewritten))
}

fn not_known(place: String, why: &str) -> Error {
    Error::new(ErrorKind::Retry, codes::NOT_KNOWN_YET, format!("it is not known yet what became of a prepared transaction: {why}"))
        .at(place)
        .data("nothing was decided: it is asked again")
        .remedy("nothing; if it goes on, see the brokers' logs")
}

fn unknowable(stored: &StoredTransaction, why: &str) -> Error {
    let what = format!("it cannot be known what became of a prepared transaction: {why}");
    Error::new(ErrorKind::Corrupt, codes::UNKNOWABLE, what)
        .at(stored.describe())
        .data("nothing was committed, aborted or written again")
        .remedy(
            "look for the offsets named above in the topics; then accept the loss with `--accept-lost SINK`, or restore another checkpoint",
        )
}

fn lost(stored: &StoredTransaction, evidence: &str) -> Error {
    Error::new(ErrorKind::Lost, codes::TRANSACTION_LOST, format!("a prepared transaction was not committed and cannot be: {evidence}"))
        .at(stored.describe())
        .data(format!("records={} of it are not visible", stored.digest.records))
        .remedy("give the sink a longer transaction timeout and a journal; to go on without these records, start with `--accept-lost SINK`")
}

fn copy_changed(copy: &str, what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, codes::COPY_CHANGED, format!("the copy of a lost transaction is not as it was written: {what}"))
        .at(format!("copy={copy}"))
        .data("nothing was made visible; the records are in no other place of ours")
        .remedy("bring an unchanged copy back, or accept the loss explicitly with `--accept-lost SINK`")
}
