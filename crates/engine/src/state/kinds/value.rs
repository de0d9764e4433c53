//! One value for each key.

use staunch_types::{Result, stable_hash};

use super::super::codec::{Key, StateValue};
use super::super::keyed::{KeyedStates, Scope, StoredState, Surplus};
use super::super::stored::Stored;

/// One value for each key that has one.
pub struct ValueState<K, V> {
    stored: Stored<K, V>,
}

impl<K: Key, V: StateValue> ValueState<K, V> {
    /// No values, under a name.
    #[must_use]
    pub fn new(name: &str, scope: Scope) -> ValueState<K, V> {
        ValueState { stored: Stored::new(name, scope, stable_hash::<K>) }
    }

    /// The value of a key.
    #[inline]
    pub fn get(&mut self, hash: u64, key: &K) -> Option<&V> {
        self.stored.table_mut().get(hash, key)
    }

    /// Gives a key a value; returns the one before.
    pub fn set(&mut self, hash: u64, key: &K, value: V) -> Option<V> {
        self.stored.table_mut().set(hash, key, value)
    }

    /// Changes the value of a key, which is made first if there is none.
    #[inline]
    pub fn update<R>(&mut self, hash: u64, key: &K, init: impl FnOnce() -> V, change: impl FnOnce(&mut V) -> R) -> R {
        self.stored.table_mut().update(hash, key, init, change)
    }

    /// Removes the value of a key and returns it.
    pub fn clear(&mut self, hash: u64, key: &K) -> Option<V> {
        self.stored.table_mut().remove(hash, key)
    }

    /// The table underneath, for prefetches and walks.
    #[must_use]
    pub fn stored(&self) -> &Stored<K, V> {
        &self.stored
    }

    /// The table underneath, to be changed.
    pub fn stored_mut(&mut self) -> &mut Stored<K, V> {
        &mut self.stored
    }
}

impl<K: Key, V: StateValue> KeyedStates<K> for ValueState<K, V> {
    fn each(&mut self, visit: &mut dyn FnMut(&mut dyn StoredState)) {
        visit(&mut self.stored);
    }

    fn restored(&mut self) -> Result<()> {
        Ok(())
    }

    fn tidy(&mut self, _entries: usize) -> bool {
        false
    }

    fn evict(&mut self, surplus: Surplus) -> usize {
        self.stored.evict(surplus, |_, _, _| {})
    }
}
