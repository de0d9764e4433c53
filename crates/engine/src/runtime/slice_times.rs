//! How long slices take: the longest time for which a task keeps its worker from anything else.
//!
//! Owns: a histogram of slices. Does not own: what a slice does, and how short it must be (`task`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets for each doubling, so that a quantile is at most an eighth too long.
const STEPS: usize = 8;
/// Doublings of a nanosecond, up to about 70 s; longer slices count as that long.
const DOUBLINGS: usize = 36;

/// A histogram of the lengths of slices, of all workers of one executor. Reading it disturbs nobody.
#[derive(Debug)]
pub struct SliceTimes {
    buckets: [AtomicU64; STEPS * DOUBLINGS],
    longest: AtomicU64,
}

impl Default for SliceTimes {
    fn default() -> Self {
        SliceTimes { buckets: [const { AtomicU64::new(0) }; STEPS * DOUBLINGS], longest: AtomicU64::new(0) }
    }
}

impl SliceTimes {
    /// Notes a slice.
    #[inline]
    pub(super) fn record(&self, took: Duration) {
        let nanoseconds = took.as_nanos() as u64;
        self.buckets[bucket(nanoseconds)].fetch_add(1, Ordering::Relaxed);
        if nanoseconds > self.longest.load(Ordering::Relaxed) {
            self.longest.fetch_max(nanoseconds, Ordering::Relaxed);
        }
    }

    /// Forgets all slices so far.
    pub fn reset(&self) {
        self.buckets.iter().for_each(|bucket| bucket.store(0, Ordering::Relaxed));
        self.longest.store(0, Ordering::Relaxed);
    }

    /// Slices noted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// The longest slice.
    #[must_use]
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest.load(Ordering::Relaxed))
    }

    /// The length that this share of the slices does not exceed, at most an eighth too long; zero without slices.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = (self.count() as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (number, bucket) in self.buckets.iter().enumerate() {
            seen += bucket.load(Ordering::Relaxed);
            if seen >= wanted && seen > 0 {
                return Duration::from_nanos(end_of(number)).min(self.longest());
            }
        }
        Duration::ZERO
    }
}

/// The bucket of a length: one for each nanosecond up to `STEPS`, then `STEPS` for each doubling.
#[inline]
fn bucket(nanoseconds: u64) -> usize {
    let Some(shift) = nanoseconds.checked_ilog2().and_then(|log| log.checked_sub(STEPS.ilog2())) else {
        return nanoseconds as usize;
    };
    let step = (nanoseconds >> shift) as usize & (STEPS - 1);
    ((shift as usize + 1) * STEPS + step).min(STEPS * DOUBLINGS - 1)
}

/// The longest length in a bucket.
fn end_of(bucket: usize) -> u64 {
    match (bucket / STEPS).checked_sub(1) {
        None => bucket as u64,
        Some(shift) => (((STEPS + bucket % STEPS + 1) as u64) << shift) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_lies_in_the_bucket_that_ends_at_most_an_eighth_after_it() {
        let lengths = (0..10_000u64).chain((4..36).flat_map(|log| [(1 << log) - 1, 1 << log, (1 << log) + 1, (1 << log) * 3 / 2]));
        for length in lengths {
            let end = end_of(bucket(length));
            assert!(end >= length && end - length <= length / 8, "{length} ns is counted as {end} ns");
            assert!(bucket(length) == 0 || end_of(bucket(length) - 1) < length);
        }
        assert_eq!(bucket(u64::MAX), STEPS * DOUBLINGS - 1);
    }

    #[test]
    fn quantiles_are_those_of_the_slices() {
        let times = SliceTimes::default();
        assert_eq!((times.count(), times.quantile(0.5), times.longest()), (0, Duration::ZERO, Duration::ZERO));
        (1..=999).for_each(|_| times.record(Duration::from_micros(100)));
        times.record(Duration::from_millis(20));
        assert_eq!(times.count(), 1000);
        assert!((100..=112).contains(&times.quantile(0.999).as_micros()), "{:?}", times.quantile(0.999));
        assert_eq!(times.quantile(1.0), Duration::from_millis(20));
        times.reset();
        assert_eq!((times.count(), times.longest()), (0, Duration::ZERO));
    }
}
