//! Sinks have names in the ledger and numbers in the protocol.

use std::collections::BTreeMap;

use staunch_protocol::{Attempt, CommittableId, SinkId};
use staunch_types::{Name, TaskId};

use super::NamedCommittable;
use crate::job::Plan;
use crate::operator::OperatorPart;

/// The numbers of all sinks in this process: those of the job first, then those that only the ledger knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SinkNames(Vec<(Name, String)>);

impl SinkNames {
    /// Numbers the sinks of a job: name and kind.
    #[must_use]
    pub fn new(sinks: Vec<(Name, &'static str)>) -> SinkNames {
        SinkNames(sinks.into_iter().map(|(name, kind)| (name, kind.to_owned())).collect())
    }

    /// The number of a sink.
    ///
    /// # Panics
    /// When the sink was never numbered.
    #[must_use]
    pub fn id(&self, name: &Name) -> SinkId {
        match self.0.iter().position(|(n, _)| n == name) {
            Some(at) => SinkId(at as u32),
            None => panic!("sink {name} has no number"),
        }
    }

    /// The number of a sink, which it gets now if it has none.
    pub fn id_or_add(&mut self, name: &Name, kind: &str) -> SinkId {
        if !self.0.iter().any(|(n, _)| n == name) {
            self.0.push((name.clone(), kind.to_owned()));
        }
        self.id(name)
    }

    /// The name of a number.
    #[must_use]
    pub fn name(&self, id: SinkId) -> Option<&Name> {
        self.0.get(id.0 as usize).map(|(name, _)| name)
    }

    /// Committables by the protocol's ids.
    pub fn ids<'a>(&'a self, all: &'a [NamedCommittable]) -> impl Iterator<Item = (CommittableId, NamedCommittable)> + 'a {
        all.iter().map(|c| (c.id(self.id(&c.sink)), c.clone()))
    }

    /// Gives everything that a task prepared its id: counted from 0 among those of one attempt and sink.
    #[must_use]
    pub fn name_all(&self, task: TaskId, parts: &BTreeMap<Name, OperatorPart>, plan: &Plan) -> Vec<(CommittableId, NamedCommittable)> {
        let mut named = Vec::new();
        for (sink, part) in parts {
            let mut numbers: BTreeMap<Attempt, u32> = BTreeMap::new();
            for committable in &part.committables {
                let attempt = Attempt { epoch: committable.epoch, generation: committable.generation };
                let next = numbers.entry(attempt).or_default();
                let kind = plan.sinks.get(sink).map_or("", |s| s.kind).to_owned();
                let one = NamedCommittable { sink: sink.clone(), kind, task, number: *next, committable: committable.clone() };
                *next += 1;
                named.push((one.id(self.id(sink)), one));
            }
        }
        named
    }
}
