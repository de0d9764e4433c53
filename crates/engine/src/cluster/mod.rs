//! The coordinator of a job and what it says to tasks.
//!
//! Owns: the messages between both, the part of a task that speaks with the coordinator, the driver of the protocol machines.
//! Does not own: the protocols (staunch-protocol), the ledger's files (checkpoint).

mod messages;
mod events;
mod config;
mod core;
mod tasks;
mod sources;
mod sinks;
mod retention;
mod generation;
mod master;

pub use config::{Restore, RunConfig};
pub use core::TaskCore;
pub use events::JobEvent;
pub use master::{Master, MasterPhase};
pub use messages::{CoordinatorMail, SplitBytes, TaskMail};
