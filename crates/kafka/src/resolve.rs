//! What became of a prepared transaction: rules without I/O.
//!
//! Owns: the verdict from what the coordinator describes and what the token says; what a token holds. Does not own: asking them, ending
//! the transaction, what is done about a loss.
//!
//! Asked in this order: first the coordinator, then, if its answer leaves it open, the token. When the coordinator's answer is no longer
//! about this transaction, this transaction has ended, so a token read after that answer is final.
//!
//! Invariants:
//! 1. *Pending* is said only of the very transaction that was prepared: same producer id, epoch and start. An older one of the same handle
//!    has the same id and epoch, and ending "it" would commit the newer one, half written.
//! 2. *Committed* is said only when the coordinator says so of this transaction, or the token is its own.
//! 3. *Lost* is said only when the coordinator says that this transaction was aborted, or that it has ended and the token, which the group
//!    still has to remember, is not its own.
//! 4. All else is asked again, or is said to be unknowable; nothing is guessed.

use std::fmt;

use staunch_types::{Epoch, Generation};

use crate::control::{Described, Producer, Token, TokenAnswer, Transaction, TransactionPhase};

/// By how much clocks may differ before an age says nothing.
const CLOCK_MARGIN_MS: i64 = 3_600_000;
/// The version of a token's text.
const TOKEN_VERSION: &str = "1";

/// The transaction of a committable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreparedTransaction {
    /// Who wrote it.
    pub producer: Producer,
    /// When it began, as the coordinator described it when it was prepared.
    pub start_ms: i64,
    /// What its token holds.
    pub mark: TokenMark,
}

/// What a token holds: which output it vouches for. Under one transactional id, later transactions have greater marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenMark {
    /// The generation that wrote the output first; output that is sent again keeps it.
    pub generation: Generation,
    /// The epoch.
    pub epoch: Epoch,
}

/// What is known of the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenReading {
    /// It was not asked for yet.
    NotAsked,
    /// It was asked for after the coordinator had answered.
    Answered {
        /// The answer.
        answer: TokenAnswer,
        /// What it would mean that there is none.
        absence: Absence,
    },
}

/// What it means that a group has no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// It was never committed: the group would still know it.
    Proves,
    /// Nothing: a token as old as this one may be forgotten.
    ProvesNothing,
}

/// What to do next, or what is certain. The texts are for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is decided that all is visible.
    Committed {
        /// What was seen.
        proof: String,
    },
    /// It is open, complete, and can be committed.
    Pending,
    /// It was not committed and never will be.
    Lost {
        /// What was seen.
        evidence: String,
    },
    /// The token decides.
    AskToken,
    /// A decision is under way: ask the coordinator again after a while. When a newer transaction of the same id is open and no checkpoint
    /// names it, it has to be aborted first.
    AskAgain {
        /// What is waited for.
        why: String,
    },
    /// The brokers do not know any more; a person has to look.
    Unknowable {
        /// What was seen.
        why: String,
    },
}

/// What a description is about, seen from the prepared transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    /// This transaction.
    This,
    /// This transaction, with its producer's epoch raised by the broker in the course of ending it.
    ThisEnding,
    /// Something that came after it: it has ended.
    Later,
    /// Something that came before it: the coordinator has lost memory, or two coordinators' clocks differ.
    Earlier,
}

/// The next step for a prepared transaction.
#[must_use]
pub fn resolve(prepared: &PreparedTransaction, described: &Described, token: &TokenReading) -> Step {
    use TransactionPhase as P;
    let Described::Known(found) = described else {
        return by_token(prepared, About::Later, "the coordinator does not know the transactional id", token);
    };
    let about = about(prepared, found);
    let seen = format!("the coordinator describes {}", Seen(found));
    match (about, found.phase) {
        (About::This, P::Ongoing) => Step::Pending,
        (About::This | About::ThisEnding, P::PrepareCommit | P::CompleteCommit) => Step::Committed { proof: seen },
        (About::This | About::ThisEnding, P::PrepareAbort | P::CompleteAbort) => Step::Lost { evidence: seen },
        (About::This | About::ThisEnding, P::PrepareEpochFence) | (About::ThisEnding, P::Ongoing) => Step::AskAgain { why: seen },
        (About::This | About::ThisEnding, P::Empty | P::Dead) | (About::Later | About::Earlier, _) => {
            by_token(prepared, about, &seen, token)
        }
    }
}

fn about(prepared: &PreparedTransaction, found: &Transaction) -> About {
    let (ours, theirs) = (prepared.producer, found.producer);
    if theirs.id != ours.id {
        return if theirs.id > ours.id { About::Later } else { About::Earlier };
    }
    let same_start = found.start_ms == Some(prepared.start_ms);
    if same_start && theirs.epoch == ours.epoch {
        About::This
    } else if same_start && Some(theirs.epoch) == ours.epoch.checked_add(1) {
        About::ThisEnding
    } else if theirs.epoch > ours.epoch || theirs.epoch == ours.epoch && found.start_ms.is_some_and(|start| start > prepared.start_ms) {
        About::Later
    } else {
        About::Earlier
    }
}

/// This transaction has ended, or the coordinator has forgotten it: the token decides.
fn by_token(prepared: &PreparedTransaction, about: About, seen: &str, reading: &TokenReading) -> Step {
    let TokenReading::Answered { answer, absence } = reading else { return Step::AskToken };
    let lost = |what: &str| match about {
        About::This | About::ThisEnding | About::Later => Step::Lost { evidence: format!("{seen}, and {what}") },
        About::Earlier => Step::Unknowable { why: format!("{seen}, which is older than the transaction prepared, and {what}") },
    };
    match answer {
        TokenAnswer::There(token) => match TokenMark::of(token) {
            Some(mark) if mark == prepared.mark => Step::Committed { proof: format!("the token is that of {mark}") },
            Some(mark) if mark < prepared.mark => lost(&format!("the token is still that of {mark}")),
            Some(mark) => Step::Unknowable { why: format!("{seen}, and the token is that of {mark}, which came later") },
            None => Step::Unknowable { why: format!("{seen}, and somebody else wrote the token: {} {:?}", token.number, token.text) },
        },
        TokenAnswer::Absent => match absence {
            Absence::Proves => lost("there is no token"),
            Absence::ProvesNothing => Step::Unknowable { why: format!("{seen}, and a token as old as this would be forgotten by now") },
        },
        TokenAnswer::Unstable { last } => match last.as_ref().and_then(TokenMark::of) {
            Some(mark) if mark == prepared.mark => Step::Committed { proof: format!("the token is that of {mark}") },
            Some(_) | None => Step::AskAgain { why: format!("{seen}, and a transaction that wrote the token is open or just ending") },
        },
    }
}

impl TokenMark {
    /// The token that holds it.
    #[must_use]
    pub fn token(self) -> Token {
        let number = i64::try_from(self.epoch.0).expect("an epoch is a count of checkpoints, below 2^63");
        Token { number, text: format!("staunch {TOKEN_VERSION} generation={}", self.generation) }
    }

    /// What a token holds; `None` when it is not ours.
    #[must_use]
    pub fn of(token: &Token) -> Option<TokenMark> {
        let mut words = token.text.split(' ');
        let ours = words.next() == Some("staunch") && words.next() == Some(TOKEN_VERSION);
        let generation = words.next()?.strip_prefix("generation=")?.parse().ok()?;
        let epoch = u64::try_from(token.number).ok()?;
        (ours && words.next().is_none()).then_some(TokenMark { generation: Generation(generation), epoch: Epoch(epoch) })
    }
}

impl Absence {
    /// What the absence of a token means for a transaction that began at `start_ms`, at `now_ms` by our clock, where groups keep what nobody
    /// renews for `kept_ms`.
    #[must_use]
    pub fn meaning(start_ms: i64, now_ms: i64, kept_ms: i64) -> Absence {
        let age = now_ms.saturating_sub(start_ms);
        let known = age >= -CLOCK_MARGIN_MS && age.saturating_add(CLOCK_MARGIN_MS) < kept_ms;
        if known { Absence::Proves } else { Absence::ProvesNothing }
    }
}

impl fmt::Display for TokenMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch={} generation={}", self.epoch, self.generation)
    }
}

/// A description in one line.
struct Seen<'a>(&'a Transaction);

impl fmt::Display for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "phase={} {} ", self.0.phase, self.0.producer)?;
        match self.0.start_ms {
            Some(start) => write!(f, "start_ms={start}"),
            None => f.write_str("start_ms=none"),
        }
    }
}

#[cfg(test)]
mod tests;
