//! The contract between keyed state and the engine.
//!
//! Owns: what the engine asks of every state, and that no state of an operator is forgotten: an operator declares its
//! states as one tuple, and whatever is asked of the tuple is asked of each.
//! Does not own: any state.

use staunch_api::StateBatch;
use staunch_format::block::BlockReader;
use staunch_format::value::Schema;
use staunch_types::{Epoch, KeyGroupCount, KeyGroupRange, Result};

use super::table::Pager;
use super::writer::{Budget, Progress};

/// What a state knows of its task.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Key groups of the job.
    pub groups: KeyGroupCount,
    /// Key groups of the task.
    pub range: KeyGroupRange,
}

/// Takes the blocks of a snapshot as they are full.
pub trait BlockSink {
    /// A block of the state of this name; blocks of one state are applied in the order of the calls.
    fn block(&mut self, state: &str, block: Vec<u8>);
}

impl<F: FnMut(&str, Vec<u8>)> BlockSink for F {
    fn block(&mut self, state: &str, block: Vec<u8>) {
        self(state, block);
    }
}

/// How a snapshot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// The checkpoint of the epoch is durable.
    Durable(Epoch),
    /// The snapshot in progress will not be completed.
    GivenUp,
}

/// One stored state: a name, and entries that a snapshot writes.
///
/// A snapshot is a `freeze` at the barrier, then calls of `drain` until it is done, with changes of the state at any time
/// between; then `settle` when the checkpoint is durable, or nothing if it never will be.
pub trait StoredState: PagedState {
    /// The name under which it is stored.
    fn name(&self) -> &str;

    /// Takes the barrier of an epoch; epochs grow. A snapshot still in progress is given up.
    ///
    /// Cost: independent of the number of entries.
    fn freeze(&mut self, epoch: Epoch);

    /// Writes the next part of the snapshot in progress.
    ///
    /// # Errors
    /// When a key or value cannot be serialised; the snapshot then never becomes complete.
    fn drain(&mut self, budget: &mut Budget, sink: &mut dyn BlockSink) -> Result<Progress>;

    /// The epochs whose segments are needed to restore the latest snapshot, its own included.
    fn segments(&self) -> &[Epoch];

    /// Whether a later snapshot may need the segment of an epoch. One that it need not may be forgotten.
    fn retains(&self, epoch: Epoch) -> bool;

    /// The checkpoint of an epoch is durable: later snapshots need not repeat it. Or the snapshot in progress is given up: the
    /// next one writes all that it should have. Neither changes anything if there is no such snapshot.
    fn settle(&mut self, settlement: Settlement);

    /// Applies a block of an epoch as far as it lies in the task's groups; blocks come in order.
    ///
    /// # Errors
    /// When the block is damaged, or its entries do not fit the types of the state.
    fn restore(&mut self, epoch: Epoch, block: &BlockReader<'_>) -> Result<()>;
}

/// A stored state under which there is a database, which then holds all of it, and memory what was used lately.
///
/// A cut is a `cut`, then calls of `drain_into` until it is done, with changes of the state at any time between; then `written` when the
/// database has all of it.
pub trait PagedState {
    /// Puts a database under the state, which has no entries yet; `stored` is how the entries that the database has are written.
    ///
    /// # Errors
    /// As the database reports.
    fn attach(&mut self, pager: Pager, stored: Option<&(Schema, Schema)>) -> Result<()>;

    /// Takes a cut. One still in progress is given up.
    ///
    /// Cost: independent of the number of entries.
    fn cut(&mut self);

    /// Writes the next part of the cut in progress; `take` gets the batches as they are full.
    ///
    /// # Errors
    /// When a key or value cannot be serialised, or the database could not be read.
    fn drain_into(&mut self, budget: &mut Budget, take: &mut dyn FnMut(StateBatch)) -> Result<Progress>;

    /// The database has all of the latest cut, unless that was given up.
    fn written(&mut self);

    /// Bytes that the entries in memory take, about.
    fn object_bytes(&self) -> usize;

    /// How keys and values are written.
    fn schemas(&self) -> (Schema, Schema);
}

/// How much of a state should leave memory.
#[derive(Clone, Copy, Debug)]
pub struct Surplus {
    /// So many entries of each...
    pub part: usize,
    /// ...so many.
    pub of: usize,
}

impl Surplus {
    /// Of so many entries.
    #[must_use]
    pub fn of_entries(self, entries: usize) -> usize {
        /// As many as leave without a pause that is felt.
        const AT_ONCE_MAX: usize = 16_384;
        let share = (entries as u128 * self.part as u128 / self.of.max(1) as u128) as usize + 1;
        share.min(AT_ONCE_MAX)
    }
}

/// The states of an operator, all keyed by `K`.
///
/// Implemented by every kind of state, and by tuples of up to eight.
pub trait KeyedStates<K> {
    /// Calls `visit` with each stored state, always in the same order.
    fn each(&mut self, visit: &mut dyn FnMut(&mut dyn StoredState));

    /// All that is restored is there: in memory, or in the database.
    ///
    /// # Errors
    /// As the database reports, or when an entry does not fit the types of the state.
    fn restored(&mut self) -> Result<()>;

    /// Does some of the work left over by earlier calls, such as freeing what was dropped; whether more is left.
    fn tidy(&mut self, entries: usize) -> bool;

    /// Takes entries out of memory that a database has and that were not used lately; how many. Some may have to be written first.
    fn evict(&mut self, surplus: Surplus) -> usize;
}

macro_rules! tuples {
    ($(($($state:ident $position:tt),*))*) => {$(
        impl<K, $($state: KeyedStates<K>),*> KeyedStates<K> for ($($state,)*) {
            fn each(&mut self, visit: &mut dyn FnMut(&mut dyn StoredState)) {
                let _ = &visit;
                $(self.$position.each(visit);)*
            }

            fn restored(&mut self) -> Result<()> {
                $(self.$position.restored()?;)*
                Ok(())
            }

            fn tidy(&mut self, entries: usize) -> bool {
                let _ = entries;
                let left = [$(self.$position.tidy(entries)),*];
                left.contains(&true)
            }

            fn evict(&mut self, surplus: Surplus) -> usize {
                let _ = surplus;
                0 $(+ self.$position.evict(surplus))*
            }
        }
    )*};
}

tuples! {
    ()
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}

/// Freezes all states of an operator.
pub fn freeze<K>(states: &mut dyn KeyedStates<K>, epoch: Epoch) {
    states.each(&mut |state| state.freeze(epoch));
}

/// Writes the next part of the snapshot of all states of an operator.
///
/// # Errors
/// When a key or value of one of them cannot be serialised.
pub fn drain<K>(states: &mut dyn KeyedStates<K>, budget: &mut Budget, sink: &mut dyn BlockSink) -> Result<Progress> {
    let mut result = Ok(Progress::Done);
    states.each(&mut |state| {
        if matches!(result, Ok(Progress::Done)) {
            result = state.drain(budget, sink);
        }
    });
    result
}

/// Tells all states of an operator that the checkpoint of an epoch is durable.
pub fn confirm<K>(states: &mut dyn KeyedStates<K>, epoch: Epoch) {
    states.each(&mut |state| state.settle(Settlement::Durable(epoch)));
}

/// Gives up the snapshot in progress of all states of an operator.
pub fn abandon<K>(states: &mut dyn KeyedStates<K>) {
    states.each(&mut |state| state.settle(Settlement::GivenUp));
}

/// Applies a block to the state it belongs to; whether there is such a state.
///
/// # Errors
/// When the block is damaged, or its entries do not fit the types of the state.
pub fn restore<K>(states: &mut dyn KeyedStates<K>, epoch: Epoch, block: &BlockReader<'_>) -> Result<bool> {
    let mut result = Ok(false);
    states.each(&mut |state| {
        if state.name() == block.state() && matches!(result, Ok(false)) {
            result = state.restore(epoch, block).map(|()| true);
        }
    });
    result
}
