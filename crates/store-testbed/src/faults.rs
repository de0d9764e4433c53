//! What goes wrong at which request.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a proxy does wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Each so manieth request goes wrong; 0 for none.
    pub every: u64,
    /// A header that is taken out of all requests, as if the server did not know it.
    pub without_header: Option<&'static str>,
    /// Whether the server is given one request at a time.
    pub in_turn: bool,
}

/// What went wrong so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests.
    pub requests: u64,
    /// Those that were not passed on.
    pub refused: u64,
    /// Those that were carried out, and whose answer was lost.
    pub lost: u64,
    /// Those that took longer.
    pub delayed: u64,
}

/// What becomes of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Passes,
    /// The server says that it failed.
    Fails,
    /// The server says that it is busy.
    Busy,
    Lost,
    Delayed,
}

/// Counts requests and says what becomes of them.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    every: u64,
    requests: AtomicU64,
    refused: AtomicU64,
    lost: AtomicU64,
    delayed: AtomicU64,
}

impl Counter {
    pub(crate) fn new(faults: &Faults) -> Counter {
        Counter { every: faults.every, ..Counter::default() }
    }

    /// The fate of the next request. Lost answers are the most frequent fault, as they are the hardest.
    pub(crate) fn next(&self) -> Fate {
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        if self.every == 0 || !number.is_multiple_of(self.every) {
            return Fate::Passes;
        }
        let (fate, count) = match (number / self.every) % 5 {
            0 | 2 => (Fate::Lost, &self.lost),
            1 => (Fate::Fails, &self.refused),
            3 => (Fate::Busy, &self.refused),
            _ => (Fate::Delayed, &self.delayed),
        };
        count.fetch_add(1, Ordering::Relaxed);
        fate
    }

    pub(crate) fn tally(&self) -> Tally {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Tally { requests: of(&self.requests), refused: of(&self.refused), lost: of(&self.lost), delayed: of(&self.delayed) }
    }
}
