//! A small bounded queue from many to one, for control messages; records never travel through it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::WakeFlag;

/// The queue. Clones share it.
pub struct Mailbox<M> {
    inner: Arc<Inner<M>>,
}

struct Inner<M> {
    messages: Mutex<VecDeque<M>>,
    messages_max: usize,
    reader: Arc<WakeFlag>,
}

/// The queue has no room; the message comes back.
#[derive(Debug)]
pub struct MailboxFull<M>(pub M);

impl<M> Clone for Mailbox<M> {
    fn clone(&self) -> Self {
        Mailbox { inner: Arc::clone(&self.inner) }
    }
}

impl<M> Mailbox<M> {
    /// An empty queue whose reader is woken by `reader`.
    #[must_use]
    pub fn new(messages_max: usize, reader: Arc<WakeFlag>) -> Mailbox<M> {
        Mailbox { inner: Arc::new(Inner { messages: Mutex::new(VecDeque::new()), messages_max, reader }) }
    }

    /// Adds a message and wakes the reader.
    ///
    /// # Errors
    /// When the queue is full.
    pub fn send(&self, message: M) -> Result<(), MailboxFull<M>> {
        {
            let mut messages = self.inner.messages.lock().unwrap_or_else(PoisonError::into_inner);
            if messages.len() >= self.inner.messages_max {
                return Err(MailboxFull(message));
            }
            messages.push_back(message);
        }
        self.inner.reader.raise();
        Ok(())
    }

    /// Takes the oldest message.
    #[must_use]
    pub fn receive(&self) -> Option<M> {
        self.inner.messages.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}
