//! Transactions of a broker with transactional ids: how a writing task uses them, and what became of one that was prepared.
//!
//! Owns: the words in which a transaction coordinator speaks, the ring of ids of a task, the verdict about a prepared transaction, which ids a
//! new generation takes away from older ones. Does not own: requests, records, topics; when something is committed (`commit`).
//!
//! In this module *coordinator* alone means the broker that decides about the transactions of an id. It tells transactions of one id apart by
//! their producer and by when they began: a producer that goes on after a commit has the same id and epoch as before.
//!
//! Follows the transactions of Kafka (KIP-98) as its older clients speak them.

pub mod ring;
pub mod resolve;

use std::fmt;

/// Who may write and end transactions under a transactional id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Producer {
    /// Its id.
    pub id: i64,
    /// Its epoch in the broker's sense: a higher one fences the lower.
    pub epoch: i16,
}

/// How far a transaction is, by the coordinator's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransactionPhase {
    /// The producer has begun none.
    Empty,
    /// Open.
    Ongoing,
    /// To be committed, beyond doubt; markers are being written.
    PrepareCommit,
    /// To be aborted, beyond doubt; markers are being written.
    PrepareAbort,
    /// Committed.
    CompleteCommit,
    /// Aborted.
    CompleteAbort,
    /// Being forgotten.
    Dead,
    /// About to be aborted, since its producer is being fenced.
    PrepareEpochFence,
}

impl TransactionPhase {
    /// Whether it is not decided yet, so that its records hold up readers.
    #[must_use]
    pub fn is_open(self) -> bool {
        match self {
            TransactionPhase::Ongoing | TransactionPhase::PrepareEpochFence => true,
            TransactionPhase::Empty
            | TransactionPhase::PrepareCommit
            | TransactionPhase::PrepareAbort
            | TransactionPhase::CompleteCommit
            | TransactionPhase::CompleteAbort
            | TransactionPhase::Dead => false,
        }
    }
}

/// Tells a transaction from every other of its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Who writes it.
    pub producer: Producer,
    /// When it began, by the coordinator's clock, in milliseconds since 1970-01-01 UTC.
    pub start_ms: i64,
}

/// The last transaction of a transactional id, as its coordinator describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Found {
    /// How far it is.
    pub phase: TransactionPhase,
    /// Whose it is.
    pub producer: Producer,
    /// When it began; none when none has begun.
    pub start_ms: Option<i64>,
}

/// What a coordinator knows about a transactional id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Described {
    /// Nothing: it was never used, or so long ago that it is forgotten.
    Unknown,
    /// Its last transaction.
    Known(Found),
}

/// What the partitions of a transaction that was decided say of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Markers {
    /// None of them has it open.
    Arrived,
    /// At least one has it open.
    Missing,
    /// None of those that may be asked has it open; some may not be asked.
    NotTold,
}

impl Found {
    /// Whether it is the transaction of this identity, untouched.
    #[must_use]
    pub fn is(&self, identity: Identity) -> bool {
        self.producer == identity.producer && self.start_ms == Some(identity.start_ms)
    }
}

impl fmt::Display for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "producer_id={} producer_epoch={}", self.id, self.epoch)
    }
}

impl fmt::Display for TransactionPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "phase={} {} ", self.phase, self.producer)?;
        match self.start_ms {
            Some(start) => write!(f, "start_ms={start}"),
            None => f.write_str("start_ms=none"),
        }
    }
}
