//! Small trees for the tests of the checks.

use super::tree::{File, Tree};
use super::{Finding, check};

type Check = fn(&Tree, &mut Vec<Finding>);

/// A tree of the given paths and texts.
pub(super) fn tree(files: &[(&str, &str)]) -> Tree {
    Tree::of(files.iter().map(|(path, text)| File { path: (*path).into(), text: (*text).into() }).collect())
}

/// The findings of one check, printed.
pub(super) fn findings(check: Check, files: &[(&str, &str)]) -> Vec<String> {
    let mut findings = Vec::new();
    check(&tree(files), &mut findings);
    findings.iter().map(ToString::to_string).collect()
}

/// Asserts that a check finds exactly one thing in the sample, at this place, and that all checks together find it too.
#[track_caller]
pub(super) fn one_finding(one: Check, files: &[(&str, &str)], place: &str) {
    let found = findings(one, files);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].starts_with(place), "expected place={place}, found {}", found[0]);
    let all: Vec<String> = check(&tree(files)).iter().map(ToString::to_string).collect();
    assert!(all.contains(&found[0]), "the check is not in the list of `check`");
}

/// Asserts that a check finds nothing in the sample.
#[track_caller]
pub(super) fn no_finding(one: Check, files: &[(&str, &str)]) {
    let found = findings(one, files);
    assert!(found.is_empty(), "{found:#?}");
}
