//! Ends of pipelines that do next to nothing.

use std::hint::black_box;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use hdrhistogram::Histogram;
use staunch_api::{Committable, Committer, Prepared, Proof, Resolution, Sink, SinkContext, SinkWriter, SweepScope, Swept, WriterContext};
use staunch_types::{Epoch, Result, Tick, Timestamp};

/// Calls a closure for each record. Writes nothing, so it has nothing to commit.
pub(crate) struct Consume<T, F> {
    function: F,
    item: std::marker::PhantomData<fn(T)>,
}

impl<T, F> Consume<T, F> {
    pub(crate) fn new(function: F) -> Self {
        Consume { function, item: std::marker::PhantomData }
    }
}

impl<T, F: Clone> Clone for Consume<T, F> {
    fn clone(&self) -> Self {
        Consume { function: self.function.clone(), item: std::marker::PhantomData }
    }
}

impl<T: Send + 'static, F: FnMut(T) -> u64 + Clone + Send + 'static> Sink for Consume<T, F> {
    type Record = T;
    type Writer = Consumer<T, F>;
    type Committer = Nothing;

    fn kind(&self) -> &'static str {
        "consume"
    }

    fn describe(&self) -> String {
        "reads every field".into()
    }

    fn check(&self, _context: &SinkContext) -> Result<()> {
        Ok(())
    }

    fn writer(&self, _context: WriterContext, _restored: Vec<Vec<u8>>) -> Result<Consumer<T, F>> {
        Ok(Consumer { function: self.function.clone(), sum: 0, asked: None, item: std::marker::PhantomData })
    }

    fn committer(&self, _context: SinkContext) -> Result<Nothing> {
        Ok(Nothing)
    }
}

pub(crate) struct Consumer<T, F> {
    function: F,
    sum: u64,
    asked: Option<Epoch>,
    item: std::marker::PhantomData<fn(T)>,
}

impl<T, F> Drop for Consumer<T, F> {
    fn drop(&mut self) {
        black_box(self.sum);
    }
}

impl<T: Send + 'static, F: FnMut(T) -> u64 + Send + 'static> SinkWriter for Consumer<T, F> {
    type Record = T;

    #[inline]
    fn write(&mut self, record: T, _time: Timestamp) -> Result<()> {
        self.sum = self.sum.wrapping_add((self.function)(record));
        Ok(())
    }

    #[inline]
    fn room(&self) -> bool {
        true
    }

    fn work(&mut self, _now: Tick) -> Result<Option<Tick>> {
        Ok(None)
    }

    fn prepare(&mut self, epoch: Epoch) -> Result<()> {
        self.asked = Some(epoch);
        Ok(())
    }

    fn poll_prepared(&mut self) -> Result<Option<Prepared>> {
        Ok(self.asked.take().map(|epoch| Prepared { epoch, committables: Vec::new(), carried: Vec::new() }))
    }

    fn end(&mut self) {}
}

/// The committer of a sink that never prepares anything.
pub(crate) struct Nothing;

impl Committer for Nothing {
    fn commit(&mut self, _committable: &Committable, _permit: &staunch_api::CommitPermit) -> Result<Proof> {
        Ok(Proof::default())
    }

    fn resolve(&mut self, _committable: &Committable) -> Result<Resolution> {
        Ok(Resolution::Pending)
    }

    fn sweep(&mut self, _scope: &SweepScope) -> Result<Swept> {
        Ok(Swept::default())
    }
}

/// Latencies in nanoseconds, from all tasks.
pub(crate) type Latencies = Arc<Mutex<Histogram<u64>>>;

/// Measures now minus the time that `due` finds in a record (nanoseconds since `start`; 0: not measured), after `skip` nanoseconds.
pub(crate) fn latency<T>(due: impl Fn(&T) -> u64 + Clone, start: Instant, skip: u64, into: Latencies) -> impl FnMut(T) -> u64 + Clone {
    let mut own: Vec<u64> = Vec::new();
    move |record: T| {
        let due = due(&record);
        if due == 0 {
            return 0;
        }
        let now = start.elapsed().as_nanos() as u64;
        if due > skip {
            own.push(now.saturating_sub(due).max(1));
            if own.len() == 1024 {
                let mut all = into.lock().unwrap_or_else(PoisonError::into_inner);
                own.drain(..).for_each(|v| all.saturating_record(v));
            }
        }
        due
    }
}
