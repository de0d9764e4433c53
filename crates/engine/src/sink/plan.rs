//! A sink as the coordinator sees it.

use std::sync::Arc;

use staunch_api::{CheckpointStore, Committable, Committer, Journal, Kept, Sink, SinkContext, Term};
use staunch_types::{Generation, Name, Result};

use crate::cluster::RunConfig;
use crate::runtime::World;

/// A committer behind its type.
pub type CommitterDyn = Box<dyn Committer>;

/// What a sink is given before its job has claimed anything.
#[must_use]
pub fn sink_context(config: &RunConfig, world: &World, store: &Arc<dyn CheckpointStore>, sink: &Name) -> SinkContext {
    SinkContext {
        job: config.job.clone(),
        sink: sink.clone(),
        generation: Generation::default(),
        file_system: Arc::clone(&world.file_system),
        journal: Journal::new(Arc::clone(store), sink),
        ledger: None,
        interval: config.interval,
        takes_over: config.take_over.contains(sink),
        accepts_lost: config.accept_lost.contains(sink),
    }
}

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
    /// Until when the outside keeps what it has prepared.
    pub term: fn(&Committable) -> Option<Term>,
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
            term: K::Committer::term,
            check: Arc::new(move |context| for_check.check(context)),
            committer: Box::new(move |context| Ok(Box::new(for_committer.committer(context)?) as CommitterDyn)),
        }
    }
}
