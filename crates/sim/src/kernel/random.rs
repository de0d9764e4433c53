//! Random numbers from a seed: the only source of chance in a simulated world.
//!
//! Follows SplitMix64 (Steele, Lea and Flood, 2014).

use std::time::Duration;

/// A stream of numbers that the seed alone decides.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "there is no number below 0");
        self.number() % end
    }

    /// A number from `low` up to and including `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True `share` times out of ten thousand.
    pub fn chance(&mut self, share: u32) -> bool {
        // Nothing is drawn for what never happens, so that a fault which is switched off costs no time.
        share > 0 && self.below(10_000) < u64::from(share)
    }

    /// A duration between two others; short ones as often as long ones, by their magnitude.
    pub fn duration(&mut self, low: Duration, high: Duration) -> Duration {
        let (low, high) = (low.as_nanos().max(1) as u64, high.as_nanos().max(1) as u64);
        if high <= low {
            return Duration::from_nanos(low);
        }
        let doublings = (high / low).ilog2();
        let floor = low << self.below(u64::from(doublings) + 1);
        Duration::from_nanos(self.between(floor.min(high), (floor * 2).min(high)))
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}
