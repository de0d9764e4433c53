//! What must come out of a job, by plain loops.

use std::collections::BTreeMap;

use super::plan::{GAP, SLIDE, WINDOW};
use super::{JobSpec, Row, Shape};

/// A multiset of lines.
pub type Lines = BTreeMap<String, u64>;

/// The lines of each sink.
pub type Output = BTreeMap<String, Lines>;

impl JobSpec {
    /// What a run without faults gives.
    #[must_use]
    pub fn expected(&self) -> Output {
        let mut output = Output::new();
        for sink in self.shape.sinks() {
            output.insert((*sink).to_owned(), Lines::new());
        }
        let mut add = |sink: &str, row: &Row| *output.entry(sink.to_owned()).or_default().entry(row.line()).or_default() += 1;
        for file in &self.input {
            for row in &file.rows {
                let twice = Row { value: row.value * 2 + 1, ..row.clone() };
                match self.shape {
                    Shape::Straight if row.id % 3 != 0 => add("out", &twice),
                    Shape::Rebalanced if row.key != 3 => add("out", &twice),
                    Shape::Straight | Shape::Rebalanced => {}
                    Shape::Split if row.id % 2 == 0 => add("even", &twice),
                    Shape::Split => add("odd", row),
                    Shape::United if file.source == 0 => add("out", row),
                    Shape::United => add("out", &twice),
                    Shape::Shared => {
                        add("even", row);
                        let count = if row.key == 0 {
                            0
                        } else if row.key == 11 && row.id % 7 == 0 {
                            self.very_many
                        } else {
                            1
                        };
                        for n in 0..i64::from(count) {
                            add("odd", &Row { value: (row.value * 10_000 + n) * 2 + 1, ..row.clone() });
                        }
                    }
                    Shape::Hopped => add("all", row),
                    Shape::Guarded if row.is_ahead() => add("ahead", row),
                    Shape::Guarded | Shape::Counted | Shape::Windowed | Shape::Sessions => {}
                }
            }
        }
        let keyed = match self.shape {
            Shape::Counted => self.counted(),
            Shape::Windowed | Shape::Guarded => self.windows(WINDOW.as_millis() as i64),
            Shape::Hopped => self.windows(SLIDE.as_millis() as i64),
            Shape::Sessions => self.sessions(),
            Shape::Straight | Shape::Rebalanced | Shape::Split | Shape::Shared | Shape::United => Vec::new(),
        };
        for row in keyed {
            *output.entry("out".to_owned()).or_default().entry(row.line()).or_default() += 1;
        }
        output
    }

    fn counted(&self) -> Vec<Row> {
        let mut counts: BTreeMap<u32, i64> = BTreeMap::new();
        let number = |row: &Row| {
            let count = counts.entry(row.key).or_default();
            *count += 1;
            Row { id: 0, key: row.key, value: *count, at: 0 }
        };
        self.rows().map(number).collect()
    }

    /// Windows that begin at each multiple of `slide`.
    fn windows(&self, slide: i64) -> Vec<Row> {
        let length = WINDOW.as_millis() as i64;
        let mut totals: BTreeMap<(u32, i64), (u64, i64)> = BTreeMap::new();
        for row in self.rows().filter(|row| !row.is_ahead()) {
            let mut start = row.at.div_euclid(slide) * slide;
            while start > row.at - length {
                let total = totals.entry((row.key, start)).or_default();
                *total = (total.0 + 1, total.1 + row.value);
                start -= slide;
            }
        }
        totals.into_iter().map(|((key, at), (id, value))| Row { id, key, value, at }).collect()
    }

    fn sessions(&self) -> Vec<Row> {
        let gap = GAP.as_millis() as i64;
        let mut by_key: BTreeMap<u32, Vec<&Row>> = BTreeMap::new();
        self.rows().for_each(|row| by_key.entry(row.key).or_default().push(row));
        let mut sessions: Vec<Row> = Vec::new();
        for (key, mut rows) in by_key {
            rows.sort_by_key(|row| row.at);
            let mut end = i64::MIN;
            for row in rows {
                if row.at > end {
                    sessions.push(Row { id: 0, key, value: 0, at: row.at });
                }
                end = row.at + gap;
                if let Some(session) = sessions.last_mut() {
                    session.id += 1;
                    session.value += row.value;
                }
            }
        }
        sessions
    }
}
