//! Encoded records in the order they were added, in pages, so that neither growth nor release pauses.
//!
//! Owns: keys of removed entries until a snapshot with them is confirmed, and entries that a snapshot needs although they
//! were changed before it reached them.
//! Does not own: what the records mean.

use std::collections::VecDeque;

use staunch_format::value::ValueError;

/// Bytes after which a page is closed; a larger record has a page of its own.
const PAGE_BYTES: usize = 64 * 1024;
/// Hash, key length and value length, each 8 bytes.
const HEAD_BYTES: usize = 24;

/// A log of records.
#[derive(Default)]
pub(super) struct RecordLog {
    pages: VecDeque<Vec<u8>>,
}

/// A place between two records.
#[derive(Clone, Copy, Default)]
pub(super) struct LogCursor {
    page: usize,
    at: usize,
}

/// One record as it was added.
pub(super) struct Record<'a> {
    pub(super) hash: u64,
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
}

impl RecordLog {
    /// Adds a record whose key and value are appended by `write`, which returns where the key ends.
    ///
    /// # Errors
    /// What `write` returns; the log is then unchanged.
    pub(super) fn push(&mut self, hash: u64, write: impl FnOnce(&mut Vec<u8>) -> Result<usize, ValueError>) -> Result<(), ValueError> {
        let page = self.open_page();
        let start = page.len();
        page.extend_from_slice(&hash.to_ne_bytes());
        page.extend_from_slice(&[0; HEAD_BYTES - 8]);
        match write(page) {
            Ok(key_end) => {
                let key_len = (key_end - start - HEAD_BYTES) as u64;
                let value_len = (page.len() - key_end) as u64;
                page[start + 8..start + 16].copy_from_slice(&key_len.to_ne_bytes());
                page[start + 16..start + 24].copy_from_slice(&value_len.to_ne_bytes());
                Ok(())
            }
            Err(error) => {
                page.truncate(start);
                Err(error)
            }
        }
    }

    fn open_page(&mut self) -> &mut Vec<u8> {
        let is_full = self.pages.back().is_none_or(|page| page.len() >= PAGE_BYTES);
        if is_full {
            // The first page stays as small as its content: most logs never fill it.
            let bytes = if self.pages.is_empty() { 0 } else { PAGE_BYTES + PAGE_BYTES / 8 };
            self.pages.push_back(Vec::with_capacity(bytes));
        }
        self.pages.back_mut().expect("a page was just added")
    }

    /// The record at the cursor, which moves behind it; `None` at the end.
    pub(super) fn next(&self, cursor: &mut LogCursor) -> Option<Record<'_>> {
        while cursor.page < self.pages.len() {
            let page = &self.pages[cursor.page];
            if cursor.at == page.len() {
                if cursor.page + 1 == self.pages.len() {
                    return None;
                }
                *cursor = LogCursor { page: cursor.page + 1, at: 0 };
                continue;
            }
            let word = |at: usize| u64::from_ne_bytes(page[at..at + 8].try_into().expect("eight bytes"));
            let hash = word(cursor.at);
            let key_start = cursor.at + HEAD_BYTES;
            let value_start = key_start + word(cursor.at + 8) as usize;
            let end = value_start + word(cursor.at + 16) as usize;
            cursor.at = end;
            return Some(Record { hash, key: &page[key_start..value_start], value: &page[value_start..end] });
        }
        None
    }

    /// Frees the pages that lie before the cursor.
    pub(super) fn release_before(&mut self, cursor: &mut LogCursor) {
        for _ in 0..cursor.page {
            self.pages.pop_front();
        }
        cursor.page = 0;
    }

    /// Frees one page of a log that is no longer used; whether any is left.
    pub(super) fn dismantle_page(&mut self) -> bool {
        self.pages.pop_back();
        !self.pages.is_empty()
    }

    /// Moves all records of `later` behind those of this log.
    pub(super) fn append(&mut self, mut later: RecordLog) {
        self.pages.append(&mut later.pages);
    }

    /// Whether no record was added.
    pub(super) fn is_empty(&self) -> bool {
        self.pages.iter().all(Vec::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use staunch_format::value::Encoder;

    fn push(log: &mut RecordLog, n: u64, value_bytes: usize) {
        log.push(n, |out| {
            out.extend_from_slice(&n.to_le_bytes());
            let key_end = out.len();
            out.resize(key_end + value_bytes, n as u8);
            Ok(key_end)
        })
        .expect("written");
    }

    #[test]
    fn records_come_back_in_order_while_pages_are_added_and_released() {
        let mut log = RecordLog::default();
        let mut cursor = LogCursor::default();
        let mut next = 0u64;
        for n in 0..2_000u64 {
            push(&mut log, n, if n % 500 == 3 { 200_000 } else { 100 });
            if n % 7 == 0 {
                while let Some(record) = log.next(&mut cursor) {
                    assert_eq!((record.hash, record.key), (next, &next.to_le_bytes()[..]));
                    assert!(record.value.iter().all(|&byte| byte == next as u8));
                    next += 1;
                }
                log.release_before(&mut cursor);
                assert!(log.pages.len() <= 1);
            }
        }
        assert_eq!(next, 1_996);
    }

    #[test]
    fn a_record_that_fails_leaves_no_trace() {
        let mut log = RecordLog::default();
        push(&mut log, 1, 3);
        let refuse = |out: &mut Vec<u8>| {
            out.push(9);
            Encoder::new().encode(&super::super::super::testing::Refuses, out).map(|()| 0)
        };
        assert!(log.push(2, refuse).is_err());
        push(&mut log, 3, 0);
        let mut cursor = LogCursor::default();
        assert_eq!(log.next(&mut cursor).map(|record| record.hash), Some(1));
        assert_eq!(log.next(&mut cursor).map(|record| record.hash), Some(3));
        assert!(log.next(&mut cursor).is_none());
    }
}
