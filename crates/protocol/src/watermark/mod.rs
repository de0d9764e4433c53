//! One watermark out of many: over the channels of a task, or the splits of a source.
//!
//! Owns: the last watermark and the phase of each channel, and the combined watermark. Does not own: deciding that a channel is idle
//! (a matter of time and of backpressure), nor timers. Events come with each watermark message; effects go to timers and downstream.
//!
//! Invariants:
//! 1. The combined watermark never goes back.
//! 2. It is at most the watermark of every active channel, unless it already was greater when that channel became active.
//! 3. Idle and ended channels do not hold it; when all are idle or ended, it is the greatest that came on an idle one: so it does not
//!    depend on which of them became idle last.
//! 4. When all channels have ended it is [`Timestamp::MAX`].

use staunch_types::{Tick, Timestamp};

use crate::Count;
use crate::align::ChannelIndex;
use crate::mutation::{Mutation, broken};

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A channel's watermark came; an idle channel is active again.
    Advanced {
        /// The channel.
        channel: ChannelIndex,
        /// No record before this will follow on the channel.
        to: Timestamp,
    },
    /// A channel will be silent for an unknown time.
    BecameIdle {
        /// The channel.
        channel: ChannelIndex,
    },
    /// A channel has records again, though no new watermark yet.
    BecameActive {
        /// The channel.
        channel: ChannelIndex,
    },
    /// A channel has delivered its last record.
    Ended {
        /// The channel.
        channel: ChannelIndex,
    },
    /// There is one more channel, numbered after the last: a new split. It is active and has no watermark yet.
    Added,
}

/// What must be done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// The combined watermark is this now: fire timers, then send it downstream.
    Advance {
        /// The combined watermark.
        to: Timestamp,
    },
    /// No channel is active and not all have ended: tell downstream that this task is idle.
    TurnIdle,
    /// A channel is active again after [`Effect::TurnIdle`]: tell downstream.
    TurnActive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Active,
    Idle,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Channel {
    phase: Phase,
    watermark: Timestamp,
}

/// What a task knows when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// Channels.
    pub channels: u32,
    /// The combined watermark in the snapshot it was restored from; [`Timestamp::MIN`] for none.
    pub combined: Timestamp,
}

/// The combined watermark of some channels.
///
/// *Cost* of a step: one comparison, unless the channel was among those that hold the watermark back; then one pass over the channels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Watermark {
    channels: Vec<Channel>,
    combined: Timestamp,
    idle: bool,
    stale: Count,
}

impl Watermark {
    /// The watermark of a task that starts: channels are active and have none, the combined one is the restored one.
    #[must_use]
    pub fn recover(facts: Facts) -> Watermark {
        Watermark {
            channels: vec![Channel { phase: Phase::Active, watermark: Timestamp::MIN }; facts.channels as usize],
            combined: facts.combined,
            idle: false,
            stale: Count::default(),
        }
    }

    /// Takes one event.
    ///
    /// # Panics
    /// On an unknown channel and on anything but a repeated end from a channel that has ended.
    pub fn step(&mut self, _now: Tick, event: Event, out: &mut Vec<Effect>) {
        match event {
            Event::Advanced { channel, to } => self.advanced(channel, to, out),
            Event::BecameIdle { channel } => self.change(channel, Phase::Idle, out),
            Event::BecameActive { channel } => self.change(channel, Phase::Active, out),
            Event::Ended { channel } => self.change(channel, Phase::Ended, out),
            Event::Added => {
                self.channels.push(Channel { phase: Phase::Active, watermark: Timestamp::MIN });
                self.tell_activity(out);
            }
        }
    }

    /// Never: idleness is decided by whoever sees the channel.
    #[must_use]
    pub fn deadline(&self) -> Option<Tick> {
        None
    }

    /// The combined watermark; it belongs into the task's snapshot.
    #[must_use]
    pub fn combined(&self) -> Timestamp {
        self.combined
    }

    /// Watermarks that went back on their channel and were ignored.
    #[must_use]
    pub fn stale_events(&self) -> u64 {
        self.stale.get()
    }

    fn advanced(&mut self, channel: ChannelIndex, to: Timestamp, out: &mut Vec<Effect>) {
        let known = self.channel(channel);
        assert!(known.phase != Phase::Ended, "watermark behind the end of channel={}", channel.0);
        let before = *known;
        known.phase = Phase::Active;
        if to >= before.watermark || broken(Mutation::WatermarkGoesBack) {
            known.watermark = to;
        } else {
            self.stale.add_one();
        }
        if before.phase == Phase::Idle {
            self.tell_activity(out);
        }
        // A channel that was already ahead of the combined watermark did not hold it back.
        if before.phase == Phase::Idle || before.watermark <= self.combined || broken(Mutation::WatermarkTakesMax) {
            self.combine(out);
        }
    }

    fn change(&mut self, channel: ChannelIndex, to: Phase, out: &mut Vec<Effect>) {
        let known = self.channel(channel);
        if known.phase == to {
            return;
        }
        assert!(known.phase != Phase::Ended, "a change of phase behind the end of channel={}", channel.0);
        known.phase = to;
        self.combine(out);
        self.tell_activity(out);
    }

    fn combine(&mut self, out: &mut Vec<Effect>) {
        let active = self.channels.iter().filter(|c| c.phase == Phase::Active).map(|c| c.watermark);
        let least = if broken(Mutation::WatermarkTakesMax) { active.max() } else { active.min() };
        let to = match least {
            Some(least) => least,
            None if self.all_ended() => Timestamp::MAX,
            None => self.channels.iter().filter(|c| c.phase == Phase::Idle).map(|c| c.watermark).max().unwrap_or(Timestamp::MIN),
        };
        let forward = to > self.combined || (broken(Mutation::WatermarkGoesBack) && to < self.combined);
        if forward {
            self.combined = to;
            out.push(Effect::Advance { to });
        }
    }

    fn tell_activity(&mut self, out: &mut Vec<Effect>) {
        let none_active = self.channels.iter().all(|c| c.phase != Phase::Active);
        let idle = none_active && !self.all_ended();
        if idle != self.idle {
            self.idle = idle;
            if !none_active || idle {
                out.push(if idle { Effect::TurnIdle } else { Effect::TurnActive });
            }
        }
    }

    fn all_ended(&self) -> bool {
        self.channels.iter().all(|c| c.phase == Phase::Ended)
    }

    fn channel(&mut self, channel: ChannelIndex) -> &mut Channel {
        let count = self.channels.len();
        self.channels.get_mut(channel.0 as usize).unwrap_or_else(|| panic!("unknown channel={} of {count}", channel.0))
    }
}
