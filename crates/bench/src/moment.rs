//! Milliseconds since 1970 as a text that Flink's SQL reads: `2023-11-14 22:13:20.123`.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A time in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) u64);

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The days from 1970 to the first of March of year 0 of the calendar that begins in March, backwards.
const DAYS_TO_MARCH_0: u64 = 719_468;
const DAYS_400_YEARS: u64 = 146_097;

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, ms) = (self.0 / DAY_MS + DAYS_TO_MARCH_0, self.0 % DAY_MS);
        let (era, of_era) = (days / DAYS_400_YEARS, days % DAYS_400_YEARS);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * march_month + 2) / 5 + 1;
        let month = (march_month + 2) % 12 + 1;
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{:03}", ms % 1000)
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Moment, D::Error> {
        from.deserialize_str(Text)
    }
}

struct Text;

impl Visitor<'_> for Text {
    type Value = Moment;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time such as 2023-11-14 22:13:20.123")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Moment, E> {
        parse(text.as_bytes()).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

fn parse(text: &[u8]) -> Option<Moment> {
    let &[y1, y2, y3, y4, b'-', o1, o2, b'-', d1, d2, b' ', h1, h2, b':', m1, m2, b':', s1, s2, b'.', t1, t2, t3] = text else {
        return None;
    };
    let year = number(&[y1, y2, y3, y4])?;
    let (month, day) = (number(&[o1, o2])?, number(&[d1, d2])?);
    let time = ((number(&[h1, h2])? * 60 + number(&[m1, m2])?) * 60 + number(&[s1, s2])?) * 1000 + number(&[t1, t2, t3])?;
    let march_year = year - u64::from(month <= 2);
    let (era, of_era) = (march_year / 400, march_year % 400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day.checked_sub(1)?;
    let days = era * DAYS_400_YEARS + of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    Some(Moment(days.checked_sub(DAYS_TO_MARCH_0)? * DAY_MS + time))
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |all, digit| digit.is_ascii_digit().then(|| all * 10 + u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_the_same_after_being_written_and_read() {
        for (ms, text) in [
            (0, "1970-01-01 00:00:00.000"),
            (951_782_400_000, "2000-02-29 00:00:00.000"),
            (1_700_000_000_123, "2023-11-14 22:13:20.123"),
            (4_107_542_399_999, "2100-02-28 23:59:59.999"),
        ] {
            assert_eq!(Moment(ms).to_string(), text);
            assert_eq!(parse(text.as_bytes()), Some(Moment(ms)));
        }
        assert_eq!(parse(b"2023-11-14T22:13:20.123"), None);
    }
}
