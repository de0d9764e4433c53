//! The entrance of a task that receives from other tasks.
//!
//! Owns: which channel is looked at next, and the driving of the alignment and watermark machines.
//! Does not own: the rules of either (staunch-protocol), what is done with what comes in.
//!
//! Channels never end for barriers here: a source whose input has ended still sends them, so alignment always waits for all.

use std::collections::VecDeque;

use staunch_protocol::align::{self, Align, ChannelIndex};
use staunch_protocol::watermark::{self, Watermark};
use staunch_types::{Epoch, Tick, Timestamp};

use super::{Batch, Message, Receiver};
use crate::operator::Control;

/// Takes in what the channels bring, aligns barriers and combines watermarks.
pub struct Gate<T> {
    channels: Vec<Receiver<T>>,
    blocked: Vec<bool>,
    active: Vec<bool>,
    /// Channels that have not said anything yet, and the records held back until all have.
    unheard: Vec<bool>,
    held: Vec<Option<Message<T>>>,
    ended: usize,
    next: usize,
    align: Align,
    watermark: Watermark,
    ready: VecDeque<Control>,
    declined: Vec<Epoch>,
    align_effects: Vec<align::Effect>,
    watermark_effects: Vec<watermark::Effect>,
}

/// What the gate lets through.
pub enum Arrival<T> {
    /// Records of one channel; the batch is to be given back by [`Gate::give_back`] with the channel's number.
    Batch(usize, Batch<T>),
    /// A control for the chain.
    Control(Control),
}

impl<T> Gate<T> {
    /// A gate over the receiving ends of all inputs; `restored` is the epoch that the task starts from.
    ///
    /// With `hear_all`, no record passes before every channel has said something: that it has a split, that it is idle, that it has
    /// ended. So a reader that has nothing to read never holds the watermark of one that has, not even for a moment at the start.
    #[must_use]
    pub fn new(channels: Vec<Receiver<T>>, restored: Epoch, hear_all: bool) -> Gate<T> {
        let count = channels.len();
        Gate {
            blocked: vec![false; count],
            active: vec![true; count],
            unheard: vec![hear_all; count],
            held: (0..count).map(|_| None).collect(),
            ended: 0,
            next: 0,
            align: Align::recover(align::Facts { channels: count as u32, restored }),
            watermark: Watermark::recover(watermark::Facts { channels: count as u32, combined: Timestamp::MIN }),
            ready: VecDeque::new(),
            declined: Vec::new(),
            align_effects: Vec::new(),
            watermark_effects: Vec::new(),
            channels,
        }
    }

    /// The next thing that may come in now.
    pub fn next(&mut self, now: Tick) -> Option<Arrival<T>> {
        loop {
            if let Some(control) = self.ready.pop_front() {
                return Some(Arrival::Control(control));
            }
            let (channel, message) = self.receive()?;
            match message {
                Message::Batch(batch) => {
                    if !self.active[channel] {
                        self.active[channel] = true;
                        self.mark(now, watermark::Event::BecameActive { channel: ChannelIndex(channel as u32) });
                    }
                    return Some(Arrival::Batch(channel, batch));
                }
                Message::Watermark(to) => {
                    self.active[channel] = true;
                    self.mark(now, watermark::Event::Advanced { channel: ChannelIndex(channel as u32), to });
                }
                Message::Idle => {
                    self.active[channel] = false;
                    self.mark(now, watermark::Event::BecameIdle { channel: ChannelIndex(channel as u32) });
                }
                Message::Barrier(epoch) => {
                    self.step(now, align::Event::BarrierArrived { channel: ChannelIndex(channel as u32), epoch });
                }
                Message::End => {
                    self.mark(now, watermark::Event::Ended { channel: ChannelIndex(channel as u32) });
                    self.ended += 1;
                    if self.ended == self.channels.len() {
                        self.ready.push_back(Control::End);
                    }
                }
            }
        }
    }

    /// Gives the memory of a batch back to its sender.
    pub fn give_back(&mut self, channel: usize, batch: Batch<T>) {
        self.channels[channel].give_back(batch);
    }

    /// The coordinator gave an epoch up.
    pub fn abandon(&mut self, now: Tick, epoch: Epoch) {
        self.step(now, align::Event::EpochAbandoned { epoch });
    }

    /// Epochs whose partial alignment was given up for a newer barrier, since last asked.
    #[must_use]
    pub fn declined(&mut self) -> Vec<Epoch> {
        std::mem::take(&mut self.declined)
    }

    fn receive(&mut self) -> Option<(usize, Message<T>)> {
        for _ in 0..self.channels.len() {
            let channel = self.next;
            self.next = if channel + 1 == self.channels.len() { 0 } else { channel + 1 };
            if self.blocked[channel] {
                continue;
            }
            let Some(message) = self.held[channel].take().or_else(|| self.channels[channel].receive()) else { continue };
            self.unheard[channel] = false;
            if matches!(message, Message::Batch(_)) && self.unheard.contains(&true) {
                self.held[channel] = Some(message);
                continue;
            }
            return Some((channel, message));
        }
        None
    }

    fn step(&mut self, now: Tick, event: align::Event) {
        self.align.step(now, event, &mut self.align_effects);
        for effect in self.align_effects.drain(..) {
            match effect {
                align::Effect::BlockChannel { channel } => self.blocked[channel.0 as usize] = true,
                align::Effect::UnblockAll => self.blocked.fill(false),
                align::Effect::SnapshotNow { epoch } => self.ready.push_back(Control::Barrier(epoch)),
                align::Effect::Declined { epoch } => self.declined.push(epoch),
                // Ends are not told to the machine: barriers follow them.
                align::Effect::InputEnded => {}
            }
        }
    }

    fn mark(&mut self, now: Tick, event: watermark::Event) {
        self.watermark.step(now, event, &mut self.watermark_effects);
        for effect in self.watermark_effects.drain(..) {
            match effect {
                watermark::Effect::Advance { to } => self.ready.push_back(Control::Watermark(to)),
                watermark::Effect::TurnIdle => self.ready.push_back(Control::Idle),
                // The next watermark or batch tells it.
                watermark::Effect::TurnActive => {}
            }
        }
    }
}
