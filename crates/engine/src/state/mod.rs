//! Keyed state of one task: in memory, changed in place, with snapshots that neither stop the task nor copy it. With a database under it,
//! memory holds what was used lately.
//!
//! Owns: what operators remember by key, the timers they set, and what a checkpoint needs of both.
//! Does not own: the hash of a key and its group (`staunch_types`), the bytes of values and blocks (`staunch_format`), where
//! blocks are stored and when a checkpoint begins or is durable (`checkpoint`).
//! Data comes from operators, record by record, and goes to an upload as blocks; after a failure it comes back from there.
//!
//! Invariants:
//! 1. A snapshot holds the state at its barrier, whatever happens to the state while it is written.
//! 2. A snapshot needs only segments of confirmed epochs besides its own; `chain` says which.
//! 3. Every call does bounded work; what a large state needs more of goes on in the next slice.
//!
//! Read in this order: a `table` keeps entries, a `chain` decides what a snapshot writes, `keyed` is the contract with the
//! engine, `stored` and `panes` fulfil it, `paging` is what they need with a database under them, `kinds` and `timers` are what operators see.

pub mod codec;
pub mod writer;
pub mod table;
mod chain;
pub mod paging;
pub mod keyed;
pub mod stored;
pub mod panes;
pub mod kinds;

pub use kinds::timers;

#[cfg(test)]
mod testing;
