//! Reads one partition, batch by batch, with the marks by which transactions end.
//!
//! Owns: where reading goes on, and what was aborted. Does not own: what a batch means to whoever reads.

use std::collections::BTreeSet;

use staunch_types::{Error, ErrorKind, Result};

use super::batch::{self, Batch, Part};
use super::{Control, Extent, Fetched, Isolation};
use crate::codes;

/// How often a partition may answer with nothing, before it cannot be read.
const EMPTY_MAX: u32 = 75;

/// Reads one partition.
pub(crate) struct Reader<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    /// Where the partition began and ended when reading began.
    pub(crate) extent: Extent,
    /// Where reading goes on.
    pub(crate) offset: i64,
    empty: u32,
    /// How often something was waited for behind the end.
    pub(crate) waits: u32,
}

/// What a step of reading came to.
pub(crate) enum Step {
    Read,
    /// Messages from one offset to another were deleted meanwhile.
    Deleted {
        from: i64,
        start: i64,
    },
    Unreadable {
        what: String,
    },
}

impl<'a> Reader<'a> {
    pub(crate) fn new(topic: &'a str, partition: i32, extent: Extent, offset: i64) -> Reader<'a> {
        Reader { topic, partition, extent, offset, empty: 0, waits: 0 }
    }

    /// Whether what is read next lies before every transaction that was open when reading began: then it is told what was aborted.
    pub(crate) fn is_decided(&self) -> bool {
        self.offset < self.extent.stable
    }

    /// Hands the next batches to `each`, with the offset from which on their messages count, and whether they were aborted.
    pub(crate) fn next(
        &mut self,
        control: &mut Control,
        is_past: bool,
        mut each: impl FnMut(&Batch<'_>, i64, bool) -> Result<(), String>,
    ) -> Result<Step> {
        let isolation = if self.is_decided() { Isolation::Committed } else { Isolation::All };
        let (aborted, bytes) = match control.fetch(self.topic, self.partition, self.offset, isolation)? {
            Fetched::Batches { aborted, bytes } => (aborted, bytes),
            Fetched::OutOfRange => return self.moved(control),
            Fetched::Absent => return Ok(Step::Unreadable { what: "a partition was removed while it was read".into() }),
        };
        let mut waiting: Vec<(i64, i64)> = aborted;
        let (mut open, mut rest, before) = (BTreeSet::new(), &bytes[..], self.offset);
        loop {
            let batch = match batch::take(&mut rest) {
                Ok(Some(batch)) => batch,
                Ok(None) => break,
                Err(what) => return Ok(Step::Unreadable { what }),
            };
            waiting.retain(|(producer, first)| {
                let is_begun = *first <= batch.last;
                if is_begun {
                    open.insert(*producer);
                }
                !is_begun
            });
            if batch.last < self.offset {
                continue;
            }
            if let Err(what) = each(&batch, self.offset, open.contains(&batch.producer.id)) {
                return Ok(Step::Unreadable { what });
            }
            if let Part::End(_) = batch.part {
                open.remove(&batch.producer.id);
            }
            self.offset = batch.last + 1;
        }
        if self.offset > before {
            self.empty = 0;
        } else if is_past {
            self.waits += 1;
        } else {
            self.empty += 1;
            if self.empty > EMPTY_MAX {
                let what = format!("a partition gives nothing at offset {}, though it ends at {}", self.offset, self.extent.end);
                return Err(Error::new(ErrorKind::Retry, codes::READ_FAILED, what)
                    .at(format!("topic={} partition={}", self.topic, self.partition))
                    .data("nothing was changed")
                    .remedy("see the broker's log, and try again"));
            }
        }
        Ok(Step::Read)
    }

    /// The offset is not in the partition any more.
    fn moved(&mut self, control: &mut Control) -> Result<Step> {
        let Some(extent) = control.extent(self.topic, self.partition)? else {
            return Ok(Step::Unreadable { what: "a partition was removed while it was read".into() });
        };
        let from = self.offset;
        if extent.start > from {
            self.offset = extent.start;
            return Ok(Step::Deleted { from, start: extent.start });
        }
        Ok(Step::Unreadable { what: format!("a partition ends at {} and did not before", extent.end) })
    }
}
