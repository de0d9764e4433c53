//! What a run can be told.

use std::collections::BTreeSet;
use std::time::Duration;

use staunch_types::{Epoch, KeyGroupCount, Name};

/// Settings of one run of a job.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// Name of the job.
    pub job: Name,
    /// Version of the program, as it calls itself; for the ledger.
    pub code_version: String,
    /// Key groups; fixed for the job's life.
    pub groups: KeyGroupCount,
    /// From one checkpoint to the next.
    pub interval: Duration,
    /// From the end of a checkpoint to the next, at least.
    pub pause_min: Duration,
    /// After so long an unfinished checkpoint is given up.
    pub timeout: Duration,
    /// Checkpoints that may fail in a row.
    pub failures_tolerated: u32,
    /// Completed checkpoints that are kept.
    pub retained: usize,
    /// What to start from.
    pub restore: Restore,
    /// Operators whose state in the checkpoint may be dropped because they no longer exist.
    pub allow_lost_state: BTreeSet<Name>,
    /// Sinks whose provably lost output a person has accepted.
    pub accept_lost: BTreeSet<Name>,
    /// Sinks that may abort what another job with a sink of this name has open.
    pub take_over: BTreeSet<Name>,
    /// How restarts are paced.
    pub restarts: staunch_protocol::failover::Config,
}

/// What a run starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restore {
    /// The newest durable checkpoint, if there is one.
    Latest,
    /// Nothing: the input is read from its beginning, into a new timeline.
    Nothing,
    /// This checkpoint: a rewind.
    Epoch(Epoch),
}

impl RunConfig {
    /// The defaults for a job of this name.
    #[must_use]
    pub fn new(job: Name) -> RunConfig {
        RunConfig {
            job,
            code_version: env!("CARGO_PKG_VERSION").to_owned(),
            groups: KeyGroupCount::default(),
            interval: Duration::from_secs(10),
            pause_min: Duration::ZERO,
            timeout: Duration::from_secs(600),
            failures_tolerated: 3,
            retained: 3,
            restore: Restore::Latest,
            allow_lost_state: BTreeSet::new(),
            accept_lost: BTreeSet::new(),
            take_over: BTreeSet::new(),
            restarts: staunch_protocol::failover::Config::default(),
        }
    }
}
