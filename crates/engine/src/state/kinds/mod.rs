//! What an operator may keep by key: a value, a list, a map, or a value folded from what is added to it.
//!
//! Every kind has a name, under which it is stored, and takes the hash of the key with the key, as it was computed once for
//! the record.

mod value;
mod list;
mod map;
mod fold;
pub mod timers;

pub use fold::{Aggregating, Aggregation, Reducing};
pub use list::ListState;
pub use map::MapState;
pub use value::ValueState;

/// The bits of a hash that choose the key group.
const GROUP_BITS: u64 = 0x0000_FFFF_FF00_0000;

/// The hash of a key with a part, such as a key of a map: in the key group of the key, other bits depend on both.
#[inline]
pub(super) fn compose(key: u64, part: u64) -> u64 {
    let wide = u128::from(key ^ 0x9E37_79B9_7F4A_7C15) * u128::from(part ^ 0xD6E8_FEB8_6659_FD93);
    let mixed = (wide as u64) ^ ((wide >> 64) as u64);
    (mixed & !GROUP_BITS) | (key & GROUP_BITS)
}

#[cfg(test)]
mod tests;
