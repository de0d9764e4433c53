//! What must come out of a job, by plain loops.

use std::collections::BTreeMap;

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
                        let count = if row.key == 0 { 0 } else if row.key == 11 && row.id % 7 == 0 { self.very_many } else { 1 };
                        for n in 0..i64::from(count) {
                            add("odd", &Row { value: (row.value * 10_000 + n) * 2 + 1, ..row.clone() });
                        }
                    }
                }
            }
        }
        output
    }
}
