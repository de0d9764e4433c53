//! The task that receives from other tasks.

use std::collections::VecDeque;

use staunch_types::{ErrorKind, Result, TaskId};

use super::{Arrival, Batch, Gate};
use crate::cluster::{CoordinatorMail, TaskCore, TaskMail};
use crate::operator::{Chain, Control, running_operator};
use crate::runtime::{Phase, Slice, Task};

/// Feeds its chain with what its gate lets through.
pub struct ExchangeTask<T, C> {
    name: String,
    gate: Gate<T>,
    chain: C,
    core: TaskCore,
    /// A batch that was let through and did not fit yet.
    batch: Option<(usize, Batch<T>)>,
    /// A control that was let through and did not fit yet.
    control: Option<Control>,
    inbox: VecDeque<TaskMail>,
}

impl<T, C: Chain<T>> ExchangeTask<T, C> {
    /// A task behind `gate`; the name is for reports.
    pub fn new(name: &str, gate: Gate<T>, chain: C, core: TaskCore) -> Self {
        ExchangeTask { name: name.to_owned(), gate, chain, core, batch: None, control: None, inbox: VecDeque::new() }
    }

    fn handle_mail(&mut self) -> Result<()> {
        while let Some(mail) = self.core.receive() {
            self.inbox.push_back(mail);
        }
        while self.chain.room()
            && let Some(mail) = self.inbox.pop_front()
        {
            match mail {
                TaskMail::Durable(epoch) => self.chain.control(&Control::EpochDurable(epoch), &mut self.core.context)?,
                TaskMail::Abandoned(epoch) => {
                    self.core.abandon_snapshot(epoch);
                    self.gate.abandon(self.core.context.now, epoch);
                    self.chain.control(&Control::EpochAbandoned(epoch), &mut self.core.context)?;
                }
                // Only sources are triggered and given splits.
                TaskMail::Trigger(..) | TaskMail::Splits(_) | TaskMail::NoSplitsNow | TaskMail::NoMoreSplits => {}
            }
        }
        Ok(())
    }

    /// Passes a control on, when there is room; whether it did.
    fn pass(&mut self, control: Control) -> Result<bool> {
        if let Control::Barrier(epoch) = control {
            // What became of the epoch before was said before this barrier began: hear it first.
            self.handle_mail()?;
            if !self.inbox.is_empty() || !self.chain.room() {
                self.control = Some(control);
                return Ok(false);
            }
            self.core.begin_snapshot(epoch);
        } else if !self.chain.room() {
            self.control = Some(control);
            return Ok(false);
        }
        self.chain.control(&control, &mut self.core.context)?;
        if control == Control::End {
            self.core.send(CoordinatorMail::Ended { task: self.core.id() });
        }
        Ok(true)
    }

    /// Takes in until the budget is used, nothing is there, or there is no room; whether there is more.
    fn take_in(&mut self, budget: usize) -> Result<bool> {
        let mut left = budget;
        loop {
            if let Some(control) = self.control.take()
                && !self.pass(control)?
            {
                return Ok(false);
            }
            if let Some((channel, batch)) = &mut self.batch {
                let before = batch.rest().len();
                self.chain.push_batch(batch);
                left = left.saturating_sub(before - batch.rest().len());
                let channel = *channel;
                if !batch.is_empty() {
                    return Ok(false);
                }
                if let Some((_, batch)) = self.batch.take() {
                    self.gate.give_back(channel, batch);
                }
            }
            if !self.chain.room() {
                return Ok(false);
            }
            if left == 0 {
                return Ok(true);
            }
            match self.gate.next(self.core.context.now) {
                Some(Arrival::Batch(channel, batch)) => self.batch = Some((channel, batch)),
                Some(Arrival::Control(control)) => self.control = Some(control),
                None => return Ok(false),
            }
        }
    }

    fn report_declined(&mut self) {
        for epoch in self.gate.declined() {
            let what = format!("the barrier of epoch {epoch} was overtaken by that of a newer epoch");
            let error = staunch_types::Error::new(ErrorKind::Retry, "C006", what)
                .at(format!("task={}", self.core.id()))
                .data("the checkpoint is abandoned; the newer one takes its place");
            self.core.send(CoordinatorMail::Declined { task: self.core.id(), epoch, error });
        }
    }
}

impl<T: Send, C: Chain<T>> Task for ExchangeTask<T, C> {
    fn id(&self) -> TaskId {
        self.core.id()
    }

    fn run(&mut self, slice: Slice) -> Result<Phase> {
        self.core.begin(slice);
        let mut activity = self.chain.work(&mut self.core.context)?;
        self.handle_mail()?;
        let more = self.take_in(slice.budget)?;
        self.report_declined();
        let had_room = self.chain.room();
        activity = self.chain.work(&mut self.core.context)?.and(activity);
        self.core.poll_snapshot()?;
        // `work` may have made room for what did not fit before: what is held here, or still lies in the channels.
        let fits_now = self.chain.room() && (!had_room || self.batch.is_some() || self.control.is_some() || !self.inbox.is_empty());
        if more || activity.more || fits_now {
            return Ok(Phase::Ready);
        }
        self.chain.idle();
        Ok(Phase::Waiting([activity.wake_at, self.core.retry_at()].into_iter().flatten().min()))
    }

    fn running(&self) -> String {
        running_operator().map_or_else(|| self.name.clone(), |name| name.to_string())
    }
}
