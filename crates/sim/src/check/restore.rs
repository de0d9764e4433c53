//! What a restart needs is there: the manifest of the epoch it would start from, and every object that the manifest names.

use staunch_format::ledger::{Body, LedgerEntry, Origin};
use staunch_format::manifest::{Manifest, Segment};
use staunch_types::Epoch;

use super::{Ledger, Violation};
use crate::kernel::{Change, ChangeKind, Disk};

const CHECK: &str = "restorable";

/// See the module.
pub(super) struct Restorable {
    checkpoints: String,
    /// What the newest generation started from, until it has sealed an epoch of its own.
    resume: Option<Epoch>,
    /// Somebody damages checkpoints on purpose.
    pub(super) damaged: bool,
}

impl Restorable {
    pub(super) fn new(checkpoints: &str) -> Restorable {
        Restorable { checkpoints: checkpoints.to_owned(), resume: None, damaged: false }
    }

    pub(super) fn appended(&mut self, disk: &Disk, ledger: &Ledger, entry: &LedgerEntry) -> Result<(), Violation> {
        match &entry.body {
            Body::Claimed(claimed) => {
                self.resume = match claimed.origin {
                    Origin::Empty => None,
                    Origin::Epoch(epoch) | Origin::Fork(epoch) => Some(epoch),
                };
            }
            Body::Sealed(sealed) => self.resume = Some(sealed.attempt.epoch),
            Body::Committed(_) | Body::Stopped(_) => return Ok(()),
        }
        self.look(disk, ledger)
    }

    pub(super) fn changed(&self, disk: &Disk, ledger: &Ledger, changes: &[Change]) -> Result<(), Violation> {
        let concerns = |change: &Change| {
            change.kind != ChangeKind::Renamed && change.path.starts_with(&self.checkpoints) && !change.path.ends_with(".unfinished")
        };
        if changes.iter().any(concerns) { self.look(disk, ledger) } else { Ok(()) }
    }

    fn look(&self, disk: &Disk, ledger: &Ledger) -> Result<(), Violation> {
        if self.damaged {
            return Ok(());
        }
        if let Some(epoch) = self.resume {
            self.whole(disk, ledger, epoch)?;
        }
        for (epoch, sealed) in ledger.sealed() {
            if !sealed.recorded && !sealed.committables.is_empty() {
                self.manifest(disk, ledger, *epoch)?;
            }
        }
        Ok(())
    }

    fn manifest(&self, disk: &Disk, ledger: &Ledger, epoch: Epoch) -> Result<Manifest, Violation> {
        let wrong = |what: String| Violation::new(CHECK, format!("epoch {epoch}: {what}"));
        let sealed = ledger.sealed().get(&epoch).ok_or_else(|| wrong("was never sealed".into()))?;
        let path = format!("{}/{}", self.checkpoints, sealed.manifest);
        let bytes = disk.bytes(&path).ok_or_else(|| wrong(format!("the manifest is missing: {path}")))?;
        Manifest::decode(bytes).map_err(|error| wrong(format!("the manifest cannot be read: {path} {error}")))
    }

    fn whole(&self, disk: &Disk, ledger: &Ledger, epoch: Epoch) -> Result<(), Violation> {
        let manifest = self.manifest(disk, ledger, epoch)?;
        let tasks = manifest.operators.iter().flat_map(|operator| &operator.tasks);
        for segment in tasks.flat_map(|task| &task.states).flat_map(|state| &state.segments) {
            let path = format!("{}/{}", self.checkpoints, segment.path);
            let range = segment.offset as usize..(segment.offset + segment.length) as usize;
            let bytes = disk.bytes(&path).and_then(|bytes| bytes.get(range));
            if bytes.is_none_or(|bytes| Segment::crc_of(bytes) != segment.crc) {
                return Err(Violation::new(CHECK, format!("epoch {epoch} needs an object that is missing or damaged: {path}")));
            }
        }
        Ok(())
    }
}
