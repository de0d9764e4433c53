//! A replayable source of generated records that measures itself: the rate at which it can hand records over is the pipeline's.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use staunch_api::{
    Assignment, Discovery, Output, ReaderContext, ReaderPhase, Source, SourceContext, SourceReader, Split, SplitEnumerator, SplitRead,
    SplitSnapshot,
};
use staunch_types::{Digest, Result, Tick, Timestamp};

/// What a run looks like.
#[derive(Clone, Copy)]
pub(crate) struct Schedule {
    /// Records that count as set-up, before the warm-up.
    pub(crate) populate: u64,
    pub(crate) warmup: Duration,
    pub(crate) window: Duration,
    pub(crate) windows: usize,
    /// Records per second over all tasks once set-up is done; 0: as fast as possible.
    pub(crate) rate: u64,
    pub(crate) records_max: u64,
}

/// Windows of all tasks: records and seconds of wall clock and of this process's processors.
#[derive(Default)]
pub(crate) struct Measured {
    pub(crate) windows: Vec<Vec<Window>>,
    pub(crate) records: u64,
}

#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub(crate) records: u64,
    pub(crate) seconds: f64,
    pub(crate) processor_seconds: f64,
}

/// Seconds of processor time that this process has used.
pub(crate) fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Makes record number n, due at a time in nanoseconds since the run's start (0 when there is no rate).
pub(crate) trait Make<T>: Clone + Send + Sync + 'static {
    fn make(&self, seq: u64, due: u64) -> T;
}

/// The source. `make` gives record number n and its due time in nanoseconds since the run's start (0 when there is no rate).
pub(crate) struct GenSource<T, M> {
    make: M,
    schedule: Schedule,
    measured: Arc<Mutex<Measured>>,
    start: Instant,
    item: std::marker::PhantomData<fn() -> T>,
}

impl<T, M: Clone> Clone for GenSource<T, M> {
    fn clone(&self) -> Self {
        GenSource {
            make: self.make.clone(),
            schedule: self.schedule,
            measured: Arc::clone(&self.measured),
            start: self.start,
            item: std::marker::PhantomData,
        }
    }
}

impl<T, M: Make<T>> GenSource<T, M> {
    pub(crate) fn new(make: M, schedule: Schedule, measured: Arc<Mutex<Measured>>, start: Instant) -> Self {
        GenSource { make, schedule, measured, start, item: std::marker::PhantomData }
    }
}

/// Every `of`-th record, beginning with `index`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Stride {
    index: u64,
    of: u64,
    position: u64,
}

impl Split for Stride {
    fn id(&self) -> String {
        format!("s{}", self.index)
    }
}

pub(crate) struct Strides {
    tasks: u64,
}

impl SplitEnumerator for Strides {
    type Split = Stride;

    fn discover(&mut self) -> Result<Discovery<Stride>> {
        let of = std::mem::take(&mut self.tasks);
        let splits = (0..of).map(|index| Stride { index, of, position: 0 }).collect();
        Ok(Discovery { splits, state: vec![1], again_after: None })
    }
}

impl<T: Send + 'static, M: Make<T>> Source for GenSource<T, M> {
    type Record = T;
    type Split = Stride;
    type Reader = GenReader<T, M>;
    type Enumerator = Strides;

    fn describe(&self) -> String {
        "generated records".into()
    }

    fn assignment(&self) -> Assignment {
        Assignment::AllAtOnce
    }

    fn enumerator(&self, context: &SourceContext, restored: Option<&[u8]>) -> Result<Strides> {
        Ok(Strides { tasks: if restored.is_some() { 0 } else { u64::from(context.parallelism) } })
    }

    fn reader(&self, _context: ReaderContext) -> Result<GenReader<T, M>> {
        Ok(GenReader { source: self.clone(), slot: 0, split: None, read_from: 0, phase: Phase::Populating, windows: Vec::new() })
    }
}

pub(crate) struct GenReader<T, M> {
    source: GenSource<T, M>,
    slot: u32,
    split: Option<Stride>,
    read_from: u64,
    phase: Phase,
    windows: Vec<Window>,
}

#[derive(Clone, Copy)]
enum Phase {
    Populating,
    /// Since when, from which position, and the window that is open: start, first position, processor time.
    Running {
        since: Instant,
        from: u64,
        window: Option<(Instant, u64, f64)>,
    },
}

impl<T, M: Make<T>> GenReader<T, M> {
    /// Moves the phases on; true when the run is over.
    fn clock(&mut self, position: u64, seq: u64) -> bool {
        let schedule = self.source.schedule;
        if seq < schedule.populate {
            return false;
        }
        if seq >= schedule.records_max {
            return true;
        }
        let now = Instant::now();
        let Phase::Running { since, from, window } = self.phase else {
            self.phase = Phase::Running { since: now, from: position, window: None };
            return false;
        };
        if schedule.windows == 0 || now - since < schedule.warmup {
            return false;
        }
        match window {
            None => self.phase = Phase::Running { since, from, window: Some((now, position, processor_seconds())) },
            Some((start, first, processor)) if now - start >= schedule.window => {
                let used = processor_seconds();
                self.windows.push(Window {
                    records: position - first,
                    seconds: (now - start).as_secs_f64(),
                    processor_seconds: used - processor,
                });
                if self.windows.len() == schedule.windows {
                    return true;
                }
                self.phase = Phase::Running { since, from, window: Some((now, position, used)) };
            }
            Some(_) => {}
        }
        false
    }

    fn finish(&mut self, position: u64) {
        let mut measured = self.source.measured.lock().unwrap_or_else(PoisonError::into_inner);
        measured.windows.push(std::mem::take(&mut self.windows));
        measured.records += position;
    }
}

impl<T: Send + 'static, M: Make<T>> SourceReader for GenReader<T, M> {
    type Record = T;
    type Split = Stride;

    fn add_split(&mut self, slot: u32, split: Stride) -> Result<()> {
        assert!(self.split.is_none(), "one split per reader, no rescaling");
        self.slot = slot;
        self.read_from = split.position;
        self.split = Some(split);
        Ok(())
    }

    fn poll<O: Output<T>>(&mut self, now: Tick, budget: usize, out: &mut O) -> Result<ReaderPhase> {
        let Some(Stride { index, of, position }) = self.split else { return Ok(ReaderPhase::WaitingSplits) };
        if self.clock(position, position * of + index) {
            self.finish(position);
            self.split = None;
            out.end_split(self.slot);
            return Ok(ReaderPhase::WaitingSplits);
        }
        let (mut end, mut due) = (position + budget as u64, None);
        if let Phase::Running { since, from, .. } = self.phase
            && self.source.schedule.rate > 0
        {
            // Hand over what is due, and come back for the next one.
            let per_second = self.source.schedule.rate as f64 / of as f64;
            let allowed = from + (since.elapsed().as_secs_f64() * per_second) as u64;
            let started = (since - self.source.start).as_nanos() as f64;
            due = Some((started, from, 1e9 / per_second));
            if allowed < position + 1 {
                let wait = ((position + 1 - from) as f64 / per_second) - since.elapsed().as_secs_f64();
                return Ok(ReaderPhase::WaitingUntil(now + Duration::from_secs_f64(wait.max(0.0))));
            }
            end = end.min(allowed);
        }
        let mut at = position;
        while at < end && out.room() {
            let created = due.map_or(0, |(started, from, each)| (started + (at - from) as f64 * each) as u64);
            out.push(self.source.make.make(at * of + index, created), Timestamp::MIN);
            at += 1;
        }
        if let Some(split) = &mut self.split {
            split.position = at;
        }
        Ok(ReaderPhase::Ready)
    }

    fn snapshot(&mut self) -> SplitSnapshot<Stride> {
        let Some(split) = self.split.clone() else { return SplitSnapshot { splits: Vec::new(), reads: Vec::new() } };
        let digest = Digest { records: split.position - self.read_from, ..Digest::default() };
        let read = SplitRead { split: split.id(), from: self.read_from, to: split.position, digest };
        self.read_from = split.position;
        SplitSnapshot { splits: vec![split], reads: vec![read] }
    }
}
