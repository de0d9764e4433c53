//! The words every other crate speaks: ids, epochs, generations, time, key groups, digests and errors.
//!
//! Owns: the meaning and the limits of each id, the frozen key hash, and the kinds of error.
//! Does not own: any protocol, any byte format, any clock. Nothing here can block, fail at random or do I/O.
//!
//! Invariants:
//! 1. `stable_hash` of a value never changes between versions, machines or architectures (test vectors in `hash`).
//! 2. The key group of a key depends on its hash and the job's number of key groups, never on the parallelism.

mod ids;
mod time;
mod hash;
mod key_group;
mod digest;
mod error;

pub use digest::Digest;
pub use error::{Error, ErrorKind, Result};
pub use hash::{FloatKey, StableHasher, stable_hash};
pub use ids::{Epoch, Generation, LedgerId, LedgerSeq, Name, NameError, TaskId};
pub use key_group::{KEY_GROUPS_DEFAULT, KEY_GROUPS_MAX, KeyGroup, KeyGroupCount, KeyGroupRange};
pub use time::{Tick, Timestamp};
