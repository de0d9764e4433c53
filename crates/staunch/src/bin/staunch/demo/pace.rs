//! A source that hands over so many records a second and no more, so that there is time to watch and to kill.

use std::time::Duration;

use staunch_api::{Assignment, Output, ReaderContext, ReaderPhase, Rejected, Source, SourceContext, SourceReader, SplitSnapshot};
use staunch_types::{Error, Result, Tick, Timestamp};

/// Between two moments at which records may be handed over.
const STEP: Duration = Duration::from_millis(5);

/// A source, slowed down.
#[derive(Clone)]
pub(super) struct Paced<S> {
    pub(super) source: S,
    /// Records a second, of each reader.
    pub(super) rate: u64,
}

/// A reader, slowed down.
pub(super) struct PacedReader<R> {
    reader: R,
    rate: u64,
    began: Option<Tick>,
    handed: u64,
}

impl<S: Source> Source for Paced<S> {
    type Record = S::Record;
    type Split = S::Split;
    type Reader = PacedReader<S::Reader>;
    type Enumerator = S::Enumerator;

    fn describe(&self) -> String {
        format!("{}, {} records/s", self.source.describe(), self.rate)
    }

    fn assignment(&self) -> Assignment {
        self.source.assignment()
    }

    fn enumerator(&self, context: &SourceContext, restored: Option<&[u8]>) -> Result<S::Enumerator> {
        self.source.enumerator(context, restored)
    }

    fn reader(&self, context: ReaderContext) -> Result<PacedReader<S::Reader>> {
        Ok(PacedReader { reader: self.source.reader(context)?, rate: self.rate, began: None, handed: 0 })
    }
}

impl<R: SourceReader> SourceReader for PacedReader<R> {
    type Record = R::Record;
    type Split = R::Split;

    fn add_split(&mut self, slot: u32, split: R::Split) -> Result<()> {
        self.reader.add_split(slot, split)
    }

    fn poll<O: Output<R::Record>>(&mut self, now: Tick, budget: usize, out: &mut O) -> Result<ReaderPhase> {
        let began = *self.began.get_or_insert(now);
        let due = u128::from(self.rate) * now.since(began).as_nanos() / 1_000_000_000;
        let allowed = due.saturating_sub(u128::from(self.handed)).min(budget as u128) as usize;
        if allowed == 0 {
            return Ok(ReaderPhase::WaitingUntil(now + STEP));
        }
        let before = self.handed;
        let mut counting = Counting { out, handed: &mut self.handed };
        match self.reader.poll(now, allowed, &mut counting)? {
            ReaderPhase::Ready if self.handed - before >= allowed as u64 => Ok(ReaderPhase::WaitingUntil(now + STEP)),
            // It stopped for lack of room.
            ReaderPhase::Ready => Ok(ReaderPhase::Ready),
            phase @ (ReaderPhase::WaitingIo | ReaderPhase::WaitingUntil(_) | ReaderPhase::WaitingSplits) => Ok(phase),
        }
    }

    fn snapshot(&mut self) -> SplitSnapshot<R::Split> {
        self.reader.snapshot()
    }
}

/// Counts what is handed over.
struct Counting<'a, O> {
    out: &'a mut O,
    handed: &'a mut u64,
}

impl<T, O: Output<T>> Output<T> for Counting<'_, O> {
    fn push(&mut self, value: T, time: Timestamp) {
        *self.handed += 1;
        self.out.push(value, time);
    }

    fn room(&self) -> bool {
        self.out.room()
    }

    fn begin_split(&mut self, slot: u32) {
        self.out.begin_split(slot);
    }

    fn end_split(&mut self, slot: u32) {
        self.out.end_split(slot);
    }

    fn reject(&mut self, rejected: Rejected) -> Result<(), Error> {
        *self.handed += 1;
        self.out.reject(rejected)
    }
}
