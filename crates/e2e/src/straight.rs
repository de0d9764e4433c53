//! The jobs as a straight line of code over all records in their order: the oracle for inputs that no other engine has seen.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::flights::Case;
use crate::lines::Multiset;

const HOUR_MS: i64 = 3_600_000;
const PATIENCE_MS: i64 = 30 * 60_000;

/// What a job must give for a plain file, by output.
///
/// # Errors
/// When the file is not one of flights, or the job has no straight line.
pub fn expected(case: Case, input: &Path) -> Result<BTreeMap<String, Multiset>> {
    let text = fs::read_to_string(input).with_context(|| format!("read {}", input.display()))?;
    let flights = text.lines().skip(1).map(Flight::read).collect::<Result<Vec<_>>>()?;
    match case {
        Case::D => Ok(with_late(&flights)),
        Case::Copy => Ok(BTreeMap::from([("copy".into(), multiset(flights.iter().map(Flight::line)))])),
        Case::A | Case::B | Case::C => bail!("no straight line for case {}", case.word()),
    }
}

struct Flight<'a> {
    id: &'a str,
    time: i64,
    origin: &'a str,
}

impl<'a> Flight<'a> {
    fn read(line: &'a str) -> Result<Flight<'a>> {
        let cells: Vec<&str> = line.trim_end().split(',').collect();
        let [id, time, _, _, _, _, origin, ..] = cells[..] else { bail!("not a flight: {line}") };
        Ok(Flight { id, time: time.parse()?, origin })
    }

    fn line(&self) -> String {
        format!("{},{},{}", self.id, self.time, self.origin)
    }
}

fn with_late(flights: &[Flight<'_>]) -> BTreeMap<String, Multiset> {
    let (mut counts, mut late, mut watermark) = (BTreeMap::<(&str, i64), u64>::new(), Multiset::new(), i64::MIN);
    for flight in flights {
        let start = flight.time.div_euclid(HOUR_MS) * HOUR_MS;
        if start + HOUR_MS - 1 <= watermark {
            *late.entry(flight.line()).or_default() += 1;
        } else {
            *counts.entry((flight.origin, start)).or_default() += 1;
        }
        watermark = watermark.max(flight.time - PATIENCE_MS - 1);
    }
    let on_time = multiset(counts.iter().map(|((origin, start), flights)| format!("{origin},{start},{flights}")));
    BTreeMap::from([("on-time".into(), on_time), ("late".into(), late)])
}

fn multiset(lines: impl Iterator<Item = String>) -> Multiset {
    let mut set = Multiset::new();
    lines.for_each(|line| *set.entry(line).or_default() += 1);
    set
}
