//! The entries of a table that lie in a database and not in memory.
//!
//! Owns: the way from a key to its entry in the database, which entries may leave memory, and removals that the database does not know yet.
//! Does not own: the database, when something is written to it (`stored`, `panes`), how much memory there is.
//!
//! A table with a pager is a cache that writes back: what changes is written to the database with the next cut, and from then on it may leave
//! memory. As long as nothing has left, a key that is not in the table is nowhere, and the database is not asked.
//!
//! Invariants:
//! 1. An entry leaves memory only when the database has it as it is: it is stored, and did not change since the latest cut that is written.
//! 2. A key that was removed is not looked up in the database before that knows.
//! 3. Nothing leaves memory while a cut is being written, or between two calls of an operator on its states.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use staunch_api::{KEY_PREFIX_BYTES, StateBatch, StateDatabase, first_key_of, key_of};
use staunch_format::value::Decoder;
use staunch_types::{Epoch, Error, ErrorKind, KeyGroupCount, Result};

use super::super::codec::{Key, StateValue};
use super::{SlotId, StateTable};

/// Entries that a walk through the database reads at once.
pub(super) const SCAN_ENTRIES: usize = 1024;

/// The database of a state.
#[derive(Clone)]
pub struct Pager {
    database: Arc<dyn StateDatabase>,
    state: usize,
    groups: KeyGroupCount,
    batch_bytes: usize,
}

impl Pager {
    /// The state of this number in a database, which is written in batches of about so many bytes.
    #[must_use]
    pub fn new(database: Arc<dyn StateDatabase>, state: usize, groups: KeyGroupCount, batch_bytes: usize) -> Pager {
        Pager { database, state, groups, batch_bytes }
    }

    /// Bytes from which on a batch is full.
    #[must_use]
    pub fn batch_bytes(&self) -> usize {
        self.batch_bytes
    }

    /// An empty batch of the state.
    #[must_use]
    pub fn batch(&self) -> StateBatch {
        StateBatch::new(self.state)
    }

    /// The namespaces that the database has entries of, ascending.
    ///
    /// # Errors
    /// As the database reports.
    pub(in super::super) fn namespaces(&self) -> Result<Vec<i64>> {
        let mut found = Vec::new();
        let mut next = Some(i64::MIN);
        while let Some(from) = next.take() {
            let mut first = None;
            self.database.scan(self.state, &first_key_of(from), &[0xFF; KEY_PREFIX_BYTES], &mut |key, _| {
                first = staunch_api::parts_of(key).map(|(namespace, ..)| namespace);
                ControlFlow::Break(())
            })?;
            if let Some(namespace) = first {
                found.push(namespace);
                next = namespace.checked_add(1);
            }
        }
        Ok(found)
    }
}

/// What a table knows of the database.
pub(super) struct Paged {
    pager: Pager,
    namespace: i64,
    /// Some entries may be in the database only.
    is_partial: bool,
    /// Keys by hash that the database may still have though they were removed, with the cut that tells it.
    gone: HashMap<u64, Vec<(Epoch, Vec<u8>)>>,
    /// Where eviction goes on.
    hand: (usize, usize),
    values: Decoder,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<K: Key, V: StateValue> StateTable<K, V> {
    /// Puts a database under the table, which has no entries yet; `is_partial` if the database has some.
    pub(in super::super) fn attach(&mut self, pager: Pager, namespace: i64, is_partial: bool) {
        let values = Decoder::new(&self.codec.lock().schemas().1);
        let (gone, key, value) = (HashMap::new(), Vec::new(), Vec::new());
        self.paged = Some(Box::new(Paged { pager, namespace, is_partial, gone, hand: (0, 0), values, key, value }));
    }

    /// Whether there is a database under the table.
    pub(in super::super) fn is_paged(&self) -> bool {
        self.paged.is_some()
    }

    /// Whether some entries may be in the database only.
    #[inline]
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.paged.as_ref().is_some_and(|paged| paged.is_partial)
    }

    /// Bytes of an entry in memory; `heap` is what its own allocations take.
    pub(in super::super) fn entry_cost(heap: usize) -> usize {
        /// Hash, marks and place in the index.
        const AROUND: usize = 24;
        size_of::<(K, V)>() + AROUND + if std::mem::needs_drop::<(K, V)>() { heap } else { 0 }
    }

    /// The slot of a key that is not in memory, when the database has it. A database that fails leaves the failure to the next snapshot.
    #[cold]
    #[inline(never)]
    pub(super) fn load(&mut self, hash: u64, key: K) -> Option<SlotId> {
        match self.read(hash, &key) {
            Ok(value) => value.map(|value| self.fill_stored(hash, key, value)),
            Err(error) => {
                self.failure.get_or_insert(error);
                None
            }
        }
    }

    /// Fills a slot with what the database has.
    fn fill_stored(&mut self, hash: u64, key: K, value: V) -> SlotId {
        let slot = self.fill(hash, key, value);
        let marks = &mut self.runs[slot.chunk()].marks;
        marks.set_stored(slot.offset());
        marks.set_used(slot.offset());
        slot
    }

    fn read(&mut self, hash: u64, key: &K) -> Result<Option<V>> {
        let Some(paged) = self.paged.as_deref_mut() else { return Ok(None) };
        paged.key.clear();
        key_of(paged.namespace, u32::from(paged.pager.groups.group_of(hash).0), &mut paged.key);
        {
            let mut codec = self.codec.lock();
            codec.key(key, &mut paged.key)?;
            if codec.key_version() > 0 {
                return Err(varying_keys());
            }
        }
        let own = &paged.key[KEY_PREFIX_BYTES..];
        if paged.gone.get(&hash).is_some_and(|keys| keys.iter().any(|(_, gone)| gone == own)) {
            return Ok(None);
        }
        paged.value.clear();
        if !paged.pager.database.get(paged.pager.state, &paged.key, &mut paged.value)? {
            return Ok(None);
        }
        if let Ok(value) = paged.values.decode(&paged.value) {
            return Ok(Some(value));
        }
        // The schema has grown since the decoder was made: growth never changes what a decoder already understands.
        paged.values = Decoder::new(&self.codec.lock().schemas().1);
        Ok(Some(paged.values.decode(&paged.value)?))
    }

    /// Whether a key that is not in memory was removed, and the database may not know it yet.
    fn is_gone(&self, hash: u64, own: &[u8]) -> bool {
        let gone = self.paged.as_ref().and_then(|paged| paged.gone.get(&hash));
        gone.is_some_and(|keys| keys.iter().any(|(_, gone)| gone == own))
    }

    /// Visits some of the entries in a range that are in the database only, in its order; returns the key to go on from, or `None` at the end.
    ///
    /// # Errors
    /// As the database reports, or when an entry does not fit the types of the state.
    pub(in super::super) fn scan_absent(
        &mut self,
        range: &ScanRange,
        hash_of: fn(&K) -> u64,
        mut visit: impl FnMut(&mut Self, u64, K, V),
    ) -> Result<Option<Vec<u8>>> {
        let Some(paged) = self.paged.as_deref().filter(|paged| paged.is_partial) else { return Ok(None) };
        let (keys, values) = self.codec.lock().schemas();
        let (keys, values) = (Decoder::new(&keys), Decoder::new(&values));
        let (mut found, mut next) = (Vec::new(), None);
        paged.pager.database.scan(paged.pager.state, &range.from, &range.until, &mut |key, value| {
            if found.len() == SCAN_ENTRIES {
                next = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            found.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })?;
        for (key, value) in found {
            let own = &key[KEY_PREFIX_BYTES..];
            let key: K = keys.decode(own)?;
            let hash = hash_of(&key);
            if self.find(hash, &key).is_none() && !self.is_gone(hash, own) {
                visit(self, hash, key, values.decode(&value)?);
            }
        }
        Ok(next)
    }

    /// The database failed; the next snapshot reports it.
    pub(in super::super) fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }

    /// All keys of the table in the database.
    pub(in super::super) fn all_keys(&self) -> ScanRange {
        let namespace = self.paged.as_ref().map_or(0, |paged| paged.namespace);
        let until = namespace.checked_add(1).map_or_else(|| vec![0xFF; KEY_PREFIX_BYTES + 1], |next| first_key_of(next).to_vec());
        ScanRange { from: first_key_of(namespace).to_vec(), until }
    }

    /// The keys in the database that lie in the group of a hash and begin with `prefix`.
    pub(in super::super) fn keys_with_prefix(&self, hash: u64, prefix: &[u8]) -> ScanRange {
        let mut from = Vec::with_capacity(KEY_PREFIX_BYTES + prefix.len());
        if let Some(paged) = &self.paged {
            key_of(paged.namespace, u32::from(paged.pager.groups.group_of(hash).0), &mut from);
        }
        from.extend_from_slice(prefix);
        let mut until = from.clone();
        while until.last() == Some(&0xFF) {
            until.pop();
        }
        if let Some(last) = until.last_mut() {
            *last += 1;
        }
        ScanRange { from, until }
    }

    /// Brings what `scan_absent` found into memory.
    pub(in super::super) fn keep_scanned(&mut self, hash: u64, key: K, value: V) -> SlotId {
        self.fill_stored(hash, key, value)
    }

    /// Everything is in memory now.
    pub(in super::super) fn is_whole_again(&mut self) {
        if let Some(paged) = &mut self.paged {
            paged.is_partial = false;
        }
    }

    /// Notes the removal of a key that the database may have.
    pub(super) fn note_gone(&mut self, hash: u64, key: &K) {
        let since = Epoch(self.cut.epoch.0 + 1);
        let Some(paged) = self.paged.as_deref_mut() else { return };
        let mut own = Vec::new();
        if self.codec.lock().key(key, &mut own).is_ok() {
            paged.gone.entry(hash).or_default().push((since, own));
        }
    }

    /// Everything up to a cut is in the database.
    pub(in super::super) fn written(&mut self, cut: Epoch) {
        if let Some(paged) = &mut self.paged
            && !paged.gone.is_empty()
        {
            paged.gone.retain(|_, keys| {
                keys.retain(|(since, _)| *since > cut);
                !keys.is_empty()
            });
        }
    }

    /// Takes up to `entries_max` entries out of memory that were not used lately and that the database has as of cut `confirmed`; returns how
    /// many. Looks at no more than about as many slots as the table has, once.
    pub(in super::super) fn evict(&mut self, entries_max: usize, confirmed: Epoch, mut left: impl FnMut(SlotId, u64, &K)) -> usize {
        if self.writing.is_some() || self.paged.is_none() || entries_max == 0 {
            return 0;
        }
        let (mut chunk, mut word) = self.paged.as_ref().map_or((0, 0), |paged| paged.hand);
        let mut words_left: usize = self.runs.iter().map(|run| run.chunk.live().len()).sum();
        let mut evicted = 0;
        while words_left > 0 && evicted < entries_max {
            let Some(run) = self.runs.get_mut(chunk) else {
                (chunk, word) = (0, 0);
                continue;
            };
            let Some(&live) = run.chunk.live().get(word) else {
                (chunk, word) = (chunk + 1, 0);
                continue;
            };
            let mut idle = run.marks.idle(word, live, confirmed);
            while idle != 0 {
                self.forget(SlotId::new(chunk, word << 6 | idle.trailing_zeros() as usize), &mut left);
                idle &= idle - 1;
                evicted += 1;
            }
            word += 1;
            words_left -= 1;
        }
        if let Some(paged) = &mut self.paged {
            paged.hand = (chunk, word);
            paged.is_partial |= evicted > 0;
        }
        evicted
    }

    /// Takes an entry out of memory that the database has.
    fn forget(&mut self, slot: SlotId, left: &mut impl FnMut(SlotId, u64, &K)) {
        let Some(hash) = self.hash_of(slot) else { return };
        self.index.remove(hash, slot);
        let free = self.free.replace(slot);
        let run = &mut self.runs[slot.chunk()];
        run.marks.clear(slot.offset());
        let (key, _) = run.chunk.take(slot.offset(), free);
        self.live -= 1;
        left(slot, hash, &key);
    }
}

/// Keys of the database, from one to before another.
#[derive(Clone, Debug)]
pub(in super::super) struct ScanRange {
    pub(in super::super) from: Vec<u8>,
    pub(in super::super) until: Vec<u8>,
}

/// The error for keys that the database cannot find by their bytes.
#[cold]
pub(in super::super) fn varying_keys() -> Error {
    Error::new(ErrorKind::Invalid, "S203", "the keys of a state are not all written in one shape, so that equal keys may have different bytes")
        .data("nothing of this epoch became visible; the last checkpoint is intact")
        .remedy(
            "a database finds keys by their bytes: use a key type without `skip_serializing_if`, `untagged` or `flatten`, or keep the state in memory",
        )
}
