//! Which windows a time belongs to.

use std::time::Duration;

use staunch_types::Timestamp;

/// A stretch of event time, from `start` to before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    /// First millisecond.
    pub start: i64,
    /// First millisecond after it.
    pub end: i64,
}

impl Window {
    /// The last millisecond: the window fires when the watermark reaches it.
    #[must_use]
    pub fn last(self) -> Timestamp {
        Timestamp(self.end.saturating_sub(1))
    }
}

/// Windows of one length, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tumbling(Panes);

/// Windows of one length that begin at shorter distances and so overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hopping(Panes);

/// Windows that end when there was no record of the key for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    pub(super) gap: i64,
}

/// Windows made of panes. All values are milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panes {
    size: i64,
    slide: i64,
    offset: i64,
    pane: i64,
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX).clamp(1, i64::MAX / 4)
}

fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

impl Tumbling {
    /// Windows of this length (at least 1 ms), aligned to the epoch, UTC.
    #[must_use]
    pub fn of(size: Duration) -> Tumbling {
        Tumbling(Panes::new(millis(size), millis(size)))
    }

    /// Shifts the boundaries by this time.
    #[must_use]
    pub fn offset(self, offset: Duration) -> Tumbling {
        Tumbling(self.0.with_offset(millis(offset)))
    }
}

impl Hopping {
    /// Windows of length `size` that begin each `slide` (both at least 1 ms), aligned to the epoch, UTC. When `slide` is longer than `size`,
    /// records between two windows belong to none and are late.
    #[must_use]
    pub fn of(size: Duration, slide: Duration) -> Hopping {
        Hopping(Panes::new(millis(size), millis(slide)))
    }

    /// Shifts the boundaries by this time.
    #[must_use]
    pub fn offset(self, offset: Duration) -> Hopping {
        Hopping(self.0.with_offset(millis(offset)))
    }
}

impl Session {
    /// Records of a key that are at most `gap` (at least 1 ms) apart belong together; windows that touch merge.
    #[must_use]
    pub fn gap(gap: Duration) -> Session {
        Session { gap: millis(gap) }
    }
}

impl From<Tumbling> for Panes {
    fn from(tumbling: Tumbling) -> Panes {
        tumbling.0
    }
}

impl From<Hopping> for Panes {
    fn from(hopping: Hopping) -> Panes {
        hopping.0
    }
}

impl Panes {
    fn new(size: i64, slide: i64) -> Panes {
        Panes { size, slide, offset: 0, pane: greatest_common_divisor(size, slide) }
    }

    fn with_offset(self, offset: i64) -> Panes {
        Panes { offset: offset.rem_euclid(self.slide), ..self }
    }

    /// The start of the pane that a time falls into.
    #[inline]
    #[must_use]
    pub fn pane_of(&self, time: Timestamp) -> i64 {
        let shifted = time.0.saturating_sub(self.offset);
        shifted.saturating_sub(shifted.rem_euclid(self.pane)).saturating_add(self.offset)
    }

    /// Panes in a window at most.
    #[must_use]
    pub fn panes(&self) -> i64 {
        self.size / self.pane
    }

    /// Length of a pane.
    #[must_use]
    pub fn pane_length(&self) -> i64 {
        self.pane
    }

    /// The windows that hold a pane, oldest first.
    pub fn windows_of(&self, pane: i64) -> impl Iterator<Item = Window> + use<> {
        let (size, slide) = (self.size, self.slide);
        let shifted = pane.saturating_sub(self.offset);
        let newest = shifted.saturating_sub(shifted.rem_euclid(slide)).saturating_add(self.offset);
        let older = (size - 1) / slide;
        (0..=older)
            .rev()
            .map(move |back| newest.saturating_sub(back * slide))
            .map(move |start| Window { start, end: start.saturating_add(size) })
            .filter(move |window| window.start <= pane && pane < window.end)
    }

    /// The newest window that holds a pane; `None` when no window does.
    #[inline]
    #[must_use]
    pub fn newest_window_of(&self, pane: i64) -> Option<Window> {
        let shifted = pane.saturating_sub(self.offset);
        let start = shifted.saturating_sub(shifted.rem_euclid(self.slide)).saturating_add(self.offset);
        let window = Window { start, end: start.saturating_add(self.size) };
        (pane < window.end).then_some(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn times_before_1970_are_floored() {
        let panes = Panes::from(Tumbling::of(ms(10)));
        assert_eq!(panes.pane_of(Timestamp(-1)), -10);
        assert_eq!(panes.pane_of(Timestamp(-10)), -10);
        assert_eq!(panes.pane_of(Timestamp(-11)), -20);
        assert_eq!(panes.pane_of(Timestamp(0)), 0);
        let shifted = Panes::from(Tumbling::of(ms(10)).offset(ms(3)));
        assert_eq!([-1, -10, -11, 3].map(|t| shifted.pane_of(Timestamp(t))), [-7, -17, -17, 3]);
    }

    #[test]
    fn a_pane_is_in_each_window_that_covers_it() {
        let panes = Panes::from(Hopping::of(ms(10), ms(2)));
        let windows: Vec<i64> = panes.windows_of(8).map(|w| w.start).collect();
        assert_eq!(windows, [0, 2, 4, 6, 8]);
        assert_eq!(panes.newest_window_of(8), Some(Window { start: 8, end: 18 }));
        let uneven = Panes::from(Hopping::of(ms(9), ms(6)));
        assert_eq!(uneven.pane_length(), 3);
        assert_eq!(uneven.windows_of(6).map(|w| (w.start, w.end)).collect::<Vec<_>>(), [(0, 9), (6, 15)]);
        assert_eq!(uneven.windows_of(9).map(|w| (w.start, w.end)).collect::<Vec<_>>(), [(6, 15)]);
    }

    #[test]
    fn every_time_lies_in_all_the_windows_that_cover_it() {
        for (size, slide, offset) in [(10, 10, 0), (10, 3, 1), (7, 2, 5), (12, 8, 7), (3, 5, 2)] {
            let panes = Panes::new(size, slide).with_offset(offset);
            for time in -50..50 {
                let pane = panes.pane_of(Timestamp(time));
                let found: Vec<i64> = panes.windows_of(pane).map(|w| w.start).collect();
                let expected: Vec<i64> =
                    (-100..100).map(|n| n * slide + offset % slide).filter(|s| *s <= time && time < s + size).collect();
                assert_eq!(found, expected, "size={size} slide={slide} offset={offset} time={time}");
            }
        }
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        let panes = Panes::from(Hopping::of(ms(10), ms(3)));
        for time in [Timestamp::MIN, Timestamp::MAX, Timestamp(i64::MIN + 1)] {
            assert!(panes.windows_of(panes.pane_of(time)).count() <= 4);
        }
    }
}
