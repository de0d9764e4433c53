//! `cargo xtask tidy`: what STYLE.md and the rings ask and no compiler checks.
//!
//! Owns: the list of checks and the form of a finding. Each check is a function from the tree to findings.
//! Does not own: any repair. A check says what is wrong and what to do, and changes nothing.
//!
//! Invariants:
//! 1. A check sees only the [`Tree`], never the disk; so each is tried on a bad sample in its tests and seen to fail.
//! 2. There is no list of exceptions by file.

mod tree;
mod source;
mod size;
mod words;
mod rings;
mod errors;
mod figures;
mod pages;
#[cfg(test)]
mod sample;

pub(crate) use tree::Tree;

use std::fmt;

/// One thing that is wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    file: String,
    line: usize,
    wrong: String,
    remedy: &'static str,
}

impl Finding {
    fn new(file: &str, line: usize, wrong: impl Into<String>, remedy: &'static str) -> Finding {
        Finding { file: file.into(), line, wrong: wrong.into(), remedy }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.file, self.line, self.wrong, self.remedy)
    }
}

/// Runs every check; findings are sorted by file and line.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for check in [
        size::files,
        size::functions,
        size::traits,
        size::directories,
        size::test_binaries,
        words::headers,
        words::forbidden,
        words::test_names,
        words::machine_paths,
        rings::arrows,
        rings::manifests,
        rings::heavy,
        rings::purity,
        errors::codes,
        figures::figures,
        pages::decisions,
        pages::links,
        pages::glossary,
        pages::named_tests,
    ] {
        check(tree, &mut findings);
    }
    findings.sort();
    findings.dedup();
    findings
}
