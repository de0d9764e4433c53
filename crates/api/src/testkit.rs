//! For implementors of sources and sinks: small stand-ins for the world, and the tests that every implementor must pass.
//!
//! Owns: what conformance means, written as tests of the invariants in `source` and `sink`.
//! Does not own: the simulator, which attacks whole jobs.
//!
//! All of it panics when a promise is broken, as tests do.

mod door;
mod memory;
mod store;
mod database;
mod collect;
mod source;
mod sink;

pub use collect::{Collected, DeadLetter, Event};
pub use database::{MemoryBackend, MemoryDatabase, check_backend};
pub use door::{HeldDoor, ImmediateDoor, io};
pub use memory::{Fault, MemoryFiles, Operation};
pub use sink::{SinkCase, check_sink, permit};
pub use source::{SourceCase, check_source, discover, read_all, reader_context};
pub use store::{StoreCase, check_store};

pub use crate::MemoryStore;
