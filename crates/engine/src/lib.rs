//! The engine: everything between a source and a commit, in the data's order.
//!
//! Owns: jobs, the running of tasks, the exchange of records, operators, state, checkpoints, the driving of commits.
//! Does not own: any connector, any protocol's rules (staunch-protocol), any durable byte form (staunch-format), the command line.
//!
//! Invariants: see each module; those of the whole (E1 to E10) are in `docs/guarantees.md`.

pub mod job;
pub mod source;
pub mod operator;
pub mod exchange;
pub mod state;
pub mod checkpoint;
pub mod sink;
pub mod cluster;
mod observe;
pub mod runtime;
