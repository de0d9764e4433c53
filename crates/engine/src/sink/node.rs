//! The end of a chain that writes to the outside.

use staunch_api::{Committable, Prepared, SinkWriter};
use staunch_types::{Epoch, Error, Name, Result, Timestamp};

use crate::operator::{Activity, Chain, Control, OperatorCounts, TaskContext, Unsealed};

/// What a sink's inline value is called: what its writer carries over.
pub(crate) const CARRIED: &str = "carried";

/// Hands records to a writer and its prepared output to the snapshot.
///
/// Output that was prepared for an epoch which then was given up stays prepared: it goes into the next epoch's snapshot.
pub struct SinkNode<W> {
    name: Name,
    writer: W,
    error: Option<Error>,
    /// Barriers whose `prepare` has no answer yet.
    asked: Vec<Epoch>,
    /// Prepared, in no durable manifest yet; with the epoch of the barrier.
    unsealed: Vec<(Epoch, Committable)>,
    counts: OperatorCounts,
    unsealed_counts: Unsealed,
}

impl<W> SinkNode<W> {
    /// The end of a chain.
    pub fn new(name: Name, writer: W) -> Self {
        SinkNode {
            name,
            writer,
            error: None,
            asked: Vec::new(),
            unsealed: Vec::new(),
            counts: OperatorCounts::default(),
            unsealed_counts: Unsealed::default(),
        }
    }

    fn prepared(&mut self, prepared: Prepared, context: &mut TaskContext) {
        self.asked.retain(|e| *e != prepared.epoch);
        self.unsealed.extend(prepared.committables.into_iter().map(|c| (prepared.epoch, c)));
        if context.snapshot.as_ref().is_none_or(|s| s.epoch != prepared.epoch) {
            return;
        }
        if let Some(part) = context.part(&self.name) {
            part.inline.insert(CARRIED.into(), prepared.carried);
            part.committables = self.unsealed.iter().map(|(_, c)| c.clone()).collect();
            self.unsealed_counts.add_to(&mut part.counts);
        }
        context.part_finished(prepared.epoch);
    }
}

impl<T, W: SinkWriter<Record = T>> Chain<T> for SinkNode<W> {
    #[inline]
    fn push(&mut self, value: T, time: Timestamp) {
        self.counts.records_in += 1;
        if let Err(error) = self.writer.write(value, time) {
            self.error.get_or_insert(error);
        }
    }

    #[inline]
    fn room(&self) -> bool {
        self.error.is_none() && self.writer.room()
    }

    fn control(&mut self, control: &Control, context: &mut TaskContext) -> Result<()> {
        match control {
            Control::Barrier(epoch) => {
                self.unsealed_counts.cut(*epoch, &mut self.counts);
                self.asked.push(*epoch);
                context.expect_more();
                self.writer.prepare(*epoch).map_err(|e| e.at(format!("sink={}", self.name)))?;
            }
            Control::EpochDurable(epoch) => {
                self.unsealed.retain(|(e, _)| e > epoch);
                self.unsealed_counts.durable(*epoch);
            }
            Control::End => self.writer.end(),
            Control::SplitsOpened(_)
            | Control::SplitBegan(_)
            | Control::SplitEnded(_)
            | Control::Watermark(_)
            | Control::Idle
            | Control::EpochAbandoned(_) => {}
        }
        Ok(())
    }

    fn work(&mut self, context: &mut TaskContext) -> Result<Activity> {
        if let Some(error) = self.error.take() {
            return Err(error.at(format!("sink={}", self.name)));
        }
        let wake_at = self.writer.work(context.now).map_err(|e| e.at(format!("sink={}", self.name)))?;
        while !self.asked.is_empty()
            && let Some(prepared) = self.writer.poll_prepared().map_err(|e| e.at(format!("sink={}", self.name)))?
        {
            self.prepared(prepared, context);
        }
        Ok(Activity { more: false, wake_at })
    }

    fn idle(&mut self) {}
}

/// The end of a chain that needs no output.
pub struct Discard {
    name: Name,
    counts: OperatorCounts,
    unsealed: Unsealed,
}

impl Discard {
    /// Counts what comes, and drops it.
    #[must_use]
    pub fn new(name: Name) -> Self {
        Discard { name, counts: OperatorCounts::default(), unsealed: Unsealed::default() }
    }
}

impl<T> Chain<T> for Discard {
    #[inline]
    fn push(&mut self, _value: T, _time: Timestamp) {
        self.counts.records_in += 1;
    }

    #[inline]
    fn room(&self) -> bool {
        true
    }

    fn control(&mut self, control: &Control, context: &mut TaskContext) -> Result<()> {
        match control {
            Control::Barrier(epoch) => {
                self.unsealed.cut(*epoch, &mut self.counts);
                if let Some(part) = context.part(&self.name) {
                    self.unsealed.add_to(&mut part.counts);
                }
            }
            Control::EpochDurable(epoch) => self.unsealed.durable(*epoch),
            Control::SplitsOpened(_)
            | Control::SplitBegan(_)
            | Control::SplitEnded(_)
            | Control::Watermark(_)
            | Control::Idle
            | Control::EpochAbandoned(_)
            | Control::End => {}
        }
        Ok(())
    }

    fn work(&mut self, _context: &mut TaskContext) -> Result<Activity> {
        Ok(Activity::NOTHING)
    }

    fn idle(&mut self) {}
}
