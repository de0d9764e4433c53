//! Sinks: the writer at the end of a chain, and the committer as the coordinator sees it.
//!
//! Owns: the sink node, the committer behind its type. Does not own: any particular sink, when to commit.

mod plan;
mod node;

pub use plan::{CommitterDyn, SinkPlan};
pub use node::{Discard, SinkNode};
pub(crate) use node::CARRIED;
