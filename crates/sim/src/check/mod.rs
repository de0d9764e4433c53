//! What must hold, looked at after every step that changes the disk, and at the end.
//!
//! Owns: the reading of ledger and output from the disk, without any code of the engine that runs the job. Does not own: when to look.
//! Follows the data: what was read, what is durable, what can be restored, what is visible.

mod ledger;
mod input;
mod restore;
mod visible;
mod topics;

use std::collections::BTreeSet;
use std::fmt;

use crate::job::{JobSpec, OUT};
use crate::kernel::{Broker, Change, Decided, Disk};

use input::Input;
pub use ledger::{Ledger, Sealed};
use restore::Restorable;
pub use topics::{Topics, topic};
use visible::Visible;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What was looked at.
    pub check: &'static str,
    /// What was seen.
    pub what: String,
}

impl Violation {
    /// A violation.
    #[must_use]
    pub fn new(check: &'static str, what: impl Into<String>) -> Violation {
        Violation { check, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.what)
    }
}

/// Whether the timeline only ever goes forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeline {
    /// Every line is visible at most as often as a clean run gives it.
    Straight,
    /// Somebody rewinds the job: what comes after the rewind point comes again.
    Rewound,
}

/// All checks of one world.
pub struct Checks {
    /// The ledger, as far as it was read.
    pub ledger: Ledger,
    input: Input,
    restorable: Restorable,
    /// What is visible.
    pub visible: Visible,
    /// What was decided at the broker.
    pub topics: Topics,
}

impl Checks {
    /// The checks of a job.
    #[must_use]
    pub fn new(job: &JobSpec) -> Checks {
        Checks {
            ledger: Ledger::new(&job.checkpoints()),
            input: Input::default(),
            restorable: Restorable::new(&job.checkpoints()),
            visible: Visible::new(job.expected()),
            topics: Topics::new(&job.name),
        }
    }

    /// Says how the timeline goes.
    pub fn timeline(&mut self, timeline: Timeline) {
        self.visible.timeline = timeline;
    }

    /// Somebody damages checkpoints on purpose: they are not looked at any more.
    pub fn damaged(&mut self) {
        self.restorable.damaged = true;
    }

    /// Something on the disk is no longer as it was.
    ///
    /// # Errors
    /// What must not be.
    pub fn changed(&mut self, disk: &Disk, changes: &[Change]) -> Result<(), Violation> {
        let before = self.ledger.entries().len();
        for change in changes {
            self.ledger.changed(disk, change)?;
        }
        for entry in &self.ledger.entries()[before..] {
            self.input.appended(entry)?;
            self.restorable.appended(disk, &self.ledger, entry)?;
            self.topics.appended(entry)?;
        }
        self.restorable.changed(disk, &self.ledger, changes)?;
        for change in changes.iter().filter(|change| change.path.starts_with(OUT)) {
            self.visible.changed(disk, &self.ledger, change)?;
        }
        Ok(())
    }

    /// Something was decided at the broker.
    ///
    /// # Errors
    /// What must not be.
    pub fn decided(&mut self, decided: &[Decided]) -> Result<(), Violation> {
        decided.iter().try_for_each(|decided| self.topics.decided(&self.ledger, &mut self.visible, decided))
    }

    /// The job has ended at the end of its input.
    ///
    /// # Errors
    /// What is missing.
    pub fn finished(&self, job: &JobSpec) -> Result<(), Violation> {
        self.ledger.finished()?;
        self.input.finished(job)?;
        self.visible.finished(&self.topics.accepted(&self.ledger))
    }

    /// Hidden output that a checkpoint would go on with: a sweep leaves it alone.
    #[must_use]
    pub fn carried(&self, disk: &Disk, job: &JobSpec) -> BTreeSet<String> {
        let folder = format!("{}/manifests", job.checkpoints());
        let manifests: Vec<&[u8]> = disk.under(&folder).filter_map(|path| disk.bytes(path)).collect();
        let named = |path: &str| manifests.iter().any(|bytes| bytes.windows(path.len()).any(|part| part == path.as_bytes()));
        disk.under(OUT).filter(|path| visible::is_hidden(path) && named(path)).map(str::to_owned).collect()
    }

    /// Nothing runs, and everything of older generations was swept, except what was `carried` when the last one began.
    ///
    /// # Errors
    /// What is left.
    pub fn clean(&self, disk: &Disk, broker: &Broker, job: &JobSpec, carried: &BTreeSet<String>) -> Result<(), Violation> {
        let hidden: Vec<&str> = disk.under(OUT).filter(|path| visible::is_hidden(path) && !carried.contains(*path)).collect();
        if !hidden.is_empty() {
            return Err(Violation::new("E5", format!("hidden output is left: {hidden:?}")));
        }
        if job.topics.is_none() { Ok(()) } else { self.topics.clean(broker, self.visible.seen(), job.shape.sinks()) }
    }
}
