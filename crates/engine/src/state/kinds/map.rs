//! A map for each key, each entry of which is written by itself.
//!
//! Invariants:
//! 1. `members` holds, for each key with entries, exactly their slots; it is not stored but made again from the entries.
//! 2. A walk over a key's map goes in the order of the hashes, so that it is the same before and after a restore.

use std::collections::BTreeSet;

use staunch_types::stable_hash;

use super::super::codec::{Key, StateValue};
use super::super::keyed::{KeyedStates, Scope, StoredState};
use super::super::stored::Stored;
use super::super::table::{SlotId, StateTable};
use super::compose;

/// A map for each key that has one.
pub struct MapState<K, M, V> {
    entries: Stored<(K, M), V>,
    members: StateTable<K, BTreeSet<(u64, SlotId)>>,
}

fn hash_of<K: Key, M: Key>((key, member): &(K, M)) -> u64 {
    compose(stable_hash(key), stable_hash(member))
}

impl<K: Key, M: Key, V: StateValue> MapState<K, M, V> {
    /// No maps, under a name.
    #[must_use]
    pub fn new(name: &str, scope: Scope) -> MapState<K, M, V> {
        MapState { entries: Stored::new(name, scope, hash_of), members: StateTable::new() }
    }

    /// The value of a member of a key's map.
    pub fn get(&self, hash: u64, key: &K, member: &M) -> Option<&V> {
        let slot = self.find(compose(hash, stable_hash(member)), key, member)?;
        self.entries.table().entry(slot).map(|(_, value)| value)
    }

    /// Gives a member of a key's map a value; returns the one before.
    pub fn put(&mut self, hash: u64, key: &K, member: &M, value: V) -> Option<V> {
        let entry_hash = compose(hash, stable_hash(member));
        match self.find(entry_hash, key, member) {
            Some(slot) => self.entries.table_mut().update_slot(slot, |found| std::mem::replace(found, value)),
            None => {
                self.add(hash, entry_hash, key, member, value);
                None
            }
        }
    }

    /// Changes the value of a member of a key's map, which is made first if there is none.
    pub fn update<R>(&mut self, hash: u64, key: &K, member: &M, init: impl FnOnce() -> V, change: impl FnOnce(&mut V) -> R) -> R {
        let entry_hash = compose(hash, stable_hash(member));
        let slot = match self.find(entry_hash, key, member) {
            Some(slot) => slot,
            None => self.add(hash, entry_hash, key, member, init()),
        };
        self.entries.table_mut().update_slot(slot, change).expect("the slot was just found or filled")
    }

    /// Removes a member of a key's map and returns its value.
    pub fn remove(&mut self, hash: u64, key: &K, member: &M) -> Option<V> {
        let entry_hash = compose(hash, stable_hash(member));
        let slot = self.find(entry_hash, key, member)?;
        let is_last = self.members.update_existing(hash, key, |slots| {
            slots.remove(&(entry_hash, slot));
            slots.is_empty()
        });
        if is_last == Some(true) {
            self.members.remove(hash, key);
        }
        self.entries.table_mut().remove_slot(slot).map(|(_, value)| value)
    }

    /// The members of a key's map with their values, always in the same order.
    pub fn iter(&self, hash: u64, key: &K) -> impl Iterator<Item = (&M, &V)> {
        let slots = self.members.get(hash, key).into_iter().flatten();
        slots.filter_map(|&(_, slot)| self.entries.table().entry(slot)).map(|((_, member), value)| (member, value))
    }

    /// Members of a key's map.
    #[must_use]
    pub fn len(&self, hash: u64, key: &K) -> usize {
        self.members.get(hash, key).map_or(0, BTreeSet::len)
    }

    /// Whether a key has no map.
    #[must_use]
    pub fn is_empty(&self, hash: u64, key: &K) -> bool {
        self.len(hash, key) == 0
    }

    /// Removes a key's map.
    ///
    /// Cost: grows with the size of the map.
    pub fn clear(&mut self, hash: u64, key: &K) {
        for (_, slot) in self.members.remove(hash, key).into_iter().flatten() {
            self.entries.table_mut().remove_slot(slot);
        }
    }

    fn add(&mut self, hash: u64, entry_hash: u64, key: &K, member: &M, value: V) -> SlotId {
        let slot = self.entries.table_mut().insert_new(entry_hash, (key.clone(), member.clone()), value);
        self.members.update(hash, key, BTreeSet::new, |slots| slots.insert((entry_hash, slot)));
        slot
    }

    fn find(&self, entry_hash: u64, key: &K, member: &M) -> Option<SlotId> {
        self.entries.table().find_with(entry_hash, |(found, found_member)| found_member == member && found == key)
    }
}

impl<K: Key, M: Key, V: StateValue> KeyedStates<K> for MapState<K, M, V> {
    fn each(&mut self, visit: &mut dyn FnMut(&mut dyn StoredState)) {
        visit(&mut self.entries);
    }

    fn restored(&mut self) {
        self.members = StateTable::new();
        for (slot, (key, member), _) in self.entries.table().iter() {
            let hash = stable_hash(key);
            let entry_hash = compose(hash, stable_hash(member));
            self.members.update(hash, key, BTreeSet::new, |slots| slots.insert((entry_hash, slot)));
        }
    }

    fn tidy(&mut self, _entries: usize) -> bool {
        false
    }
}
