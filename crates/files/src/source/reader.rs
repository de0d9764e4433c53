//! Reads splits in one task.
//!
//! Data comes from the fetcher, records and rejects go to the output. One split is read at a time, in the order they were added.
//!
//! Owns: which split is read now, and the snapshot. Does not own: the reading of one split (`reading`).

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use staunch_api::{Output, ReaderContext, ReaderPhase, SourceReader, SplitRead, SplitSnapshot};
use staunch_types::{Result, Tick};

use super::Settings;
use super::open::open;
use super::reading::{Reading, Step, Turn};
use super::split::FileSplit;
use crate::shape::Shape;

/// Buffers kept for later.
const BUFFERS_KEPT_MAX: usize = 4;

/// Reads records out of files, in one task.
pub struct FileReader<T> {
    settings: Arc<Settings>,
    context: ReaderContext,
    shape: Shape,
    waiting: VecDeque<(u32, FileSplit)>,
    current: Option<Reading>,
    reads: Vec<SplitRead>,
    used: Vec<Vec<u8>>,
    record: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> FileReader<T> {
    pub(crate) fn new(settings: Settings, context: ReaderContext) -> FileReader<T> {
        FileReader {
            settings: Arc::new(settings),
            context,
            shape: Shape::of::<T>(),
            waiting: VecDeque::new(),
            current: None,
            reads: Vec::new(),
            used: Vec::new(),
            record: PhantomData,
        }
    }

    fn open(&self, slot: u32, split: FileSplit) -> Reading {
        let (file_system, settings) = (Arc::clone(&self.context.file_system), Arc::clone(&self.settings));
        let (shape, wanted) = (self.shape, split.clone());
        let opening = self.context.io.run(move || open(&*file_system, &settings, shape, &wanted));
        Reading::new(slot, split, opening)
    }
}

impl<T: DeserializeOwned + Send + 'static> SourceReader for FileReader<T> {
    type Record = T;
    type Split = FileSplit;

    fn add_split(&mut self, slot: u32, split: FileSplit) -> Result<()> {
        self.waiting.push_back((slot, split));
        Ok(())
    }

    fn poll<O: Output<T>>(&mut self, _now: Tick, budget: usize, out: &mut O) -> Result<ReaderPhase> {
        let mut left = budget;
        loop {
            let Some(mut current) = self.current.take() else {
                let Some((slot, split)) = self.waiting.pop_front() else { return Ok(ReaderPhase::WaitingSplits) };
                out.begin_split(slot);
                self.current = Some(self.open(slot, split));
                continue;
            };
            let turn = Turn { settings: &self.settings, shape: self.shape, context: &self.context, used: &mut self.used };
            let phase = match current.advance::<T, O>(turn, &mut left, out) {
                Ok(Step::Finished) => {
                    out.end_split(current.slot());
                    self.reads.push(current.take_read());
                    self.used.extend(current.into_buffer());
                    self.used.truncate(BUFFERS_KEPT_MAX);
                    continue;
                }
                Ok(Step::Waiting) => Ok(ReaderPhase::WaitingIo),
                Ok(Step::Paused) => Ok(ReaderPhase::Ready),
                Err(error) => Err(error),
            };
            self.current = Some(current);
            return phase;
        }
    }

    fn snapshot(&mut self) -> SplitSnapshot<FileSplit> {
        let mut reads = std::mem::take(&mut self.reads);
        let mut splits = Vec::new();
        if let Some(current) = &mut self.current {
            let read = current.take_read();
            if read.to > read.from {
                reads.push(read);
            }
            splits.push(current.split().clone());
        }
        splits.extend(self.waiting.iter().map(|(_, split)| split.clone()));
        SplitSnapshot { splits, reads }
    }
}
