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

use staunch_format::block::{BlockReader, Change};
use staunch_format::value::Decoder;
use staunch_types::{Epoch, KeyGroup, Result};

use super::chain::{Chain, Load};
use super::codec::{Key, SharedCodec, StateValue};
use super::keyed::{BlockSink, KeyedStates, Scope, Settlement, StoredState};
use super::table::{SlotId, SlotRange, StateTable, UNCONFIRMED_MAX};
use super::writer::{Budget, Outlet, Progress};

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
                let table = Box::new(StateTable::with_codec(self.codec.clone()));
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

    fn drain_parts(&mut self, writing: &mut Writing, budget: &mut Budget) -> Result<Progress> {
        let mut writer = self.outlet.writer(self.scope.groups, budget);
        for &namespace in self.cleared.unconfirmed.iter().flat_map(|(_, namespaces)| namespaces).skip(writing.cleared) {
            if !writer.has_room() {
                return Ok(Progress::More);
            }
            writer.clear(namespace, self.scope.range);
            writing.cleared += 1;
        }
        while let Some(pane) = self.retiring.last_mut() {
            if pane.table.drain(pane.namespace, &mut writer)? == Progress::More {
                return Ok(Progress::More);
            }
            self.garbage.extend(self.retiring.pop().map(|pane| pane.table));
        }
        let first = self.panes.partition_point(|pane| pane.namespace < writing.namespace);
        for pane in self.panes.iter_mut().skip(first) {
            writing.namespace = pane.namespace;
            if pane.table.drain(pane.namespace, &mut writer)? == Progress::More {
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
            } else {
                let count = self.scope.groups;
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
        let drained = self.drain_parts(&mut writing, budget);
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
            Settlement::GivenUp => self.abandon(),
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
        self.chain.restored(epoch);
        Ok(())
    }
}

impl<K: Key, V: StateValue> KeyedStates<K> for Panes<K, V> {
    fn each(&mut self, visit: &mut dyn FnMut(&mut dyn StoredState)) {
        visit(self);
    }

    fn restored(&mut self) {
        let panes = std::mem::take(&mut self.panes);
        let (empty, used): (VecDeque<_>, VecDeque<_>) = panes.into_iter().partition(|pane| pane.table.is_empty());
        self.garbage.extend(empty.into_iter().map(|pane| pane.table));
        self.panes = used;
    }

    fn tidy(&mut self, entries: usize) -> bool {
        self.free(entries)
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
