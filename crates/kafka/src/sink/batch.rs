//! Messages on their way from a task to the thread that produces them.

use serde::{Deserialize, Serialize};

use crate::message::{DraftParts, Headers, MessageDraft};

/// Messages that are handed over together.
#[derive(Debug, Default)]
pub(super) struct OutBatch {
    bytes: Vec<u8>,
    entries: Vec<DraftParts>,
}

/// A message of a batch, or of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OutMessage<'a> {
    pub(super) topic: u16,
    pub(super) partition: Option<i32>,
    pub(super) timestamp: Option<i64>,
    #[serde(borrow)]
    pub(super) key: Option<&'a [u8]>,
    #[serde(borrow)]
    pub(super) value: Option<&'a [u8]>,
    headers: &'a [u8],
}

impl<'a> OutMessage<'a> {
    pub(super) fn headers(&self) -> Headers<'a> {
        Headers::new(self.headers)
    }

    pub(super) fn has_headers(&self) -> bool {
        !self.headers.is_empty()
    }

    /// Bytes of key and value.
    pub(super) fn size(&self) -> usize {
        self.key.map_or(0, <[u8]>::len) + self.value.map_or(0, <[u8]>::len)
    }

    /// The bytes that count in a digest: whether there is a key, the key, whether there is a value, the value.
    pub(super) fn digest_bytes(&self, out: &mut Vec<u8>) {
        digest_bytes(self.key, self.value, out);
    }
}

/// The bytes of a message that count in a digest.
pub(crate) fn digest_bytes(key: Option<&[u8]>, value: Option<&[u8]>, out: &mut Vec<u8>) {
    out.clear();
    for part in [key, value] {
        let length = part.map_or(u32::MAX, |part| part.len() as u32);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(part.unwrap_or_default());
    }
}

impl OutBatch {
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }

    /// Adds the message that `fill` fills in.
    ///
    /// # Errors
    /// What `fill` returns; nothing is added then.
    pub(super) fn push(&mut self, fill: impl FnOnce(&mut MessageDraft) -> Result<(), String>) -> Result<(), String> {
        let start = self.bytes.len();
        let mut draft = MessageDraft { bytes: std::mem::take(&mut self.bytes), parts: DraftParts::default() };
        let filled = fill(&mut draft);
        self.bytes = draft.bytes;
        match filled {
            Ok(()) => self.entries.push(draft.parts),
            Err(_) => self.bytes.truncate(start),
        }
        filled
    }

    pub(super) fn messages(&self) -> impl Iterator<Item = OutMessage<'_>> {
        self.entries.iter().map(|parts| {
            let part = |part: Option<(u32, u32)>| part.map(|(start, end)| &self.bytes[start as usize..end as usize]);
            OutMessage {
                topic: parts.topic.unwrap_or(0),
                partition: parts.partition,
                timestamp: parts.timestamp,
                key: part(parts.key),
                value: part(parts.value),
                headers: part(parts.headers).unwrap_or_default(),
            }
        })
    }
}
