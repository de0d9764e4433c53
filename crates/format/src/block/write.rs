//! Writing a block: entries are appended to their group's buffer, and put one after the other at the end.

use staunch_types::{KeyGroup, KeyGroupRange};

use super::{BLOCK_FRAME, CLEAR, DELETE, NAMESPACE, PUT};
use crate::bytes::{fill_length, length_width, put_length, put_text};
use crate::value::Schema;

/// Collects the changes of one keyed state.
///
/// Cost: a change is appended to the buffer of its group; nothing is sorted or kept elsewhere.
#[derive(Debug)]
pub struct BlockWriter {
    state: String,
    range: KeyGroupRange,
    groups: Vec<Group>,
    bytes: usize,
    entries: u64,
}

#[derive(Clone, Debug, Default)]
struct Group {
    bytes: Vec<u8>,
    entries: u64,
    /// The namespace the next entry has unless it says otherwise.
    namespace: i64,
    /// Bytes the length of the last value took, as a guess for the next.
    value_width: u8,
}

impl BlockWriter {
    /// A writer for the state of this name, for key groups within `range`.
    #[must_use]
    pub fn new(state: &str, range: KeyGroupRange) -> BlockWriter {
        let groups = vec![Group::default(); range.len() as usize];
        BlockWriter { state: state.into(), range, groups, bytes: 0, entries: 0 }
    }

    /// Bytes of all sections so far; the caller cuts a block by it.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Entries so far.
    #[inline]
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Notes that a key has a value. `key` and `value` append their bytes. `namespace` is the start of the window or pane, 0
    /// for a state without windows.
    ///
    /// # Errors
    /// The one of `key` or `value`; nothing is noted then.
    ///
    /// # Panics
    /// When the group is not in the writer's range.
    #[inline]
    pub fn put<E>(
        &mut self,
        group: KeyGroup,
        namespace: i64,
        key: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
        value: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.entry(group, namespace, |group| {
            group.bytes.push(PUT);
            sized(&mut group.bytes, 1, key)?;
            let guess = usize::from(group.value_width.max(1));
            group.value_width = sized(&mut group.bytes, guess, value)?;
            Ok(())
        })
    }

    /// Notes that a key has no value any more.
    ///
    /// # Errors
    /// The one of `key`; nothing is noted then.
    ///
    /// # Panics
    /// When the group is not in the writer's range.
    #[inline]
    pub fn delete<E>(&mut self, group: KeyGroup, namespace: i64, key: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        self.entry(group, namespace, |group| {
            group.bytes.push(DELETE);
            sized(&mut group.bytes, 1, key)?;
            Ok(())
        })
    }

    /// Notes that a group has no key in a namespace any more.
    ///
    /// # Panics
    /// When the group is not in the writer's range.
    pub fn clear(&mut self, group: KeyGroup, namespace: i64) {
        let done: Result<(), std::convert::Infallible> = self.entry(group, namespace, |group| {
            group.bytes.push(CLEAR);
            Ok(())
        });
        match done {
            Ok(()) => {}
        }
    }

    #[inline]
    fn entry<E>(&mut self, group: KeyGroup, namespace: i64, write: impl FnOnce(&mut Group) -> Result<(), E>) -> Result<(), E> {
        assert!(self.range.contains(group), "key group {} is not in the block's range {}", group.0, self.range);
        let group = &mut self.groups[usize::from(group.0) - self.range.start as usize];
        let start = group.bytes.len();
        let before = group.namespace;
        if namespace != before {
            group.bytes.push(NAMESPACE);
            group.bytes.extend_from_slice(&namespace.to_le_bytes());
            group.namespace = namespace;
        }
        if let Err(error) = write(group) {
            group.bytes.truncate(start);
            group.namespace = before;
            return Err(error);
        }
        group.entries += 1;
        self.entries += 1;
        self.bytes += group.bytes.len() - start;
        Ok(())
    }

    /// The block, with the schemas that its keys and values were written by. The writer is empty afterwards and keeps its buffers.
    #[must_use]
    pub fn finish(&mut self, key: &Schema, value: &Schema) -> Vec<u8> {
        let (key, value) = (key.to_bytes(), value.to_bytes());
        let about = self.bytes + key.len() + value.len() + self.state.len() + 16 * self.groups.len() + 64;
        let block = BLOCK_FRAME.seal(about, |out| {
            put_text(out, &self.state);
            for schema in [&key, &value] {
                put_length(out, schema.len() as u64);
                out.extend_from_slice(schema);
            }
            let used = || (self.range.start..).zip(&self.groups).filter(|(_, group)| group.entries > 0);
            put_length(out, used().count() as u64);
            for (number, group) in used() {
                put_length(out, u64::from(number));
                put_length(out, group.entries);
                put_length(out, group.bytes.len() as u64);
            }
            for (_, group) in used() {
                out.extend_from_slice(&group.bytes);
            }
        });
        for group in &mut self.groups {
            group.bytes.clear();
            group.entries = 0;
            group.namespace = 0;
        }
        self.bytes = 0;
        self.entries = 0;
        block
    }
}

/// Appends what `write` appends, with its length before it in at least `width` bytes; returns the bytes the length needs.
#[inline]
fn sized<E>(out: &mut Vec<u8>, width: usize, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<u8, E> {
    let at = out.len();
    out.resize(at + width, 0);
    write(out)?;
    let length = (out.len() - at - width) as u64;
    if width == 1 && length < 0x80 {
        out[at] = length as u8;
        return Ok(1);
    }
    fill_length(out, at, width, length);
    Ok(length_width(length) as u8)
}
