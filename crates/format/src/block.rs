//! State blocks: changes of one keyed state, in sections by key group.
//!
//! Owns: the layout, and iteration over the groups of a range without a look at the others. Does not own: which changes there
//! are, when a block is full, where it is stored, and the bytes of keys and values (any bytes; usually `value`'s).
//! Data comes from a state backend at a snapshot and goes to one at a restore.
//!
//! The body of the frame `STNB` is: the state's name; the schemas of its keys and values, each after its length; the number of
//! groups, then for each, ascending: group, number of entries, bytes of its section; then the sections in the same order. A
//! section is a run of entries, each a byte for what it is: 0 put (length, key, length, value), 1 delete (length,
//! key), 2 clear the current namespace, 3 the namespace of the entries that follow (i64; 0 at the start of a section). Lengths are LEB128.
//!
//! Invariants:
//! 1. Entries of a group are read in the order they were written in: the last one for a key holds.
//! 2. A reader has checked the whole block before it gives out the first entry.

mod read;
mod write;
#[cfg(test)]
mod tests;

pub use read::{BlockReader, Change, Entries, Entry};
pub use write::BlockWriter;

use crate::frame::FrameKind;

/// The frame of a block.
pub const BLOCK_FRAME: FrameKind = FrameKind { magic: *b"STNB", version: 1, version_min: 1, name: "state block" };

const PUT: u8 = 0;
const DELETE: u8 = 1;
const CLEAR: u8 = 2;
const NAMESPACE: u8 = 3;
