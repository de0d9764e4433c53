//! Durations, as people write them: in code `secs(10)`, in settings `10s`.

use std::time::Duration;

/// So many milliseconds.
#[must_use]
pub const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// So many seconds.
#[must_use]
pub const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// So many minutes.
#[must_use]
pub const fn mins(count: u64) -> Duration {
    Duration::from_secs(count.saturating_mul(60))
}

/// So many hours.
#[must_use]
pub const fn hours(count: u64) -> Duration {
    Duration::from_secs(count.saturating_mul(3600))
}

/// So many days, of 24 hours each.
#[must_use]
pub const fn days(count: u64) -> Duration {
    Duration::from_secs(count.saturating_mul(86_400))
}

/// The units of [`parse`], and their milliseconds.
const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];

/// Reads `500ms`, `10s`, `5m`, `1h`; `None` for anything else.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at(digits);
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
    count.parse::<u64>().ok()?.checked_mul(*factor).map(Duration::from_millis)
}

/// A duration for people: `730 ms`, `8.9 s`, `12 min 5 s`.
pub(crate) fn show(duration: Duration) -> String {
    let ms = duration.as_millis();
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..120_000 => format!("{:.1} s", duration.as_secs_f64()),
        _ => format!("{} min {} s", ms / 60_000, ms / 1000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_unit_and_not_without() {
        assert_eq!(parse("10s"), Some(secs(10)));
        assert_eq!(parse("250ms"), Some(millis(250)));
        assert_eq!(parse("5m"), Some(mins(5)));
        assert_eq!(parse("2h"), Some(hours(2)));
        for text in ["", "10", "s", "10 s", "-1s", "1.5s", "10sec", "99999999999999999999s", "9999999999999999999h"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn durations_are_shown_in_the_unit_that_reads_best() {
        assert_eq!(show(millis(730)), "730 ms");
        assert_eq!(show(millis(8940)), "8.9 s");
        assert_eq!(show(secs(725)), "12 min 5 s");
    }
}
