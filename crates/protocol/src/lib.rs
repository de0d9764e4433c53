//! The protocols, as plain values without I/O: how barriers align, when an epoch is durable, when and how it is committed,
//! who may write, what happens after a failure.
//!
//! Owns: every decision about epochs, generations, commits, restarts, watermarks and assignment.
//! Does not own: clocks, threads, storage, sockets, bytes. Snapshots and committables are ids here; whoever drives the
//! machines keeps what they stand for.
//!
//! Every machine has the same three functions:
//!
//! - `step(now, event, out)` takes what happened and appends what must be done now. It never blocks and never fails.
//! - `deadline()` says when to call `step` with `TimePassed` if nothing else happens before.
//! - `recover(facts, generation)` is the only way to start after a crash; it derives everything from what is durable.
//!
//! A driver executes effects in the order they were appended and answers each effect that carries an [`OpId`] with exactly one
//! event that carries the same id. Repeated, late and reordered answers are counted and ignored.
//!
//! The order of modules is the order of the data: a record's barrier aligns, its watermark advances, its split was assigned;
//! then the epoch is written to the ledger, becomes durable, is committed; the coordinator is these three composed; the
//! failover machine survives them all.
//!
//! Invariants E1 to E10 are those of the guarantees page; each machine names the ones it keeps.

mod ids;
mod mutation;
pub mod align;
pub mod watermark;
pub mod assign;
pub mod ledger;
pub mod checkpoint;
pub mod commit;
pub mod coordinator;
pub mod failover;

#[cfg(test)]
mod tests;

pub use checkpoint::CommitPermit;
pub use commit::transaction;
pub use ids::{Attempt, CommittableId, Count, OpId, Reason, SinkId};
