//! A source of partitions in memory, to which a test adds rows while the job runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use staunch_api::{
    Assignment, Discovery, Output, ReaderContext, ReaderPhase, Source, SourceContext, SourceReader, Split, SplitEnumerator, SplitRead,
    SplitSnapshot,
};
use staunch_types::{Digest, Result, Tick, Timestamp};

/// From one look at the partitions to the next.
const LOOK: Duration = Duration::from_millis(1);

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) key: u64,
    pub(crate) at: Timestamp,
}

/// So many partitions.
#[derive(Clone)]
pub(crate) struct Partitions(Arc<Mutex<Vec<Partition>>>);

#[derive(Clone, Default)]
struct Partition {
    rows: Vec<Row>,
    ended: bool,
}

impl Partitions {
    pub(crate) fn new(count: usize) -> Partitions {
        Partitions(Arc::new(Mutex::new(vec![Partition::default(); count])))
    }

    /// Adds rows of one key to the partition of that number.
    pub(crate) fn add(&self, partition: u64, times: impl IntoIterator<Item = i64>) {
        let rows = times.into_iter().map(|at| Row { key: partition, at: Timestamp(at) });
        self.lock()[partition as usize].rows.extend(rows);
    }

    /// Says that no rows will follow in any partition.
    pub(crate) fn end(&self) {
        self.lock().iter_mut().for_each(|partition| partition.ended = true);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Partition>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source for Partitions {
    type Record = Row;
    type Split = Position;
    type Reader = PartitionReader;
    type Enumerator = PartitionFinder;

    fn describe(&self) -> String {
        format!("{} partitions in memory", self.lock().len())
    }

    fn assignment(&self) -> Assignment {
        Assignment::AllAtOnce
    }

    fn enumerator(&self, _context: &SourceContext, restored: Option<&[u8]>) -> Result<PartitionFinder> {
        let splits = if restored.is_some() { 0 } else { self.lock().len() };
        Ok(PartitionFinder { splits })
    }

    fn reader(&self, _context: ReaderContext) -> Result<PartitionReader> {
        Ok(PartitionReader { source: self.clone(), added: Vec::new(), reading: Vec::new() })
    }
}

/// A partition with the number of the next row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Position {
    partition: usize,
    next: usize,
}

impl Split for Position {
    fn id(&self) -> String {
        self.partition.to_string()
    }
}

pub(crate) struct PartitionFinder {
    splits: usize,
}

impl SplitEnumerator for PartitionFinder {
    type Split = Position;

    fn discover(&mut self) -> Result<Discovery<Position>> {
        let splits = (0..std::mem::take(&mut self.splits)).map(|partition| Position { partition, next: 0 }).collect();
        Ok(Discovery { splits, state: vec![1], again_after: None })
    }
}

pub(crate) struct PartitionReader {
    source: Partitions,
    added: Vec<(u32, Position)>,
    reading: Vec<(u32, Position)>,
}

impl SourceReader for PartitionReader {
    type Record = Row;
    type Split = Position;

    fn add_split(&mut self, slot: u32, split: Position) -> Result<()> {
        self.added.push((slot, split));
        Ok(())
    }

    fn poll<O: Output<Row>>(&mut self, now: Tick, budget: usize, out: &mut O) -> Result<ReaderPhase> {
        for (slot, split) in self.added.drain(..) {
            out.begin_split(slot);
            self.reading.push((slot, split));
        }
        let mut left = budget;
        let partitions = self.source.lock().clone();
        for (slot, split) in &mut self.reading {
            out.begin_split(*slot);
            while let Some(row) = partitions[split.partition].rows.get(split.next).filter(|_| left > 0 && out.room()) {
                out.push(*row, Timestamp::MIN);
                split.next += 1;
                left -= 1;
            }
        }
        let has_ended = |split: &Position| partitions[split.partition].ended && split.next == partitions[split.partition].rows.len();
        self.reading.iter().filter(|(_, split)| has_ended(split)).for_each(|(slot, _)| out.end_split(*slot));
        self.reading.retain(|(_, split)| !has_ended(split));
        if self.reading.is_empty() { Ok(ReaderPhase::WaitingSplits) } else { Ok(ReaderPhase::WaitingUntil(now + LOOK)) }
    }

    fn snapshot(&mut self) -> SplitSnapshot<Position> {
        let splits: Vec<Position> = self.reading.iter().chain(&self.added).map(|(_, split)| split.clone()).collect();
        let read = |split: &Position| SplitRead { split: split.id(), from: 0, to: split.next as u64, digest: Digest::default() };
        SplitSnapshot { reads: splits.iter().map(read).collect(), splits }
    }
}
