//! The job's ledger: one gapless sequence of entries that is at once the fence, the list of durable epochs and the audit chain.
//!
//! Owns: the claim of a generation, the order of appends, and the knowledge whether each is there. Does not own: the entries' bytes, their
//! hash chain, or the store. Requests come from the checkpoint and commit machines; effects go to the checkpoint store, whose only
//! primitive used here is "create this object if there is none".
//!
//! Invariants:
//! 1. An entry is created at head + 1 by a conditional write, one at a time; nothing is overwritten and nothing is removed.
//! 2. A generation's first entry is its claim, so an older generation's next slot is taken by a claim: it cannot append (E4).
//! 3. An append whose answer was lost is done, or another's, or repeated, never given up: what could still arrive is never
//!    treated as absent.
//! 4. After another's entry was found in the slot, nothing is appended any more.
//!
//! The decision and its reasons: `docs/decisions/0002-one-ledger-is-fence-and-truth.md`.

mod entry;
mod facts;

use std::collections::VecDeque;
use std::time::Duration;

use staunch_types::{ErrorKind, Generation, LedgerSeq, Tick};

use crate::mutation::{Mutation, broken};
use crate::{Count, OpId};

pub use entry::{Claimant, Entry, Origin};
pub use facts::{DurableEpoch, Facts, holds_all_facts};

/// Entries that wait for their turn at most: one seal, one record for each uncommitted epoch, and the end.
pub const QUEUE_MAX: usize = 1_024;

/// How often and how fast the ledger tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Tries of one entry before it is reported as refused or, when in doubt, as unknown.
    pub attempts_max: u32,
    /// Lost races for a claim before the start is given up.
    pub claims_max: u32,
    /// Wait before the second try; doubles with each further one.
    pub backoff_first: Duration,
    /// Longest wait.
    pub backoff_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { attempts_max: 8, claims_max: 16, backoff_first: Duration::from_millis(100), backoff_max: Duration::from_secs(5) }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Claim a generation now. Once.
    ClaimRequested,
    /// Append an entry when its turn comes. Only after the claim.
    AppendRequested(Entry),
    /// The store answered.
    Answered {
        /// The effect's id.
        op: OpId,
        /// The answer.
        answer: Answer,
    },
    /// The deadline has passed.
    TimePassed,
}

/// What the store answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// To an append: created.
    Appended,
    /// To an append: the slot is taken.
    Conflicted,
    /// To an append: it may or may not have happened, now or later: a timeout, a broken connection.
    Unanswered,
    /// To an append: it has not happened and will not happen.
    Refused {
        /// `Retry` is tried again; everything else is reported at once.
        kind: ErrorKind,
    },
    /// To a read-back.
    Found(Found),
    /// To a read-back or a reload: no answer.
    ReadFailed,
    /// To a reload: the ledger as it is now, and what the job would be restored from.
    Reloaded {
        /// The ledger.
        facts: Facts,
        /// What to restore from.
        origin: Origin,
    },
}

/// What is in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Found {
    /// Exactly the bytes of the entry being appended.
    Own,
    /// Something else.
    Other,
    /// Nothing.
    Absent,
}

/// What must be done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Create the entry if its slot is free. A repeated append of an entry must have exactly the same bytes.
    Append {
        /// Ties to [`Event::Answered`].
        op: OpId,
        /// The slot.
        seq: LedgerSeq,
        /// The entry.
        entry: Entry,
    },
    /// Read the slot and compare it with the entry being appended.
    ReadBack {
        /// Ties to [`Event::Answered`].
        op: OpId,
        /// The slot.
        seq: LedgerSeq,
    },
    /// The claim's slot was taken: read the ledger again, choose again what to restore from.
    Reload {
        /// Ties to [`Event::Answered`].
        op: OpId,
    },
    /// The generation is ours; the facts include the claim.
    Claimed {
        /// The ledger up to and including the claim.
        facts: Facts,
    },
    /// The entry is there.
    Appended {
        /// The entry.
        entry: Entry,
    },
    /// The entry is not there and will not be.
    Refused {
        /// The entry.
        entry: Entry,
        /// Why.
        kind: ErrorKind,
    },
    /// Whether the entry is there could not be found out: only a new claim can settle it.
    Unknown {
        /// The entry.
        entry: Entry,
    },
    /// A newer generation exists: stop, touch nothing.
    Fenced,
}

/// The ledger as one claimant sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ledger {
    limits: Limits,
    claimant: Claimant,
    origin: Origin,
    /// The facts to claim upon; `None` once claimed.
    unclaimed: Option<Facts>,
    generation: Generation,
    head: LedgerSeq,
    queue: VecDeque<Entry>,
    phase: Phase,
    /// Tries of the entry in flight.
    tries: u32,
    /// Whether an append of the entry in flight may still arrive.
    in_doubt: bool,
    claims_lost: u32,
    last_op: OpId,
    stale: Count,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Appending { op: OpId, entry: Entry },
    ReadingBack { op: OpId, entry: Entry },
    Waiting { until: Tick, next: Next },
    Reloading { op: OpId },
    Closed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Next {
    Append(Entry),
    ReadBack(Entry),
    Reload,
}

impl Ledger {
    /// A ledger that was read and is not claimed yet.
    #[must_use]
    pub fn recover(facts: Facts, origin: Origin, claimant: Claimant, limits: Limits) -> Ledger {
        Ledger {
            limits,
            claimant,
            origin,
            generation: facts.generation,
            head: facts.head,
            unclaimed: Some(facts),
            queue: VecDeque::new(),
            phase: Phase::Idle,
            tries: 0,
            in_doubt: false,
            claims_lost: 0,
            last_op: OpId::default(),
            stale: Count::default(),
        }
    }

    /// Takes one event.
    ///
    /// # Panics
    /// On a second claim, an append before the claim, or an answer that does not fit its effect.
    pub fn step(&mut self, now: Tick, event: Event, out: &mut Vec<Effect>) {
        match event {
            Event::ClaimRequested => {
                assert!(self.unclaimed.is_some() && self.phase == Phase::Idle, "a ledger is claimed once");
                self.claim(out);
            }
            Event::AppendRequested(entry) => self.requested(entry, out),
            Event::Answered { op, answer } => self.answered(now, op, answer, out),
            Event::TimePassed => self.time_passed(now, out),
        }
    }

    /// When a repeated try is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Tick> {
        match &self.phase {
            Phase::Waiting { until, .. } => Some(*until),
            Phase::Idle | Phase::Appending { .. } | Phase::ReadingBack { .. } | Phase::Reloading { .. } | Phase::Closed => None,
        }
    }

    /// The newest entry known.
    #[must_use]
    pub fn head(&self) -> LedgerSeq {
        self.head
    }

    /// The generation claimed, or the newest found while there is none.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Answers that belonged to no open effect.
    #[must_use]
    pub fn stale_events(&self) -> u64 {
        self.stale.get()
    }

    fn claim(&mut self, out: &mut Vec<Effect>) {
        let last = self.generation;
        let generation = if broken(Mutation::ReclaimGeneration) { Generation(last.0.max(1)) } else { Generation(last.0 + 1) };
        let entry = Entry::Claimed { generation, claimant: self.claimant, origin: self.origin };
        self.begin(entry, out);
    }

    fn requested(&mut self, entry: Entry, out: &mut Vec<Effect>) {
        if self.phase == Phase::Closed {
            return;
        }
        assert!(self.unclaimed.is_none(), "nothing is appended before the claim: entry={entry:?}");
        assert!(self.queue.len() < QUEUE_MAX, "more than {QUEUE_MAX} entries wait for the ledger");
        self.queue.push_back(entry);
        self.next(out);
    }

    fn next(&mut self, out: &mut Vec<Effect>) {
        if self.phase == Phase::Idle
            && let Some(entry) = self.queue.pop_front()
        {
            self.begin(entry, out);
        }
    }

    fn begin(&mut self, entry: Entry, out: &mut Vec<Effect>) {
        self.tries = 0;
        self.in_doubt = false;
        self.append(entry, out);
    }

    fn append(&mut self, entry: Entry, out: &mut Vec<Effect>) {
        self.tries += 1;
        let op = self.last_op.take();
        out.push(Effect::Append { op, seq: self.head.next(), entry: entry.clone() });
        self.phase = Phase::Appending { op, entry };
    }

    fn read_back(&mut self, entry: Entry, out: &mut Vec<Effect>) {
        let op = self.last_op.take();
        out.push(Effect::ReadBack { op, seq: self.head.next() });
        self.phase = Phase::ReadingBack { op, entry };
    }

    fn answered(&mut self, now: Tick, op: OpId, answer: Answer, out: &mut Vec<Effect>) {
        match std::mem::replace(&mut self.phase, Phase::Closed) {
            Phase::Appending { op: open, entry } if open == op => self.append_answered(now, entry, answer, out),
            Phase::ReadingBack { op: open, entry } if open == op => self.read_back_answered(now, entry, answer, out),
            Phase::Reloading { op: open } if open == op => self.reload_answered(now, answer, out),
            other => {
                self.phase = other;
                self.stale.add_one();
            }
        }
    }

    fn append_answered(&mut self, now: Tick, entry: Entry, answer: Answer, out: &mut Vec<Effect>) {
        match answer {
            Answer::Appended => self.done(entry, out),
            // The slot may hold this very entry: a client below the store repeats requests too.
            Answer::Conflicted => self.read_back(entry, out),
            Answer::Unanswered if broken(Mutation::TrustLostAnswer) => self.done(entry, out),
            Answer::Unanswered => {
                self.in_doubt = true;
                self.read_back(entry, out);
            }
            Answer::Refused { kind } => self.refused(now, entry, kind, out),
            Answer::Found(_) | Answer::ReadFailed | Answer::Reloaded { .. } => panic!("answer={answer:?} does not fit an append"),
        }
    }

    fn refused(&mut self, now: Tick, entry: Entry, kind: ErrorKind, out: &mut Vec<Effect>) {
        let again = kind == ErrorKind::Retry || self.in_doubt;
        if again && self.tries < self.limits.attempts_max {
            self.wait(now, Next::Append(entry));
        } else {
            self.give_up(entry, kind, out);
        }
    }

    fn read_back_answered(&mut self, now: Tick, entry: Entry, answer: Answer, out: &mut Vec<Effect>) {
        match answer {
            Answer::Found(Found::Own) => self.done(entry, out),
            Answer::Found(Found::Other) if broken(Mutation::IgnoreConflict) => self.done(entry, out),
            Answer::Found(Found::Other) => self.lost_the_slot(now, out),
            Answer::Found(Found::Absent) if broken(Mutation::GiveUpDoubtful) => {
                self.in_doubt = false;
                self.give_up(entry, ErrorKind::Retry, out);
            }
            Answer::Found(Found::Absent) if self.tries < self.limits.attempts_max => self.wait(now, Next::Append(entry)),
            Answer::ReadFailed if self.tries < self.limits.attempts_max => {
                self.tries += 1;
                self.wait(now, Next::ReadBack(entry));
            }
            Answer::Found(Found::Absent) | Answer::ReadFailed => self.give_up(entry, ErrorKind::Retry, out),
            Answer::Appended | Answer::Conflicted | Answer::Unanswered | Answer::Refused { .. } | Answer::Reloaded { .. } => {
                panic!("answer={answer:?} does not fit a read-back")
            }
        }
    }

    fn reload_answered(&mut self, now: Tick, answer: Answer, out: &mut Vec<Effect>) {
        match answer {
            Answer::Reloaded { facts, origin } => {
                self.head = facts.head;
                self.generation = facts.generation;
                self.origin = origin;
                self.unclaimed = Some(facts);
                self.claim(out);
            }
            Answer::ReadFailed => self.lost_the_slot(now, out),
            Answer::Appended | Answer::Conflicted | Answer::Unanswered | Answer::Refused { .. } | Answer::Found(_) => {
                panic!("answer={answer:?} does not fit a reload")
            }
        }
    }

    fn done(&mut self, entry: Entry, out: &mut Vec<Effect>) {
        self.head = self.head.next();
        self.phase = Phase::Idle;
        match (self.unclaimed.take(), &entry) {
            (Some(mut facts), Entry::Claimed { generation, .. }) => {
                self.generation = *generation;
                facts.claim(self.head, *generation, self.origin);
                out.push(Effect::Claimed { facts });
            }
            (None, _) => out.push(Effect::Appended { entry }),
            (Some(_), _) => panic!("the first append is the claim"),
        }
        self.next(out);
    }

    /// Another's entry is in the slot. Before the claim that is a lost race, and the last claimant wins: whoever claimed first is fenced
    /// by it and stops, so two never claim in turns. After the claim it is the fence.
    fn lost_the_slot(&mut self, now: Tick, out: &mut Vec<Effect>) {
        if self.unclaimed.is_none() {
            self.close();
            out.push(Effect::Fenced);
            return;
        }
        self.claims_lost += 1;
        if self.claims_lost > self.limits.claims_max {
            self.close();
            let entry = Entry::Claimed { generation: self.generation, claimant: self.claimant, origin: self.origin };
            out.push(Effect::Unknown { entry });
        } else if self.claims_lost == 1 {
            self.reload(out);
        } else {
            self.tries = self.claims_lost;
            self.wait(now, Next::Reload);
        }
    }

    fn reload(&mut self, out: &mut Vec<Effect>) {
        let op = self.last_op.take();
        out.push(Effect::Reload { op });
        self.phase = Phase::Reloading { op };
    }

    fn give_up(&mut self, entry: Entry, kind: ErrorKind, out: &mut Vec<Effect>) {
        if self.in_doubt {
            self.close();
            out.push(Effect::Unknown { entry });
        } else {
            self.phase = Phase::Idle;
            out.push(Effect::Refused { entry, kind });
            self.next(out);
        }
    }

    fn wait(&mut self, now: Tick, next: Next) {
        let until = now + crate::ids::backoff(self.limits.backoff_first, self.limits.backoff_max, self.tries);
        self.phase = Phase::Waiting { until, next };
    }

    fn time_passed(&mut self, now: Tick, out: &mut Vec<Effect>) {
        if self.deadline().is_none_or(|until| now < until) {
            return;
        }
        if let Phase::Waiting { next, .. } = std::mem::replace(&mut self.phase, Phase::Closed) {
            match next {
                Next::Append(entry) => self.append(entry, out),
                Next::ReadBack(entry) => self.read_back(entry, out),
                Next::Reload => self.reload(out),
            }
        }
    }

    fn close(&mut self) {
        self.phase = Phase::Closed;
        self.queue.clear();
    }
}
