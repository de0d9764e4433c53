//! Digests of states: two different states of a search get the same one with a chance far below one in a million millions.
//!
//! Owns: a fast hash of 128 bits. Does not own: any protection against an adversary.

use std::hash::{Hash, Hasher};

/// 128 bits of a value.
pub(super) fn digest(value: &impl Hash) -> u128 {
    let mut hasher = Wide { low: 0x9E37_79B9_7F4A_7C15, high: 0xC2B2_AE3D_27D4_EB4F };
    value.hash(&mut hasher);
    hasher.wide()
}

struct Wide {
    low: u64,
    high: u64,
}

impl Wide {
    fn word(&mut self, word: u64) {
        self.low = (self.low ^ word).wrapping_mul(0xBF58_476D_1CE4_E5B9).rotate_left(29);
        self.high = (self.high.rotate_left(23) ^ word).wrapping_mul(0x94D0_49BB_1331_11EB) ^ (self.low >> 32);
    }

    fn wide(&self) -> u128 {
        let mix = |z: u64| {
            let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        u128::from(mix(self.low)) << 64 | u128::from(mix(self.high))
    }
}

impl Hasher for Wide {
    fn finish(&self) -> u64 {
        self.wide() as u64
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.word(value.into());
    }

    fn write_u16(&mut self, value: u16) {
        self.word(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.word(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.word(value);
    }

    fn write_u128(&mut self, value: u128) {
        self.word(value as u64);
        self.word((value >> 64) as u64);
    }

    fn write_usize(&mut self, value: usize) {
        self.word(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.word(value as u64);
    }
}
