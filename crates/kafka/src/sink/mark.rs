//! The mark that a transaction leaves: a message in a compacted topic, visible when and only when the transaction is committed.
//!
//! Owns: how a mark is looked for. Does not own: how it is written (`producer`) and cleared (`committer`).
//!
//! A mark has a key that only its transaction has (and the one that writes the same output again), so compaction never drops the only
//! proof. When a commit is proven and recorded, the key is cleared with a null value, and compaction may take both.
//!
//! It is read with the control client, which shows the marks by which transactions end: so transactions of others that are still open hide
//! nothing, as they do from readers of committed messages.

use std::collections::BTreeMap;

use staunch_protocol::transaction::resolve::MarkReading;
use staunch_types::{Error, ErrorKind, Result};

use super::stored::Mark;
use crate::codes;
use crate::control::batch::{Batch, Part};
use crate::control::reader::{Reader, Step};
use crate::control::{Control, Decision};

/// How often the end of a transaction with the key is waited for, each time for as long as a broker waits with its answer.
const WAITS_MAX: u32 = 300;

/// Whether a mark is there, to readers of committed messages, and what it holds. Its transaction must be over.
///
/// # Errors
/// `Retry` when the brokers do not answer, or when somebody who writes the same output again has not ended that for too long.
pub(super) fn look_for(control: &mut Control, mark: &Mark) -> Result<(MarkReading, Vec<u8>)> {
    let gone = |why: String| Ok((MarkReading::PlaceGone { why }, Vec::new()));
    match control.topic(&mark.topic)? {
        None => return gone(format!("the topic of marks, {}, does not exist any more", mark.topic)),
        Some(found) if found.id != mark.topic_id => return gone(format!("the topic of marks, {}, was made anew", mark.topic)),
        Some(_) => {}
    }
    // The transaction is over, so whatever mark it left lies before the end of now.
    let Some(extent) = control.extent(&mark.topic, mark.partition)? else {
        return gone(format!("the topic of marks, {}, has no partition {} any more", mark.topic, mark.partition));
    };
    if extent.start > mark.offset || extent.end <= mark.offset {
        let what = format!("the topic of marks, {}[{}], has the offsets {}..{}", mark.topic, mark.partition, extent.start, extent.end);
        return gone(format!("{what}, and the mark would be at {} or later", mark.offset));
    }
    let mut search = Search { key: mark.key.as_bytes(), undecided: BTreeMap::new(), found: None };
    let mut reader = Reader::new(&mark.topic, mark.partition, extent, mark.offset);
    while search.found.is_none() {
        let is_past = reader.offset >= reader.extent.end;
        if is_past && search.undecided.is_empty() {
            return Ok((MarkReading::Absent, Vec::new()));
        }
        if reader.waits >= WAITS_MAX {
            let who: Vec<String> = search.undecided.keys().map(i64::to_string).collect();
            let what = "the mark of a transaction is there, and the transaction that wrote it has not ended";
            return Err(unreadable(mark, what).at(format!("producer ids={}", who.join(","))));
        }
        let is_decided = reader.is_decided();
        match reader.next(control, is_past, |batch, offset, is_aborted| search.take(batch, offset, is_decided, is_aborted))? {
            Step::Read => {}
            Step::Deleted { start, .. } => return gone(format!("the topic of marks, {}, begins at {start} by now", mark.topic)),
            Step::Unreadable { what } => return Err(unreadable(mark, "the mark of a transaction could not be looked for").cause(what)),
        }
    }
    Ok(search.found.map_or((MarkReading::Absent, Vec::new()), |held| (MarkReading::There, held)))
}

/// What was seen of the messages with a key.
struct Search<'k> {
    key: &'k [u8],
    /// By producer: what its open transaction has written under the key.
    undecided: BTreeMap<i64, Vec<u8>>,
    /// What the first committed one holds.
    found: Option<Vec<u8>>,
}

impl Search<'_> {
    fn take(&mut self, batch: &Batch<'_>, offset: i64, is_decided: bool, is_aborted: bool) -> std::result::Result<(), String> {
        if self.found.is_some() {
            return Ok(());
        }
        match batch.part {
            Part::Transaction => batch.each(|message| {
                let (true, Some(held)) = (message.offset >= offset && message.key == Some(self.key), message.value) else { return };
                if !is_decided {
                    self.undecided.insert(batch.producer.id, held.to_vec());
                } else if !is_aborted {
                    self.found.get_or_insert_with(|| held.to_vec());
                }
            }),
            Part::End(decision) => {
                let held = self.undecided.remove(&batch.producer.id);
                self.found = held.filter(|_| decision == Decision::Commit);
                Ok(())
            }
            Part::Plain | Part::Mark => Ok(()),
        }
    }
}

#[cold]
fn unreadable(mark: &Mark, what: &str) -> Error {
    Error::new(ErrorKind::Retry, codes::TOKEN_UNREADABLE, what)
        .at(format!("topic={} partition={} offset={}", mark.topic, mark.partition, mark.offset))
        .data("nothing was decided: it is tried again")
        .remedy("see whether the brokers can be reached, whether the job may read the topic of marks, and whether a transaction hangs")
}
