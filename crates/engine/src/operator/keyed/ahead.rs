//! Looking ahead in a batch: the state of records that come soon is fetched into the cache while earlier ones are worked on.
//!
//! Owns: how far ahead, and the guesses of where the entries are. Does not own: the table. A guess may be wrong or out of date; whoever uses
//! it compares the key.

use crate::exchange::{Batch, Hashed};
use crate::state::codec::{Key, StateValue};
use crate::state::table::{SlotId, StateTable};

/// Records ahead whose entry is fetched, a power of two; their place in the index is fetched twice as far ahead.
const AHEAD: usize = 8;

/// Guesses for the records that come next.
pub(crate) struct Ahead {
    guesses: [Option<SlotId>; AHEAD],
    at: usize,
}

impl Ahead {
    /// Looks at the first records of a batch.
    pub(crate) fn begin<T, K: Key, V: StateValue>(table: &StateTable<K, V>, batch: &Batch<Hashed<T>>) -> Ahead {
        let rest = batch.rest();
        rest.iter().take(2 * AHEAD).for_each(|e| table.prefetch_index(e.value.hash));
        let mut guesses = [None; AHEAD];
        for (guess, element) in guesses.iter_mut().zip(rest) {
            *guess = table.prefetch_entry(element.value.hash);
        }
        Ahead { guesses, at: 0 }
    }

    /// The guess for the next record of the batch, which is about to be taken; looks at one more record ahead.
    #[inline]
    pub(crate) fn next<T, K: Key, V: StateValue>(&mut self, table: &StateTable<K, V>, batch: &Batch<Hashed<T>>) -> Option<SlotId> {
        let rest = batch.rest();
        if let Some(far) = rest.get(2 * AHEAD) {
            table.prefetch_index(far.value.hash);
        }
        let slot = &mut self.guesses[self.at & (AHEAD - 1)];
        self.at += 1;
        let ahead = rest.get(AHEAD).and_then(|e| table.prefetch_entry(e.value.hash));
        std::mem::replace(slot, ahead)
    }
}
