//! Words of transcripts: ids, entries, answers, in and out.
//!
//! Owns: how shared types are written. Does not own: the events and effects of a machine.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use staunch_types::{Epoch, ErrorKind, Generation, TaskId, Tick};

use crate::checkpoint::EpochFailure;
use crate::commit::{Answer, CommitFailure, LostPolicy, Verdict};
use crate::ledger::{Entry, Origin};
use crate::transaction::{Described, Found, Identity, Markers, Producer, TransactionPhase};
use crate::{Attempt, CommittableId, OpId, Reason, SinkId};

pub(super) fn number<T: std::str::FromStr>(word: &str) -> T {
    word.parse().unwrap_or_else(|_| panic!("expected a number, found `{word}`"))
}

fn after<T: std::str::FromStr>(prefix: &str, word: &str) -> T {
    number(word.strip_prefix(prefix).unwrap_or_else(|| panic!("expected `{prefix}` and a number, found `{word}`")))
}

pub(super) fn ms(word: &str) -> Tick {
    Tick::default() + millis(word)
}

pub(super) fn millis(word: &str) -> Duration {
    Duration::from_millis(number(word))
}

pub(super) fn op(word: &str) -> OpId {
    OpId(after("op", word))
}

pub(super) fn epoch(word: &str) -> Epoch {
    Epoch(after("e", word))
}

pub(super) fn generation(word: &str) -> Generation {
    Generation(after("g", word))
}

pub(super) fn sink(word: &str) -> SinkId {
    SinkId(after("sink", word))
}

pub(super) fn attempt(word: &str) -> Attempt {
    let (e, g) = word.split_once('@').unwrap_or_else(|| panic!("expected an attempt such as e1@g1, found `{word}`"));
    Attempt { epoch: epoch(e), generation: generation(g) }
}

pub(super) fn task(word: &str) -> TaskId {
    let (chain, index) = word.split_once('/').unwrap_or_else(|| panic!("expected a task such as 0/1, found `{word}`"));
    TaskId { chain: number(chain), index: number(index) }
}

pub(super) fn tasks(word: &str) -> BTreeSet<TaskId> {
    word.split(',').map(task).collect()
}

/// `e1@g1:sink0:0/0#0`.
pub(super) fn committable(word: &str) -> CommittableId {
    let parts: Vec<&str> = word.split([':', '#']).collect();
    let [a, s, t, n] = parts[..] else { panic!("expected a committable such as e1@g1:sink0:0/0#0, found `{word}`") };
    CommittableId { attempt: attempt(a), sink: sink(s), task: task(t), number: number(n) }
}

pub(super) fn kind(word: &str) -> ErrorKind {
    match word {
        "retry" => ErrorKind::Retry,
        "restart" => ErrorKind::Restart,
        "fenced" => ErrorKind::Fenced,
        "invalid" => ErrorKind::Invalid,
        "corrupt" => ErrorKind::Corrupt,
        "lost" => ErrorKind::Lost,
        "bug" => ErrorKind::Bug,
        _ => panic!("no kind of error is called `{word}`"),
    }
}

pub(super) fn reason(word: &str) -> Reason {
    match word {
        "interval" => Reason::Interval,
        "savepoint" => Reason::Savepoint,
        "stop" => Reason::Stop,
        "drain" => Reason::Drain,
        "final" => Reason::Final,
        _ => panic!("no reason is called `{word}`"),
    }
}

pub(super) fn policy(word: &str) -> LostPolicy {
    match word {
        "fail" => LostPolicy::Fail,
        "resend" => LostPolicy::Resend,
        "accept" => LostPolicy::Accept,
        _ => panic!("no policy is called `{word}`"),
    }
}

pub(super) fn sink_answer(words: &[&str]) -> Answer {
    match words {
        ["done"] => Answer::Done,
        ["unanswered"] => Answer::Unanswered,
        ["committed"] => Answer::Resolved(Verdict::Committed),
        ["pending"] => Answer::Resolved(Verdict::Pending),
        ["lost"] => Answer::Resolved(Verdict::Lost),
        ["failed", word] => Answer::Failed { kind: kind(word) },
        _ => panic!("no sink answers {words:?}"),
    }
}

/// `7.0@100`: producer id, epoch, start.
pub(super) fn identity(word: &str) -> Identity {
    let (producer, start) = word.split_once('@').unwrap_or_else(|| panic!("expected a transaction such as 7.0@100, found `{word}`"));
    let (id, epoch) = producer.split_once('.').unwrap_or_else(|| panic!("expected a producer such as 7.0, found `{producer}`"));
    Identity { producer: Producer { id: number(id), epoch: number(epoch) }, start_ms: number(start) }
}

/// `unknown`, or a phase and a transaction; one that has not begun has the start -1.
pub(super) fn markers(word: &str) -> Markers {
    match word {
        "arrived" => Markers::Arrived,
        "missing" => Markers::Missing,
        "not-told" => Markers::NotTold,
        _ => panic!("no markers {word}"),
    }
}

pub(super) fn described(words: &[&str]) -> Described {
    use TransactionPhase as P;
    let [phase, transaction] = words else {
        assert!(*words == ["unknown"], "expected a phase and a transaction, found {words:?}");
        return Described::Unknown;
    };
    let phase = match *phase {
        "empty" => P::Empty,
        "ongoing" => P::Ongoing,
        "prepare-commit" => P::PrepareCommit,
        "prepare-abort" => P::PrepareAbort,
        "complete-commit" => P::CompleteCommit,
        "complete-abort" => P::CompleteAbort,
        "dead" => P::Dead,
        "fencing" => P::PrepareEpochFence,
        _ => panic!("no phase is called `{phase}`"),
    };
    let Identity { producer, start_ms } = identity(transaction);
    Described::Known(Found { phase, producer, start_ms: (start_ms >= 0).then_some(start_ms) })
}

pub(super) fn lower(value: impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}

pub(super) fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(" "))
}

pub(super) fn origin(origin: Origin) -> String {
    match origin {
        Origin::Empty => "empty".into(),
        Origin::Epoch(epoch) => format!("e{epoch}"),
        Origin::Fork(epoch) => format!("fork-of-e{epoch}"),
    }
}

pub(super) fn entry(entry: &Entry) -> String {
    match entry {
        Entry::Claimed { generation, claimant, origin: from } => format!("claimed g{generation} by #{} from {}", claimant.0, origin(*from)),
        Entry::Sealed { attempt, reason, committables, settled } => {
            format!("sealed {attempt} {} {} settled e{settled}", lower(reason), list(committables))
        }
        Entry::Committed { epoch, generation, lost, resent } => {
            let mut text = format!("committed e{epoch} by g{generation}");
            if !lost.is_empty() {
                text += &format!(" lost {}", list(lost));
            }
            if !resent.is_empty() {
                text += &format!(" resent {}", list(resent));
            }
            text
        }
        Entry::Stopped { generation } => format!("stopped g{generation}"),
    }
}

pub(super) fn epoch_failure(failure: EpochFailure) -> String {
    match failure {
        EpochFailure::TimedOut => "timed out".into(),
        EpochFailure::Declined(task) => format!("declined by {task}"),
        EpochFailure::StoreRefused(kind) => format!("store refused ({})", lower(kind)),
    }
}

pub(super) fn commit_failure(failure: CommitFailure) -> String {
    match failure {
        CommitFailure::Lost(committable) => format!("lost {committable}"),
        CommitFailure::GaveUp(committable) => format!("gave up {committable}"),
        CommitFailure::Failed(committable, kind) => format!("failed ({}) {committable}", lower(kind)),
        CommitFailure::SweepFailed(sink, kind) => format!("sweep failed ({}) {sink}", lower(kind)),
    }
}
