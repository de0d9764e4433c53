//! Transcripts of the verdict: `prepared 7.0@100`, `described ongoing 7.0@100`, `mark there|absent|gone`, and of a sweep: `sweep g1 ongoing 7.0@100`,
//! of an id that names generation 1, or `again` for one of lost output. Generation 5 sweeps; the checkpoint is by generation 3.
//! `markers arrived|missing|not-told` asks for what is confirmed, after the last description.
//! The mark is as last said since the last description; `not-asked` before.

use staunch_types::{Generation, Tick};

use super::{Script, check, notices, words};
use crate::mutation::Mutation;
use crate::transaction::resolve::{Confirm, MarkReading, Owner, Step, Sweep, confirm, resolve, sweep};
use crate::transaction::{Described, Identity, Producer};

struct Words {
    prepared: Identity,
    described: Described,
}

impl Default for Words {
    fn default() -> Self {
        let producer = Producer { id: 7, epoch: 0 };
        Words { prepared: Identity { producer, start_ms: 100 }, described: Described::Unknown }
    }
}

impl Script for Words {
    const FOLDER: &'static str = "resolve";

    fn line(&mut self, _now: Tick, words: &[&str]) -> Vec<String> {
        let mark = match words {
            ["prepared", identity] => {
                self.prepared = words::identity(identity);
                return Vec::new();
            }
            ["sweep", owner, rest @ ..] => {
                let named = (*owner != "again").then(|| words::generation(owner));
                let owner = Owner::of(named, Generation(5), Generation(3));
                let done = sweep(owner, &words::described(rest), &[self.prepared]);
                let text = match done {
                    Sweep::Nothing => "nothing".into(),
                    Sweep::Leave => "leave".into(),
                    Sweep::Fence(found) => format!("fence {}.{}", found.producer.id, found.producer.epoch),
                };
                return vec![text];
            }
            ["described", rest @ ..] => {
                self.described = words::described(rest);
                MarkReading::NotAsked
            }
            ["markers", markers] => {
                let text = match confirm(self.prepared.producer, &self.described, words::markers(markers)) {
                    Confirm::Confirmed => "confirmed".into(),
                    Confirm::Unconfirmed => "unconfirmed".into(),
                    Confirm::AskAgain => "ask again".into(),
                    Confirm::Forgotten(producer) => format!("forgotten: write {}.{}", producer.id, producer.epoch),
                };
                return vec![text];
            }
            ["mark", "there"] => MarkReading::There,
            ["mark", "absent"] => MarkReading::Absent,
            ["mark", "gone"] => MarkReading::PlaceGone { why: "the topic is another one".into() },
            _ => panic!("no words {words:?}"),
        };
        let text = match resolve(self.prepared, &self.described, &mark) {
            Step::Committed { proof } => format!("committed: {proof}"),
            Step::Pending => "pending".into(),
            Step::Lost { evidence } => format!("lost: {evidence}"),
            Step::AskMark => "ask for the mark".into(),
            Step::AskAgain { why } => format!("ask again: {why}"),
            Step::Unknowable { why } => format!("unknowable: {why}"),
        };
        vec![text]
    }
}

#[test]
fn only_the_transaction_that_was_prepared_is_pending() {
    check::<Words>("only_the_transaction_that_was_prepared_is_pending");
}

#[test]
fn committed_and_lost_are_said_with_proof() {
    check::<Words>("committed_and_lost_are_said_with_proof");
}

#[test]
fn a_sweep_leaves_what_checkpoints_name_and_takes_the_rest() {
    check::<Words>("a_sweep_leaves_what_checkpoints_name_and_takes_the_rest");
}

#[test]
fn what_is_committed_is_confirmed_by_its_partitions() {
    check::<Words>("what_is_committed_is_confirmed_by_its_partitions");
}

#[test]
fn transcripts_of_the_verdict_notice_broken_rules() {
    assert!(notices::<Words>("only_the_transaction_that_was_prepared_is_pending", Mutation::ResolveForgetsStart));
    assert!(notices::<Words>("committed_and_lost_are_said_with_proof", Mutation::ResolveLostUnproven));
    assert!(notices::<Words>("committed_and_lost_are_said_with_proof", Mutation::ResolveTrustsAbort));
    assert!(notices::<Words>("what_is_committed_is_confirmed_by_its_partitions", Mutation::ConfirmTrustsCoordinator));
    assert!(notices::<Words>("what_is_committed_is_confirmed_by_its_partitions", Mutation::RepairsUnfenced));
    assert!(notices::<Words>("a_sweep_leaves_what_checkpoints_name_and_takes_the_rest", Mutation::SweepTakesAll));
    assert!(notices::<Words>("a_sweep_leaves_what_checkpoints_name_and_takes_the_rest", Mutation::SweepTakesNewer));
}
