//! Words that must be there, and words that must not.
//!
//! Owns: module headers, forbidden calls and marks, names of tests, paths of one person's machine.
//! Does not own: calls that clippy can forbid by their full path; those are in `clippy.toml` with their replacement.

use super::source::{Source, has_word};
use super::{Finding, Tree};

/// Words of a module header at least; a header that only repeats the file's name has fewer.
const HEADER_WORDS_MIN: usize = 4;
/// Words of a test's name at least: subject, verb and something.
const TEST_NAME_WORDS_MIN: usize = 3;

/// Forbidden in all Rust code: the text, why and what instead.
const NEVER: [(&str, &str); 6] = [
    ("thread::sleep", "wait for the event itself (a channel, a condition, a line of output); time goes through the runtime module"),
    ("#[ignore", "make the test fast and certain, or delete it"),
    ("should_panic", "assert on the returned error; an invariant is tested by the state it guards"),
    ("todo!", "finish it or leave it out"),
    ("unimplemented!", "finish it or leave it out"),
    ("dbg!", "remove it"),
];
/// Forbidden outside of tests.
const NOT_OUTSIDE_TESTS: [(&str, &str); 2] =
    [(".unwrap()", "return the error, or `expect` with the reason why it holds"), ("allow(dead_code)", "delete what is not used")];
/// Forbidden outside of programs and tests.
const NOT_IN_LIBRARIES: [(&str, &str); 4] = [
    ("println!", "return the text, or write to the writer you were given: this panics when the reader has gone"),
    ("eprintln!", "return the error, or log it where it is handled"),
    ("print!", "return the text, or write to the writer you were given"),
    ("eprint!", "return the error, or log it where it is handled"),
];
/// Forbidden in comments.
const NOT_IN_COMMENTS: [&str; 3] = ["TODO", "FIXME", "XXX"];

/// Each file says at its top what it is.
pub(super) fn headers(tree: &Tree, findings: &mut Vec<Finding>) {
    for source in tree.sources().filter(|s| !s.is_test_file()) {
        let header: Vec<&str> = source.lines.iter().take_while(|line| line.starts_with("//!")).map(|line| line[3..].trim()).collect();
        let text = header.join(" ");
        let remedy = "begin the file with `//!` lines: what it owns, what it does not own, its invariants";
        if header.is_empty() {
            findings.push(Finding::new(&source.path, 1, "the module header is missing", remedy));
        } else if text.split_whitespace().count() < HEADER_WORDS_MIN {
            findings.push(Finding::new(&source.path, 1, "the module header says nothing", remedy));
        } else if source.path.ends_with("/src/lib.rs") && !(text.contains("Owns") && text.contains("not own")) {
            findings.push(Finding::new(&source.path, 1, "the crate's header does not say what it owns and what it does not own", remedy));
        }
    }
}

/// Marks of unfinished work and calls with a better replacement are not there.
pub(super) fn forbidden(tree: &Tree, findings: &mut Vec<Finding>) {
    for source in tree.sources() {
        for (number, line) in source.numbered() {
            let mut report = |words: &[(&str, &'static str)]| {
                for (word, remedy) in words {
                    if stands_in(line, word) {
                        findings.push(Finding::new(&source.path, number, format!("`{word}` is not allowed here"), remedy));
                    }
                }
            };
            report(&NEVER);
            if !source.is_test(number) {
                report(&NOT_OUTSIDE_TESTS);
                if !source.is_program() {
                    report(&NOT_IN_LIBRARIES);
                }
            }
        }
        comments(source, findings);
    }
}

fn comments(source: &Source, findings: &mut Vec<Finding>) {
    for (at, line) in source.comments.iter().enumerate() {
        if let Some(word) = NOT_IN_COMMENTS.iter().find(|word| has_word(line, word)) {
            let wrong = format!("a comment says {word}");
            findings.push(Finding::new(&source.path, at + 1, wrong, "do it now, or file it where work is planned"));
        }
    }
}

/// Whether a forbidden text stands in a line as a whole word where it begins with a letter.
fn stands_in(line: &str, text: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(text).any(|(at, _)| !text.starts_with(part) || !line[..at].ends_with(part))
}

/// The name of a test is a sentence.
pub(super) fn test_names(tree: &Tree, findings: &mut Vec<Finding>) {
    for source in tree.sources() {
        for (line, name) in tests_of(source) {
            // A macro's parameter: whoever calls the macro names the test.
            if !name.starts_with('$') && name.split('_').filter(|word| !word.is_empty()).count() < TEST_NAME_WORDS_MIN {
                let wrong = format!("test `{name}` is not named as a sentence");
                findings.push(Finding::new(&source.path, line, wrong, "say what holds, such as `stale_generation_cannot_seal`"));
            }
        }
    }
}

/// The functions directly under a `#[test]`, with their lines.
pub(super) fn tests_of(source: &Source) -> Vec<(usize, String)> {
    let is_attribute = |line: &str| line.trim_start().starts_with("#[") || line.trim().is_empty();
    let under_test = |line: usize| source.code[..line - 1].iter().rev().take_while(|l| is_attribute(l)).any(|l| l.contains("#[test]"));
    source.items("fn").into_iter().filter(|(line, _)| under_test(*line)).collect()
}

/// No file names a path that exists on one machine only.
pub(super) fn machine_paths(tree: &Tree, findings: &mut Vec<Finding>) {
    // Taken apart, so that this file does not find itself.
    let paths = [concat!("/", "work"), concat!("/", "root"), concat!("/", "home"), concat!("/tmp/", "target"), concat!("/", "Users")];
    for file in tree.files() {
        for (at, line) in file.text.lines().enumerate() {
            if let Some(path) = paths.iter().find(|path| starts_a_path(line, path)) {
                let wrong = format!("the path {path} is of one machine");
                findings.push(Finding::new(
                    &file.path,
                    at + 1,
                    wrong,
                    "use a path relative to the checkout, a temporary folder or an option",
                ));
            }
        }
    }
}

/// Whether `path` stands in `line` as the beginning of an absolute path.
fn starts_a_path(line: &str, path: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || "_-.}*".contains(c);
    line.match_indices(path).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + path.len()..]);
        !before.ends_with(inside) && !after.starts_with(|c: char| c.is_alphanumeric() || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::super::sample::{no_finding, one_finding};
    use super::*;

    #[test]
    fn a_missing_or_empty_header_is_found() {
        one_finding(headers, &[("crates/a/src/x.rs", "use std::fmt;\n")], "crates/a/src/x.rs:1: the module header is missing");
        one_finding(headers, &[("crates/a/src/x.rs", "//! Module x.\n")], "crates/a/src/x.rs:1: the module header says nothing");
        one_finding(headers, &[("crates/a/src/lib.rs", "//! Owns all there is to own.\n")], "crates/a/src/lib.rs:1: the crate's header");
        no_finding(headers, &[("crates/a/src/lib.rs", "//! Owns x.\n//! Does not own: y.\n"), ("crates/a/src/x/tests.rs", "use a;\n")]);
    }

    #[test]
    fn each_forbidden_word_is_found_in_tests_too() {
        for (word, _) in NEVER {
            let text = format!("//! A.\n{word}\n");
            one_finding(forbidden, &[("crates/a/src/x/tests.rs", &text)], "crates/a/src/x/tests.rs:2: ");
        }
        no_finding(forbidden, &[("crates/a/src/x.rs", "// todo! and thread::sleep are words\nlet a = \"dbg!\";\n")]);
    }

    #[test]
    fn unwrap_and_printing_are_found_outside_of_tests_and_programs_only() {
        one_finding(forbidden, &[("crates/a/src/x.rs", "let a = b.unwrap();\n")], "crates/a/src/x.rs:1: `.unwrap()`");
        one_finding(forbidden, &[("crates/a/src/x.rs", "#[allow(dead_code)]\n")], "crates/a/src/x.rs:1: `allow(dead_code)`");
        one_finding(forbidden, &[("crates/a/src/main.rs", "let a = b.unwrap();\n")], "crates/a/src/main.rs:1: `.unwrap()`");
        for (word, _) in NOT_IN_LIBRARIES {
            one_finding(forbidden, &[("crates/a/src/x.rs", &format!("{word}(\"a\");\n"))], &format!("crates/a/src/x.rs:1: `{word}`"));
        }
        let fine = "println!();\n#[cfg(test)]\nmod tests {\n    #[allow(dead_code)] fn f() { a.unwrap(); }\n}\n";
        no_finding(forbidden, &[("crates/a/src/bin/a/x.rs", fine), ("crates/a/examples/x.rs", "eprintln!();")]);
    }

    #[test]
    fn a_mark_of_unfinished_work_in_a_comment_is_found() {
        let text = concat!("// TO", "DO: later\n");
        one_finding(forbidden, &[("crates/a/src/x.rs", text)], "crates/a/src/x.rs:1: a comment says");
        no_finding(forbidden, &[("crates/a/src/x.rs", "// XXXX marks the spot\n")]);
    }

    #[test]
    fn a_test_without_a_sentence_is_found() {
        let text = |name: &str| format!("#[test]\n#[cfg(unix)]\nfn {name}() {{}}\nfn helper() {{}}\n");
        one_finding(test_names, &[("crates/a/src/x.rs", &text("round_trip"))], "crates/a/src/x.rs:3: test `round_trip`");
        no_finding(test_names, &[("crates/a/src/x.rs", &text("what_is_written_is_read"))]);
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        let line = concat!("see /wo", "rk/main or file:///ho", "me/me\n");
        one_finding(machine_paths, &[("docs/a.md", line)], "docs/a.md:1: the path");
        one_finding(machine_paths, &[("a.sh", concat!("DIR=/tmp/tar", "get-x\n"))], "a.sh:1: the path");
        no_finding(machine_paths, &[("docs/a.md", "see bench/work, $TMP/work, /working and /rooted\n")]);
    }
}
