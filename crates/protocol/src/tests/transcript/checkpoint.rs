//! Transcripts of checkpoints: `config …`, `settled`, `acked 0/0 e1@g1 sink0#0`, `appended`, `refused retry`, `committed e1`, `time` …

use std::collections::BTreeSet;
use std::time::Duration;

use staunch_types::{Generation, LedgerSeq, TaskId, Tick};

use super::{Script, check, notices, told, until, words};
use crate::checkpoint::{Checkpoint, Config, Effect, Event};
use crate::ledger::{Entry, Facts};
use crate::mutation::Mutation;
use crate::{Attempt, CommittableId};

pub(super) struct Words {
    machine: Checkpoint,
    /// The entry under way, for `appended` and `refused`.
    entry: Option<Entry>,
}

impl Default for Words {
    fn default() -> Self {
        Words { machine: recover(config(&[])), entry: None }
    }
}

fn recover(config: Config) -> Checkpoint {
    let facts = Facts { head: LedgerSeq(1), generation: Generation(1), ..Facts::default() };
    Checkpoint::recover(&facts, Generation(1), config)
}

/// Settings with their defaults: two tasks, of which the first is a source.
pub(super) fn config(settings: &[&str]) -> Config {
    let mut config = Config {
        tasks: words::tasks("0/0,1/0"),
        sources: words::tasks("0/0"),
        interval: Duration::from_millis(1_000),
        pause_min: Duration::ZERO,
        timeout: Duration::from_millis(10_000),
        failures_tolerated: 1,
        concurrent_max: 1,
        uncommitted_max: 4,
    };
    for setting in settings {
        match setting.split_once('=') {
            Some(("tasks", value)) => config.tasks = words::tasks(value),
            Some(("sources", value)) => config.sources = words::tasks(value),
            Some(("interval", value)) => config.interval = words::millis(value),
            Some(("pause", value)) => config.pause_min = words::millis(value),
            Some(("timeout", value)) => config.timeout = words::millis(value),
            Some(("tolerated", value)) => config.failures_tolerated = words::number(value),
            Some(("concurrent", value)) => config.concurrent_max = words::number(value),
            Some(("uncommitted", value)) => config.uncommitted_max = words::number(value),
            _ => panic!("no setting `{setting}`"),
        }
    }
    config
}

/// `sink0#0` of the acknowledged attempt, or `e1:sink0#0` of an older one.
pub(super) fn acked(task: TaskId, attempt: Attempt, word: &str) -> CommittableId {
    let (epoch, rest) = word.split_once(':').map_or((attempt.epoch, word), |(epoch, rest)| (words::epoch(epoch), rest));
    let (sink, number) = rest.split_once('#').unwrap_or_else(|| panic!("expected sink0#0, found `{rest}`"));
    CommittableId { attempt: Attempt { epoch, ..attempt }, sink: words::sink(sink), task, number: words::number(number) }
}

impl Script for Words {
    const FOLDER: &'static str = "checkpoint";

    fn line(&mut self, now: Tick, words: &[&str]) -> Vec<String> {
        let event = match words {
            ["config", settings @ ..] => {
                self.machine = recover(config(settings));
                return Vec::new();
            }
            ["claimed"] => Event::Claimed,
            ["settled"] => Event::Settled,
            ["time"] => Event::TimePassed,
            ["trigger", reason] => Event::TriggerRequested { reason: words::reason(reason) },
            ["acked", task, attempt, named @ ..] => {
                let (task, attempt) = (words::task(task), words::attempt(attempt));
                Event::TaskAcked { task, attempt, committables: named.iter().map(|word| acked(task, attempt, word)).collect() }
            }
            ["declined", task, attempt] => Event::TaskDeclined { task: words::task(task), attempt: words::attempt(attempt) },
            ["finished", task, generation] => Event::TaskFinished { task: words::task(task), generation: words::generation(generation) },
            ["appended"] => Event::Appended { entry: self.entry.take().expect("an entry is under way") },
            ["refused", kind] => Event::Refused { entry: self.entry.take().expect("an entry is under way"), kind: words::kind(kind) },
            ["committed", epoch] => Event::EpochCommitted { epoch: words::epoch(epoch) },
            _ => panic!("no event {words:?}"),
        };
        let (stale, deadline, mut out) = (self.machine.stale_events(), self.machine.deadline(), Vec::new());
        self.machine.step(now, event, &mut out);
        let mut lines = told(&out, show, [stale, self.machine.stale_events()]);
        lines.extend(until(deadline, self.machine.deadline()));
        self.entry =
            out.into_iter().find_map(|effect| if let Effect::Append { entry } = effect { Some(entry) } else { None }).or(self.entry.take());
        lines
    }
}

pub(super) fn tasks(tasks: &BTreeSet<TaskId>) -> String {
    words::list(tasks)
}

fn show(effect: &Effect) -> String {
    match effect {
        Effect::Trigger { attempt, reason, tasks: at } => format!("trigger {attempt} {} at {}", words::lower(reason), tasks(at)),
        Effect::AbandonEpoch { attempt } => format!("abandon {attempt}"),
        Effect::Append { entry } => format!("append {}", words::entry(entry)),
        Effect::EpochDurable { permit, reason, origin } => {
            let named = words::list(permit.committables());
            format!("permit {} {} {} by g{} {named}", words::lower(origin), permit.sealed(), words::lower(reason), permit.generation())
        }
        Effect::Recovered => "recovered".into(),
        Effect::EpochFailed { attempt, failure } => format!("failed {attempt}: {}", words::epoch_failure(*failure)),
        Effect::FailJob { failure } => format!("fail job: {}", words::epoch_failure(*failure)),
        Effect::JobFinished { reason } => format!("job finished: {}", words::lower(reason)),
    }
}

#[test]
fn an_epoch_is_durable_when_all_have_acknowledged_and_the_ledger_has_it() {
    check::<Words>("an_epoch_is_durable_when_all_have_acknowledged_and_the_ledger_has_it");
}

#[test]
fn an_expired_epoch_is_abandoned_and_its_number_not_used_again() {
    check::<Words>("an_expired_epoch_is_abandoned_and_its_number_not_used_again");
}

#[test]
fn what_an_abandoned_epoch_prepared_is_named_by_the_next() {
    check::<Words>("what_an_abandoned_epoch_prepared_is_named_by_the_next");
}

#[test]
fn epochs_wait_for_the_interval_and_the_pause() {
    check::<Words>("epochs_wait_for_the_interval_and_the_pause");
}

#[test]
fn too_many_uncommitted_epochs_hold_back_the_next() {
    check::<Words>("too_many_uncommitted_epochs_hold_back_the_next");
}

#[test]
fn of_concurrent_epochs_a_complete_one_abandons_older_ones() {
    check::<Words>("of_concurrent_epochs_a_complete_one_abandons_older_ones");
}

#[test]
fn the_final_epoch_waits_for_every_task() {
    check::<Words>("the_final_epoch_waits_for_every_task");
}

#[test]
fn a_stop_is_tried_again_until_it_is_durable() {
    check::<Words>("a_stop_is_tried_again_until_it_is_durable");
}

#[test]
fn messages_of_other_generations_are_ignored() {
    check::<Words>("messages_of_other_generations_are_ignored");
}

#[test]
fn transcripts_of_checkpoints_notice_broken_rules() {
    assert!(notices::<Words>("an_epoch_is_durable_when_all_have_acknowledged_and_the_ledger_has_it", Mutation::SealWithoutLastAck));
    assert!(notices::<Words>("an_epoch_is_durable_when_all_have_acknowledged_and_the_ledger_has_it", Mutation::PermitBeforeDurable));
    assert!(notices::<Words>("an_expired_epoch_is_abandoned_and_its_number_not_used_again", Mutation::ReuseEpoch));
    assert!(notices::<Words>("an_expired_epoch_is_abandoned_and_its_number_not_used_again", Mutation::AcceptLateAck));
    assert!(notices::<Words>("what_an_abandoned_epoch_prepared_is_named_by_the_next", Mutation::ForgetCarried));
    assert!(notices::<Words>("the_final_epoch_waits_for_every_task", Mutation::FinalByOneTask));
    assert!(notices::<Words>("messages_of_other_generations_are_ignored", Mutation::AcceptStaleGeneration));
}
