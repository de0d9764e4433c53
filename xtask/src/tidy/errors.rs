//! Error codes: each code in the crates has its row in `docs/errors.md`, and each row its code.
//!
//! Owns: the form of a code and of the table. A code is a string literal of one letter and three digits outside of tests.
//! Does not own: the words of an error; its page and its message are the author's.

use std::collections::BTreeMap;

use super::{Finding, Tree};

const PAGE: &str = "docs/errors.md";
/// Letter of each area.
const AREAS: [(char, &str); 7] = [
    ('J', "job, plan and settings"),
    ('F', "files"),
    ('C', "checkpoints, ledger and store"),
    ('S', "state"),
    ('K', "Kafka"),
    ('R', "runtime"),
    ('B', "bug"),
];
/// The kinds of `staunch_types::ErrorKind`.
const KINDS: [&str; 7] = ["Retry", "Restart", "Fenced", "Invalid", "Corrupt", "Lost", "Bug"];
/// Columns of the table: code, kind, message, meaning for the data, what to do.
const COLUMNS: usize = 5;

/// Crates that look at the errors of others and raise none.
const WATCHERS: [&str; 2] = ["crates/e2e", "crates/sim"];

/// Codes in the crates and rows of the page are the same set.
pub(super) fn codes(tree: &Tree, findings: &mut Vec<Finding>) {
    let mut used: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    for source in tree.sources().filter(|s| s.path.starts_with("crates/") && !WATCHERS.contains(&crate_of(&s.path))) {
        for (line, text) in source.strings.iter().filter(|(line, text)| is_code(text) && !source.is_test(*line)) {
            let (file, other) = *used.entry(text.as_str()).or_insert((&source.path, *line));
            if crate_of(file) != crate_of(&source.path) {
                let wrong = format!("code {text} is used by another crate already, at {file}:{other}");
                findings.push(Finding::new(&source.path, *line, wrong, "take the next free number of the area"));
            }
        }
    }
    let Some(page) = tree.text(PAGE) else {
        if let Some((file, line)) = used.values().next() {
            findings.push(Finding::new(file, *line, "the page of errors is missing", "write docs/errors.md with a row for each code"));
        }
        return;
    };
    let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, line) in page.lines().enumerate() {
        let Some(code) = check_row(at + 1, line, findings) else { continue };
        if let Some(other) = rows.insert(code, at + 1) {
            let wrong = format!("code {code} has a row already, on line {other}");
            findings.push(Finding::new(PAGE, at + 1, wrong, "give the newer error a code of its own: codes are never used for two things"));
        }
    }
    for (code, (file, line)) in &used {
        if !rows.contains_key(code) {
            findings.push(Finding::new(
                file,
                *line,
                format!("code {code} has no row in {PAGE}"),
                "add one: code, kind, message, meaning for the data, what to do",
            ));
        }
    }
    for (code, line) in rows.iter().filter(|(code, _)| !used.contains_key(**code)) {
        findings.push(Finding::new(
            PAGE,
            *line,
            format!("no crate uses code {code}"),
            "move it to the list of retired codes, so that it is never used again",
        ));
    }
}

fn crate_of(path: &str) -> &str {
    path.split("/src/").next().unwrap_or(path)
}

fn is_code(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 4 && bytes[0].is_ascii_uppercase() && bytes[1..].iter().all(u8::is_ascii_digit)
}

/// The code of a table row; reports what is wrong with the row.
fn check_row<'a>(number: usize, line: &'a str, findings: &mut Vec<Finding>) -> Option<&'a str> {
    let row = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    let code = cells[0].trim_matches('`');
    if !is_code(code) {
        return None;
    }
    let mut report = |wrong: String, remedy| findings.push(Finding::new(PAGE, number, wrong, remedy));
    if !AREAS.iter().any(|(letter, _)| code.starts_with(*letter)) {
        let areas: Vec<String> = AREAS.iter().map(|(letter, area)| format!("{letter} {area}")).collect();
        report(format!("code {code} is of no area ({})", areas.join(", ")), "begin it with the letter of its area");
    }
    if cells.len() != COLUMNS || cells.iter().any(|cell| cell.is_empty()) {
        report(format!("the row of {code} has not {COLUMNS} filled columns"), "fill code, kind, message, meaning for the data, what to do");
    } else if !KINDS.contains(&cells[1]) {
        report(format!("the row of {code} has the unknown kind `{}`", cells[1]), "use a kind of `staunch_types::ErrorKind`");
    }
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::super::sample::{findings, no_finding, one_finding};
    use super::*;

    const USE: (&str, &str) = ("crates/a/src/x.rs", "//! A.\nfn f() { Error::new(ErrorKind::Invalid, \"F003\", \"bad\") }\n");

    #[test]
    fn a_code_without_a_row_and_a_row_without_a_code_are_found() {
        let page = "| code | kind | message | data | do |\n|---|---|---|---|---|\n";
        let row = "| F003 | Invalid | bad | none read | mend it |\n";
        one_finding(codes, &[USE, (PAGE, page)], "crates/a/src/x.rs:2: code F003 has no row");
        one_finding(codes, &[USE], "crates/a/src/x.rs:2: the page of errors is missing");
        one_finding(codes, &[(PAGE, &format!("{page}{row}"))], "docs/errors.md:3: no crate uses code F003");
        no_finding(codes, &[USE, (PAGE, &format!("{page}{row}"))]);
    }

    #[test]
    fn codes_in_tests_do_not_count() {
        no_finding(codes, &[("crates/a/src/x/tests.rs", "f(\"F003\")"), (PAGE, "")]);
    }

    #[test]
    fn a_code_in_two_crates_is_found_and_in_two_files_of_one_it_is_not() {
        let row = (PAGE, "| F003 | Invalid | bad | none read | mend it |");
        one_finding(codes, &[USE, ("crates/b/src/x.rs", USE.1), row], "crates/b/src/x.rs:2: code F003 is used by another crate");
        no_finding(codes, &[USE, ("crates/a/src/y.rs", USE.1), row]);
    }

    #[test]
    fn bad_rows_are_found() {
        one_finding(codes, &[USE, (PAGE, "| F003 | Wrong | a | b | c |")], "docs/errors.md:1: the row of F003 has the unknown kind");
        one_finding(codes, &[USE, (PAGE, "| F003 | Invalid | a | | c |")], "docs/errors.md:1: the row of F003 has not 5");
        let twice = "| F003 | Invalid | a | b | c |\n| F003 | Invalid | a | b | c |";
        one_finding(codes, &[USE, (PAGE, twice)], "docs/errors.md:2: code F003 has a row already");
        let area = findings(codes, &[("crates/a/src/x.rs", "f(\"Z001\")"), (PAGE, "| Z001 | Invalid | a | b | c |")]);
        assert!(area[0].contains("code Z001 is of no area"), "{area:?}");
    }
}
