//! What happened, one line for each event.
//!
//! Invariant: a line depends on the seed and on nothing else, so two runs of one seed have the same history, byte by byte.

use std::fmt;

use staunch_types::Tick;

/// How to read a line; printed above every history.
pub const LEGEND: &str = "\
# seconds, who, what. Who: w the world (faults, power, people), k the disk, pN process N.
#   w: start, kill, power loss, hang, starve, weather, clock, stop
#   pN m: its master ran (records that wait for nobody)    pN t C/I bB: task I of chain C ran with a budget of B records
#   pN io N: piece of blocking work N ran, or went on; `~` it pauses in the middle
#   pN *: what the job told (claimed, swept, running, durable, committed, failed, restarting, finished, ended)
#   k: create, sync, rename, remove; `!refused` it did not happen, `!lost` it happened and the answer is an error
";

/// All lines of one run.
#[derive(Debug, Default)]
pub struct History {
    text: String,
    /// Where each line begins.
    starts: Vec<usize>,
}

impl History {
    /// Adds a line.
    pub fn add(&mut self, now: Tick, line: fmt::Arguments<'_>) {
        use fmt::Write as _;
        self.starts.push(self.text.len());
        let _ = writeln!(self.text, "{:>4}.{:06} {line}", now.0 / 1_000_000_000, now.0 / 1_000 % 1_000_000);
    }

    /// Everything.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The last `lines` lines.
    #[must_use]
    pub fn tail(&self, lines: usize) -> &str {
        let from = self.starts.len().saturating_sub(lines);
        self.starts.get(from).map_or("", |at| &self.text[*at..])
    }

    /// How many lines there are.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.starts.len()
    }
}
