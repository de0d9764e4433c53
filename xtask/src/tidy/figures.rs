//! Figures: each one that the crates tell has its row in `docs/metrics.md`, with the words that the program serves.
//!
//! Owns: the form of a name and of the table. Figures are constants in files called `figures.rs`: a name, then its help.
//! Does not own: the kind and the labels in a row; whoever tells the figure knows them.

use std::collections::BTreeMap;

use super::source::has_word;
use super::{Finding, Tree};

const PAGE: &str = "docs/metrics.md";
const FILE: &str = "/figures.rs";
/// What names begin with.
const PREFIX: &str = "staunch_";
/// What the text format puts behind the name of a counter.
const COUNTER: &str = "_total";
/// Columns of the table: figure, kind, labels, help.
const COLUMNS: usize = 4;

/// Figures in the crates and rows of the page are the same, word for word.
pub(super) fn figures(tree: &Tree, findings: &mut Vec<Finding>) {
    let mut told: BTreeMap<&str, (&str, usize, &str)> = BTreeMap::new();
    for source in tree.sources().filter(|source| source.path.starts_with("crates/")) {
        if !source.path.ends_with(FILE) {
            let elsewhere =
                source.numbered().find(|(line, code)| !source.is_test(*line) && has_word(code, "const") && code.contains("Figure {"));
            if let Some((line, _)) = elsewhere {
                findings.push(Finding::new(
                    &source.path,
                    line,
                    "a figure outside of the crate's list",
                    "move it to the crate's figures.rs",
                ));
            }
            continue;
        }
        for pair in source.strings.windows(2).filter(|pair| is_name(&pair[0].1)) {
            let [(line, name), (_, help)] = pair else { continue };
            if let Some((file, other, _)) = told.insert(name, (&source.path, *line, help)) {
                let wrong = format!("figure {name} is told already, at {file}:{other}");
                findings.push(Finding::new(&source.path, *line, wrong, "give each figure a name of its own"));
            }
        }
    }
    let rows = rows(tree.text(PAGE).unwrap_or_default(), findings);
    for (name, (file, line, help)) in &told {
        let row = rows.get(*name).or_else(|| rows.get(format!("{name}{COUNTER}").as_str()));
        match row {
            None => {
                findings.push(Finding::new(file, *line, format!("figure {name} has no row in {PAGE}"), "add one: name, kind, labels, help"))
            }
            Some((at, written)) if written != help => {
                findings.push(Finding::new(
                    PAGE,
                    *at,
                    format!("the row of {name} does not say its help: {help}"),
                    "write the same in both",
                ));
            }
            Some(_) => {}
        }
    }
    for (name, (at, _)) in &rows {
        if !told.contains_key(name) && name.strip_suffix(COUNTER).is_none_or(|name| !told.contains_key(name)) {
            findings.push(Finding::new(PAGE, *at, format!("no crate tells {name}"), "take the row out"));
        }
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(PREFIX) && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Line and help of each row, by name; reports rows that are not filled.
fn rows<'a>(page: &'a str, findings: &mut Vec<Finding>) -> BTreeMap<&'a str, (usize, &'a str)> {
    let mut rows = BTreeMap::new();
    for (at, line) in page.lines().enumerate() {
        let Some(row) = line.trim().strip_prefix('|').and_then(|line| line.strip_suffix('|')) else { continue };
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let name = cells[0].trim_matches('`');
        if !is_name(name) {
            continue;
        }
        if cells.len() != COLUMNS || cells.iter().any(|cell| cell.is_empty()) {
            findings.push(Finding::new(
                PAGE,
                at + 1,
                format!("the row of {name} has not {COLUMNS} filled columns"),
                "fill name, kind, labels, help",
            ));
        }
        rows.insert(name, (at + 1, *cells.last().unwrap_or(&"")));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::sample::{no_finding, one_finding};
    use super::*;

    const LIST: (&str, &str) =
        ("crates/a/src/figures.rs", "//! A.\nconst LAG: Figure = Figure { name: \"staunch_lag\", help: \"How far behind\" };\n");

    #[test]
    fn a_figure_without_a_row_and_a_row_without_a_figure_are_found() {
        let row = "| `staunch_lag` | gauge | job | How far behind |";
        one_finding(figures, &[LIST], "crates/a/src/figures.rs:2: figure staunch_lag has no row");
        one_finding(figures, &[(PAGE, row)], "docs/metrics.md:1: no crate tells staunch_lag");
        no_finding(figures, &[LIST, (PAGE, row)]);
        no_finding(figures, &[LIST, (PAGE, &row.replace("staunch_lag", "staunch_lag_total"))]);
    }

    #[test]
    fn a_row_says_what_the_program_says() {
        one_finding(
            figures,
            &[LIST, (PAGE, "| `staunch_lag` | gauge | job | Lag |")],
            "docs/metrics.md:1: the row of staunch_lag does not",
        );
        let empty = "| `staunch_lag` | gauge | | How far behind |";
        one_finding(figures, &[LIST, (PAGE, empty)], "docs/metrics.md:1: the row of staunch_lag has not 4");
    }

    #[test]
    fn figures_are_in_the_lists_of_their_crates_and_once() {
        let row = (PAGE, "| `staunch_lag` | gauge | job | How far behind |");
        one_finding(figures, &[("crates/a/src/x.rs", LIST.1)], "crates/a/src/x.rs:2: a figure outside");
        one_finding(figures, &[LIST, row, ("crates/b/src/figures.rs", LIST.1)], "crates/b/src/figures.rs:2: figure staunch_lag is told");
        no_finding(figures, &[LIST, row, ("crates/a/src/x/tests.rs", LIST.1)]);
    }
}
