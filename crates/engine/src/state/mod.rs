//! Keyed state of one task: in memory, changed in place, with snapshots that neither stop the task nor copy it.

pub mod codec;
pub mod sink;
pub mod table;

#[cfg(test)]
mod testing;
