//! Event time and the engine's own time.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Event time: milliseconds since 1970-01-01T00:00:00 UTC; negative before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Before every event; also the time of records that have none.
    pub const MIN: Timestamp = Timestamp(i64::MIN);
    /// After every event: the watermark at the end of input.
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    /// This time less a duration, never below [`Self::MIN`].
    #[must_use]
    pub fn minus(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(millis(duration)))
    }

    /// This time plus a duration, never above [`Self::MAX`].
    #[must_use]
    pub fn plus(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(millis(duration)))
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Timestamp::MIN => f.write_str("min"),
            Timestamp::MAX => f.write_str("max"),
            Timestamp(ms) => write!(f, "{ms}"),
        }
    }
}

/// The engine's own time: nanoseconds since its start, monotonic, given to it by whoever drives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tick(pub u64);

impl Tick {
    /// Time from `earlier` to this; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Tick) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Tick {
    type Output = Tick;
    fn add(self, duration: Duration) -> Tick {
        Tick(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Tick {
    type Output = Tick;
    fn sub(self, duration: Duration) -> Tick {
        Tick(self.0.saturating_sub(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}
