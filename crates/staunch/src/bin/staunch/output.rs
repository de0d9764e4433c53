//! How answers are printed: aligned tables, JSON, numbers and times for people.

use std::io::Write;

use clap::ValueEnum;
use indicatif::HumanCount;
use serde::Serialize;

/// Forms of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns, for people
    #[default]
    Table,
    /// JSON, for programs
    Json,
}

/// Prints an answer to standard output.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    // A reader that has gone wants no more.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prints JSON to standard output, indented.
pub(crate) fn print_json<T: Serialize>(value: &T) {
    // Our own values are numbers, texts and lists of these: they have a form in JSON.
    if let Ok(text) = serde_json::to_string_pretty(value) {
        print(&format!("{text}\n"));
    }
}

/// Prints to standard error.
pub(crate) fn complain(text: &str) {
    // Whoever reads may have gone; the exit code tells all the same.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Rows under a header, in aligned columns.
pub(crate) struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table. Columns whose name ends in `>` are aligned to the right.
    pub(crate) fn new(header: &[&'static str]) -> Table {
        Table { header: header.to_vec(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The text.
    pub(crate) fn render(&self) -> String {
        let names: Vec<String> = self.header.iter().map(|name| name.trim_end_matches('>').to_owned()).collect();
        let all = || std::iter::once(&names).chain(&self.rows);
        let width = |column: usize| all().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..names.len()).map(width).collect();
        let mut out = String::new();
        for row in all() {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[column] - cell.chars().count());
                let right = self.header[column].ends_with('>');
                line += &if right { format!("{pad}{cell}  ") } else { format!("{cell}{pad}  ") };
            }
            out += line.trim_end();
            out.push('\n');
        }
        out
    }
}

/// A number for people: `1,234,567`.
pub(crate) fn number(value: u64) -> String {
    HumanCount(value).to_string()
}

/// Bytes for people: `1.5 MB`.
pub(crate) fn bytes(value: u64) -> String {
    let units = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let exact = value as f64;
    match units.iter().find(|(_, factor)| exact >= *factor) {
        Some((unit, factor)) => format!("{:.1} {unit}", exact / factor),
        None => format!("{value} B"),
    }
}

/// A time of the wall clock for people, in UTC: `2026-11-29 18:55:35`.
pub(crate) fn utc(wall_ms: i64) -> String {
    let seconds = wall_ms.div_euclid(1000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since 0000-03-01 in eras of 400 years: the leap day is then the last of its year.
    let since_march = days + 719_468;
    let (era, of_era) = (since_march.div_euclid(146_097), since_march.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 { (month + 3, era * 400 + year_of_era) } else { (month - 9, era * 400 + year_of_era + 1) };
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned_and_has_no_trailing_blanks() {
        let mut table = Table::new(&["NAME", "COUNT>", "WHAT"]);
        table.row(vec!["a".into(), "1".into(), "x".into()]);
        table.row(vec!["größer".into(), "1,000".into(), String::new()]);
        assert_eq!(table.render(), "NAME    COUNT  WHAT\na           1  x\ngrößer  1,000\n");
    }

    #[test]
    fn times_are_shown_in_utc() {
        assert_eq!(utc(0), "1970-01-01 00:00:00");
        assert_eq!(utc(951_827_696_789), "2000-02-29 12:34:56");
        assert_eq!(utc(1_795_978_535_000), "2026-11-29 18:55:35");
        assert_eq!(utc(-1), "1969-12-31 23:59:59");
    }

    #[test]
    fn bytes_are_shown_in_a_unit_that_fits() {
        assert_eq!([0, 999, 1500, 2_500_000, 3_000_000_000].map(bytes), ["0 B", "999 B", "1.5 kB", "2.5 MB", "3.0 GB"]);
    }
}
