//! Barrier alignment of one task: when has everything before the barrier been seen, and nothing after it?
//!
//! Owns: which channels have delivered the barrier of the epoch being aligned, which have ended, which are held back.
//! Does not own: the records, the snapshot, the forwarding of the barrier; the driver does these on [`Effect::SnapshotNow`].
//! Events come from the task's input channels and from the coordinator; effects go to the task.
//!
//! Invariants:
//! 1. `SnapshotNow` of an epoch comes after the barrier on every channel that has not ended, and before any record behind it.
//! 2. Snapshots of a task have rising epochs.
//! 3. A barrier of an epoch that was abandoned or passed is ignored; a newer barrier abandons an older, partial alignment.
//! 4. A channel that ended counts as aligned for every later epoch (E8); a task whose inputs have all ended, like a source, takes
//!    part in epochs when the coordinator triggers it.
//!
//! Follows the aligned snapshots of Carbone et al., "Lightweight Asynchronous Snapshots for Distributed Dataflows" (2015).

use std::collections::BTreeSet;

use staunch_types::{Epoch, Tick};

use crate::Count;
use crate::mutation::{Mutation, broken};

/// Abandoned epochs remembered at most. Forgetting one is harmless: at worst its barrier is aligned in vain.
pub const ABANDONED_MAX: usize = 64;

/// Number of an input channel of the task, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelIndex(pub u32);

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A barrier was taken from a channel that is not blocked.
    BarrierArrived {
        /// The channel.
        channel: ChannelIndex,
        /// The barrier's epoch.
        epoch: Epoch,
    },
    /// A channel has delivered its last record.
    ChannelEnded {
        /// The channel.
        channel: ChannelIndex,
    },
    /// The coordinator asks this task directly: it is a source, or all its inputs have ended.
    Triggered {
        /// The epoch.
        epoch: Epoch,
    },
    /// The coordinator abandoned an epoch.
    EpochAbandoned {
        /// The epoch.
        epoch: Epoch,
    },
}

/// What must be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Take nothing more from a channel.
    BlockChannel {
        /// The channel.
        channel: ChannelIndex,
    },
    /// Take the snapshot and forward the barrier, before anything else.
    SnapshotNow {
        /// The epoch.
        epoch: Epoch,
    },
    /// A partial alignment was given up; tell the coordinator that this task declines the epoch.
    Declined {
        /// The epoch.
        epoch: Epoch,
    },
    /// Take from all channels again.
    UnblockAll,
    /// All channels have ended, and there was at least one: finish the operators, then report the task as finished.
    InputEnded,
}

/// The alignment of one task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Align {
    channels: u32,
    ended: BTreeSet<ChannelIndex>,
    aligning: Option<Aligning>,
    /// The newest epoch this task took a snapshot of, or started from.
    passed: Epoch,
    abandoned: BTreeSet<Epoch>,
    stale: Count,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Aligning {
    epoch: Epoch,
    arrived: BTreeSet<ChannelIndex>,
    blocked: BTreeSet<ChannelIndex>,
}

/// What a task knows when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// Input channels; 0 for a source.
    pub channels: u32,
    /// The epoch it was restored from; 0 for none.
    pub restored: Epoch,
}

impl Align {
    /// Alignment of a task that starts. All tasks and channels start anew with a generation, so no channel has ended yet.
    #[must_use]
    pub fn recover(facts: Facts) -> Align {
        Align {
            channels: facts.channels,
            ended: BTreeSet::new(),
            aligning: None,
            passed: facts.restored,
            abandoned: BTreeSet::new(),
            stale: Count::default(),
        }
    }

    /// Takes one event.
    ///
    /// # Panics
    /// On what a channel in order cannot deliver: an unknown channel, a barrier behind the end, the same barrier twice.
    pub fn step(&mut self, _now: Tick, event: Event, out: &mut Vec<Effect>) {
        match event {
            Event::BarrierArrived { channel, epoch } => self.barrier(channel, epoch, out),
            Event::ChannelEnded { channel } => self.channel_ended(channel, out),
            Event::Triggered { epoch } => self.triggered(epoch, out),
            Event::EpochAbandoned { epoch } => self.abandon(epoch, out),
        }
    }

    /// Never: aligned barriers wait as long as the coordinator does.
    #[must_use]
    pub fn deadline(&self) -> Option<Tick> {
        None
    }

    /// The epoch being aligned, if any.
    #[must_use]
    pub fn aligning(&self) -> Option<Epoch> {
        self.aligning.as_ref().map(|a| a.epoch)
    }

    /// Whether a channel is held back.
    #[must_use]
    pub fn is_blocked(&self, channel: ChannelIndex) -> bool {
        self.aligning.as_ref().is_some_and(|a| a.blocked.contains(&channel))
    }

    /// Late barriers and triggers that were ignored.
    #[must_use]
    pub fn stale_events(&self) -> u64 {
        self.stale.get()
    }

    fn barrier(&mut self, channel: ChannelIndex, epoch: Epoch, out: &mut Vec<Effect>) {
        assert!(channel.0 < self.channels, "barrier from an unknown channel={} of {}", channel.0, self.channels);
        assert!(!self.ended.contains(&channel), "barrier behind the end of channel={}", channel.0);
        let older_than_aligning = self.aligning.as_ref().is_some_and(|a| epoch < a.epoch);
        let abandoned = self.abandoned.contains(&epoch) && !broken(Mutation::AlignAcceptsAbandoned);
        if epoch <= self.passed || older_than_aligning || abandoned {
            self.stale.add_one();
            return;
        }
        if self.aligning.as_ref().is_some_and(|a| a.epoch < epoch) {
            self.give_up(out);
        }
        let new = || Aligning { epoch, arrived: BTreeSet::new(), blocked: BTreeSet::new() };
        let aligning = self.aligning.get_or_insert_with(new);
        assert!(aligning.arrived.insert(channel), "the barrier of epoch={epoch} came twice from channel={}", channel.0);
        if !self.complete(out)
            && let Some(aligning) = &mut self.aligning
        {
            aligning.blocked.insert(channel);
            out.push(Effect::BlockChannel { channel });
        }
    }

    fn channel_ended(&mut self, channel: ChannelIndex, out: &mut Vec<Effect>) {
        assert!(channel.0 < self.channels, "end of an unknown channel={} of {}", channel.0, self.channels);
        assert!(self.ended.insert(channel), "channel={} ended twice", channel.0);
        self.complete(out);
        if self.all_ended() {
            out.push(Effect::InputEnded);
        }
    }

    fn triggered(&mut self, epoch: Epoch, out: &mut Vec<Effect>) {
        if epoch <= self.passed || self.abandoned.contains(&epoch) || !self.all_ended() {
            self.stale.add_one();
            return;
        }
        self.pass(epoch);
        out.push(Effect::SnapshotNow { epoch });
    }

    fn abandon(&mut self, epoch: Epoch, out: &mut Vec<Effect>) {
        if epoch <= self.passed {
            return;
        }
        if self.aligning() == Some(epoch) {
            self.unblock(out);
        }
        self.abandoned.insert(epoch);
        if self.abandoned.len() > ABANDONED_MAX {
            self.abandoned.pop_first();
        }
    }

    /// Takes the snapshot if the last barrier has come; says whether it did.
    fn complete(&mut self, out: &mut Vec<Effect>) -> bool {
        let Some(aligning) = &self.aligning else { return false };
        let missing = (0..self.channels).map(ChannelIndex).filter(|c| !aligning.arrived.contains(c)).filter(|c| !self.counts_as_ended(*c));
        let tolerated = usize::from(broken(Mutation::AlignForgetsChannel));
        if missing.count() > tolerated {
            return false;
        }
        let epoch = aligning.epoch;
        out.push(Effect::SnapshotNow { epoch });
        self.unblock(out);
        self.pass(epoch);
        true
    }

    fn counts_as_ended(&self, channel: ChannelIndex) -> bool {
        self.ended.contains(&channel) && !broken(Mutation::AlignWaitsForEnded)
    }

    fn give_up(&mut self, out: &mut Vec<Effect>) {
        if let Some(epoch) = self.aligning() {
            out.push(Effect::Declined { epoch });
            self.unblock(out);
        }
    }

    /// Ends the alignment.
    fn unblock(&mut self, out: &mut Vec<Effect>) {
        if self.aligning.take().is_some_and(|aligning| !aligning.blocked.is_empty()) {
            out.push(Effect::UnblockAll);
        }
    }

    fn pass(&mut self, epoch: Epoch) {
        self.passed = epoch;
        self.abandoned = self.abandoned.split_off(&epoch.next());
    }

    fn all_ended(&self) -> bool {
        self.ended.len() == self.channels as usize
    }
}
