//! A bounded queue between two tasks in one process.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use staunch_types::{Epoch, Timestamp};

use super::{Batch, Element};
use crate::runtime::WakeFlag;

/// Messages that a channel holds.
pub const QUEUE_MESSAGES_MAX: usize = 8;

/// What travels.
pub enum Message<T> {
    /// Records.
    Batch(Batch<T>),
    /// No record that follows is to be expected with an event time up to and including this one.
    Watermark(Timestamp),
    /// The sender has no input for now: it does not hold the watermark until it sends again.
    Idle,
    /// The cut.
    Barrier(Epoch),
    /// No record follows, ever. Barriers still may.
    End,
}

/// The sending side.
pub struct Sender<T> {
    queue: rtrb::Producer<Message<T>>,
    empties: rtrb::Consumer<Vec<Element<T>>>,
    waiting: VecDeque<Message<T>>,
    shared: Arc<Shared>,
}

/// The receiving side.
pub struct Receiver<T> {
    queue: rtrb::Consumer<Message<T>>,
    empties: rtrb::Producer<Vec<Element<T>>>,
    shared: Arc<Shared>,
}

struct Shared {
    sender: Arc<WakeFlag>,
    receiver: Arc<WakeFlag>,
    sender_waits: AtomicBool,
}

/// A channel; the flags wake the tasks at its ends.
#[must_use]
pub fn channel<T>(sender: Arc<WakeFlag>, receiver: Arc<WakeFlag>) -> (Sender<T>, Receiver<T>) {
    let (queue_in, queue_out) = rtrb::RingBuffer::new(QUEUE_MESSAGES_MAX);
    let (empties_in, empties_out) = rtrb::RingBuffer::new(QUEUE_MESSAGES_MAX);
    let shared = Arc::new(Shared { sender, receiver, sender_waits: AtomicBool::new(false) });
    let receiver = Receiver { queue: queue_out, empties: empties_in, shared: Arc::clone(&shared) };
    (Sender { queue: queue_in, empties: empties_out, waiting: VecDeque::new(), shared }, receiver)
}

impl<T> Sender<T> {
    /// Sends a message. What does not fit waits here; [`Self::room`] then says no.
    pub fn send(&mut self, message: Message<T>) {
        self.waiting.push_back(message);
        self.retry();
    }

    /// Moves what waits into the queue; wakes the receiver when something moved.
    pub fn retry(&mut self) {
        let mut moved = false;
        loop {
            while let Some(message) = self.waiting.pop_front() {
                match self.queue.push(message) {
                    Ok(()) => moved = true,
                    Err(rtrb::PushError::Full(message)) => {
                        self.waiting.push_front(message);
                        break;
                    }
                }
            }
            if self.waiting.is_empty() {
                break;
            }
            // Announce, then look once more: the receiver may have made room in between and seen nobody waiting.
            self.shared.sender_waits.store(true, Ordering::SeqCst);
            if self.queue.slots() == 0 {
                break;
            }
        }
        if moved {
            self.shared.receiver.raise();
        }
    }

    /// Whether nothing waits: the next message should be sent.
    #[must_use]
    pub fn room(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Memory for a batch: used before, if there is some.
    #[must_use]
    pub fn empty(&mut self) -> Vec<Element<T>> {
        self.empties.pop().unwrap_or_else(|_| Vec::with_capacity(Batch::<T>::RECORDS))
    }
}

impl<T> Receiver<T> {
    /// The next message, if one is there.
    pub fn receive(&mut self) -> Option<Message<T>> {
        let message = self.queue.pop().ok()?;
        if self.shared.sender_waits.load(Ordering::SeqCst) && self.shared.sender_waits.swap(false, Ordering::SeqCst) {
            self.shared.sender.raise();
        }
        Some(message)
    }

    /// Whether a message is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Gives the memory of a batch back.
    pub fn give_back(&mut self, batch: Batch<T>) {
        // A full ring means that the sender has enough.
        let _ = self.empties.push(batch.into_empty());
    }
}
