//! How often, and after how long, something is tried again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often a request is made at most.
pub(crate) const TRIES_MAX: u32 = 9;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Waits before a further try: twice as long each time, up to a limit, and never as long as others that began at the same time.
pub(crate) async fn pause(tries: u32, spread: &AtomicU64) {
    let full = FIRST_PAUSE.saturating_mul(1 << tries.min(16)).min(PAUSE_MAX);
    // Numbers that look random are enough to keep clients apart.
    let number = spread.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 33;
    tokio::time::sleep(full / 2 + full.mul_f64(number as f64 / f64::from(u32::MAX))).await;
}
