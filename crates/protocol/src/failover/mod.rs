//! What to do after a failure: start again after a wait, or stop.
//!
//! Owns: the wait, and the count of failures. Does not own: cancelling tasks, reading the ledger, claiming a generation; the driver does
//! these on the effects. It outlives generations; events come from tasks, from coordinators and from the driver's own restarts. It sees
//! kinds, never texts.
//!
//! Invariants:
//! 1. `Retry` and `Restart` lead to a restart; every other kind stops the job, at once and for good.
//! 2. Failures while the job waits or is being restarted belong to the failure before, and start no second restart.
//! 3. After more than the tolerated failures without a durable epoch between, the job stops, however slowly they come: with a store that
//!    refuses, each of them can take minutes.

use std::time::Duration;

use staunch_types::{ErrorKind, Tick};

use crate::mutation::{Mutation, broken};

/// How restarts are paced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Wait before the first restart; doubles with each further failure without progress.
    pub backoff_first: Duration,
    /// Longest wait.
    pub backoff_max: Duration,
    /// Any number; makes the waits of two jobs differ, by up to a quarter, without chance.
    pub jitter_seed: u64,
    /// Failures that are survived without a durable epoch between.
    pub failures_tolerated: u32,
}

impl Default for Config {
    fn default() -> Self {
        Config { backoff_first: Duration::from_millis(100), backoff_max: Duration::from_secs(60), jitter_seed: 0, failures_tolerated: 10 }
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A task, a worker or a coordinator failed. Also a restart that did not get as far as running.
    Failed {
        /// How to react.
        kind: ErrorKind,
    },
    /// The restarted job runs.
    Restarted,
    /// An epoch became durable: the job makes progress.
    EpochDurable,
    /// The deadline has passed.
    TimePassed,
}

/// What must be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Cancel all tasks and the coordinator of this generation. Prepared transactions stay as they are.
    CancelAll,
    /// Start again: read the ledger, claim a generation, restore.
    Restart {
        /// Number of the restart, from 1.
        number: u64,
    },
    /// Stop for good.
    StopJob {
        /// Why.
        cause: StopCause,
    },
}

/// Why a job stops for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StopCause {
    /// The kind of failure allows no restart.
    Kind(ErrorKind),
    /// Too many failures; the kind is the last one's.
    TooManyFailures(ErrorKind),
}

/// The failover of one job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Failover {
    config: Config,
    phase: Phase,
    /// Failures since the last progress.
    without_progress: u32,
    restarts: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Running,
    Waiting { until: Tick },
    Restarting,
    Stopped,
}

impl Failover {
    /// The failover of a job that is being started. Nothing of it is durable: a new process starts with a clean count.
    #[must_use]
    pub fn new(config: Config) -> Failover {
        Failover { config, phase: Phase::Restarting, without_progress: 0, restarts: 0 }
    }

    /// Takes one event.
    pub fn step(&mut self, now: Tick, event: Event, out: &mut Vec<Effect>) {
        match event {
            Event::Failed { kind } => self.failed(now, kind, out),
            Event::Restarted => {
                if self.phase == Phase::Restarting {
                    self.phase = Phase::Running;
                }
            }
            Event::EpochDurable => {
                if self.phase == Phase::Running {
                    self.without_progress = 0;
                }
            }
            Event::TimePassed => self.time_passed(now, out),
        }
    }

    /// When the restart is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Tick> {
        match self.phase {
            Phase::Waiting { until } => Some(until),
            Phase::Running | Phase::Restarting | Phase::Stopped => None,
        }
    }

    /// Restarts so far.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    fn failed(&mut self, now: Tick, kind: ErrorKind, out: &mut Vec<Effect>) {
        let restarts = match kind {
            ErrorKind::Retry | ErrorKind::Restart => true,
            ErrorKind::Fenced | ErrorKind::Invalid | ErrorKind::Corrupt | ErrorKind::Lost | ErrorKind::Bug => false,
        };
        match self.phase {
            Phase::Stopped => {}
            _ if !restarts => self.stop(StopCause::Kind(kind), out),
            Phase::Waiting { .. } => {}
            Phase::Running | Phase::Restarting => self.count(now, kind, out),
        }
    }

    fn count(&mut self, now: Tick, kind: ErrorKind, out: &mut Vec<Effect>) {
        self.without_progress = self.without_progress.saturating_add(1);
        if self.without_progress > self.config.failures_tolerated {
            self.stop(StopCause::TooManyFailures(kind), out);
            return;
        }
        let until = if broken(Mutation::RestartAtOnce) { now } else { now + self.backoff() };
        self.phase = Phase::Waiting { until };
        out.push(Effect::CancelAll);
    }

    fn stop(&mut self, cause: StopCause, out: &mut Vec<Effect>) {
        self.phase = Phase::Stopped;
        out.push(Effect::CancelAll);
        out.push(Effect::StopJob { cause });
    }

    fn time_passed(&mut self, now: Tick, out: &mut Vec<Effect>) {
        if self.deadline().is_some_and(|until| until <= now) {
            self.phase = Phase::Restarting;
            self.restarts += 1;
            out.push(Effect::Restart { number: self.restarts });
        }
    }

    /// Between three quarters of the wait and all of it.
    fn backoff(&self) -> Duration {
        let whole = crate::ids::backoff(self.config.backoff_first, self.config.backoff_max, self.without_progress);
        let quarter = whole / 4;
        let share = mix(self.config.jitter_seed ^ self.restarts) >> 40;
        whole - quarter.mul_f64(share as f64 / (1u64 << 24) as f64)
    }
}

/// The finaliser of SplitMix64.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
