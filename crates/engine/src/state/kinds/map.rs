//! A map for each key, each entry of which is written by itself.
//!
//! Invariants:
//! 1. `members` holds, for each key with entries in memory, exactly their slots; it is not stored but made again from the entries.
//! 2. A walk over a key's map goes in the order of the hashes, so that it is the same before and after a restore.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use staunch_format::value::Encoder;
use staunch_types::{Result, stable_hash};

use super::super::codec::{Key, StateValue};
use super::super::keyed::{KeyedStates, Scope, StoredState, Surplus};
use super::super::stored::Stored;
use super::super::table::{SlotId, StateTable};
use super::compose;

/// Bytes of an entry's place among its key's members, about.
const MEMBER_BYTES: usize = 48;

/// A map for each key that has one.
pub struct MapState<K, M, V> {
    entries: Stored<(K, M), V>,
    members: StateTable<K, Members>,
}

/// What of a key's map is in memory.
#[derive(Serialize, Deserialize)]
struct Members {
    slots: BTreeSet<(u64, SlotId)>,
    /// It is all of the map.
    is_whole: bool,
}

fn hash_of<K: Key, M: Key>((key, member): &(K, M)) -> u64 {
    compose(stable_hash(key), stable_hash(member))
}

impl<K: Key, M: Key, V: StateValue> MapState<K, M, V> {
    /// No maps, under a name.
    #[must_use]
    pub fn new(name: &str, scope: Scope) -> MapState<K, M, V> {
        MapState { entries: Stored::new(name, scope, hash_of).with_around(MEMBER_BYTES), members: StateTable::new() }
    }

    /// The value of a member of a key's map.
    pub fn get(&mut self, hash: u64, key: &K, member: &M) -> Option<&V> {
        let slot = self.fetch(hash, compose(hash, stable_hash(member)), key, member)?;
        self.entries.table().entry(slot).map(|(_, value)| value)
    }

    /// Gives a member of a key's map a value; returns the one before.
    pub fn put(&mut self, hash: u64, key: &K, member: &M, value: V) -> Option<V> {
        let entry_hash = compose(hash, stable_hash(member));
        match self.fetch(hash, entry_hash, key, member) {
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
        let slot = match self.fetch(hash, entry_hash, key, member) {
            Some(slot) => slot,
            None => self.add(hash, entry_hash, key, member, init()),
        };
        self.entries.table_mut().update_slot(slot, change).expect("the slot was just found or filled")
    }

    /// Removes a member of a key's map and returns its value.
    pub fn remove(&mut self, hash: u64, key: &K, member: &M) -> Option<V> {
        let entry_hash = compose(hash, stable_hash(member));
        let slot = self.fetch(hash, entry_hash, key, member)?;
        self.members_lose(hash, key, entry_hash, slot);
        self.entries.table_mut().remove_slot(slot).map(|(_, value)| value)
    }

    /// The members of a key's map with their values, always in the same order. All of them are brought into memory.
    pub fn iter(&mut self, hash: u64, key: &K) -> impl Iterator<Item = (&M, &V)> {
        self.fetch_all(hash, key);
        let entries = self.entries.table();
        let slots = self.members.get(hash, key).into_iter().flat_map(|members| &members.slots);
        slots.filter_map(|&(_, slot)| entries.entry(slot)).map(|((_, member), value)| (member, value))
    }

    /// Members of a key's map. With a database under the state all of them are brought into memory.
    #[must_use]
    pub fn len(&mut self, hash: u64, key: &K) -> usize {
        self.fetch_all(hash, key);
        self.members.get(hash, key).map_or(0, |members| members.slots.len())
    }

    /// Whether a key has no map.
    #[must_use]
    pub fn is_empty(&mut self, hash: u64, key: &K) -> bool {
        self.len(hash, key) == 0
    }

    /// Removes a key's map.
    ///
    /// Cost: grows with the size of the map.
    pub fn clear(&mut self, hash: u64, key: &K) {
        self.fetch_all(hash, key);
        for (_, slot) in self.members.remove(hash, key).into_iter().flat_map(|members| members.slots) {
            self.entries.table_mut().remove_slot(slot);
        }
    }

    fn add(&mut self, hash: u64, entry_hash: u64, key: &K, member: &M, value: V) -> SlotId {
        let slot = self.entries.table_mut().insert_new(entry_hash, (key.clone(), member.clone()), value);
        self.members_gain(hash, key, entry_hash, slot);
        slot
    }

    /// The slot of a member, which is brought into memory if only the database has it.
    fn fetch(&mut self, hash: u64, entry_hash: u64, key: &K, member: &M) -> Option<SlotId> {
        let table = self.entries.table_mut();
        let is_match = |(found, found_member): &(K, M)| found_member == member && found == key;
        if !table.is_partial() {
            return table.find_with(entry_hash, is_match);
        }
        let mut is_loaded = false;
        let slot = table.fetch_with(entry_hash, is_match, || {
            is_loaded = true;
            (key.clone(), member.clone())
        })?;
        if is_loaded {
            self.members_gain(hash, key, entry_hash, slot);
        }
        Some(slot)
    }

    /// Brings all of a key's map into memory.
    fn fetch_all(&mut self, hash: u64, key: &K) {
        if !self.entries.table().is_partial() || self.members.get(hash, key).is_some_and(|members| members.is_whole) {
            return;
        }
        let mut range = self.entries.table().keys_with_prefix(hash, &beginning_of(key));
        let mut slots = Vec::new();
        loop {
            let next = self.entries.table_mut().scan_absent(&range, hash_of, |table, entry_hash, entry, value| {
                if entry.0 == *key {
                    slots.push((entry_hash, table.keep_scanned(entry_hash, entry, value)));
                }
            });
            match next {
                Ok(Some(from)) => range.from = from,
                Ok(None) => break,
                Err(error) => {
                    self.entries.table_mut().fail(error);
                    break;
                }
            }
        }
        slots.into_iter().for_each(|(entry_hash, slot)| self.members_gain(hash, key, entry_hash, slot));
        let _: Option<()> = self.members.update_existing(hash, key, |members| members.is_whole = true);
    }

    fn members_gain(&mut self, hash: u64, key: &K, entry_hash: u64, slot: SlotId) {
        let is_whole = !self.entries.table().is_partial();
        let none = || Members { slots: BTreeSet::new(), is_whole };
        self.members.update(hash, key, none, |members| members.slots.insert((entry_hash, slot)));
    }

    fn members_lose(&mut self, hash: u64, key: &K, entry_hash: u64, slot: SlotId) {
        let is_last = self.members.update_existing(hash, key, |members| {
            members.slots.remove(&(entry_hash, slot));
            members.slots.is_empty()
        });
        if is_last == Some(true) {
            self.members.remove(hash, key);
        }
    }
}

/// The bytes with which all entries of a key begin in the database; none if that cannot be said.
fn beginning_of<K: Key>(key: &K) -> Vec<u8> {
    let (mut encoder, mut bytes) = (Encoder::new().for_keys(), Vec::new());
    // Before the parts of a value stands the version of its shape, 0 in a single byte, as before the parts of the pair.
    match encoder.encode(key, &mut bytes) {
        Ok(()) if encoder.schema_version() == 0 => bytes,
        Ok(()) | Err(_) => Vec::new(),
    }
}

impl<K: Key, M: Key, V: StateValue> KeyedStates<K> for MapState<K, M, V> {
    fn each(&mut self, visit: &mut dyn FnMut(&mut dyn StoredState)) {
        visit(&mut self.entries);
    }

    fn restored(&mut self) -> Result<()> {
        self.members = StateTable::new();
        let is_whole = !self.entries.table().is_partial();
        for (slot, (key, member), _) in self.entries.table().iter() {
            let hash = stable_hash(key);
            let entry_hash = compose(hash, stable_hash(member));
            let none = || Members { slots: BTreeSet::new(), is_whole };
            self.members.update(hash, key, none, |members| members.slots.insert((entry_hash, slot)));
        }
        Ok(())
    }

    fn tidy(&mut self, _entries: usize) -> bool {
        false
    }

    fn evict(&mut self, surplus: Surplus) -> usize {
        let members = &mut self.members;
        self.entries.evict(surplus, |slot, entry_hash, (key, _)| {
            let hash = stable_hash(key);
            let is_last = members.update_existing(hash, key, |members| {
                members.slots.remove(&(entry_hash, slot));
                members.is_whole = false;
                members.slots.is_empty()
            });
            if is_last == Some(true) {
                members.remove(hash, key);
            }
        })
    }
}
