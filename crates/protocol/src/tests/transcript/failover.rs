//! Transcripts of failover: `config first=100 max=1000 seed=1 tolerated=3`, `failed restart`, `restarted`, `durable`, `time`.

use staunch_types::Tick;

use super::{Script, check, notices, until, words};
use crate::failover::{Config, Effect, Event, Failover, StopCause};
use crate::mutation::Mutation;

struct Words(Failover);

impl Default for Words {
    fn default() -> Self {
        Words(Failover::new(Config::default()))
    }
}

impl Words {
    fn set(&mut self, settings: &[&str]) {
        let mut config = Config::default();
        for setting in settings {
            match setting.split_once('=') {
                Some(("first", value)) => config.backoff_first = words::millis(value),
                Some(("max", value)) => config.backoff_max = words::millis(value),
                Some(("seed", value)) => config.jitter_seed = words::number(value),
                Some(("tolerated", value)) => config.failures_tolerated = words::number(value),
                _ => panic!("no setting `{setting}`"),
            }
        }
        self.0 = Failover::new(config);
    }
}

impl Script for Words {
    const FOLDER: &'static str = "failover";

    fn line(&mut self, now: Tick, words: &[&str]) -> Vec<String> {
        let event = match words {
            ["config", settings @ ..] => {
                self.set(settings);
                return Vec::new();
            }
            ["failed", kind] => Event::Failed { kind: words::kind(kind) },
            ["restarted"] => Event::Restarted,
            ["durable"] => Event::EpochDurable,
            ["time"] => Event::TimePassed,
            _ => panic!("no event {words:?}"),
        };
        let (deadline, mut out) = (self.0.deadline(), Vec::new());
        self.0.step(now, event, &mut out);
        out.iter().map(show).chain(until(deadline, self.0.deadline())).collect()
    }
}

fn show(effect: &Effect) -> String {
    match effect {
        Effect::CancelAll => "cancel all".into(),
        Effect::Restart { number } => format!("restart {number}"),
        Effect::StopJob { cause: StopCause::Kind(kind) } => format!("stop job: {}", words::lower(kind)),
        Effect::StopJob { cause: StopCause::TooManyFailures(kind) } => format!("stop job: too many failures, last {}", words::lower(kind)),
    }
}

#[test]
fn restarts_wait_longer_each_time_until_there_is_progress() {
    check::<Words>("restarts_wait_longer_each_time_until_there_is_progress");
}

#[test]
fn too_many_failures_without_progress_stop_the_job_however_slowly_they_come() {
    check::<Words>("too_many_failures_without_progress_stop_the_job_however_slowly_they_come");
}

#[test]
fn failures_that_follow_from_a_failure_start_no_second_restart() {
    check::<Words>("failures_that_follow_from_a_failure_start_no_second_restart");
}

#[test]
fn kinds_without_a_restart_stop_at_once() {
    check::<Words>("kinds_without_a_restart_stop_at_once");
}

#[test]
fn transcripts_of_failover_notice_a_restart_without_a_wait() {
    assert!(notices::<Words>("restarts_wait_longer_each_time_until_there_is_progress", Mutation::RestartAtOnce));
}
