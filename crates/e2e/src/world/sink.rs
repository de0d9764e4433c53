//! A sink that follows a script.
//!
//! Steps of a writer count over all tasks, those of a committer one by one. A prepare of an epoch without records is no step, as nothing can
//! go wrong with it.

use std::io;
use std::sync::Arc;

use staunch_api::{
    CommitPermit, Committable, Committer, Kept, Prepared, Proof, Resolution, Sink, SinkContext, SinkWriter, SweepScope, Swept, Term,
    WriterContext,
};
use staunch_types::{Epoch, Error, ErrorKind, Result, Tick, Timestamp};

use super::fault::Script;
use super::step::{Object, Operation};

/// Another sink, but for what a script says.
#[derive(Clone)]
pub struct FaultySink<S> {
    inner: S,
    faults: Faults,
}

#[derive(Clone)]
struct Faults {
    script: Arc<Script>,
    object: Object,
}

impl<S: Sink> FaultySink<S> {
    /// Stands before `inner`, which the script calls `object`.
    #[must_use]
    pub fn new(inner: S, script: Arc<Script>, object: Object) -> FaultySink<S> {
        FaultySink { inner, faults: Faults { script, object } }
    }
}

/// An error of the sink, or one of the script.
struct Failed(Error);

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        Failed(Error::new(ErrorKind::Retry, "T001", "a fault that the test asked for").cause(error))
    }
}

impl Faults {
    fn around<T>(&self, operation: Operation, deed: impl FnOnce() -> Result<T>) -> Result<T> {
        self.script.around(operation, self.object, || deed().map_err(Failed)).map_err(|Failed(error)| error)
    }
}

impl<S: Sink> Sink for FaultySink<S> {
    type Record = S::Record;
    type Writer = FaultyWriter<S::Writer>;
    type Committer = FaultyCommitter<S::Committer>;

    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn writes(&self) -> Vec<String> {
        self.inner.writes()
    }

    fn keeps(&self) -> Kept {
        self.inner.keeps()
    }

    fn check(&self, context: &SinkContext) -> Result<()> {
        self.inner.check(context)
    }

    fn writer(&self, context: WriterContext, restored: Vec<Vec<u8>>) -> Result<FaultyWriter<S::Writer>> {
        Ok(FaultyWriter { inner: self.inner.writer(context, restored)?, faults: self.faults.clone(), written: 0 })
    }

    fn committer(&self, context: SinkContext) -> Result<FaultyCommitter<S::Committer>> {
        Ok(FaultyCommitter { inner: self.inner.committer(context)?, faults: self.faults.clone() })
    }
}

/// The writer of a [`FaultySink`].
pub struct FaultyWriter<W> {
    inner: W,
    faults: Faults,
    /// Records since the last prepare.
    written: u64,
}

impl<W: SinkWriter> SinkWriter for FaultyWriter<W> {
    type Record = W::Record;

    fn write(&mut self, record: W::Record, time: Timestamp) -> Result<()> {
        self.written += 1;
        self.faults.around(Operation::Write, || self.inner.write(record, time))
    }

    fn room(&self) -> bool {
        self.inner.room()
    }

    fn work(&mut self, now: Tick) -> Result<Option<Tick>> {
        self.inner.work(now)
    }

    fn prepare(&mut self, epoch: Epoch) -> Result<()> {
        if std::mem::take(&mut self.written) == 0 {
            return self.inner.prepare(epoch);
        }
        self.faults.around(Operation::Prepare, || self.inner.prepare(epoch))
    }

    fn poll_prepared(&mut self) -> Result<Option<Prepared>> {
        match self.inner.poll_prepared()? {
            Some(prepared) if !prepared.committables.is_empty() => self.faults.around(Operation::Answer, || Ok(Some(prepared))),
            prepared => Ok(prepared),
        }
    }

    fn end(&mut self) {
        self.inner.end();
    }
}

/// The committer of a [`FaultySink`].
pub struct FaultyCommitter<C> {
    inner: C,
    faults: Faults,
}

impl<C: Committer> Committer for FaultyCommitter<C> {
    fn commit(&mut self, committable: &Committable, permit: &CommitPermit) -> Result<Proof> {
        self.faults.around(Operation::Commit, || self.inner.commit(committable, permit))
    }

    fn resolve(&mut self, committable: &Committable) -> Result<Resolution> {
        self.faults.around(Operation::Resolve, || self.inner.resolve(committable))
    }

    fn resend(&mut self, committable: &Committable, permit: &CommitPermit) -> Result<Proof> {
        self.faults.around(Operation::Resend, || self.inner.resend(committable, permit))
    }

    fn forget(&mut self, committable: &Committable) -> Result<()> {
        self.inner.forget(committable)
    }

    fn term(committable: &Committable) -> Option<Term> {
        C::term(committable)
    }

    fn sweep(&mut self, scope: &SweepScope) -> Result<Swept> {
        self.faults.around(Operation::Sweep, || self.inner.sweep(scope))
    }
}
