//! The task that reads.

use std::collections::VecDeque;

use staunch_api::{Output, ReaderPhase, Rejected, Source, SourceReader, SplitRead};
use staunch_protocol::Reason;
use staunch_types::{Epoch, Error, Name, Result, TaskId, Timestamp};

use super::plan::{decode_split, encode_split};
use crate::cluster::{CoordinatorMail, SplitBytes, TaskCore, TaskMail};
use crate::job::encode_inline;
use crate::operator::{Activity, Chain, Control, LinkOutput, OpenedSplit, OperatorCounts, running_operator};
use crate::runtime::{Phase, Slice, Task};

/// What a source's inline value is called: its unfinished splits.
pub(crate) const SPLITS: &str = "splits";
/// Records that a reader hands over between two looks at the mailbox.
const POLL_RECORDS: usize = 1024;

/// Reads the splits it is given and feeds its chain.
pub struct SourceTask<S: Source, C> {
    name: Name,
    reader: S::Reader,
    chain: C,
    rejected: Option<LinkOutput<Rejected>>,
    core: TaskCore,
    inbox: VecDeque<TaskMail>,
    next_slot: u32,
    input: Input,
    /// No more is read, by order.
    stopped: bool,
    /// The epoch whose barrier follows the end of the input, by order.
    drain_barrier: Option<Epoch>,
    counts: OperatorCounts,
    /// Read in epochs that are not durable yet.
    unsealed: Vec<(Epoch, Vec<SplitRead>, OperatorCounts)>,
}

/// What the task knows of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    /// There are splits to read, or will be.
    Open,
    /// The reader asked for a split and has no answer.
    Asked,
    /// There is none now.
    Idle,
    /// There will be none beyond those given.
    Last,
    /// The last watermark was passed on.
    Ending,
    /// The end was passed on.
    Ended,
}

impl<S: Source, C: Chain<S::Record>> SourceTask<S, C> {
    /// A task for `reader`.
    pub fn new(name: Name, reader: S::Reader, chain: C, rejected: Option<LinkOutput<Rejected>>, core: TaskCore) -> Self {
        SourceTask {
            name,
            reader,
            chain,
            rejected,
            core,
            inbox: VecDeque::new(),
            next_slot: 0,
            input: Input::Open,
            stopped: false,
            drain_barrier: None,
            counts: OperatorCounts::default(),
            unsealed: Vec::new(),
        }
    }

    fn room(&self) -> bool {
        self.chain.room() && self.rejected.as_ref().is_none_or(LinkOutput::room)
    }

    /// Goes on with what is unfinished, in the chain and in the dead letter: a barrier that came by mail may have begun it in either.
    fn work(&mut self) -> Result<Activity> {
        let activity = self.chain.work(&mut self.core.context)?;
        match &mut self.rejected {
            Some(rejected) => Ok(activity.and(rejected.work(&mut self.core.context)?)),
            None => Ok(activity),
        }
    }

    fn control(&mut self, control: &Control) -> Result<()> {
        if let Some(rejected) = &mut self.rejected {
            rejected.control(control, &mut self.core.context)?;
        }
        self.chain.control(control, &mut self.core.context)
    }

    /// Handles what the coordinator said, in order, as far as there is room.
    fn handle_mail(&mut self) -> Result<()> {
        while let Some(mail) = self.core.receive() {
            self.inbox.push_back(mail);
        }
        while self.room()
            && let Some(mail) = self.inbox.pop_front()
        {
            match mail {
                TaskMail::Trigger(epoch, reason) => self.triggered(epoch, reason)?,
                TaskMail::Durable(epoch) => {
                    self.unsealed.retain(|(e, _, _)| *e > epoch);
                    self.control(&Control::EpochDurable(epoch))?;
                }
                TaskMail::Abandoned(epoch) => {
                    self.core.abandon_snapshot(epoch);
                    self.control(&Control::EpochAbandoned(epoch))?;
                }
                TaskMail::Splits(splits) => self.add_splits(&splits)?,
                TaskMail::NoSplitsNow if self.input == Input::Asked => {
                    self.input = Input::Idle;
                    self.control(&Control::Idle)?;
                }
                TaskMail::NoMoreSplits if !matches!(self.input, Input::Ending | Input::Ended) => self.input = Input::Last,
                TaskMail::NoSplitsNow | TaskMail::NoMoreSplits => {}
            }
        }
        Ok(())
    }

    fn add_splits(&mut self, splits: &[SplitBytes]) -> Result<()> {
        let mut opened = Vec::new();
        for split in splits {
            let slot = self.next_slot;
            self.next_slot += 1;
            self.reader.add_split(slot, decode_split::<S::Split>(&self.name, split)?)?;
            opened.push(OpenedSplit { slot, id: split.id.clone() });
        }
        self.control(&Control::SplitsOpened(opened.into()))?;
        if matches!(self.input, Input::Asked | Input::Idle) {
            self.input = Input::Open;
        }
        Ok(())
    }

    fn triggered(&mut self, epoch: Epoch, reason: Reason) -> Result<()> {
        match reason {
            Reason::Interval | Reason::Savepoint | Reason::Final => self.barrier(epoch),
            Reason::Stop => {
                self.stopped = true;
                self.barrier(epoch)
            }
            Reason::Drain => {
                self.stopped = true;
                if self.input == Input::Ended {
                    return self.barrier(epoch);
                }
                self.drain_barrier = Some(epoch);
                self.begin_end()
            }
        }
    }

    fn barrier(&mut self, epoch: Epoch) -> Result<()> {
        self.core.begin_snapshot(epoch);
        let snapshot = self.reader.snapshot();
        let splits: Vec<(String, Vec<u8>)> = snapshot.splits.iter().map(encode_split).map(|s| (s.id, s.bytes)).collect();
        self.unsealed.push((epoch, snapshot.reads, std::mem::take(&mut self.counts)));
        if let Some(part) = self.core.context.part(&self.name) {
            part.inline.insert(SPLITS.into(), encode_inline(&splits));
            for (_, reads, counts) in &self.unsealed {
                part.reads.extend(reads.iter().cloned());
                part.counts.add(*counts);
            }
        }
        self.control(&Control::Barrier(epoch))
    }

    /// The input has ended: the last watermark goes out now, `End` when what it fires has left.
    fn begin_end(&mut self) -> Result<()> {
        if !matches!(self.input, Input::Ending | Input::Ended) {
            self.input = Input::Ending;
            self.control(&Control::Watermark(Timestamp::MAX))?;
        }
        Ok(())
    }

    fn finish_end(&mut self) -> Result<()> {
        self.input = Input::Ended;
        self.control(&Control::End)?;
        self.core.send(CoordinatorMail::Ended { task: self.core.id() });
        match self.drain_barrier.take() {
            Some(epoch) => self.barrier(epoch),
            None => Ok(()),
        }
    }

    /// Reads, while there is room and the budget lasts.
    fn read(&mut self, budget: usize) -> Result<ReaderPhase> {
        let mut left = budget;
        loop {
            let mut output = ReaderOutput {
                chain: &mut self.chain,
                rejected: self.rejected.as_mut(),
                core: &mut self.core,
                counts: &mut self.counts,
                error: None,
                taken: 0,
            };
            let phase = self.reader.poll(output.core.context.now, left.min(POLL_RECORDS), &mut output)?;
            let taken = output.taken;
            if let Some(error) = output.error {
                return Err(error);
            }
            left = left.saturating_sub(taken.max(1));
            if phase != ReaderPhase::Ready || left == 0 || !self.room() {
                return Ok(phase);
            }
        }
    }

    /// What to do after the reader said it has no split.
    fn out_of_splits(&mut self) -> Result<()> {
        match self.input {
            Input::Open => {
                self.input = Input::Asked;
                self.core.send(CoordinatorMail::WantsSplits { task: self.core.id() });
                Ok(())
            }
            Input::Last => self.begin_end(),
            Input::Asked | Input::Idle | Input::Ending | Input::Ended => Ok(()),
        }
    }
}

impl<S: Source, C: Chain<S::Record>> Task for SourceTask<S, C> {
    fn id(&self) -> TaskId {
        self.core.id()
    }

    fn run(&mut self, slice: Slice) -> Result<Phase> {
        self.core.begin(slice);
        let mut activity = self.work()?;
        self.handle_mail()?;
        let mut phase = ReaderPhase::WaitingIo;
        if !self.room() {
            // Mail may have moved a watermark that must leave first.
            activity = activity.and(self.work()?);
            activity.more |= self.room();
        } else {
            match self.input {
                Input::Ending => self.finish_end()?,
                Input::Ended => {}
                _ if self.stopped => {}
                Input::Open | Input::Asked | Input::Idle | Input::Last => phase = self.read(slice.budget)?,
            }
            if phase == ReaderPhase::WaitingSplits {
                self.out_of_splits()?;
            }
            // What was pushed and passed on may have moved a watermark or filled an output.
            activity = activity.and(self.work()?);
        }
        self.core.poll_snapshot()?;
        activity.more |= (phase == ReaderPhase::Ready || self.input == Input::Ending) && self.room();
        if activity.more {
            return Ok(Phase::Ready);
        }
        self.chain.idle();
        self.rejected.iter_mut().for_each(LinkOutput::idle);
        let reader_at = match phase {
            ReaderPhase::WaitingUntil(at) => Some(at),
            ReaderPhase::Ready | ReaderPhase::WaitingIo | ReaderPhase::WaitingSplits => None,
        };
        Ok(Phase::Waiting([activity.wake_at, reader_at, self.core.retry_at()].into_iter().flatten().min()))
    }

    fn running(&self) -> String {
        running_operator().map_or_else(|| self.name.to_string(), |name| name.to_string())
    }
}

/// What the reader pushes into.
struct ReaderOutput<'a, C> {
    chain: &'a mut C,
    rejected: Option<&'a mut LinkOutput<Rejected>>,
    core: &'a mut TaskCore,
    counts: &'a mut OperatorCounts,
    error: Option<Error>,
    taken: usize,
}

impl<C> ReaderOutput<'_, C> {
    fn control<T>(&mut self, control: &Control)
    where
        C: Chain<T>,
    {
        if let Err(error) = self.chain.control(control, &mut self.core.context) {
            self.error.get_or_insert(error);
        }
    }
}

impl<T, C: Chain<T>> Output<T> for ReaderOutput<'_, C> {
    #[inline]
    fn push(&mut self, value: T, time: Timestamp) {
        self.taken += 1;
        self.counts.records_in += 1;
        self.chain.push(value, time);
    }

    #[inline]
    fn room(&self) -> bool {
        self.chain.room() && self.rejected.as_ref().is_none_or(|r| r.room())
    }

    fn begin_split(&mut self, slot: u32) {
        self.control(&Control::SplitBegan(slot));
    }

    fn end_split(&mut self, slot: u32) {
        self.control(&Control::SplitEnded(slot));
    }

    fn reject(&mut self, rejected: Rejected) -> Result<()> {
        let Some(link) = &mut self.rejected else { return Err(rejected.into_error()) };
        self.counts.rejected += 1;
        self.taken += 1;
        link.push(rejected, Timestamp::MIN);
        Ok(())
    }
}
