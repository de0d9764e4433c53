//! Transcripts of the ring: `ids 2`, `records`, `prepare e1`, `taken-over 0`, `described 0 ongoing 7.0@100` (producer id, epoch, start; or
//! `unknown`), `begun 0`, `acknowledged 0`, `confirmed 0 arrived|missing|not-told`, `settled 0`, `refused 0`, `failed`, `time`,
//! `takes orders?`.

use std::time::Duration;

use staunch_types::Tick;

use super::{Script, check, notices, told, words};
use crate::mutation::Mutation;
use crate::transaction::ring::{Config, Effect, Event, Failure, IdNumber, Ring};

struct Words(Ring);

fn ring(ids: u32) -> Ring {
    Ring::recover(Config { ids, acknowledged_within: Duration::from_millis(100), look_again: Duration::from_millis(5) })
}

impl Default for Words {
    fn default() -> Self {
        Words(ring(2))
    }
}

impl Script for Words {
    const FOLDER: &'static str = "ring";

    fn line(&mut self, now: Tick, words: &[&str]) -> Vec<String> {
        let id = |word| IdNumber(words::number(word));
        let event = match words {
            ["ids", count] => {
                self.0 = ring(words::number(count));
                return Vec::new();
            }
            ["takes", "orders?"] => return vec![if self.0.takes_orders() { "yes" } else { "no" }.into()],
            ["deadline?"] => return vec![self.0.deadline().map_or("none".into(), |tick| format!("{} ms", tick.0 / 1_000_000))],
            ["records"] => Event::RecordsArrived,
            ["prepare", epoch] => Event::PrepareAsked { epoch: words::epoch(epoch) },
            ["taken-over", number] => Event::TakenOver { id: id(number) },
            ["described", number, rest @ ..] => Event::Described { id: id(number), found: words::described(rest) },
            ["begun", number] => Event::Begun { id: id(number) },
            ["acknowledged", number] => Event::Acknowledged { id: id(number) },
            ["confirmed", number, markers] => Event::Confirmed { id: id(number), markers: words::markers(markers) },
            ["settled", number] => Event::Settled { id: id(number) },
            ["refused", number] => Event::Refused { id: id(number) },
            ["failed"] => Event::Failed,
            ["time"] => Event::TimePassed,
            _ => panic!("no event {words:?}"),
        };
        let (stale, mut out) = (self.0.stale_events(), Vec::new());
        self.0.step(now, event, &mut out);
        told(&out, show, [stale, self.0.stale_events()])
    }
}

fn show(effect: &Effect) -> String {
    match effect {
        Effect::TakeOver { id } => format!("take over {}", id.0),
        Effect::Describe { id } => format!("describe {}", id.0),
        Effect::Begin { id } => format!("begin {}", id.0),
        Effect::Write { id } => format!("write {}", id.0),
        Effect::WriteMark { id, epoch } => format!("write mark {} e{epoch}", id.0),
        Effect::Drain { id } => format!("drain {}", id.0),
        Effect::Confirm { id } => format!("confirm {}", id.0),
        Effect::Settle { id } => format!("settle {}", id.0),
        Effect::Report { epoch, prepared: None } => format!("report e{epoch} nothing"),
        Effect::Report { epoch, prepared: Some((id, identity)) } => {
            format!("report e{epoch} {} {}.{}@{}", id.0, identity.producer.id, identity.producer.epoch, identity.start_ms)
        }
        Effect::Fail(failure) => match failure {
            Failure::Outside => "fail: outside".into(),
            Failure::Refused(id) => format!("fail: {} refused", id.0),
            Failure::NotAcknowledged(id) => format!("fail: {} not acknowledged", id.0),
            Failure::Gone(id) => format!("fail: {} gone", id.0),
            Failure::NotCommitted(id) => format!("fail: {} not committed", id.0),
            Failure::Unmarked(id) => format!("fail: {} unmarked", id.0),
        },
    }
}

#[test]
fn an_id_is_used_again_when_its_commit_is_seen() {
    check::<Words>("an_id_is_used_again_when_its_commit_is_seen");
}

#[test]
fn an_epoch_without_records_opens_nothing_and_is_reported_in_its_turn() {
    check::<Words>("an_epoch_without_records_opens_nothing_and_is_reported_in_its_turn");
}

#[test]
fn the_next_epoch_gets_an_id_ready_and_waits_for_acknowledgements() {
    check::<Words>("the_next_epoch_gets_an_id_ready_and_waits_for_acknowledgements");
}

#[test]
fn a_refused_record_fails_the_task() {
    check::<Words>("a_refused_record_fails_the_task");
}

#[test]
fn what_is_not_acknowledged_in_time_fails_the_task() {
    check::<Words>("what_is_not_acknowledged_in_time_fails_the_task");
}

#[test]
fn only_the_open_transaction_of_the_own_producer_is_prepared() {
    check::<Words>("only_the_open_transaction_of_the_own_producer_is_prepared");
}

#[test]
fn an_id_whose_transaction_was_aborted_is_not_used_again() {
    check::<Words>("an_id_whose_transaction_was_aborted_is_not_used_again");
}

#[test]
fn an_id_whose_markers_are_missing_is_not_used_again() {
    check::<Words>("an_id_whose_markers_are_missing_is_not_used_again");
}

#[test]
fn transcripts_of_the_ring_notice_broken_rules() {
    assert!(notices::<Words>("an_id_is_used_again_when_its_commit_is_seen", Mutation::RingReusesUnproven));
    assert!(notices::<Words>("an_id_is_used_again_when_its_commit_is_seen", Mutation::RingPreparesUnacknowledged));
    assert!(notices::<Words>("an_id_whose_markers_are_missing_is_not_used_again", Mutation::RingReusesUnmarked));
    assert!(notices::<Words>("an_epoch_without_records_opens_nothing_and_is_reported_in_its_turn", Mutation::RingBeginsEmpty));
    assert!(notices::<Words>("an_epoch_without_records_opens_nothing_and_is_reported_in_its_turn", Mutation::RingReportsOutOfTurn));
    assert!(notices::<Words>("the_next_epoch_gets_an_id_ready_and_waits_for_acknowledgements", Mutation::RingWritesAhead));
    assert!(notices::<Words>("a_refused_record_fails_the_task", Mutation::RingIgnoresRefused));
    assert!(notices::<Words>("only_the_open_transaction_of_the_own_producer_is_prepared", Mutation::RingTrustsAnyProducer));
    assert!(notices::<Words>("only_the_open_transaction_of_the_own_producer_is_prepared", Mutation::RingTakesEqualStart));
}
