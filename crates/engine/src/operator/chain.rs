//! The contract of a fused chain.

use std::sync::Arc;

use staunch_types::{Epoch, Result, Tick, Timestamp};

use super::TaskContext;
use crate::exchange::Batch;

/// Takes records and controls. Every node of a chain, and so the whole of it, is one.
pub trait Chain<T>: Send {
    /// Takes one record. Called only while there is room.
    fn push(&mut self, value: T, time: Timestamp);

    /// Takes records from a batch while there is room; the rest stays in it.
    #[inline]
    fn push_batch(&mut self, batch: &mut Batch<T>) {
        while self.room() {
            match batch.take() {
                Some(element) => self.push(element.value, element.time),
                None => return,
            }
        }
    }

    /// Whether it takes a record or a control now.
    fn room(&self) -> bool;

    /// Takes a control. Called only while there is room.
    ///
    /// # Errors
    /// The task is over.
    fn control(&mut self, control: &Control, context: &mut TaskContext) -> Result<()>;

    /// Goes on with what is unfinished: timers, windows that fire, snapshots, output that did not fit. Called in each slice, bounded.
    ///
    /// # Errors
    /// The task is over.
    fn work(&mut self, context: &mut TaskContext) -> Result<Activity>;

    /// The task has nothing else to do: what was collected should leave.
    fn idle(&mut self);
}

/// A split that a reader has taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedSplit {
    /// The reader's number for it.
    pub slot: u32,
    /// Its id.
    pub id: String,
}

/// What travels through a chain besides records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// The reader has taken splits: they count for the watermark from now on. What it takes at once is one control, for between two the
    /// clock of the first could send a watermark on that makes the records of the second late.
    SplitsOpened(Arc<[OpenedSplit]>),
    /// The records that follow are of this split.
    SplitBegan(u32),
    /// The split has no more records, ever.
    SplitEnded(u32),
    /// No record that follows is expected with an event time up to this one.
    Watermark(Timestamp),
    /// There is no input for now: nothing here holds the watermark.
    Idle,
    /// The cut: everything before it belongs to the epoch.
    Barrier(Epoch),
    /// The epoch will never be durable: its changes count as not saved.
    EpochAbandoned(Epoch),
    /// The epoch is durable.
    EpochDurable(Epoch),
    /// No record follows, ever. Barriers still may.
    End,
}

/// What a chain still has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// There is more to do at once.
    pub more: bool,
    /// It wants to be called at this time.
    pub wake_at: Option<Tick>,
}

impl Activity {
    /// Nothing to do.
    pub const NOTHING: Activity = Activity { more: false, wake_at: None };
    /// More at once.
    pub const MORE: Activity = Activity { more: true, wake_at: None };

    /// Both together.
    #[must_use]
    pub fn and(self, other: Activity) -> Activity {
        let wake_at = match (self.wake_at, other.wake_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Activity { more: self.more || other.more, wake_at }
    }
}

impl<T> Chain<T> for Box<dyn Chain<T>> {
    fn push(&mut self, value: T, time: Timestamp) {
        (**self).push(value, time);
    }
    fn push_batch(&mut self, batch: &mut Batch<T>) {
        (**self).push_batch(batch);
    }
    fn room(&self) -> bool {
        (**self).room()
    }
    fn control(&mut self, control: &Control, context: &mut TaskContext) -> Result<()> {
        (**self).control(control, context)
    }
    fn work(&mut self, context: &mut TaskContext) -> Result<Activity> {
        (**self).work(context)
    }
    fn idle(&mut self) {
        (**self).idle();
    }
}
