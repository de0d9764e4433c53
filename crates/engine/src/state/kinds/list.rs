//! A list for each key, in pieces, so that adding to a long list changes, and a snapshot writes, only its last piece.
//!
//! Invariants:
//! 1. The list of a key is its sealed pieces 0, 1, ... in order, then the tail of its head.
//! 2. Sealed pieces have [`PIECE_ITEMS`] items and never change; a key without a head has none.

use serde::{Deserialize, Serialize};
use staunch_types::stable_hash;

use super::super::codec::{Key, StateValue};
use super::super::keyed::{KeyedStates, Scope, StoredState};
use super::super::stored::Stored;
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

    /// The items of a key's list in order.
    pub fn iter(&self, hash: u64, key: &K) -> impl Iterator<Item = &T> {
        let head = self.heads.table().get(hash, key);
        let sealed = head.map_or(0, |head| head.sealed);
        let pieces = (0..sealed).flat_map(move |number| self.piece(hash, key, number));
        pieces.chain(head.into_iter().flat_map(|head| &head.tail))
    }

    /// Items of a key's list.
    #[must_use]
    pub fn len(&self, hash: u64, key: &K) -> u64 {
        let head = self.heads.table().get(hash, key);
        head.map_or(0, |head| head.sealed * PIECE_ITEMS as u64 + head.tail.len() as u64)
    }

    /// Whether a key has no list.
    #[must_use]
    pub fn is_empty(&self, hash: u64, key: &K) -> bool {
        self.len(hash, key) == 0
    }

    /// Removes a key's list.
    ///
    /// Cost: grows with the length of the list.
    pub fn clear(&mut self, hash: u64, key: &K) {
        let Some(head) = self.heads.table_mut().remove(hash, key) else { return };
        for number in 0..head.sealed {
            let found = self.find_piece(hash, key, number);
            let slot = found.expect("invariant 2: the head counts the sealed pieces");
            self.pieces.table_mut().remove_slot(slot);
        }
    }

    /// Gives a key another list.
    pub fn replace(&mut self, hash: u64, key: &K, items: impl IntoIterator<Item = T>) {
        self.clear(hash, key);
        items.into_iter().for_each(|item| self.push(hash, key, item));
    }

    fn find_piece(&self, hash: u64, key: &K, number: u64) -> Option<super::super::table::SlotId> {
        self.pieces.table().find_with(piece_hash(hash, number), |(found, found_number)| *found_number == number && found == key)
    }

    fn piece(&self, hash: u64, key: &K, number: u64) -> &[T] {
        let slot = self.find_piece(hash, key, number).expect("invariant 2: the head counts the sealed pieces");
        self.pieces.table().entry(slot).map_or(&[], |(_, items)| items)
    }
}

impl<K: Key, T: StateValue> KeyedStates<K> for ListState<K, T> {
    fn each(&mut self, visit: &mut dyn FnMut(&mut dyn StoredState)) {
        visit(&mut self.heads);
        visit(&mut self.pieces);
    }

    fn restored(&mut self) {}

    fn tidy(&mut self, _entries: usize) -> bool {
        false
    }
}
