//! Transcripts of commits: `config sinks=sink0:fail …`, `durable e1@g1 sealed|recovered sink0:0/0#0 …`, `recovered`, `sink op1 done`,
//! `recorded e1`, `time`.

use std::time::Duration;

use staunch_types::{Generation, Tick};

use super::{Script, check, notices, told, until, words};
use crate::CommitPermit;
use crate::Reason;
use crate::checkpoint::PermitOrigin;
use crate::commit::{Commit, Config, Effect, Event};
use crate::ledger::DurableEpoch;
use crate::mutation::Mutation;

struct Words {
    machine: Commit,
    generation: Generation,
}

impl Default for Words {
    fn default() -> Self {
        Words { machine: Commit::recover(Generation(1), config(&[])), generation: Generation(1) }
    }
}

/// Settings with their defaults: one sink that fails on loss.
pub(super) fn config(settings: &[&str]) -> Config {
    let mut config = Config {
        sinks: [(words::sink("sink0"), words::policy("fail"))].into(),
        retries_max: 2,
        backoff_first: Duration::from_millis(100),
        backoff_max: Duration::from_millis(1_000),
        in_flight_max: 8,
    };
    for setting in settings {
        match setting.split_once('=') {
            Some(("sinks", value)) => {
                let pair = |pair: &str| pair.split_once(':').map(|(sink, policy)| (words::sink(sink), words::policy(policy)));
                config.sinks =
                    value.split(',').map(|text| pair(text).unwrap_or_else(|| panic!("expected sink0:fail, found `{text}`"))).collect();
            }
            Some(("retries", value)) => config.retries_max = words::number(value),
            Some(("in-flight", value)) => config.in_flight_max = words::number(value),
            _ => panic!("no setting `{setting}`"),
        }
    }
    config
}

impl Words {
    fn permit(&self, attempt: &str, named: &[&str]) -> CommitPermit {
        let committables = named.iter().map(|word| words::committable(&format!("{attempt}:{word}"))).collect();
        let durable = DurableEpoch { attempt: words::attempt(attempt), reason: Reason::Interval, committables };
        CommitPermit::for_tests(self.generation, &durable)
    }
}

impl Script for Words {
    const FOLDER: &'static str = "commit";

    fn line(&mut self, now: Tick, words: &[&str]) -> Vec<String> {
        let event = match words {
            ["config", generation, settings @ ..] => {
                self.generation = words::generation(generation);
                self.machine = Commit::recover(self.generation, config(settings));
                return Vec::new();
            }
            ["durable", attempt, "sealed", named @ ..] => {
                Event::EpochDurable { permit: self.permit(attempt, named), origin: PermitOrigin::Sealed }
            }
            ["durable", attempt, "recovered", named @ ..] => {
                Event::EpochDurable { permit: self.permit(attempt, named), origin: PermitOrigin::Recovered }
            }
            ["recovered"] => Event::RecoveryComplete,
            ["sink", op, answer @ ..] => Event::Answered { op: words::op(op), answer: words::sink_answer(answer) },
            ["recorded", epoch] => Event::Recorded { epoch: words::epoch(epoch) },
            ["time"] => Event::TimePassed,
            _ => panic!("no event {words:?}"),
        };
        let (stale, deadline, mut out) = (self.machine.stale_events(), self.machine.deadline(), Vec::new());
        self.machine.step(now, event, &mut out);
        let mut lines = told(&out, show, [stale, self.machine.stale_events()]);
        lines.extend(until(deadline, self.machine.deadline()));
        lines
    }
}

fn show(effect: &Effect) -> String {
    match effect {
        Effect::Resolve { op, committable } => format!("resolve {op} {committable}"),
        Effect::Commit { op, committable, permit } => {
            format!("commit {op} {committable} permit {} by g{}", permit.sealed(), permit.generation())
        }
        Effect::Resend { op, committable, permit } => {
            format!("resend {op} {committable} permit {} by g{}", permit.sealed(), permit.generation())
        }
        Effect::Sweep { op, sink, older_than, keep } => format!("sweep {op} {sink} older than g{older_than} keep {}", words::list(keep)),
        Effect::WritersMayStart => "writers may start".into(),
        Effect::Append { entry } => format!("append {}", words::entry(entry)),
        Effect::EpochCommitted { epoch } => format!("committed e{epoch}"),
        Effect::FailJob { failure } => format!("fail job: {}", words::commit_failure(*failure)),
        Effect::Fenced => "fenced".into(),
    }
}

#[test]
fn a_durable_epoch_is_committed_and_recorded() {
    check::<Words>("a_durable_epoch_is_committed_and_recorded");
}

#[test]
fn recovered_committables_are_resolved_before_anything_else() {
    check::<Words>("recovered_committables_are_resolved_before_anything_else");
}

#[test]
fn a_lost_commit_answer_is_resolved() {
    check::<Words>("a_lost_commit_answer_is_resolved");
}

#[test]
fn lost_stops_the_job_by_default() {
    check::<Words>("lost_stops_the_job_by_default");
}

#[test]
fn lost_is_resent_after_the_sweep_and_before_later_epochs() {
    check::<Words>("lost_is_resent_after_the_sweep_and_before_later_epochs");
}

#[test]
fn lost_is_accepted_on_record_only() {
    check::<Words>("lost_is_accepted_on_record_only");
}

#[test]
fn commits_of_a_sink_keep_the_order_of_epochs() {
    check::<Words>("commits_of_a_sink_keep_the_order_of_epochs");
}

#[test]
fn retries_wait_and_end() {
    check::<Words>("retries_wait_and_end");
}

#[test]
fn an_outside_fence_ends_everything() {
    check::<Words>("an_outside_fence_ends_everything");
}

#[test]
fn transcripts_of_commits_notice_broken_rules() {
    assert!(notices::<Words>("recovered_committables_are_resolved_before_anything_else", Mutation::SkipResolve));
    assert!(notices::<Words>("recovered_committables_are_resolved_before_anything_else", Mutation::SkipSweep));
    assert!(notices::<Words>("a_lost_commit_answer_is_resolved", Mutation::TrustLostCommit));
    assert!(notices::<Words>("lost_stops_the_job_by_default", Mutation::LostAsCommitted));
    assert!(notices::<Words>("commits_of_a_sink_keep_the_order_of_epochs", Mutation::RecordBeforeProven));
}
