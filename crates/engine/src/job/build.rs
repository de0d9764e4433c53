//! The making of one task's chain.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use staunch_api::{CheckpointStore, FileSystem, Io, Lead, Metrics};
use staunch_types::{Epoch, Generation, KeyGroupCount, KeyGroupRange, LedgerId, Name, Result, TaskId};

use super::{Edge, Plan};
use crate::checkpoint::Loader;
use crate::cluster::{CoordinatorMail, TaskMail};
use crate::exchange::{Receiver, Sender, channel};
use crate::operator::{Chain, Link, LinkOutput, OperatorRestore, TaskContext};
use crate::runtime::{Mailbox, Task, WakeFlag};
use crate::state::keyed::Scope;
use crate::state::paging::backend::Backend;

/// What a segment's factory makes.
pub enum Assembled {
    /// A task: the segment is the root of its chain.
    Task(Box<dyn Task>),
    /// A `Box<dyn Chain<T>>` to hang on a link, as `Any`.
    Linked(Box<dyn Any>),
}

/// What operators had in the restored checkpoint, by name; each with the number of key groups it covered.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// By operator, one per task of then.
    pub operators: BTreeMap<Name, Vec<crate::operator::OperatorPart>>,
}

/// All that the factories of one task need.
pub struct TaskBuild<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The job.
    pub job: &'a Name,
    /// The task.
    pub task: TaskId,
    /// Tasks of its chain.
    pub parallelism: u32,
    /// The generation.
    pub generation: Generation,
    /// Key groups of the job.
    pub groups: KeyGroupCount,
    /// Records per operator in the checkpoint that is restored.
    pub restored: &'a Restored,
    /// The epoch that is restored; 0 for none.
    pub restored_epoch: Epoch,
    /// Channels of this generation.
    pub edges: &'a mut EdgeTable,
    /// The task's door to blocking work.
    pub io: Io,
    /// Files.
    pub file_system: Arc<dyn FileSystem>,
    /// Checkpoints.
    pub store: Arc<dyn CheckpointStore>,
    /// What lies under keyed state, if it does not stay in memory.
    pub backend: Option<Backend>,
    /// Whether the generation is still the newest.
    pub lead: Lead,
    /// The job's ledger.
    pub ledger: LedgerId,
    /// Figures, labelled with the job and the task.
    pub metrics: Metrics,
    /// What comes from the coordinator.
    pub mailbox: Mailbox<TaskMail>,
    /// What goes to it.
    pub coordinator: Mailbox<CoordinatorMail>,
}

impl TaskBuild<'_> {
    /// Key groups of this task.
    #[must_use]
    pub fn range(&self) -> KeyGroupRange {
        self.groups.range_of(self.task.index, self.parallelism)
    }

    /// What states must know of the task.
    #[must_use]
    pub fn scope(&self) -> Scope {
        Scope { groups: self.groups, range: self.range() }
    }

    /// The context that the task starts with.
    #[must_use]
    pub fn context(&self) -> TaskContext {
        TaskContext {
            task: self.task,
            now: staunch_types::Tick::default(),
            wall_ms: 0,
            groups: self.groups,
            range: self.range(),
            snapshot: None,
        }
    }

    /// What an operator gets from before: all inline values, and the segments that may hold keys of this task.
    #[must_use]
    pub fn restore(&self, operator: &Name) -> OperatorRestore {
        let mut restore = OperatorRestore::default();
        for part in self.restored.operators.get(operator).into_iter().flatten() {
            restore.inline.push(part.inline.clone());
            for (state, segments) in &part.states {
                let mine = segments.iter().filter(|s| s.groups.overlaps(self.range())).cloned();
                restore.states.entry(state.clone()).or_default().extend(mine);
            }
            restore.databases.extend(part.database.iter().filter(|d| d.stored.groups.overlaps(self.range())).cloned());
        }
        restore
    }

    /// Inline values of one kind, spread over the tasks: each goes to exactly one of them.
    #[must_use]
    pub fn share(&self, operator: &Name, kind: &str) -> Vec<Vec<u8>> {
        let parts = self.restored.operators.get(operator).into_iter().flatten();
        let all = parts.filter_map(|p| p.inline.get(kind)).filter(|b| !b.is_empty());
        all.enumerate().filter(|(n, _)| *n as u32 % self.parallelism == self.task.index).map(|(_, b)| b.clone()).collect()
    }

    /// Reads state back.
    #[must_use]
    pub fn loader(&self, segments: Vec<crate::checkpoint::Segment>) -> Loader {
        Loader::new(Arc::clone(&self.store), self.io.clone(), segments)
    }

    /// Makes all chains behind a link.
    ///
    /// # Errors
    /// As the factories report.
    pub fn chains<T: 'static>(&mut self, link: Link) -> Result<Vec<Box<dyn Chain<T>>>> {
        let plan = self.plan;
        let mut chains = Vec::new();
        for child in plan.children(link) {
            match (plan.segments[child].factory)(self)? {
                Assembled::Linked(any) => match any.downcast::<Box<dyn Chain<T>>>() {
                    Ok(chain) => chains.push(*chain),
                    Err(_) => panic!("a link was made for one type of record and taken for another"),
                },
                Assembled::Task(_) => panic!("a segment behind a link made a task"),
            }
        }
        Ok(chains)
    }

    /// The output of a link that feeds one chain; `None` when nobody took the stream.
    ///
    /// # Errors
    /// As the factories report.
    pub fn single<T: Send + 'static>(&mut self, link: Link) -> Result<Option<LinkOutput<T>>> {
        let mut chains = self.chains::<T>(link)?;
        assert!(chains.len() <= 1, "a stream that is taken once was taken twice");
        Ok(chains.pop().map(LinkOutput::single))
    }
}

/// The channels of one generation, made when either end is asked for.
pub struct EdgeTable {
    flags: BTreeMap<TaskId, Arc<WakeFlag>>,
    senders: BTreeMap<(Edge, u32), Box<dyn Any>>,
    receivers: BTreeMap<(Edge, u32), Box<dyn Any>>,
}

impl EdgeTable {
    /// A table for tasks with these flags.
    #[must_use]
    pub fn new(flags: BTreeMap<TaskId, Arc<WakeFlag>>) -> EdgeTable {
        EdgeTable { flags, senders: BTreeMap::new(), receivers: BTreeMap::new() }
    }

    fn make<T: Send + 'static>(&mut self, plan: &Plan, edge: Edge) {
        let Some((from, to)) = plan.ends(edge) else { panic!("an exchange without an end passed the plan's check") };
        let (senders_count, receivers_count) = (plan.chains[from].parallelism, plan.chains[to].parallelism);
        let mut receivers: Vec<Vec<Receiver<T>>> = (0..receivers_count).map(|_| Vec::new()).collect();
        for index in 0..senders_count {
            let sender_flag = &self.flags[&TaskId { chain: from as u32, index }];
            let mut senders: Vec<Sender<T>> = Vec::new();
            for (number, into) in receivers.iter_mut().enumerate() {
                let receiver_flag = &self.flags[&TaskId { chain: to as u32, index: number as u32 }];
                let (sender, receiver) = channel(Arc::clone(sender_flag), Arc::clone(receiver_flag));
                senders.push(sender);
                into.push(receiver);
            }
            self.senders.insert((edge, index), Box::new(senders));
        }
        for (number, all) in receivers.into_iter().enumerate() {
            self.receivers.insert((edge, number as u32), Box::new(all));
        }
    }

    /// The sending ends of one task.
    pub fn senders<T: Send + 'static>(&mut self, plan: &Plan, edge: Edge, index: u32) -> Vec<Sender<T>> {
        if !self.senders.contains_key(&(edge, index)) {
            self.make::<T>(plan, edge);
        }
        take(self.senders.remove(&(edge, index)))
    }

    /// The receiving ends of one task.
    pub fn receivers<T: Send + 'static>(&mut self, plan: &Plan, edge: Edge, index: u32) -> Vec<Receiver<T>> {
        if !self.receivers.contains_key(&(edge, index)) {
            self.make::<T>(plan, edge);
        }
        take(self.receivers.remove(&(edge, index)))
    }
}

fn take<E: 'static>(ends: Option<Box<dyn Any>>) -> Vec<E> {
    match ends.map(|any| any.downcast::<Vec<E>>()) {
        Some(Ok(ends)) => *ends,
        _ => panic!("the ends of an exchange were asked for twice, or for another type of record"),
    }
}
