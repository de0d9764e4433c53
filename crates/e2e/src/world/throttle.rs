//! Reading at a given speed, so that a short input lasts for many crashes.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So many bytes a second, for all readers together.
#[derive(Debug)]
pub struct Throttle {
    bytes_per_second: u64,
    /// When the next read may begin.
    free_at: Mutex<Instant>,
}

impl Throttle {
    /// A throttle.
    #[must_use]
    pub fn new(bytes_per_second: u64) -> Throttle {
        Throttle { bytes_per_second: bytes_per_second.max(1), free_at: Mutex::new(Instant::now()) }
    }

    /// Waits for the turn of a read of so many bytes.
    pub fn wait(&self, bytes: usize) {
        let cost = Duration::from_nanos((bytes as u64).saturating_mul(1_000_000_000) / self.bytes_per_second);
        let turn = {
            let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
            *free_at = (*free_at).max(Instant::now()) + cost;
            *free_at
        };
        loop {
            let left = turn.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::park_timeout(left);
        }
    }
}
