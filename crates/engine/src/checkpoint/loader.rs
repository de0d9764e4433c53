//! State on its way back from the store.

use std::collections::VecDeque;
use std::sync::Arc;

use staunch_api::{CheckpointStore, Io, Pending, StoreError};
use staunch_types::{Error, ErrorKind, Result};

use super::Segment;

/// Blocks that are read ahead.
const AHEAD: usize = 4;

type Read = Pending<std::result::Result<Vec<u8>, StoreError>>;

/// Reads segments in order, some ahead.
pub struct Loader {
    store: Arc<dyn CheckpointStore>,
    io: Io,
    segments: VecDeque<Segment>,
    reads: VecDeque<(Segment, Read)>,
}

impl Loader {
    /// Reads `segments`, in the order of their epochs.
    #[must_use]
    pub fn new(store: Arc<dyn CheckpointStore>, io: Io, mut segments: Vec<Segment>) -> Loader {
        segments.sort_by_key(|s| s.epoch);
        Loader { store, io, segments: segments.into(), reads: VecDeque::new() }
    }

    /// Whether every block was handed out.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.segments.is_empty() && self.reads.is_empty()
    }

    /// The next block, when it is there.
    ///
    /// # Errors
    /// `Corrupt` when the object is missing or too short; `Restart` when the store does not answer.
    pub fn poll(&mut self) -> Result<Option<(Segment, Vec<u8>)>> {
        while self.reads.len() < AHEAD
            && let Some(segment) = self.segments.pop_front()
        {
            let (store, place) = (Arc::clone(&self.store), segment.clone());
            let read = self.io.run(move || store.read(&place.path, place.offset, Some(place.bytes)));
            self.reads.push_back((segment, read));
        }
        let Some((_, read)) = self.reads.front_mut() else { return Ok(None) };
        let Some(answer) = read.poll() else { return Ok(None) };
        let Some((segment, _)) = self.reads.pop_front() else { return Ok(None) };
        match answer {
            Ok(bytes) if bytes.len() as u64 != segment.bytes => {
                Err(self.damaged(&segment, &format!("expected {} bytes, found {}", segment.bytes, bytes.len())))
            }
            Ok(bytes) if staunch_format::manifest::Segment::crc_of(&bytes) != segment.crc => {
                Err(self.damaged(&segment, "its checksum is not the one in the manifest"))
            }
            Ok(bytes) => Ok(Some((segment, bytes))),
            Err(StoreError::Absent) => Err(self.damaged(&segment, "the object does not exist")),
            Err(error) => Err(Error::new(ErrorKind::Restart, "C002", "the state could not be read back")
                .cause(error)
                .at(format!("object={} store={}", segment.path, self.store.describe()))
                .data("nothing was changed; the restore is tried again")
                .remedy("see that the checkpoint store can be reached and read")),
        }
    }

    fn damaged(&self, segment: &Segment, what: &str) -> Error {
        damaged(segment, &self.store.describe(), what)
    }
}

/// The error for state that is not what was written.
#[must_use]
pub(crate) fn damaged(segment: &Segment, store: &str, what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, "C003", format!("stored state is damaged: {what}"))
        .at(format!("object={} offset={} bytes={} epoch={} store={store}", segment.path, segment.offset, segment.bytes, segment.epoch))
        .data("the checkpoint cannot be restored; nothing was changed")
        .remedy("restore an older checkpoint (`staunch checkpoints` lists them, `--restore PATH` takes one), and keep the damaged file as evidence")
}
