//! A source at a given speed, for sources that read nothing from files. Nothing waits but the reader itself: tasks go on beside it.

use std::time::Duration;

use staunch_api::{Assignment, Output, ReaderContext, ReaderPhase, Rejected, Source, SourceContext, SourceReader, SplitSnapshot};
use staunch_types::{Error, Result, Tick, Timestamp};

/// Time from one handful of records to the next.
const STEP: Duration = Duration::from_millis(5);
/// A reader that had nothing to read for longer than this does not catch up.
const BEHIND_MAX: Duration = Duration::from_millis(20);

/// Another source, with at most so many records a second for all of its readers together.
#[derive(Clone)]
pub struct PacedSource<S> {
    inner: S,
    records_per_second: u64,
}

impl<S: Source> PacedSource<S> {
    /// Paces `inner`; 0 for as fast as it goes.
    #[must_use]
    pub fn new(inner: S, records_per_second: u64) -> PacedSource<S> {
        PacedSource { inner, records_per_second }
    }
}

impl<S: Source> Source for PacedSource<S> {
    type Record = S::Record;
    type Split = S::Split;
    type Reader = PacedReader<S::Reader>;
    type Enumerator = S::Enumerator;

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn reads(&self, address: &str) -> bool {
        self.inner.reads(address)
    }

    fn assignment(&self) -> Assignment {
        self.inner.assignment()
    }

    fn enumerator(&self, context: &SourceContext, restored: Option<&[u8]>) -> Result<S::Enumerator> {
        self.inner.enumerator(context, restored)
    }

    fn reader(&self, context: ReaderContext) -> Result<PacedReader<S::Reader>> {
        let share = self.records_per_second.div_ceil(u64::from(context.parallelism));
        Ok(PacedReader { inner: self.inner.reader(context)?, records_per_second: share, free_at: Tick::default() })
    }
}

/// The reader of a [`PacedSource`].
pub struct PacedReader<R> {
    inner: R,
    records_per_second: u64,
    /// When the next record may be read.
    free_at: Tick,
}

impl<R: SourceReader> SourceReader for PacedReader<R> {
    type Record = R::Record;
    type Split = R::Split;

    fn add_split(&mut self, slot: u32, split: R::Split) -> Result<()> {
        self.inner.add_split(slot, split)
    }

    fn poll<O: Output<R::Record>>(&mut self, now: Tick, budget: usize, out: &mut O) -> Result<ReaderPhase> {
        if self.records_per_second == 0 {
            return self.inner.poll(now, budget, out);
        }
        let each = Duration::from_secs(1) / u32::try_from(self.records_per_second).unwrap_or(u32::MAX);
        self.free_at = self.free_at.max(Tick((now.0).saturating_sub(BEHIND_MAX.as_nanos() as u64)));
        let allowed = (now.since(self.free_at).as_nanos() / each.as_nanos()) as usize;
        if allowed == 0 {
            return Ok(ReaderPhase::WaitingUntil(now + STEP));
        }
        let mut counted = Counted { out, pushed: 0 };
        let phase = self.inner.poll(now, budget.min(allowed), &mut counted)?;
        self.free_at = self.free_at + each * counted.pushed;
        Ok(phase)
    }

    fn snapshot(&mut self) -> SplitSnapshot<R::Split> {
        self.inner.snapshot()
    }
}

struct Counted<'a, O> {
    out: &'a mut O,
    pushed: u32,
}

impl<T, O: Output<T>> Output<T> for Counted<'_, O> {
    fn push(&mut self, value: T, time: Timestamp) {
        self.pushed += 1;
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
        self.pushed += 1;
        self.out.reject(rejected)
    }
}
