//! Every byte that outlives a process: encoding and decoding, nothing else.
//!
//! Owns: values of user types (`value`), blocks of keyed state (`block`), the description of a checkpoint (`manifest`),
//! the entries of the ledger (`ledger`), and the frame around the latter three (`frame`).
//! Does not own: where bytes are stored, when they are written, what they mean for a protocol. Nothing here does I/O, reads
//! a clock or knows a type of the engine, so every tool can read what a job wrote without being that job.
//!
//! Invariants:
//! 1. Bytes written by a version of this crate are read by every later one (golden files in `tests/golden`).
//! 2. Damaged bytes are reported, never read as something else: every frame has a length and a CRC32C.
//! 3. No input makes a decoder panic, or reserve memory in proportion to anything but the bytes it was given.

mod bytes;
pub mod frame;
pub mod value;
pub mod block;
mod record;
mod facts;
pub mod manifest;
pub mod ledger;

pub use facts::{Attempt, CommittableId, Opaque, OperatorCounts, Reason, Sha256, SplitRange};
