//! The part of every task that speaks with the coordinator and puts its snapshot together.

use std::collections::VecDeque;
use std::sync::Arc;

use staunch_api::{CheckpointStore, Io};
use staunch_types::{Epoch, ErrorKind, Generation, Result, TaskId, Tick};

use super::{CoordinatorMail, TaskMail};
use crate::checkpoint::Upload;
use crate::job::TaskBuild;
use crate::operator::{SnapshotPart, TaskContext};
use crate::runtime::{Mailbox, MailboxFull, Slice};

/// What a source task and an exchange task have in common.
pub struct TaskCore {
    /// Handed to the chain.
    pub context: TaskContext,
    generation: Generation,
    mailbox: Mailbox<TaskMail>,
    coordinator: Mailbox<CoordinatorMail>,
    outbox: VecDeque<CoordinatorMail>,
    store: Arc<dyn CheckpointStore>,
    io: Io,
}

impl TaskCore {
    /// The core of the task that is being built.
    #[must_use]
    pub fn new(build: &TaskBuild<'_>) -> TaskCore {
        TaskCore {
            context: build.context(),
            generation: build.generation,
            mailbox: build.mailbox.clone(),
            coordinator: build.coordinator.clone(),
            outbox: VecDeque::new(),
            store: Arc::clone(&build.store),
            io: build.io.clone(),
        }
    }

    /// The task.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.context.task
    }

    /// A slice begins.
    pub fn begin(&mut self, slice: Slice) {
        self.context.now = slice.now;
        self.context.wall_ms = slice.wall_ms;
        while let Some(message) = self.outbox.pop_front() {
            if let Err(MailboxFull(message)) = self.coordinator.send(message) {
                self.outbox.push_front(message);
                return;
            }
        }
    }

    /// The next message from the coordinator.
    #[must_use]
    pub fn receive(&mut self) -> Option<TaskMail> {
        self.mailbox.receive()
    }

    /// Tells the coordinator.
    pub fn send(&mut self, message: CoordinatorMail) {
        if self.outbox.is_empty() {
            if let Err(MailboxFull(message)) = self.coordinator.send(message) {
                self.outbox.push_back(message);
            }
        } else {
            self.outbox.push_back(message);
        }
    }

    /// When the outbox must be tried again; the coordinator does not tell when it has room.
    #[must_use]
    pub fn retry_at(&self) -> Option<Tick> {
        const RETRY: std::time::Duration = std::time::Duration::from_millis(1);
        (!self.outbox.is_empty()).then(|| self.context.now + RETRY)
    }

    /// The barrier of an epoch is here: a snapshot begins. One that is still under way is of an epoch that was given up.
    pub fn begin_snapshot(&mut self, epoch: Epoch) {
        let path = format!("state/e{:010}-g{}-t{}.{}", epoch.0, self.generation, self.context.task.chain, self.context.task.index);
        let upload = Upload::new(Arc::clone(&self.store), self.io.clone(), path, epoch);
        self.context.snapshot = Some(SnapshotPart { epoch, operators: Default::default(), unfinished: 0, upload, refused: None });
    }

    /// The epoch was given up.
    pub fn abandon_snapshot(&mut self, epoch: Epoch) {
        if self.context.snapshot.as_ref().is_some_and(|s| s.epoch <= epoch) {
            self.context.snapshot = None;
        }
    }

    /// Moves the snapshot on; acknowledges when every node has finished and everything is durable.
    ///
    /// # Errors
    /// None of the store's: these decline the epoch. Others as they come.
    pub fn poll_snapshot(&mut self) -> Result<()> {
        let task = self.context.task;
        let Some(snapshot) = &mut self.context.snapshot else { return Ok(()) };
        if snapshot.unfinished == 0 {
            snapshot.upload.close();
        }
        let epoch = snapshot.epoch;
        if let Some(error) = snapshot.refused.take() {
            self.context.snapshot = None;
            self.send(CoordinatorMail::Declined { task, epoch, error });
            return Ok(());
        }
        match snapshot.upload.poll() {
            Ok(true) if snapshot.unfinished == 0 => {
                if let Some(done) = self.context.snapshot.take() {
                    self.send(CoordinatorMail::Acked { task, epoch, operators: done.operators });
                }
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Retry => {
                self.context.snapshot = None;
                self.send(CoordinatorMail::Declined { task, epoch, error });
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}
