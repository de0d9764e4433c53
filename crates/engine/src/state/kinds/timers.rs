//! Timers: keys that want to be called at a time.
//!
//! Owns: the timers of one kind of time (event time or processing time) of one state, each key and time once.
//! Does not own: time; the caller says up to when timers are due, and how many it fires before it looks at other work.
//!
//! Invariants:
//! 1. `queue` holds exactly the slots of the table, with their times; it is not stored but made again from the table.
//! 2. A timer fires once: it is removed before it is handed out, and the snapshot knows.
//!
//! The queue is an ordered set, not a heap: a deleted timer leaves at once, where a heap would keep it until its time (a session
//! window moves its timer with every record), and no growth of it ever copies the whole.

use std::collections::BTreeSet;

use staunch_types::{Result, Timestamp, stable_hash};

use super::super::codec::Key;
use super::super::keyed::{KeyedStates, Scope, StoredState, Surplus};
use super::super::stored::Stored;
use super::super::table::SlotId;
use super::compose;

/// Bytes of a timer's place in the queue, about.
const QUEUE_BYTES: usize = 24;

/// The timers of one kind of time.
pub struct Timers<K> {
    timers: Stored<(Timestamp, K), ()>,
    queue: BTreeSet<(Timestamp, SlotId)>,
}

/// A timer whose time has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due<K> {
    /// The key.
    pub key: K,
    /// The key's hash.
    pub hash: u64,
    /// The time that was set.
    pub time: Timestamp,
}

fn hash_of<K: Key>((time, key): &(Timestamp, K)) -> u64 {
    timer_hash(stable_hash(key), *time)
}

fn timer_hash(hash: u64, time: Timestamp) -> u64 {
    compose(hash, stable_hash(&time))
}

impl<K: Key> Timers<K> {
    /// No timers, under a name.
    #[must_use]
    pub fn new(name: &str, scope: Scope) -> Timers<K> {
        Timers { timers: Stored::new(name, scope, hash_of).with_around(QUEUE_BYTES), queue: BTreeSet::new() }
    }

    /// Sets a timer; whether it was not set before.
    pub fn set(&mut self, hash: u64, key: &K, time: Timestamp) -> bool {
        if self.find(hash, key, time).is_some() {
            return false;
        }
        let slot = self.timers.table_mut().insert_new(timer_hash(hash, time), (time, key.clone()), ());
        self.queue.insert((time, slot));
        true
    }

    /// Deletes a timer; whether it was set.
    pub fn delete(&mut self, hash: u64, key: &K, time: Timestamp) -> bool {
        let Some(slot) = self.find(hash, key, time) else { return false };
        self.queue.remove(&(time, slot));
        self.timers.table_mut().remove_slot(slot).is_some()
    }

    /// The time of the earliest timer.
    #[must_use]
    pub fn next_time(&self) -> Option<Timestamp> {
        self.queue.first().map(|&(time, _)| time)
    }

    /// Removes the earliest timer if it is due at a time, to be fired.
    pub fn pop_due(&mut self, until: Timestamp) -> Option<Due<K>> {
        let &(time, slot) = self.queue.first().filter(|(time, _)| *time <= until)?;
        self.queue.remove(&(time, slot));
        let ((time, key), ()) = self.timers.table_mut().remove_slot(slot).expect("invariant 1: the slot is live");
        let hash = stable_hash(&key);
        Some(Due { key, hash, time })
    }

    /// Fires up to `timers_max` timers that are due at a time, earliest first; whether more are due. What `fire` sets fires too if
    /// it is due.
    pub fn fire_until(&mut self, until: Timestamp, timers_max: usize, mut fire: impl FnMut(&mut Timers<K>, Due<K>)) -> bool {
        for _ in 0..timers_max {
            match self.pop_due(until) {
                Some(due) => fire(self, due),
                None => return false,
            }
        }
        self.next_time().is_some_and(|time| time <= until)
    }

    /// Timers set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether no timer is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn find(&self, hash: u64, key: &K, time: Timestamp) -> Option<SlotId> {
        self.timers.table().find_with(timer_hash(hash, time), |(found_time, found)| *found_time == time && found == key)
    }
}

impl<K: Key> KeyedStates<K> for Timers<K> {
    fn each(&mut self, visit: &mut dyn FnMut(&mut dyn StoredState)) {
        visit(&mut self.timers);
    }

    fn restored(&mut self) -> Result<()> {
        self.timers.load_all()?;
        self.queue = self.timers.table().iter().map(|(slot, (time, _), ())| (*time, slot)).collect();
        Ok(())
    }

    fn tidy(&mut self, _entries: usize) -> bool {
        false
    }

    /// Timers stay in memory: the earliest one is asked for all the time.
    fn evict(&mut self, _surplus: Surplus) -> usize {
        0
    }
}

#[cfg(test)]
mod tests;
