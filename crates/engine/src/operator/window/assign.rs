//! Which windows a time belongs to.

use std::fmt;
use std::time::Duration;

use jiff::tz::{TimeZone, TimeZoneDatabase};
use serde::{Deserialize, Serialize};
use staunch_types::{Error, ErrorKind, Name, Result, Timestamp};

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
pub struct Tumbling(Periods);

/// Windows of one length that begin at shorter distances and so overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hopping(Periods);

/// The days of a place's calendar: from one local midnight to the next, so 23 or 25 hours when the clocks change.
///
/// The rules of time zones are those of the database that the program was built with, not of the machine it runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Days {
    zone: TimeZone,
}

/// Windows that end when there was no record of the key for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    pub(super) gap: i64,
}

/// Windows made of panes: the longest stretches that every window is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Panes {
    /// Of one length.
    Periods(Periods),
    /// Each day is a window and a pane.
    Days(Days),
}

/// Windows of one length at equal distances. All values are milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periods {
    size: i64,
    slide: i64,
    offset: i64,
    pane: i64,
}

/// Milliseconds of a day of UTC.
const DAY: i64 = 24 * 60 * 60 * 1000;

/// A length of time for people, in the largest unit in which it is whole.
pub(crate) fn exact(ms: i64) -> String {
    const UNITS: [(i64, &str); 3] = [(60 * 60 * 1000, "h"), (60 * 1000, "min"), (1000, "s")];
    let (size, unit) = UNITS.into_iter().find(|(size, _)| ms != 0 && ms % size == 0).unwrap_or((1, "ms"));
    format!("{} {unit}", ms / size)
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
        Tumbling(Periods::new(millis(size), millis(size)))
    }

    /// Shifts the boundaries by this time.
    #[must_use]
    pub fn offset(self, offset: Duration) -> Tumbling {
        Tumbling(self.0.with_offset(offset))
    }
}

impl Hopping {
    /// Windows of length `size` that begin each `slide` (both at least 1 ms), aligned to the epoch, UTC. When `slide` is longer than `size`,
    /// records between two windows belong to none and are late.
    #[must_use]
    pub fn of(size: Duration, slide: Duration) -> Hopping {
        Hopping(Periods::new(millis(size), millis(slide)))
    }

    /// Shifts the boundaries by this time.
    #[must_use]
    pub fn offset(self, offset: Duration) -> Hopping {
        Hopping(self.0.with_offset(offset))
    }
}

impl Session {
    /// Records of a key that are at most `gap` (at least 1 ms) apart belong together; windows that touch merge.
    #[must_use]
    pub fn gap(gap: Duration) -> Session {
        Session { gap: millis(gap) }
    }

    /// For people.
    pub(crate) fn describe(self) -> String {
        format!("session windows that end after {} without records", exact(self.gap))
    }
}

impl From<Tumbling> for Panes {
    fn from(tumbling: Tumbling) -> Panes {
        Panes::Periods(tumbling.0)
    }
}

impl From<Hopping> for Panes {
    fn from(hopping: Hopping) -> Panes {
        Panes::Periods(hopping.0)
    }
}

impl From<Days> for Panes {
    fn from(days: Days) -> Panes {
        Panes::Days(days)
    }
}

/// Windows as a checkpoint names them. A stored form is never changed; a new one is a new variant at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum StoredPanes {
    Periods { size: i64, slide: i64, offset: i64 },
    Days { zone: String },
}

impl StoredPanes {
    /// # Errors
    /// `Invalid` when the windows are others than those that state was kept for.
    pub(super) fn check(&self, operator: &Name, now: &StoredPanes) -> Result<()> {
        if self == now {
            return Ok(());
        }
        let what = format!("the checkpoint has windows of {self}, and the job has windows of {now}");
        Err(Error::new(ErrorKind::Invalid, "J013", what)
            .at(format!("operator={operator}"))
            .data("nothing was started; what is kept for the one kind of windows cannot be put into the other")
            .remedy(
                "give the windows back as they were, or give the operator another name and start with `--allow-lost-state` for the old one",
            ))
    }
}

impl fmt::Display for StoredPanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoredPanes::Periods { size, slide, offset } => write!(f, "size_ms={size} slide_ms={slide} offset_ms={offset}"),
            StoredPanes::Days { zone } => write!(f, "days zone={zone}"),
        }
    }
}

impl Days {
    /// The days of a time zone, by its name in the IANA database, such as `Europe/Berlin` or `UTC`.
    ///
    /// # Errors
    /// `Invalid` when there is no zone of that name.
    pub fn in_zone(name: &str) -> Result<Days> {
        match TimeZoneDatabase::bundled().get(name) {
            Ok(zone) => Ok(Days { zone }),
            Err(error) => Err(Error::new(ErrorKind::Invalid, "J011", "there is no time zone of this name")
                .cause(error)
                .at(format!("zone={name:.80?}"))
                .data("nothing was started")
                .remedy("use a name of the IANA time zone database, such as `Europe/Berlin`, or `UTC`")),
        }
    }

    /// The day that a time falls into.
    fn day_of(&self, time: Timestamp) -> Window {
        self.local_day_of(time).unwrap_or_else(|| {
            // Before or after the years that calendars are kept for.
            let start = time.0.saturating_sub(time.0.rem_euclid(DAY));
            Window { start, end: start.saturating_add(DAY) }
        })
    }

    fn local_day_of(&self, time: Timestamp) -> Option<Window> {
        let here = jiff::Timestamp::from_millisecond(time.0).ok()?.to_zoned_datetime(self.zone.clone());
        let mut start = here.start_of_day().ok()?;
        loop {
            let next = start.tomorrow().ok()?.start_of_day().ok()?;
            let day = Window { start: start.timestamp().as_millisecond(), end: next.timestamp().as_millisecond() };
            if time.0 < day.end {
                return Some(day);
            }
            // The clocks were put back over midnight: the calendar shows yesterday once more, but today has begun.
            start = next;
        }
    }
}

/// For people: `1 h`, `3 h, one each 1 h`, `a day in Europe/Berlin`.
impl fmt::Display for Panes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Panes::Periods(Periods { size, slide, offset, pane: _ }) => {
                f.write_str(&exact(*size))?;
                if slide != size {
                    write!(f, ", one each {}", exact(*slide))?;
                }
                if *offset != 0 {
                    write!(f, ", shifted by {}", exact(*offset))?;
                }
                Ok(())
            }
            Panes::Days(days) => write!(f, "a day in {}", days.zone.iana_name().unwrap_or("a zone without a name")),
        }
    }
}

impl Panes {
    pub(super) fn stored(&self) -> StoredPanes {
        match self {
            Panes::Periods(Periods { size, slide, offset, .. }) => StoredPanes::Periods { size: *size, slide: *slide, offset: *offset },
            Panes::Days(days) => StoredPanes::Days { zone: days.zone.iana_name().unwrap_or("UTC").to_owned() },
        }
    }

    /// The start of the pane that a time falls into.
    #[must_use]
    pub fn pane_of(&self, time: Timestamp) -> i64 {
        match self {
            Panes::Periods(periods) => periods.pane_of(time),
            Panes::Days(days) => days.day_of(time).start,
        }
    }

    /// Where a pane ends, by its start.
    #[must_use]
    pub fn end_of(&self, pane: i64) -> i64 {
        match self {
            Panes::Periods(periods) => pane.saturating_add(periods.pane),
            Panes::Days(days) => days.day_of(Timestamp(pane)).end,
        }
    }

    /// Panes in a window at most.
    #[must_use]
    pub fn panes(&self) -> i64 {
        match self {
            Panes::Periods(periods) => periods.size / periods.pane,
            Panes::Days(_) => 1,
        }
    }

    /// The panes of a window by their starts, oldest first.
    pub fn panes_of(&self, window: Window) -> impl Iterator<Item = i64> + use<> {
        let step = match self {
            Panes::Periods(periods) => periods.pane,
            Panes::Days(_) => window.end.saturating_sub(window.start).max(1),
        };
        (0..self.panes()).map(move |n| window.start.saturating_add(n.saturating_mul(step)))
    }

    /// The windows that hold a pane, oldest first.
    #[must_use]
    pub fn windows_of(&self, pane: i64) -> Vec<Window> {
        match self {
            Panes::Periods(periods) => periods.windows_of(pane).collect(),
            Panes::Days(days) => vec![days.day_of(Timestamp(pane))],
        }
    }

    /// The newest window that holds a pane; `None` when no window does.
    #[must_use]
    pub fn newest_window_of(&self, pane: i64) -> Option<Window> {
        match self {
            Panes::Periods(periods) => periods.newest_window_of(pane),
            Panes::Days(days) => Some(days.day_of(Timestamp(pane))),
        }
    }
}

impl Periods {
    fn new(size: i64, slide: i64) -> Periods {
        Periods { size, slide, offset: 0, pane: greatest_common_divisor(size, slide) }
    }

    fn with_offset(self, offset: Duration) -> Periods {
        // Not by `millis`: an offset may be nothing.
        let offset = i64::try_from(offset.as_millis()).unwrap_or(i64::MAX);
        Periods { offset: offset.rem_euclid(self.slide), ..self }
    }

    fn pane_of(&self, time: Timestamp) -> i64 {
        let shifted = time.0.saturating_sub(self.offset);
        shifted.saturating_sub(shifted.rem_euclid(self.pane)).saturating_add(self.offset)
    }

    fn windows_of(&self, pane: i64) -> impl Iterator<Item = Window> + use<> {
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

    fn newest_window_of(&self, pane: i64) -> Option<Window> {
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
    fn an_offset_of_nothing_shifts_nothing() {
        assert_eq!(Panes::from(Tumbling::of(ms(10)).offset(ms(0))).pane_of(Timestamp(-10)), -10);
        assert_eq!(Panes::from(Hopping::of(ms(10), ms(5)).offset(ms(0))).pane_of(Timestamp(-10)), -10);
        assert_eq!(Panes::from(Tumbling::of(ms(10)).offset(ms(13))).pane_of(Timestamp(-10)), -17);
    }

    #[test]
    fn a_pane_is_in_each_window_that_covers_it() {
        let panes = Panes::from(Hopping::of(ms(10), ms(2)));
        let windows: Vec<i64> = panes.windows_of(8).iter().map(|w| w.start).collect();
        assert_eq!(windows, [0, 2, 4, 6, 8]);
        assert_eq!(panes.newest_window_of(8), Some(Window { start: 8, end: 18 }));
        let uneven = Panes::from(Hopping::of(ms(9), ms(6)));
        assert_eq!((uneven.panes(), uneven.end_of(6)), (3, 9));
        assert_eq!(uneven.windows_of(6).iter().map(|w| (w.start, w.end)).collect::<Vec<_>>(), [(0, 9), (6, 15)]);
        assert_eq!(uneven.windows_of(9).iter().map(|w| (w.start, w.end)).collect::<Vec<_>>(), [(6, 15)]);
    }

    #[test]
    fn every_time_lies_in_all_the_windows_that_cover_it() {
        for (size, slide, offset) in [(10, 10, 0), (10, 3, 1), (7, 2, 5), (12, 8, 7), (3, 5, 2)] {
            let panes = Periods::new(size, slide).with_offset(Duration::from_millis(offset));
            let offset = i64::try_from(offset).expect("small");
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
    fn windows_are_described_in_the_units_that_people_use() {
        let hour = Duration::from_secs(3600);
        assert_eq!(Panes::from(Tumbling::of(hour)).to_string(), "1 h");
        assert_eq!(Panes::from(Tumbling::of(hour).offset(hour / 4)).to_string(), "1 h, shifted by 15 min");
        assert_eq!(Panes::from(Hopping::of(hour * 3 / 2, hour)).to_string(), "90 min, one each 1 h");
        assert_eq!(Panes::from(Days::in_zone("Europe/Berlin").expect("a zone")).to_string(), "a day in Europe/Berlin");
        assert_eq!(Session::gap(Duration::from_millis(1500)).describe(), "session windows that end after 1500 ms without records");
        assert_eq!((exact(0), exact(45_000)), ("0 ms".into(), "45 s".into()));
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        let panes = Panes::from(Hopping::of(ms(10), ms(3)));
        for time in [Timestamp::MIN, Timestamp::MAX, Timestamp(i64::MIN + 1)] {
            assert!(panes.windows_of(panes.pane_of(time)).len() <= 4);
        }
    }

    fn at(zone: &str, text: &str) -> i64 {
        let time: jiff::civil::DateTime = text.parse().expect("a time");
        TimeZoneDatabase::bundled().get(zone).expect("a zone").to_timestamp(time).expect("a time there").as_millisecond()
    }

    const HOUR: i64 = 60 * 60 * 1000;

    #[test]
    fn report_20_days_begin_at_local_midnight_also_when_the_clocks_change() {
        // Zone, first midnight, hours of the days that follow.
        let cases: [(&str, &str, &[i64]); 6] = [
            ("America/New_York", "2026-03-07T00:00", &[24, 23, 24, 24]),
            ("America/New_York", "2026-10-31T00:00", &[24, 25, 24]),
            ("Asia/Kolkata", "2026-03-07T00:00", &[24, 24, 24, 24]),
            // A midnight that does not exist, and half an hour of summer time.
            ("America/Sao_Paulo", "2018-11-03T00:00", &[24, 23, 24]),
            // At a minute past midnight it is yesterday again.
            ("America/St_Johns", "2010-11-06T00:00", &[24, 25, 24]),
            ("UTC", "1969-12-30T00:00", &[24, 24, 24]),
        ];
        for (zone, first, hours) in cases {
            let panes = Panes::from(Days::in_zone(zone).expect("a zone"));
            let mut start = at(zone, first);
            for hours in hours {
                let day = Window { start, end: start + hours * HOUR };
                for time in (start..day.end).step_by(HOUR as usize / 4).chain([start + 1, day.end - 1]) {
                    assert_eq!(panes.pane_of(Timestamp(time)), start, "{zone}, {first}: {time}");
                }
                assert_eq!(panes.windows_of(start), [day], "{zone}, {first}");
                assert_eq!((panes.newest_window_of(start), panes.end_of(start)), (Some(day), day.end), "{zone}, {first}");
                assert_eq!(panes.panes_of(day).collect::<Vec<_>>(), [start]);
                start = day.end;
            }
        }
    }

    #[test]
    fn report_20_days_follow_each_other_without_a_gap_for_years() {
        let zones = [
            "America/New_York",
            "America/St_Johns",
            "Asia/Kolkata",
            "Australia/Lord_Howe",
            "Africa/Cairo",
            "Pacific/Apia",
            "Europe/London",
        ];
        for zone in zones {
            let panes = Panes::from(Days::in_zone(zone).expect("a zone"));
            let mut day = panes.windows_of(panes.pane_of(Timestamp(at(zone, "2009-01-01T00:00"))))[0];
            while day.end < at(zone, "2027-01-01T00:00") {
                let next = panes.windows_of(panes.pane_of(Timestamp(day.end)))[0];
                assert_eq!(next.start, day.end, "{zone}");
                for time in [day.start + HOUR / 2, day.last().0] {
                    assert_eq!(panes.pane_of(Timestamp(time)), day.start, "{zone}");
                }
                day = next;
            }
        }
    }

    #[test]
    fn a_zone_that_does_not_exist_is_refused_by_its_name() {
        let error = Days::in_zone("Europe/Atlantis").expect_err("no such zone");
        assert!(error.to_string().contains("Europe/Atlantis"), "{error}");
        let panes = Panes::from(Days::in_zone("Europe/Berlin").expect("a zone"));
        for time in [Timestamp::MIN, Timestamp::MAX, Timestamp(i64::MIN + 1)] {
            assert!(panes.pane_of(time) <= time.0 && time.0 <= panes.end_of(panes.pane_of(time)));
        }
    }
}
