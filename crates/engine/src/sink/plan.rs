//! A sink as the coordinator sees it.

use std::sync::Arc;

use staunch_api::{Committer, Kept, Sink, SinkContext};
use staunch_types::{Name, Result};

/// A committer behind its type.
pub type CommitterDyn = Box<dyn Committer>;

/// Looks whether a sink can work. May block.
pub type SinkCheck = Arc<dyn Fn(&SinkContext) -> Result<()> + Send + Sync>;

/// A sink in the plan.
pub struct SinkPlan {
    /// Its name.
    pub name: Name,
    /// Its kind.
    pub kind: &'static str,
    /// One line for people.
    pub description: String,
    /// Addresses of what it writes.
    pub writes: Vec<String>,
    /// What it keeps until a commit is recorded.
    pub kept: Kept,
    /// Looks whether it can work. May block.
    pub check: SinkCheck,
    /// Makes its committer.
    pub committer: Box<dyn Fn(SinkContext) -> Result<CommitterDyn> + Send + Sync>,
}

impl SinkPlan {
    /// Describes a sink.
    pub fn new<K: Sink + Sync>(name: Name, sink: &K) -> SinkPlan {
        let (kind, description) = (sink.kind(), sink.describe());
        let (for_check, for_committer) = (sink.clone(), sink.clone());
        SinkPlan {
            name,
            kind,
            description,
            writes: sink.writes(),
            kept: sink.keeps(),
            check: Arc::new(move |context| for_check.check(context)),
            committer: Box::new(move |context| Ok(Box::new(for_committer.committer(context)?) as CommitterDyn)),
        }
    }
}
