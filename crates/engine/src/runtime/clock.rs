//! Time, as everything else is told it.
//!
//! Owns: the contract of a clock and the system's own. Does not own: event time, which comes from records.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use staunch_types::Tick;

/// Tells the time. Implemented by the system's clocks and by the simulator.
pub trait Clock: Send + Sync {
    /// Monotonic time since some start.
    fn now(&self) -> Tick;

    /// Wall-clock milliseconds since 1970 UTC: for people and for processing-time timers, never for a protocol.
    fn wall_ms(&self) -> i64;
}

/// The system's clocks.
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock that starts now.
    #[must_use]
    pub fn new() -> SystemClock {
        SystemClock { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Tick {
        Tick(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn wall_ms(&self) -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
    }
}
