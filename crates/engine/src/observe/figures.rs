//! Names of the engine's figures. `docs/metrics.md` has a row for each.
//!
//! Labels: `job` everywhere; `operator` where records are counted, `sink` where output is committed.

use staunch_api::Figure;

/// Which incarnation of the job runs.
pub(super) const GENERATION: Figure = Figure { name: "staunch_generation", help: "Number of the present generation of the job" };
/// Whether it stands still.
pub(super) const TASKS: Figure = Figure { name: "staunch_tasks", help: "Tasks that run; 0 while the job starts, or waits to start again" };
/// Failures that it survived.
pub(super) const RESTARTS: Figure = Figure { name: "staunch_restarts", help: "Restarts of the job by itself, in this process" };
/// Input and output of an operator.
pub(super) const RECORDS_IN: Figure = Figure {
    name: "staunch_records_in",
    help: "Records that an operator took in: read by a source, written by a sink. Counted when their epoch is durable",
};
/// Records that an operator gave out.
pub(super) const RECORDS_OUT: Figure = Figure {
    name: "staunch_records_out",
    help: "Records that an operator gave out, where it counts them. Counted when their epoch is durable",
};
/// Records behind the watermark.
pub(super) const RECORDS_LATE: Figure =
    Figure { name: "staunch_records_late", help: "Records that came after their window had fired. Counted when their epoch is durable" };
/// Input that is no record.
pub(super) const RECORDS_REJECTED: Figure = Figure {
    name: "staunch_records_rejected",
    help: "Pieces of input that could not become a record and went to the dead letter. Counted when their epoch is durable",
};
/// The newest checkpoint.
pub(super) const EPOCH_DURABLE: Figure = Figure { name: "staunch_epoch_durable", help: "Number of the newest durable epoch" };
/// The newest checkpoint whose output is visible.
pub(super) const EPOCH_COMMITTED: Figure =
    Figure { name: "staunch_epoch_committed", help: "Number of the newest epoch of which, and of all before, the output is committed" };
/// Checkpoints.
pub(super) const CHECKPOINTS: Figure = Figure { name: "staunch_checkpoints", help: "Checkpoints that became durable, in this process" };
/// Checkpoints that did not come about.
pub(super) const CHECKPOINTS_FAILED: Figure =
    Figure { name: "staunch_checkpoints_failed", help: "Checkpoints that were given up, in this process" };
/// How long one takes.
pub(super) const CHECKPOINT_TOOK: Figure = Figure {
    name: "staunch_checkpoint_duration_seconds",
    help: "From the trigger of a checkpoint until it is durable: barriers, snapshots, prepares and the seal",
};
/// How much would be done again after a crash.
pub(super) const CHECKPOINT_AGE: Figure = Figure {
    name: "staunch_checkpoint_age_seconds",
    help: "Seconds since the newest checkpoint was put together: what a crash now would do again",
};
/// Output between prepare and commit.
pub(super) const IN_DOUBT: Figure =
    Figure { name: "staunch_in_doubt_outputs", help: "Transactions or files that are prepared and not known to be committed" };
/// How long the oldest is there.
pub(super) const IN_DOUBT_AGE: Figure =
    Figure { name: "staunch_in_doubt_age_seconds", help: "Seconds since the oldest output in doubt was begun outside" };
/// How long it can be left there.
pub(super) const IN_DOUBT_LEFT: Figure = Figure {
    name: "staunch_in_doubt_seconds_left",
    help: "Seconds until the outside may give up the first output in doubt, by its transaction timeout; below 0 it may be lost",
};
/// Commits.
pub(super) const COMMITS: Figure =
    Figure { name: "staunch_commits", help: "Transactions or files whose commit is proven, also those written again, in this process" };
/// How long one takes.
pub(super) const COMMIT_LATENCY: Figure = Figure {
    name: "staunch_commit_latency_seconds",
    help: "From the seal of a checkpoint until the commit of an output that it names is proven; a downtime in between included",
};
/// Commits that must be repeated.
pub(super) const COMMIT_FAILURES: Figure =
    Figure { name: "staunch_commit_failures", help: "Commits, and questions what became of one, that failed; most are tried again" };
/// Lost output that is there again.
pub(super) const RESENDS: Figure =
    Figure { name: "staunch_resends", help: "Outputs that were lost and written again from their copy in the journal, in this process" };
/// Lost output.
pub(super) const LOST: Figure =
    Figure { name: "staunch_lost_outputs", help: "Outputs that were found to be provably lost, also those then written again or accepted" };
/// Lost output that stays so.
pub(super) const ACCEPTED: Figure =
    Figure { name: "staunch_accepted_outputs", help: "Lost outputs that a person accepted, which is recorded in the ledger" };
