//! A value for each key, folded from what is added to it.

use staunch_types::Result;

use super::super::codec::{Key, StateValue};
use super::super::keyed::{KeyedStates, Scope, StoredState, Surplus};
use super::value::ValueState;

/// For each key the reduction of the values added to it.
pub struct Reducing<K, V> {
    values: ValueState<K, V>,
    reduce: fn(&mut V, V),
}

impl<K: Key, V: StateValue> Reducing<K, V> {
    /// No values, under a name; `reduce` takes a further value into the one there is.
    #[must_use]
    pub fn new(name: &str, scope: Scope, reduce: fn(&mut V, V)) -> Reducing<K, V> {
        Reducing { values: ValueState::new(name, scope), reduce }
    }

    /// Adds a value to a key's.
    pub fn add(&mut self, hash: u64, key: &K, value: V) {
        let reduce = self.reduce;
        let mut added = Some(value);
        let table = self.values.stored_mut().table_mut();
        table.update_existing(hash, key, |found| added.take().map(|value| reduce(found, value)));
        if let Some(first) = added {
            table.insert_new(hash, key.clone(), first);
        }
    }

    /// The reduction of what was added to a key.
    #[inline]
    pub fn get(&mut self, hash: u64, key: &K) -> Option<&V> {
        self.values.get(hash, key)
    }

    /// Removes a key's value and returns it.
    pub fn clear(&mut self, hash: u64, key: &K) -> Option<V> {
        self.values.clear(hash, key)
    }
}

/// For each key an accumulator of what is added to it, and a result made from that.
pub struct Aggregating<K, I, A, O> {
    accumulators: ValueState<K, A>,
    functions: Aggregation<I, A, O>,
}

/// How an accumulator begins, takes what is added, and gives its result.
#[derive(Clone, Copy)]
pub struct Aggregation<I, A, O> {
    /// An accumulator to which nothing was added.
    pub init: fn() -> A,
    /// Takes one more.
    pub add: fn(&mut A, I),
    /// The result so far.
    pub result: fn(&A) -> O,
}

impl<K: Key, I, A: StateValue, O> Aggregating<K, I, A, O> {
    /// No accumulators, under a name.
    #[must_use]
    pub fn new(name: &str, scope: Scope, functions: Aggregation<I, A, O>) -> Aggregating<K, I, A, O> {
        Aggregating { accumulators: ValueState::new(name, scope), functions }
    }

    /// Adds to a key's accumulator.
    #[inline]
    pub fn add(&mut self, hash: u64, key: &K, input: I) {
        let add = self.functions.add;
        self.accumulators.update(hash, key, self.functions.init, |accumulator| add(accumulator, input));
    }

    /// The result of what was added to a key.
    pub fn get(&mut self, hash: u64, key: &K) -> Option<O> {
        let result = self.functions.result;
        self.accumulator(hash, key).map(result)
    }

    /// The accumulator of a key.
    pub fn accumulator(&mut self, hash: u64, key: &K) -> Option<&A> {
        self.accumulators.get(hash, key)
    }

    /// Removes a key's accumulator; returns its result.
    pub fn clear(&mut self, hash: u64, key: &K) -> Option<O> {
        self.accumulators.clear(hash, key).map(|accumulator| (self.functions.result)(&accumulator))
    }
}

macro_rules! as_its_values {
    ($type:ident < $($parameter:ident),* > where $value:ident, $field:ident) => {
        impl<K: Key, $($parameter),*> KeyedStates<K> for $type<K, $($parameter),*>
        where
            $value: StateValue,
        {
            fn each(&mut self, visit: &mut dyn FnMut(&mut dyn StoredState)) {
                self.$field.each(visit);
            }

            fn restored(&mut self) -> Result<()> {
                self.$field.restored()
            }

            fn tidy(&mut self, entries: usize) -> bool {
                self.$field.tidy(entries)
            }

            fn evict(&mut self, surplus: Surplus) -> usize {
                self.$field.evict(surplus)
            }
        }
    };
}
as_its_values!(Reducing<V> where V, values);
as_its_values!(Aggregating<I, A, O> where A, accumulators);
