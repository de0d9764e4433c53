//! Keyed state by window: a table for each namespace, which is dropped as a whole when its window is done.
//!
//! Owns: the tables of the namespaces, their common chain and blocks, and the memory of dropped ones until it is freed.
//! Does not own: what a namespace means (usually the start of a window or pane), or when it is done.
//!
//! Invariants:
//! 1. Tables are in the order of their namespaces.
//! 2. A snapshot first clears namespaces that were dropped before its barrier, then writes the tables there were at it; one
//!    that is dropped while it is written is `retiring` and still written.
//! 3. A clear is written until an epoch with it is confirmed, as is every entry of a later table of the same namespace.
//! 4. Dropping a table costs no more than a removal; it is freed piece by piece.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use staunch_api::StateBatch;
use staunch_format::block::{BlockReader, Change};
use staunch_format::value::{Decoder, Schema};
use staunch_types::{Epoch, KeyGroup, KeyGroupRange, Result};

use super::chain::{Chain, Load};
use super::codec::{Key, SharedCodec, StateValue};
use super::keyed::{BlockSink, KeyedStates, PagedState, Scope, Settlement, StoredState, Surplus};
use super::paging::Paging;
use super::table::{Pager, SlotId, SlotRange, StateTable, UNCONFIRMED_MAX};
use super::writer::{Budget, Outlet, Progress, SnapshotWriter};

/// Dropped tables that may wait to be freed; beyond, each further drop frees some at once.
const GARBAGE_TABLES_MAX: usize = 64;
/// Entries freed in one step.
const TIDY_ENTRIES: usize = 64;

/// Tables by namespace.
pub struct Panes<K, V> {
    scope: Scope,
    hash_of: fn(&K) -> u64,
    codec: SharedCodec,
    panes: VecDeque<Pane<K, V>>,
    /// Where the table asked for last is.
    last: usize,
    chain: Chain<Place>,
    outlet: Outlet,
    cleared: Cleared,
    writing: Option<Writing>,
    retiring: Vec<Pane<K, V>>,
    #[expect(clippy::vec_box, reason = "the tables come in boxes, so that moving a pane moves a pointer")]
    garbage: Vec<Box<StateTable<K, V>>>,
    paging: Option<Paging>,
    /// The window that is being fired: its entries stay where they are.
    held: Option<i64>,
}

struct Pane<K, V> {
    namespace: i64,
    table: Box<StateTable<K, V>>,
    /// Whether a snapshot may hold entries of it.
    is_stored: bool,
}

/// A place in the order of all slots.
type Place = (i64, Option<SlotId>);

/// How far the snapshot in progress is.
#[derive(Clone, Copy)]
struct Writing {
    /// Clears written.
    cleared: usize,
    /// Tables below this namespace are written.
    namespace: i64,
}

/// Namespaces that were dropped although snapshots may hold entries of them.
#[derive(Default)]
struct Cleared {
    /// Key groups of namespaces that a restore cleared alone, for the database.
    groups: Vec<(i64, KeyGroup)>,
    since_freeze: Vec<i64>,
    unconfirmed: VecDeque<(Epoch, Vec<i64>)>,
}

impl<K: Key, V: StateValue> Panes<K, V> {
    /// No table, under a name; `hash_of` gives the hash with which an entry is changed, when it is restored.
    #[must_use]
    pub fn new(name: &str, scope: Scope, hash_of: fn(&K) -> u64) -> Panes<K, V> {
        let codec = SharedCodec::default();
        Panes {
            scope,
            hash_of,
            codec: codec.clone(),
            panes: VecDeque::new(),
            last: 0,
            chain: Chain::new(),
            outlet: Outlet::new(name, scope.range, codec),
            cleared: Cleared::default(),
            writing: None,
            retiring: Vec::new(),
            garbage: Vec::new(),
            paging: None,
            held: None,
        }
    }

    /// The table of a namespace, which is made if there is none.
    #[inline]
    pub fn table(&mut self, namespace: i64) -> &mut StateTable<K, V> {
        if self.panes.get(self.last).is_none_or(|pane| pane.namespace != namespace) {
            self.last = self.find_or_add(namespace);
        }
        &mut self.panes[self.last].table
    }

    /// The table of a namespace, if there is one, to be looked into.
    #[must_use]
    pub fn get_mut(&mut self, namespace: i64) -> Option<&mut StateTable<K, V>> {
        let at = self.position(namespace).ok()?;
        Some(&mut self.panes[at].table)
    }

    /// Keeps the entries of one namespace, or of none, where they are: whoever walks through them meets each once.
    pub fn hold(&mut self, namespace: Option<i64>) {
        self.held = namespace;
    }

    /// Adds some of the entries of a namespace that are in the database only; returns whence to go on, or `None` at the end. A database that
    /// fails leaves the failure to the next snapshot.
    pub fn scan_absent(&mut self, namespace: i64, after: Option<Vec<u8>>, found: &mut Vec<(u64, K, V)>) -> Option<Vec<u8>> {
        let at = self.position(namespace).ok()?;
        let table = &mut self.panes[at].table;
        let mut range = table.all_keys();
        if let Some(from) = after {
            range.from = from;
        }
        match table.scan_absent(&range, self.hash_of, |_, hash, key, value| found.push((hash, key, value))) {
            Ok(next) => next,
            Err(error) => {
                table.fail(error);
                None
            }
        }
    }

    /// The table of a namespace, if there is one.
    #[must_use]
    pub fn get(&self, namespace: i64) -> Option<&StateTable<K, V>> {
        let at = self.position(namespace).ok()?;
        Some(&self.panes[at].table)
    }

    /// The namespaces that have a table, ascending.
    pub fn namespaces(&self) -> impl DoubleEndedIterator<Item = i64> {
        self.panes.iter().map(|pane| pane.namespace)
    }

    /// Entries of all tables.
    ///
    /// Cost: grows with the number of tables.
    #[must_use]
    pub fn len(&self) -> usize {
        self.panes.iter().map(|pane| pane.table.len()).sum()
    }

    /// Whether no table has an entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.panes.iter().all(|pane| pane.table.is_empty())
    }

    /// Drops the table of a namespace with all its entries; whether there was one.
    pub fn drop_table(&mut self, namespace: i64) -> bool {
        let Ok(at) = self.position(namespace) else { return false };
        let Some(pane) = self.panes.remove(at) else { return false };
        if pane.is_stored {
            self.cleared.since_freeze.push(namespace);
        }
        if pane.table.is_draining() {
            self.retiring.push(pane);
        } else {
            self.discard(pane);
        }
        true
    }

    fn position(&self, namespace: i64) -> std::result::Result<usize, usize> {
        self.panes.binary_search_by_key(&namespace, |pane| pane.namespace)
    }

    #[cold]
    fn find_or_add(&mut self, namespace: i64) -> usize {
        match self.position(namespace) {
            Ok(at) => at,
            Err(at) => {
                let mut table = Box::new(StateTable::with_codec(self.codec.clone()));
                if let Some(paging) = &self.paging {
                    // Whatever the database still has of the namespace is cleared before anything of this table leaves memory.
                    table.attach(paging.pager().clone(), namespace, false);
                }
                self.panes.insert(at, Pane { namespace, table, is_stored: false });
                at
            }
        }
    }

    fn discard(&mut self, pane: Pane<K, V>) {
        self.garbage.push(pane.table);
        if self.garbage.len() > GARBAGE_TABLES_MAX {
            self.free(TIDY_ENTRIES * 16);
        }
    }

    /// Frees up to about so many entries of dropped tables; whether any is left.
    fn free(&mut self, entries: usize) -> bool {
        for _ in 0..entries.div_ceil(TIDY_ENTRIES) {
            let Some(table) = self.garbage.last_mut() else { return false };
            if !table.dismantle(TIDY_ENTRIES) {
                self.garbage.pop();
            }
        }
        !self.garbage.is_empty()
    }

    /// Walks over `slots` slots from a place and notes what of each table that is.
    fn walk(&self, place: Option<Place>, slots: usize, rewrite: &mut BTreeMap<usize, SlotRange>) -> Option<Place> {
        let (namespace, mut slot) = place.unwrap_or((i64::MIN, None));
        let first = self.panes.partition_point(|pane| pane.namespace < namespace);
        let mut slots_left = slots;
        for (at, pane) in self.panes.iter().enumerate().skip(first) {
            if pane.namespace != namespace {
                slot = None;
            }
            if slots_left == 0 {
                return Some((pane.namespace, slot));
            }
            let stretch = pane.table.stretch_from(slot, slots_left);
            rewrite.insert(at, stretch.range);
            if stretch.next.is_some() {
                return Some((pane.namespace, stretch.next));
            }
            slots_left = stretch.slots_left;
        }
        None
    }

    fn abandon(&mut self) {
        if self.writing.take().is_some() {
            self.chain.abandon();
            self.panes.iter_mut().for_each(|pane| pane.table.abandon());
            self.garbage.extend(self.retiring.drain(..).map(|pane| pane.table));
        }
    }

    fn drain_parts(&mut self, writing: &mut Writing, writer: &mut SnapshotWriter<'_>) -> Result<Progress> {
        for &namespace in self.cleared.unconfirmed.iter().flat_map(|(_, namespaces)| namespaces).skip(writing.cleared) {
            if !writer.has_room() {
                return Ok(Progress::More);
            }
            writer.clear(namespace, self.scope.range);
            writing.cleared += 1;
        }
        for (namespace, group) in self.cleared.groups.drain(..) {
            writer.clear(namespace, KeyGroupRange { start: u32::from(group.0), end: u32::from(group.0) + 1 });
        }
        while let Some(pane) = self.retiring.last_mut() {
            if pane.table.drain(pane.namespace, writer)? == Progress::More {
                return Ok(Progress::More);
            }
            self.garbage.extend(self.retiring.pop().map(|pane| pane.table));
        }
        let first = self.panes.partition_point(|pane| pane.namespace < writing.namespace);
        for pane in self.panes.iter_mut().skip(first) {
            writing.namespace = pane.namespace;
            if pane.table.drain(pane.namespace, writer)? == Progress::More {
                return Ok(Progress::More);
            }
        }
        Ok(Progress::Done)
    }

    /// Removes what a block clears. Within a snapshot a clear comes before whatever else it says of the namespace, so all
    /// clears of a block can go first, and a table is walked through once for all its groups.
    fn restore_clears(&mut self, block: &BlockReader<'_>) -> Result<()> {
        let mut cleared: BTreeMap<i64, BTreeSet<KeyGroup>> = BTreeMap::new();
        for entry in block.entries(self.scope.range) {
            let entry = entry?;
            match entry.change {
                Change::Clear => {
                    cleared.entry(entry.namespace).or_default().insert(entry.group);
                }
                Change::Put { .. } | Change::Delete { .. } => {}
            }
        }
        for (namespace, groups) in cleared {
            let Ok(at) = self.position(namespace) else { continue };
            if groups.len() == self.scope.range.len() as usize {
                self.garbage.extend(self.panes.remove(at).map(|pane| pane.table));
                if self.paging.is_some() {
                    self.cleared.since_freeze.push(namespace);
                }
            } else {
                let count = self.scope.groups;
                if self.paging.is_some() {
                    self.cleared.groups.extend(groups.iter().map(|group| (namespace, *group)));
                }
                self.panes[at].table.restore_delete_where(|hash| groups.contains(&count.group_of(hash)));
            }
        }
        Ok(())
    }

    fn restore_change(&mut self, namespace: i64, change: &Change<'_>, keys: &Decoder, values: &Decoder) -> Result<()> {
        match change {
            Change::Put { key, value } => {
                let key: K = keys.decode(key)?;
                let value = values.decode(value)?;
                let hash = (self.hash_of)(&key);
                self.table(namespace).restore_put(hash, key, value);
                self.panes[self.last].is_stored = true;
            }
            Change::Delete { key } => {
                let key: K = keys.decode(key)?;
                let hash = (self.hash_of)(&key);
                self.table(namespace).restore_delete(hash, &key);
                self.panes[self.last].is_stored = true;
            }
            Change::Clear => {}
        }
        Ok(())
    }
}

impl<K: Key, V: StateValue> StoredState for Panes<K, V> {
    fn name(&self) -> &str {
        self.outlet.name()
    }

    fn freeze(&mut self, epoch: Epoch) {
        self.abandon();
        let confirmed = self.chain.confirmed();
        let changed = self.panes.iter().map(|pane| pane.table.changed()).sum();
        let load = Load { changed, live: self.len(), entry_bytes: self.outlet.entry_bytes() };
        let mut chain = std::mem::replace(&mut self.chain, Chain::new());
        let mut rewrite = BTreeMap::new();
        chain.freeze(epoch, load, |place, slots| self.walk(place, slots, &mut rewrite));
        self.chain = chain;
        for (at, pane) in self.panes.iter_mut().enumerate() {
            pane.table.freeze(epoch, confirmed, rewrite.get(&at).copied().unwrap_or_default());
            pane.is_stored = true;
        }
        self.cleared.freeze(epoch, confirmed);
        self.outlet.begin();
        self.writing = Some(Writing { cleared: 0, namespace: i64::MIN });
    }

    fn drain(&mut self, budget: &mut Budget, sink: &mut dyn BlockSink) -> Result<Progress> {
        let Some(mut writing) = self.writing else { return Ok(Progress::Done) };
        let codec = self.outlet.codec().clone();
        let mut outlet = std::mem::replace(&mut self.outlet, Outlet::new("", self.scope.range, codec));
        let drained = self.drain_parts(&mut writing, &mut outlet.writer(self.scope.groups, budget));
        self.outlet = outlet;
        self.writing = Some(writing);
        let progress = drained.map_err(|error| error.at(format!("state={}", self.name())))?;
        self.outlet.hand_over(progress, sink);
        if progress == Progress::Done {
            self.writing = None;
            self.chain.written(!self.outlet.has_written());
        }
        Ok(progress)
    }

    fn segments(&self) -> &[Epoch] {
        self.chain.segments()
    }

    fn retains(&self, epoch: Epoch) -> bool {
        self.chain.retains(epoch)
    }

    fn settle(&mut self, settlement: Settlement) {
        match settlement {
            Settlement::Durable(epoch) => self.chain.confirm(epoch),
            Settlement::GivenUp => {
                self.abandon();
                self.paging.iter_mut().for_each(Paging::give_up);
            }
        }
    }

    fn restore(&mut self, epoch: Epoch, block: &BlockReader<'_>) -> Result<()> {
        let (keys, values) = (Decoder::new(block.key_schema()), Decoder::new(block.value_schema()));
        self.restore_clears(block)?;
        for entry in block.entries(self.scope.range) {
            let entry = entry?;
            let applied = self.restore_change(entry.namespace, &entry.change, &keys, &values);
            applied.map_err(|error| error.at(format!("state={} epoch={epoch}", self.name())))?;
        }
        if self.paging.is_none() {
            self.chain.restored(epoch);
        }
        Ok(())
    }
}

impl<K: Key, V: StateValue> PagedState for Panes<K, V> {
    fn attach(&mut self, pager: Pager, stored: Option<&(Schema, Schema)>) -> Result<()> {
        if let Some((keys, values)) = stored {
            self.codec.lock().resume(keys, values);
        }
        self.paging = Some(Paging::new(pager.clone()));
        if stored.is_some() {
            for namespace in pager.namespaces()? {
                let at = self.find_or_add(namespace);
                self.panes[at].is_stored = true;
                self.panes[at].table.attach(pager.clone(), namespace, true);
            }
        }
        Ok(())
    }

    fn cut(&mut self) {
        self.abandon();
        let Some(paging) = &mut self.paging else { return };
        let (cut, written) = paging.begin();
        for pane in &mut self.panes {
            pane.table.freeze(cut, written, SlotRange::default());
            pane.is_stored = true;
        }
        self.cleared.freeze(cut, written);
        self.writing = Some(Writing { cleared: 0, namespace: i64::MIN });
    }

    fn drain_into(&mut self, budget: &mut Budget, take: &mut dyn FnMut(StateBatch)) -> Result<Progress> {
        let Some(mut writing) = self.writing else { return Ok(Progress::Done) };
        let Some(mut paging) = self.paging.take() else { return Ok(Progress::Done) };
        let drained = paging.fill(self.scope.groups, budget, take, |writer| self.drain_parts(&mut writing, writer));
        self.paging = Some(paging);
        self.writing = Some(writing);
        let progress = drained.map_err(|error| error.at(format!("state={}", self.name())))?;
        if progress == Progress::Done {
            self.writing = None;
        }
        Ok(progress)
    }

    fn written(&mut self) {
        if let Some(cut) = self.paging.as_mut().and_then(Paging::settle) {
            self.panes.iter_mut().for_each(|pane| pane.table.written(cut));
        }
    }

    fn object_bytes(&self) -> usize {
        let heap = self.paging.as_ref().map_or(0, Paging::heap);
        let freed = self.garbage.iter().chain(self.retiring.iter().map(|pane| &pane.table)).map(|table| table.len()).sum::<usize>();
        (self.len() + freed) * StateTable::<K, V>::entry_cost(heap)
    }

    fn schemas(&self) -> (Schema, Schema) {
        self.codec.lock().schemas()
    }
}

impl<K: Key, V: StateValue> KeyedStates<K> for Panes<K, V> {
    fn each(&mut self, visit: &mut dyn FnMut(&mut dyn StoredState)) {
        visit(self);
    }

    fn restored(&mut self) -> Result<()> {
        let panes = std::mem::take(&mut self.panes);
        let is_empty = |pane: &Pane<K, V>| pane.table.is_empty() && !pane.table.is_partial();
        let (empty, used): (VecDeque<_>, VecDeque<_>) = panes.into_iter().partition(is_empty);
        self.garbage.extend(empty.into_iter().map(|pane| pane.table));
        self.panes = used;
        Ok(())
    }

    fn tidy(&mut self, entries: usize) -> bool {
        self.free(entries)
    }

    fn evict(&mut self, surplus: Surplus) -> usize {
        let Some(paging) = &self.paging else { return 0 };
        let (written, held) = (paging.written(), self.held);
        let others = self.panes.iter_mut().filter(|pane| Some(pane.namespace) != held);
        others.map(|pane| pane.table.evict(surplus.of_entries(pane.table.len()), written, |_, _, _| {})).sum()
    }
}

impl Cleared {
    fn freeze(&mut self, epoch: Epoch, confirmed: Epoch) {
        self.unconfirmed.retain(|(cleared_at, _)| *cleared_at > confirmed);
        if !self.since_freeze.is_empty() {
            self.unconfirmed.push_back((epoch, std::mem::take(&mut self.since_freeze)));
        }
        if self.unconfirmed.len() > UNCONFIRMED_MAX
            && let Some((_, mut merged)) = self.unconfirmed.pop_front()
            && let Some((_, next)) = self.unconfirmed.front_mut()
        {
            merged.append(next);
            *next = merged;
        }
    }
}

#[cfg(test)]
mod tests;
