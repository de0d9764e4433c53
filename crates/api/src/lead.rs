//! Whether the generation that acts is still the newest.

use std::fmt;
use std::sync::Arc;

use staunch_types::{Error, ErrorKind, Result};

type Ask = dyn Fn() -> Result<()> + Send + Sync;

/// Asks the ledger whether a newer generation has claimed it.
///
/// An answer is about the past: what follows it may come late. So it can spare a newer generation trouble, and never decides what is right; names
/// that only one generation writes to do that.
#[derive(Clone)]
pub struct Lead(Arc<Ask>);

impl Lead {
    /// Asks as `ask` does.
    #[must_use]
    pub fn new(ask: impl Fn() -> Result<()> + Send + Sync + 'static) -> Lead {
        Lead(Arc::new(ask))
    }

    /// For tests: nobody else is there.
    #[must_use]
    pub fn unrivalled() -> Lead {
        Lead::new(|| Ok(()))
    }

    /// Asks. May block.
    ///
    /// # Errors
    /// `Fenced` when a newer generation has claimed the ledger; `Restart` when the store does not answer.
    pub fn confirm(&self) -> Result<()> {
        (self.0)()
    }
}

/// The error of a process that is not the newest.
#[must_use]
pub fn fenced() -> Error {
    Error::new(ErrorKind::Fenced, "C009", "a newer generation of this job has claimed its ledger")
        .data("this process has stopped and touches nothing; the newer one goes on")
        .remedy("if both are meant to run, give them different names or checkpoint directories")
}

impl fmt::Debug for Lead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lead")
    }
}
