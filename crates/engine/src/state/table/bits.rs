//! Bits of the slots of a chunk, 64 to a word.

/// The first set bit at or after a position.
#[inline]
pub(super) fn next_one(words: &[u64], from: usize) -> Option<usize> {
    let mut number = from >> 6;
    let mut word = words.get(number)? & (u64::MAX << (from & 63));
    while word == 0 {
        number += 1;
        word = *words.get(number)?;
    }
    Some(number << 6 | word.trailing_zeros() as usize)
}
