//! Sinks: the writer at the end of a chain, and the committer as the coordinator sees it.
//!
//! Owns: the sink node, the committer behind its type. Does not own: any particular sink, when to commit.

mod plan;
mod node;

pub(crate) use node::CARRIED;
pub use node::{Discard, SinkNode};
pub use plan::{CommitterDyn, SinkCheck, SinkPlan, sink_context};
