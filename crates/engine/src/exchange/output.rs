//! The end of a chain that sends to other tasks.

use staunch_types::{Result, Timestamp};

use super::{Batch, Element, Message, Route, Sender};
use crate::operator::{Activity, Chain, Control, TaskContext};

/// Routes records into batches for its channels. A batch leaves when it is full or when the task has nothing else to do.
pub struct ExchangeOutput<T, R: Route<T>> {
    route: R,
    channels: Vec<Sender<R::Out>>,
    batches: Vec<Vec<Element<R::Out>>>,
    /// Whether no channel holds anything back.
    room: bool,
    dirty: bool,
    mark: std::marker::PhantomData<fn(T)>,
}

impl<T, R: Route<T>> ExchangeOutput<T, R> {
    /// Sends over `channels`, one per receiving task.
    #[must_use]
    pub fn new(route: R, mut channels: Vec<Sender<R::Out>>) -> Self {
        let batches = channels.iter_mut().map(Sender::empty).collect();
        ExchangeOutput { route, channels, batches, room: true, dirty: false, mark: std::marker::PhantomData }
    }

    fn flush(&mut self, channel: usize) {
        let sender = &mut self.channels[channel];
        let empty = sender.empty();
        let batch = std::mem::replace(&mut self.batches[channel], empty);
        sender.send(Message::Batch(Batch::new(batch)));
        self.room &= sender.room();
        self.route.sent(channel as u32, self.channels.len() as u32);
    }

    fn flush_all(&mut self) {
        if std::mem::take(&mut self.dirty) {
            for channel in 0..self.channels.len() {
                if !self.batches[channel].is_empty() {
                    self.flush(channel);
                }
            }
        }
    }

    fn broadcast(&mut self, message: impl Fn() -> Message<R::Out>) {
        self.flush_all();
        for sender in &mut self.channels {
            sender.send(message());
            self.room &= sender.room();
        }
    }
}

impl<T: Send + 'static, R: Route<T>> Chain<T> for ExchangeOutput<T, R> {
    #[inline]
    fn push(&mut self, value: T, time: Timestamp) {
        let (channel, value) = self.route.route(value, self.channels.len() as u32);
        let channel = channel as usize;
        self.dirty = true;
        let batch = &mut self.batches[channel];
        batch.push(Element { time, value });
        if batch.len() >= Batch::<R::Out>::RECORDS {
            self.flush(channel);
        }
    }

    #[inline]
    fn room(&self) -> bool {
        self.room
    }

    fn control(&mut self, control: &Control, _context: &mut TaskContext) -> Result<()> {
        match control {
            Control::Watermark(time) => self.broadcast(|| Message::Watermark(*time)),
            Control::Idle => self.broadcast(|| Message::Idle),
            Control::Barrier(epoch) => self.broadcast(|| Message::Barrier(*epoch)),
            Control::End => self.broadcast(|| Message::End),
            // The first word of a reader: it has something to read.
            Control::SplitsOpened(_) => self.broadcast(|| Message::Watermark(Timestamp::MIN)),
            Control::SplitBegan(_) | Control::SplitEnded(_) | Control::EpochDurable(_) | Control::EpochAbandoned(_) => {}
        }
        Ok(())
    }

    fn work(&mut self, _context: &mut TaskContext) -> Result<Activity> {
        if !self.room {
            self.channels.iter_mut().for_each(Sender::retry);
            self.room = self.channels.iter().all(Sender::room);
        }
        Ok(Activity::NOTHING)
    }

    fn idle(&mut self) {
        self.flush_all();
    }
}
