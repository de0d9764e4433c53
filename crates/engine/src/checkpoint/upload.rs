//! One task's state of one epoch on its way to the store.

use std::collections::VecDeque;
use std::sync::Arc;

use staunch_api::{CheckpointStore, Io, ObjectWriter, Pending, StoreError};
use staunch_types::{Epoch, Error, ErrorKind, KeyGroupRange, Result};

use super::Segment;

/// Bytes that may wait for the store; a task pauses its snapshot beyond.
const WAITING_BYTES_MAX: usize = 16 * 1024 * 1024;

/// An object that grows block by block, and is made durable at the end. Without blocks there is no object.
pub struct Upload {
    store: Arc<dyn CheckpointStore>,
    io: Io,
    path: String,
    epoch: Epoch,
    offset: u64,
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    step: Step,
    closing: bool,
}

type Answer = std::result::Result<Option<Box<dyn ObjectWriter>>, StoreError>;

enum Step {
    /// Nothing was written.
    Unopened,
    /// Open, nothing under way.
    Idle(Box<dyn ObjectWriter>),
    /// A write, or the last step, is under way.
    Busy(Pending<Answer>),
    /// Durable.
    Done,
}

impl Upload {
    /// An upload to `path`.
    #[must_use]
    pub fn new(store: Arc<dyn CheckpointStore>, io: Io, path: String, epoch: Epoch) -> Upload {
        Upload { store, io, path, epoch, offset: 0, waiting: VecDeque::new(), waiting_bytes: 0, step: Step::Unopened, closing: false }
    }

    /// Whether another block should be made now.
    #[must_use]
    pub fn room(&self) -> bool {
        self.waiting_bytes < WAITING_BYTES_MAX
    }

    /// Adds a block; tells where it will lie.
    pub fn append(&mut self, block: Vec<u8>, groups: KeyGroupRange) -> Segment {
        let segment = Segment {
            path: self.path.clone(),
            offset: self.offset,
            bytes: block.len() as u64,
            crc: staunch_format::manifest::Segment::crc_of(&block),
            groups,
            epoch: self.epoch,
        };
        self.offset += block.len() as u64;
        self.waiting_bytes += block.len();
        self.waiting.push_back(block);
        segment
    }

    /// No block follows.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// Moves on; true when everything is durable.
    ///
    /// # Errors
    /// `Retry` when the store refuses: this epoch cannot be completed.
    pub fn poll(&mut self) -> Result<bool> {
        loop {
            self.step = match std::mem::replace(&mut self.step, Step::Done) {
                Step::Done => return Ok(true),
                Step::Busy(mut pending) => match pending.poll() {
                    None => {
                        self.step = Step::Busy(pending);
                        return Ok(false);
                    }
                    Some(Ok(Some(writer))) => Step::Idle(writer),
                    Some(Ok(None)) => Step::Done,
                    Some(Err(error)) => return Err(self.refused(&error)),
                },
                Step::Unopened if self.waiting.is_empty() => {
                    if self.closing {
                        return Ok(true);
                    }
                    self.step = Step::Unopened;
                    return Ok(false);
                }
                Step::Unopened => self.write(None),
                Step::Idle(writer) if !self.waiting.is_empty() => self.write(Some(writer)),
                Step::Idle(writer) if self.closing => Step::Busy(self.io.run(move || writer.finish().map(|()| None))),
                Step::Idle(writer) => {
                    self.step = Step::Idle(writer);
                    return Ok(false);
                }
            };
        }
    }

    fn write(&mut self, writer: Option<Box<dyn ObjectWriter>>) -> Step {
        let blocks: Vec<Vec<u8>> = self.waiting.drain(..).collect();
        self.waiting_bytes = 0;
        let (store, path) = (Arc::clone(&self.store), self.path.clone());
        Step::Busy(self.io.run(move || {
            let mut writer = match writer {
                Some(writer) => writer,
                None => store.writer(&path)?,
            };
            for block in &blocks {
                writer.append(block)?;
            }
            Ok(Some(writer))
        }))
    }

    fn refused(&self, error: &StoreError) -> Error {
        Error::new(ErrorKind::Retry, "C001", format!("the state of epoch {} could not be stored", self.epoch))
            .cause(error)
            .at(format!("object={} store={}", self.path, self.store.describe()))
            .data("the checkpoint is abandoned; the job goes on from the last durable one, nothing of this epoch is visible")
            .remedy("make the checkpoint store writable and see that it has room; the next checkpoint tries again")
    }
}
