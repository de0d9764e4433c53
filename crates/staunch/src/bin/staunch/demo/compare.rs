//! The comparison of the output with the expected one, as multisets of lines.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use staunch_types::{Error, ErrorKind, Result};

use super::data;
use crate::output::number;

/// Lines that are shown of a difference.
const SHOWN_MAX: usize = 10;

/// What a comparison saw.
pub(super) struct Compared {
    pub(super) name: &'static str,
    /// Lines that were found.
    found: u64,
    /// Expected and not found.
    pub(super) lost: u64,
    /// Found more often than expected.
    pub(super) doubled: u64,
    /// Found and not expected at all.
    pub(super) other: u64,
    examples: Vec<String>,
}

/// Compares the visible files of a folder with packed, expected lines. Each file, and the expected text, begins with the same header.
///
/// # Errors
/// `Invalid` when a file cannot be read.
pub(super) fn compare(name: &'static str, folder: &Path, packed: &[u8]) -> Result<Compared> {
    let expected_text = data::unpack(packed)?;
    let (header, rest) = expected_text.split_once('\n').unwrap_or_default();
    let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
    rest.lines().for_each(|line| *expected.entry(line).or_default() += 1);
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for text in visible_files(folder)? {
        let lines = text.lines().enumerate().filter(|(at, line)| *at > 0 || *line != header);
        lines.for_each(|(_, line)| *found.entry(line.to_owned()).or_default() += 1);
    }
    Ok(difference(name, &expected, &found))
}

fn difference(name: &'static str, expected: &BTreeMap<&str, u64>, found: &BTreeMap<String, u64>) -> Compared {
    let mut all = Compared { name, found: found.values().sum(), lost: 0, doubled: 0, other: 0, examples: Vec::new() };
    for (line, wanted) in expected {
        let there = found.get(*line).copied().unwrap_or(0);
        all.lost += wanted.saturating_sub(there);
        all.doubled += there.saturating_sub(*wanted);
        if there != *wanted {
            all.examples.push(format!("expected {wanted} times, found {there} times: {line}"));
        }
    }
    for (line, there) in found.iter().filter(|(line, _)| !expected.contains_key(line.as_str())) {
        all.other += there;
        all.examples.push(format!("not expected, found {there} times: {line}"));
    }
    all
}

/// The texts of all files that are not hidden.
fn visible_files(folder: &Path) -> Result<Vec<String>> {
    let unreadable = |path: &Path, error: std::io::Error| {
        Error::new(ErrorKind::Invalid, "R103", "the output of the demonstration cannot be read")
            .cause(error)
            .at(format!("path={}", path.display()))
    };
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|e| unreadable(folder, e))? {
        let path = entry.map_err(|e| unreadable(folder, e))?.path();
        if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
            texts.push(std::fs::read_to_string(&path).map_err(|e| unreadable(&path, e))?);
        }
    }
    Ok(texts)
}

impl Compared {
    /// Whether both are the same.
    pub(super) fn is_equal(&self) -> bool {
        self.lost == 0 && self.doubled == 0 && self.other == 0
    }

    /// The comparison for people.
    pub(super) fn render(&self) -> String {
        let mut out = format!("compared with the expected output \"{}\": {} lines found", self.name, number(self.found));
        if self.is_equal() {
            return out + ", all equal\n";
        }
        let _ = writeln!(out, ", {} lost, {} doubled, {} not expected", self.lost, self.doubled, self.other);
        for example in self.examples.iter().take(SHOWN_MAX) {
            let _ = writeln!(out, "  {example}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_a_doubled_and_a_foreign_line_are_told_apart() {
        let expected = BTreeMap::from([("a", 1), ("b", 2), ("c", 1)]);
        let found = |lines: &[(&str, u64)]| lines.iter().map(|(line, n)| ((*line).to_owned(), *n)).collect::<BTreeMap<_, _>>();
        assert!(difference("x", &expected, &found(&[("a", 1), ("b", 2), ("c", 1)])).is_equal());
        let compared = difference("x", &expected, &found(&[("a", 3), ("b", 1), ("d", 1)]));
        assert_eq!((compared.lost, compared.doubled, compared.other), (2, 2, 1));
        assert!(compared.render().contains("expected 2 times, found 1 times: b"), "{}", compared.render());
    }
}
