//! A list for each key, in pieces, so that adding to a long list changes, and a snapshot writes, only its last piece.
//!
//! Invariants:
//! 1. The list of a key is its sealed pieces 0, 1, ... in order, then the tail of its head.
//! 2. Sealed pieces have [`PIECE_ITEMS`] items and never change; a key without a head has none.

use serde::{Deserialize, Serialize};
use staunch_types::{Result, stable_hash};

use super::super::codec::{Key, StateValue};
use super::super::keyed::{KeyedStates, Scope, StoredState, Surplus};
use super::super::stored::Stored;
use super::super::table::SlotId;
use super::compose;

/// Items of a sealed piece.
const PIECE_ITEMS: usize = 32;

/// A list for each key that has one.
pub struct ListState<K, T> {
    heads: Stored<K, Head<T>>,
    pieces: Stored<(K, u64), Vec<T>>,
}

#[derive(Serialize, Deserialize)]
struct Head<T> {
    sealed: u64,
    tail: Vec<T>,
}

fn piece_hash(hash: u64, number: u64) -> u64 {
    compose(hash, stable_hash(&number))
}

fn hash_of<K: Key>((key, number): &(K, u64)) -> u64 {
    piece_hash(stable_hash(key), *number)
}

impl<K: Key, T: StateValue> ListState<K, T> {
    /// No lists, under a name.
    #[must_use]
    pub fn new(name: &str, scope: Scope) -> ListState<K, T> {
        ListState { heads: Stored::new(name, scope, stable_hash::<K>), pieces: Stored::new(&format!("{name}/pieces"), scope, hash_of) }
    }

    /// Adds an item at the end of a key's list.
    pub fn push(&mut self, hash: u64, key: &K, item: T) {
        let empty = || Head { sealed: 0, tail: Vec::new() };
        let full = self.heads.table_mut().update(hash, key, empty, |head| {
            head.tail.push(item);
            let is_full = head.tail.len() == PIECE_ITEMS;
            is_full.then(|| {
                head.sealed += 1;
                (head.sealed - 1, std::mem::take(&mut head.tail))
            })
        });
        if let Some((number, items)) = full {
            self.pieces.table_mut().insert_new(piece_hash(hash, number), (key.clone(), number), items);
        }
    }

    /// The items of a key's list in order. All of them are brought into memory.
    pub fn iter(&mut self, hash: u64, key: &K) -> impl Iterator<Item = &T> {
        let sealed = self.heads.table_mut().get(hash, key).map_or(0, |head| head.sealed);
        if self.pieces.table().is_partial() {
            for number in 0..sealed {
                self.fetch_piece(hash, key, number);
            }
        }
        let (heads, pieces) = (self.heads.table(), &self.pieces);
        let head = heads.find(hash, key).and_then(|slot| heads.entry(slot)).map(|(_, head)| head);
        let sealed = (0..sealed).flat_map(move |number| piece(pieces, hash, key, number));
        sealed.chain(head.into_iter().flat_map(|head| &head.tail))
    }

    /// Items of a key's list.
    #[must_use]
    pub fn len(&mut self, hash: u64, key: &K) -> u64 {
        let head = self.heads.table_mut().get(hash, key);
        head.map_or(0, |head| head.sealed * PIECE_ITEMS as u64 + head.tail.len() as u64)
    }

    /// Whether a key has no list.
    #[must_use]
    pub fn is_empty(&mut self, hash: u64, key: &K) -> bool {
        self.len(hash, key) == 0
    }

    /// Removes a key's list.
    ///
    /// Cost: grows with the length of the list.
    pub fn clear(&mut self, hash: u64, key: &K) {
        let Some(head) = self.heads.table_mut().remove(hash, key) else { return };
        for number in 0..head.sealed {
            // A database that fails has the failure reported by the next snapshot, which cannot become complete.
            if let Some(slot) = self.fetch_piece(hash, key, number) {
                self.pieces.table_mut().remove_slot(slot);
            }
        }
    }

    /// Gives a key another list.
    pub fn replace(&mut self, hash: u64, key: &K, items: impl IntoIterator<Item = T>) {
        self.clear(hash, key);
        items.into_iter().for_each(|item| self.push(hash, key, item));
    }

    fn fetch_piece(&mut self, hash: u64, key: &K, number: u64) -> Option<SlotId> {
        let is_match = |(found, found_number): &(K, u64)| *found_number == number && found == key;
        self.pieces.table_mut().fetch_with(piece_hash(hash, number), is_match, || (key.clone(), number))
    }
}

/// A sealed piece of a key's list.
fn piece<'a, K: Key, T: StateValue>(pieces: &'a Stored<(K, u64), Vec<T>>, hash: u64, key: &K, number: u64) -> &'a [T] {
    let is_match = |(found, found_number): &(K, u64)| *found_number == number && found == key;
    let slot = pieces.table().find_with(piece_hash(hash, number), is_match);
    assert!(slot.is_some() || pieces.table().is_paged(), "invariant 2: the head counts the sealed pieces");
    slot.and_then(|slot| pieces.table().entry(slot)).map_or(&[], |(_, items)| items)
}

impl<K: Key, T: StateValue> KeyedStates<K> for ListState<K, T> {
    fn each(&mut self, visit: &mut dyn FnMut(&mut dyn StoredState)) {
        visit(&mut self.heads);
        visit(&mut self.pieces);
    }

    fn restored(&mut self) -> Result<()> {
        Ok(())
    }

    fn tidy(&mut self, _entries: usize) -> bool {
        false
    }

    fn evict(&mut self, surplus: Surplus) -> usize {
        self.heads.evict(surplus, |_, _, _| {}) + self.pieces.evict(surplus, |_, _, _| {})
    }
}
