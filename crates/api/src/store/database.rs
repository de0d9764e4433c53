//! Where keyed state lies that is larger than memory.
//!
//! Owns: the contract of a database under the keyed state of one operator of one task, and what is written to it.
//! Does not own: which entries are in memory, when they are written, what a key or a value means (the engine does).
//! Data comes from a task in batches, and goes back entry by entry; a checkpoint of the database goes to the checkpoint store as files.
//!
//! Invariants that implementors give:
//! 1. After a `write` every later call sees it, and sees it before whatever an earlier one wrote.
//! 2. A checkpoint holds exactly what was written when `checkpoint` was called, whatever is written afterwards.
//! 3. A file of a checkpoint never changes. Files of the same name in two checkpoints of one database, and of those opened from them, are the
//!    same file.
//!
//! Nothing here need survive a crash by itself: after one the database is opened anew from a checkpoint.

use std::ops::ControlFlow;
use std::sync::Arc;

use staunch_types::{Generation, KeyGroupRange, Name, Result, TaskId};

use crate::CheckpointStore;

/// Makes databases.
pub trait StateBackend: Send + Sync {
    /// What it is, such as `rocksdb`; checkpoints name it.
    fn kind(&self) -> &'static str;

    /// Bytes that the state of all tasks of the process may take in memory as objects, beside the backend's own memory.
    fn object_bytes_max(&self) -> usize;

    /// Opens the database of one operator of one task: an empty one, or from checkpoints as far as they lie in the task's key groups. What an
    /// earlier process left at the place is of no use, and is removed. May block.
    ///
    /// # Errors
    /// `Restart` when the store or the place does not answer; `Corrupt` when a file is not what was stored; `Invalid` when the place cannot be used.
    fn open(&self, place: &DatabasePlace, from: &[StoredDatabase], store: &dyn CheckpointStore) -> Result<Arc<dyn StateDatabase>>;
}

/// Whose state a database holds.
#[derive(Clone, Debug)]
pub struct DatabasePlace {
    /// The job.
    pub job: Name,
    /// The operator.
    pub operator: Name,
    /// The task.
    pub task: TaskId,
    /// The generation.
    pub generation: Generation,
    /// Key groups of the task.
    pub range: KeyGroupRange,
    /// The operator's states, in the order of the numbers by which they are asked for.
    pub states: Vec<String>,
}

/// The database of one task of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDatabase {
    /// Key groups that may occur in it.
    pub groups: KeyGroupRange,
    /// Its files.
    pub files: Vec<StoredFile>,
}

/// A file of a database, as it lies in the checkpoint store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// Its name in the database.
    pub name: String,
    /// The object it is stored as.
    pub path: String,
    /// Bytes.
    pub bytes: u64,
    /// CRC32C of the bytes.
    pub crc: u32,
}

/// What is called with each entry of a walk: its key and its value; breaks the walk when it has enough.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// The state of one operator of one task. All calls may block, as long as reading some blocks of a local disk takes.
///
/// A key begins with its namespace and key group (see [`key_of`]); the rest are the bytes of the key itself.
pub trait StateDatabase: Send + Sync {
    /// Appends the value of a key to `value`; whether there is one.
    ///
    /// # Errors
    /// `Restart` when the database cannot be read, `Corrupt` when it is damaged.
    fn get(&self, state: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;

    /// Visits the entries from a key to before another, ascending by key, until `visit` breaks.
    ///
    /// # Errors
    /// As [`Self::get`].
    fn scan(&self, state: usize, from: &[u8], until: &[u8], visit: &mut Visit<'_>) -> Result<()>;

    /// Writes a batch: its clears first, then its changes.
    ///
    /// # Errors
    /// `Restart` when it cannot be written.
    fn write(&self, batch: StateBatch) -> Result<()>;

    /// Takes a checkpoint of what is written.
    ///
    /// # Errors
    /// `Retry` when there is no room for it.
    fn checkpoint(&self) -> Result<Box<dyn DatabaseCheckpoint>>;
}

/// A checkpoint of a database, on the local machine. Dropping it removes it.
pub trait DatabaseCheckpoint: Send {
    /// Stores the files that are not among `known` under paths that begin with `prefix`, and names all. May block.
    ///
    /// # Errors
    /// `Retry` when the store refuses.
    fn upload(self: Box<Self>, store: &dyn CheckpointStore, prefix: &str, known: &[StoredFile]) -> Result<Vec<StoredFile>>;
}

/// Changes of one state. Of several changes of one key the last counts.
#[derive(Debug, Default)]
pub struct StateBatch {
    /// Which state.
    pub state: usize,
    bytes: Vec<u8>,
    changes: Vec<Span>,
    clears: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Where a change lies in the bytes of its batch.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    key_end: u32,
    end: u32,
    is_put: bool,
}

/// Bytes before the key itself: the namespace and the key group.
pub const KEY_PREFIX_BYTES: usize = 10;

/// Begins a key: the namespace, so that a window's entries lie together, then the key group, both in their order.
pub fn key_of(namespace: i64, group: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&(namespace as u64 ^ 1 << 63).to_be_bytes());
    out.extend_from_slice(&(group as u16).to_be_bytes());
}

/// The first key of a namespace.
#[must_use]
pub fn first_key_of(namespace: i64) -> [u8; 8] {
    (namespace as u64 ^ 1 << 63).to_be_bytes()
}

/// The namespace and the key group of a key; `None` when it is too short to be one.
#[must_use]
pub fn parts_of(key: &[u8]) -> Option<(i64, u32, &[u8])> {
    let (namespace, rest) = key.split_first_chunk::<8>()?;
    let (group, rest) = rest.split_first_chunk::<2>()?;
    Some(((u64::from_be_bytes(*namespace) ^ 1 << 63) as i64, u32::from(u16::from_be_bytes(*group)), rest))
}

impl StateBatch {
    /// An empty batch of a state.
    #[must_use]
    pub fn new(state: usize) -> StateBatch {
        StateBatch { state, ..StateBatch::default() }
    }

    /// Adds a put; `key` and `value` append their bytes.
    ///
    /// # Errors
    /// The one of `key` or `value`; nothing is added then.
    #[inline]
    pub fn put<E>(
        &mut self,
        key: impl FnOnce(&mut Vec<u8>) -> std::result::Result<(), E>,
        value: impl FnOnce(&mut Vec<u8>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let start = self.bytes.len();
        let written = key(&mut self.bytes).and_then(|()| {
            let key_end = self.bytes.len();
            value(&mut self.bytes).map(|()| key_end)
        });
        match written {
            Ok(key_end) => {
                self.changes.push(Span { start: start as u32, key_end: key_end as u32, end: self.bytes.len() as u32, is_put: true });
                Ok(())
            }
            Err(error) => {
                self.bytes.truncate(start);
                Err(error)
            }
        }
    }

    /// Adds a delete; `key` appends its bytes.
    pub fn delete(&mut self, key: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        key(&mut self.bytes);
        let end = self.bytes.len() as u32;
        self.changes.push(Span { start: start as u32, key_end: end, end, is_put: false });
    }

    /// Adds the removal of all keys from one to before another. It goes before all changes of the batch.
    pub fn clear(&mut self, from: Vec<u8>, until: Vec<u8>) {
        self.clears.push((from, until));
    }

    /// Bytes so far, about.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.changes.len() * size_of::<Span>()
    }

    /// Changes so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.changes.len()
    }

    /// Whether nothing was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.clears.is_empty()
    }

    /// The ranges to clear.
    pub fn clears(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.clears.iter().map(|(from, until)| (&**from, &**until))
    }

    /// Sorts the changes by key and leaves the last of each key.
    pub fn sort(&mut self) {
        let bytes = &self.bytes;
        let key = |span: &Span| &bytes[span.start as usize..span.key_end as usize];
        // Later changes lie further behind in the bytes.
        self.changes.sort_unstable_by(|a, b| key(a).cmp(key(b)).then(b.start.cmp(&a.start)));
        self.changes.dedup_by(|later, first| key(later) == key(first));
    }

    /// The changes: key, and value of a put.
    pub fn changes(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.changes.iter().map(|span| {
            let key = &self.bytes[span.start as usize..span.key_end as usize];
            (key, span.is_put.then(|| &self.bytes[span.key_end as usize..span.end as usize]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(bytes: &[u8]) -> impl FnOnce(&mut Vec<u8>) -> std::result::Result<(), ()> {
        move |out| {
            out.extend_from_slice(bytes);
            Ok(())
        }
    }

    #[test]
    fn keys_lie_in_the_order_of_namespaces_and_groups() {
        let key = |namespace, group| {
            let mut out = Vec::new();
            key_of(namespace, group, &mut out);
            out
        };
        let all = [key(i64::MIN, 0), key(-1, 32_767), key(0, 0), key(0, 255), key(0, 256), key(7, 1), key(i64::MAX, 0)];
        assert!(all.is_sorted());
        assert_eq!(parts_of(&all[1]), Some((-1, 32_767, &[][..])));
        assert!(first_key_of(0)[..] < all[2][..] && first_key_of(0)[..] > all[1][..]);
        assert_eq!(parts_of(&all[1][..9]), None);
    }

    #[test]
    fn the_last_change_of_a_key_counts_whatever_the_order() {
        let mut batch = StateBatch::new(3);
        batch.put(append(b"b"), append(b"1")).expect("put");
        batch.delete(|out| out.extend_from_slice(b"a"));
        batch.put(append(b"a"), append(b"22")).expect("put");
        batch.put(append(b"c"), append(b"")).expect("put");
        batch.delete(|out| out.extend_from_slice(b"b"));
        assert!(batch.put(append(b"zz"), |_| Err(())).is_err());
        batch.sort();
        let all: Vec<_> = batch.changes().collect();
        assert_eq!(all, [(&b"a"[..], Some(&b"22"[..])), (b"b", None), (b"c", Some(b""))]);
    }
}
