//! Transcripts of coordinators over one ledger: rows of the crash table.
//!
//! `config …` sets both the checkpoints' and the sinks' settings. `coordinator A from latest|empty|e3|fork-of-e3` reads the ledger and is
//! ready to claim; `A crashes` ends it. Events are addressed: `A started`, `A store op1 appended`, `A acked 0/0 e1@g1 sink0#0`.
//! The ledger is real: `appended` creates the entry (and fails if the slot is taken), `unanswered, written` does too, `conflicted` is checked,
//! `read` and `reloaded` answer with what is there. `ledger` prints it.

use std::collections::BTreeMap;
use std::time::Duration;

use staunch_types::{LedgerSeq, Tick};

use super::{Script, check, checkpoint, commit, notices, told, words};
use crate::OpId;
use crate::coordinator::{Config, Coordinator, Effect, Event, Failure};
use crate::ledger::{Answer, Claimant, Entry, Facts, Found, Limits, Origin};
use crate::mutation::Mutation;

#[derive(Default)]
struct Words {
    config: Option<Config>,
    entries: Vec<Entry>,
    coordinators: BTreeMap<String, Coordinator>,
    claimants: u128,
    /// The slot and the entry that each append or read-back is about.
    asked: BTreeMap<(String, OpId), (LedgerSeq, Entry)>,
    /// The last of these of each coordinator.
    appending: BTreeMap<String, (LedgerSeq, Entry)>,
}

impl Words {
    fn facts(&self) -> Facts {
        let entries = self.entries.iter().enumerate().map(|(at, entry)| (LedgerSeq(at as u64 + 1), entry));
        Facts::of(entries).expect("the ledger is in order")
    }

    fn origin(&self, word: &str) -> Origin {
        match word {
            "latest" => self.facts().resume,
            "empty" => Origin::Empty,
            _ => match word.strip_prefix("fork-of-") {
                Some(epoch) => Origin::Fork(words::epoch(epoch)),
                None => Origin::Epoch(words::epoch(word)),
            },
        }
    }

    fn set(&mut self, settings: &[&str]) {
        let ours = ["sinks", "retries", "in-flight"];
        let (sinks, tasks): (Vec<&str>, Vec<&str>) = settings.iter().partition(|setting| ours.iter().any(|name| setting.starts_with(name)));
        let ledger =
            Limits { attempts_max: 3, claims_max: 3, backoff_first: Duration::from_millis(100), backoff_max: Duration::from_secs(1) };
        self.config = Some(Config { ledger, checkpoint: checkpoint::config(&tasks), commit: commit::config(&sinks) });
    }

    fn create(&mut self, seq: LedgerSeq, entry: Entry) {
        if crate::mutation::broken(Mutation::AppendUnconditionally) {
            self.entries.truncate(seq.0 as usize - 1);
        }
        assert_eq!(self.entries.len() as u64 + 1, seq.0, "the slot of {} is taken", words::entry(&entry));
        self.entries.push(entry);
    }

    fn store(&mut self, name: &str, op: OpId, answer: &[&str]) -> Answer {
        let (seq, entry) = self
            .asked
            .get(&(name.to_owned(), op))
            .cloned()
            .unwrap_or((LedgerSeq(0), Entry::Stopped { generation: self.facts().generation }));
        match answer {
            ["appended"] => {
                self.create(seq, entry);
                Answer::Appended
            }
            ["conflicted"] => {
                assert!(seq.0 <= self.entries.len() as u64, "the slot of {} is free", words::entry(&entry));
                Answer::Conflicted
            }
            ["unanswered"] => Answer::Unanswered,
            ["unanswered,", "written"] => {
                self.create(seq, entry);
                Answer::Unanswered
            }
            ["refused", kind] => Answer::Refused { kind: words::kind(kind) },
            ["read"] => Answer::Found(match self.entries.get(seq.0 as usize - 1) {
                Some(there) if *there == entry => Found::Own,
                Some(_) => Found::Other,
                None => Found::Absent,
            }),
            ["read-failed"] => Answer::ReadFailed,
            ["reloaded"] => Answer::Reloaded { facts: self.facts(), origin: self.origin("latest") },
            _ => panic!("no store answers {answer:?}"),
        }
    }

    fn event(&mut self, name: &str, words: &[&str]) -> Event {
        match words {
            ["started"] => Event::Started,
            ["time"] => Event::TimePassed,
            ["store", op, answer @ ..] => {
                let op = words::op(op);
                Event::StoreAnswered { op, answer: self.store(name, op, answer) }
            }
            ["trigger", reason] => Event::TriggerRequested { reason: words::reason(reason) },
            ["acked", task, attempt, named @ ..] => {
                let (task, attempt) = (words::task(task), words::attempt(attempt));
                let committables = named.iter().map(|word| checkpoint::acked(task, attempt, word)).collect();
                Event::TaskAcked { task, attempt, committables }
            }
            ["declined", task, attempt] => Event::TaskDeclined { task: words::task(task), attempt: words::attempt(attempt) },
            ["finished", task, generation] => Event::TaskFinished { task: words::task(task), generation: words::generation(generation) },
            ["sink", op, answer @ ..] => Event::SinkAnswered { op: words::op(op), answer: words::sink_answer(answer) },
            _ => panic!("no event {words:?}"),
        }
    }

    fn addressed(&mut self, now: Tick, name: &str, words: &[&str]) -> Vec<String> {
        let event = self.event(name, words);
        let Some(coordinator) = self.coordinators.get_mut(name) else { panic!("no coordinator `{name}`") };
        let (stale, mut out) = (coordinator.stale_events(), Vec::new());
        coordinator.step(now, event, &mut out);
        for effect in &out {
            match effect {
                Effect::Append { op, seq, entry } => {
                    self.appending.insert(name.to_owned(), (*seq, entry.clone()));
                    self.asked.insert((name.to_owned(), *op), (*seq, entry.clone()));
                }
                Effect::ReadBack { op, .. } => {
                    self.asked.insert((name.to_owned(), *op), self.appending[name].clone());
                }
                _ => {}
            }
        }
        told(&out, show, [stale, coordinator.stale_events()])
    }
}

impl Script for Words {
    const FOLDER: &'static str = "coordinator";

    fn line(&mut self, now: Tick, words: &[&str]) -> Vec<String> {
        match words {
            ["config", settings @ ..] => self.set(settings),
            ["coordinator", name, "from", origin] => {
                self.claimants += 1;
                let config = self.config.clone().expect("`config` comes first");
                let coordinator = Coordinator::recover(self.facts(), self.origin(origin), Claimant(self.claimants), config);
                self.coordinators.insert((*name).into(), coordinator);
            }
            [name, "crashes"] => {
                self.coordinators.remove(*name);
            }
            ["ledger"] => return self.entries.iter().map(words::entry).collect(),
            ["another", "ledger"] => self.entries.clear(),
            [name, rest @ ..] => return self.addressed(now, name, rest),
            [] => {}
        }
        Vec::new()
    }
}

fn failure_words(failure: Failure) -> String {
    match failure {
        Failure::Epochs(failure) => words::epoch_failure(failure),
        Failure::Commit(failure) => words::commit_failure(failure),
        Failure::StoreRefused(kind) => format!("store refused ({})", words::lower(kind)),
        Failure::StoreInDoubt => "store in doubt".into(),
    }
}

fn show(effect: &Effect) -> String {
    match effect {
        Effect::Append { op, seq, entry } => format!("append {op} at {seq}: {}", words::entry(entry)),
        Effect::ReadBack { op, seq } => format!("read back {op} at {seq}"),
        Effect::Reload { op } => format!("reload {op}"),
        Effect::Claimed { generation, origin } => format!("claimed g{generation} from {}", words::origin(*origin)),
        Effect::Resolve { op, committable } => format!("resolve {op} {committable}"),
        Effect::Commit { op, committable, permit } => {
            format!("commit {op} {committable} permit {} by g{}", permit.sealed(), permit.generation())
        }
        Effect::Resend { op, committable, permit } => {
            format!("resend {op} {committable} permit {} by g{}", permit.sealed(), permit.generation())
        }
        Effect::Sweep { op, sink, older_than, keep } => format!("sweep {op} {sink} older than g{older_than} keep {}", words::list(keep)),
        Effect::WritersMayStart => "writers may start".into(),
        Effect::Trigger { attempt, reason, tasks } => format!("trigger {attempt} {} at {}", words::lower(reason), words::list(tasks)),
        Effect::AbandonEpoch { attempt } => format!("abandon {attempt}"),
        Effect::EpochFailed { attempt, failure } => format!("failed {attempt}: {}", words::epoch_failure(*failure)),
        Effect::EpochDurable { attempt, reason } => format!("durable {attempt} {}", words::lower(reason)),
        Effect::EpochCommitted { epoch } => format!("committed e{epoch}"),
        Effect::FailJob { failure } => format!("fail job ({}): {}", words::lower(failure.kind()), failure_words(*failure)),
        Effect::Fenced => "fenced".into(),
        Effect::JobFinished { reason } => format!("job finished: {}", words::lower(reason)),
    }
}

#[test]
fn row_01_a_crash_before_the_trigger_restarts_from_the_epoch_before() {
    check::<Words>("row_01_a_crash_before_the_trigger_restarts_from_the_epoch_before");
}

#[test]
fn row_02_acknowledgements_of_an_abandoned_epoch_are_ignored() {
    check::<Words>("row_02_acknowledgements_of_an_abandoned_epoch_are_ignored");
}

#[test]
fn row_03_a_snapshot_that_cannot_be_stored_abandons_the_epoch() {
    check::<Words>("row_03_a_snapshot_that_cannot_be_stored_abandons_the_epoch");
}

#[test]
fn row_06_all_acknowledged_and_no_seal_starts_again_from_the_epoch_before() {
    check::<Words>("row_06_all_acknowledged_and_no_seal_starts_again_from_the_epoch_before");
}

#[test]
fn row_07_a_seal_whose_answer_was_lost_is_found_and_committed() {
    check::<Words>("row_07_a_seal_whose_answer_was_lost_is_found_and_committed");
}

#[test]
fn row_08_a_durable_epoch_is_committed_at_the_restart() {
    check::<Words>("row_08_a_durable_epoch_is_committed_at_the_restart");
}

#[test]
fn row_09_after_some_commits_the_rest_is_committed() {
    check::<Words>("row_09_after_some_commits_the_rest_is_committed");
}

#[test]
fn row_11_an_expired_transaction_is_lost_by_proof() {
    check::<Words>("row_11_an_expired_transaction_is_lost_by_proof");
}

#[test]
fn row_12_commits_that_were_not_recorded_are_resolved_again() {
    check::<Words>("row_12_commits_that_were_not_recorded_are_resolved_again");
}

#[test]
fn row_13_crashes_while_recovering_lead_to_the_same_result() {
    check::<Words>("row_13_crashes_while_recovering_lead_to_the_same_result");
}

#[test]
fn row_14_of_two_coordinators_the_older_is_fenced() {
    check::<Words>("row_14_of_two_coordinators_the_older_is_fenced");
}

#[test]
fn row_18_a_rewind_is_a_new_generation_with_new_epochs() {
    check::<Words>("row_18_a_rewind_is_a_new_generation_with_new_epochs");
}

#[test]
fn row_19_a_fork_touches_nothing_of_its_parent() {
    check::<Words>("row_19_a_fork_touches_nothing_of_its_parent");
}

#[test]
fn row_20_the_end_of_one_of_two_writers_is_not_the_end_of_the_job() {
    check::<Words>("row_20_the_end_of_one_of_two_writers_is_not_the_end_of_the_job");
}

#[test]
fn row_21_a_stop_that_was_sealed_is_only_finished() {
    check::<Words>("row_21_a_stop_that_was_sealed_is_only_finished");
}

#[test]
fn row_22_a_store_that_refuses_fails_the_job_after_the_tolerated_number() {
    check::<Words>("row_22_a_store_that_refuses_fails_the_job_after_the_tolerated_number");
}

#[test]
fn transcripts_of_the_crash_table_notice_broken_rules() {
    assert!(notices::<Words>("row_02_acknowledgements_of_an_abandoned_epoch_are_ignored", Mutation::AcceptLateAck));
    assert!(notices::<Words>("row_03_a_snapshot_that_cannot_be_stored_abandons_the_epoch", Mutation::ForgetCarried));
    assert!(notices::<Words>("row_07_a_seal_whose_answer_was_lost_is_found_and_committed", Mutation::GiveUpDoubtful));
    assert!(notices::<Words>("row_08_a_durable_epoch_is_committed_at_the_restart", Mutation::SkipResolve));
    assert!(notices::<Words>("row_11_an_expired_transaction_is_lost_by_proof", Mutation::LostAsCommitted));
    assert!(notices::<Words>("row_13_crashes_while_recovering_lead_to_the_same_result", Mutation::SkipResolve));
    assert!(notices::<Words>("row_14_of_two_coordinators_the_older_is_fenced", Mutation::IgnoreConflict));
    assert!(notices::<Words>("row_20_the_end_of_one_of_two_writers_is_not_the_end_of_the_job", Mutation::FinalByOneTask));
}
