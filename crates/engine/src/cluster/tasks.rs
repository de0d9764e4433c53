//! The tasks of one generation: built when it is claimed, placed when writers may start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use staunch_api::{Io, Lead};
use staunch_types::{Epoch, Error, ErrorKind, Generation, LedgerId, Result, TaskId};

use super::generation::Surroundings;
use super::{CoordinatorMail, TaskMail};
use crate::checkpoint::CheckpointRecord;
use crate::job::{Assembled, EdgeTable, Head, Plan, Restored, TaskBuild};
use crate::runtime::{Mailbox, Task, WakeFlag};

/// Messages that may wait for one task.
const TASK_MAIL_MAX: usize = 4096;

/// All tasks of a generation.
pub(super) struct Tasks {
    pub(super) mailboxes: BTreeMap<TaskId, Mailbox<TaskMail>>,
    sources: BTreeSet<TaskId>,
    unplaced: Vec<(usize, Box<dyn Task>, Arc<WakeFlag>)>,
}

/// All tasks of a plan, and those among them that read a source.
pub(super) fn task_ids(plan: &Plan) -> (BTreeSet<TaskId>, BTreeSet<TaskId>) {
    let (mut all, mut sources) = (BTreeSet::new(), BTreeSet::new());
    for (number, chain) in plan.chains.iter().enumerate() {
        for index in 0..chain.parallelism {
            let task = TaskId { chain: number as u32, index };
            all.insert(task);
            if matches!(plan.segments[chain.root].head, Head::Source(_)) {
                sources.insert(task);
            }
        }
    }
    (all, sources)
}

impl Tasks {
    /// Builds all tasks; state is loaded when they run.
    ///
    /// # Errors
    /// As sources, sinks and operators report.
    pub(super) fn build(
        around: &mut Surroundings<'_>,
        generation: Generation,
        (ledger, lead): (LedgerId, &Lead),
        restored: Option<&CheckpointRecord>,
    ) -> Result<Tasks> {
        let plan = around.plan;
        let parts = restored.map(restored_parts).unwrap_or_default();
        let (ids, sources) = task_ids(plan);
        // Neighbours in a chain go to different workers, and so do the chains of one index: with as many tasks per chain as workers,
        // each worker has one of each.
        let lane = |id: &TaskId| id.index as usize + if plan.chains[id.chain as usize].parallelism == 1 { id.chain as usize } else { 0 };
        let flags: BTreeMap<TaskId, Arc<WakeFlag>> = ids.iter().map(|id| (*id, around.executor.flag(lane(id)))).collect();
        let mut edges = EdgeTable::new(flags.clone());
        let mut tasks = Tasks { mailboxes: BTreeMap::new(), sources, unplaced: Vec::new() };
        for id in ids {
            let chain = &plan.chains[id.chain as usize];
            let flag = Arc::clone(&flags[&id]);
            let mailbox = Mailbox::new(TASK_MAIL_MAX, Arc::clone(&flag));
            tasks.mailboxes.insert(id, mailbox.clone());
            let mut build = TaskBuild {
                plan,
                job: &around.config.job,
                task: id,
                parallelism: chain.parallelism,
                generation,
                groups: around.config.groups,
                restored: &parts,
                restored_epoch: restored.map_or(Epoch(0), CheckpointRecord::epoch),
                edges: &mut edges,
                io: Io::new(Arc::clone(&around.world.door), flag.waker()),
                file_system: Arc::clone(&around.world.file_system),
                store: Arc::clone(around.catalog.store()),
                backend: around.world.backend.clone(),
                lead: lead.clone(),
                ledger,
                metrics: around.world.metrics.with("job", around.config.job.to_string()).with("task", id.index.to_string()),
                mailbox,
                coordinator: around.inbox.clone(),
            };
            match (plan.segments[chain.root].factory)(&mut build)? {
                Assembled::Task(task) => tasks.unplaced.push((lane(&id), task, flag)),
                Assembled::Linked(_) => panic!("the root segment of a chain made no task"),
            }
        }
        Ok(tasks)
    }

    /// Starts all tasks; how many.
    pub(super) fn place(&mut self, around: &mut Surroundings<'_>) -> usize {
        let count = self.unplaced.len();
        for (lane, task, flag) in self.unplaced.drain(..) {
            let inbox = around.inbox.clone();
            let failed = move |task, error| {
                // A full inbox means that the coordinator is about to look anyway, and its own time limits will end the epoch.
                let _ = inbox.send(CoordinatorMail::Failed { task, error });
            };
            around.executor.place(lane, task, flag, Box::new(failed));
        }
        count
    }

    /// Whether they run.
    pub(super) fn are_placed(&self) -> bool {
        self.unplaced.is_empty()
    }

    /// Mails every task.
    pub(super) fn mail_all(&self, mail: &TaskMail) -> Result<()> {
        self.mailboxes.iter().try_for_each(|(task, mailbox)| send(*task, mailbox, mail.clone()))
    }

    /// Mails every task with a source.
    pub(super) fn mail_sources(&self, mail: &TaskMail) -> Result<()> {
        self.sources.iter().try_for_each(|task| send(*task, &self.mailboxes[task], mail.clone()))
    }
}

fn send(task: TaskId, mailbox: &Mailbox<TaskMail>, mail: TaskMail) -> Result<()> {
    mailbox.send(mail).map_err(|_| {
        Error::new(ErrorKind::Restart, "R003", "a task does not take its mail; it is stuck or gone")
            .at(format!("task={task}"))
            .data("the job goes back to its last checkpoint; nothing is lost")
    })
}

fn restored_parts(record: &CheckpointRecord) -> Restored {
    let operators = record.operators.iter().map(|(name, parts)| (name.clone(), parts.values().cloned().collect())).collect();
    Restored { operators }
}
