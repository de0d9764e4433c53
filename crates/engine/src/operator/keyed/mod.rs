//! Steps with keyed state: rolling values and process functions; and the keeper, by which the state of any operator gets into snapshots
//! and back.
//!
//! Owns: the nodes that hold keyed state other than windows. Does not own: the kinds of state (state), windows (window).

mod keeper;
mod blocks;
mod database;
mod ahead;
mod stateful_map;
mod process;

pub(crate) use ahead::Ahead;
pub(crate) use keeper::Keeper;
pub use process::{Process, ProcessContext, ProcessNode, ProcessStep, Timer};
pub use stateful_map::{StatefulMap, StatefulMapNode};
