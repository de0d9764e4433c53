//! Sources: how splits are found and given out, and the task that reads them.
//!
//! Owns: the enumerator behind its type, the source task. Does not own: any particular source.

mod plan;
mod task;

pub use plan::{EnumeratorDyn, EnumeratorMaker, Found, SourcePlan};
pub(crate) use task::SPLITS;
pub use task::SourceTask;
