//! How large things may be: files, functions, traits, directories.
//!
//! Owns: the numbers of STYLE.md, "Size". Lengths are lines as written, comments and blank lines included.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, has_word};
use super::{Finding, Tree};

/// Lines of a file outside of its tests.
const FILE_LINES_MAX: usize = 800;
/// Lines of a function, from `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;
/// Methods of a trait, with and without a body.
const TRAIT_METHODS_MAX: usize = 7;
/// Modules in a directory.
const DIRECTORY_MODULES_MAX: usize = 10;

/// A file holds one idea, which fits under the ceiling.
pub(super) fn files(tree: &Tree, findings: &mut Vec<Finding>) {
    for source in tree.sources().filter(|s| !s.is_test_file()) {
        let lines = (1..=source.lines.len()).filter(|number| !source.is_test(*number)).count();
        if lines > FILE_LINES_MAX {
            let wrong = format!("the file has {lines} lines outside of tests, the ceiling is {FILE_LINES_MAX}");
            findings.push(Finding::new(
                &source.path,
                FILE_LINES_MAX,
                wrong,
                "split it by ideas, and move long tests to a sibling `tests.rs`",
            ));
        }
    }
}

/// A function fits on a screen.
pub(super) fn functions(tree: &Tree, findings: &mut Vec<Finding>) {
    for source in tree.sources() {
        for (line, name) in source.items("fn") {
            let Some((_, end)) = source.block(line, &format!("fn {name}")) else { continue };
            let lines = end - line + 1;
            if lines > FUNCTION_LINES_MAX {
                let wrong = format!("function `{name}` has {lines} lines, the ceiling is {FUNCTION_LINES_MAX}");
                findings.push(Finding::new(&source.path, line, wrong, "give its steps names of their own"));
            }
        }
    }
}

/// A trait is few enough promises to remember.
pub(super) fn traits(tree: &Tree, findings: &mut Vec<Finding>) {
    for source in tree.sources() {
        for (line, name) in source.items("trait") {
            let Some((from, to)) = source.block(line, &format!("trait {name}")) else { continue };
            let methods = methods_between(source, from, to);
            if methods > TRAIT_METHODS_MAX {
                let wrong = format!("trait `{name}` has {methods} methods, the ceiling is {TRAIT_METHODS_MAX}");
                findings.push(Finding::new(&source.path, line, wrong, "split it by who needs what, or move conveniences to an extension"));
            }
        }
    }
}

fn methods_between(source: &Source, from: usize, to: usize) -> usize {
    let mut depth = 0i32;
    let mut methods = 0;
    for (number, line) in source.numbered().skip(from - 1).take(to + 1 - from) {
        let starts_inside = depth == 1 || (number == from && from == to);
        if starts_inside && has_word(line, "fn") && !line.trim_start().starts_with("type ") {
            methods += 1;
        }
        depth += line.chars().map(|c| i32::from(c == '{') - i32::from(c == '}')).sum::<i32>();
    }
    methods
}

/// A directory reads as a table of contents.
pub(super) fn directories(tree: &Tree, findings: &mut Vec<Finding>) {
    let mut modules: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for source in tree.sources().filter(|s| !s.is_test_file()) {
        let Some(at) = source.path.find("/src/") else { continue };
        let mut folder = &source.path[..at + 4];
        while let Some(part) = source.path[folder.len() + 1..].split('/').next() {
            let module = part.trim_end_matches(".rs");
            if !["lib", "main", "mod", "bin"].contains(&module) {
                modules.entry(folder).or_default().insert(module);
            }
            if part.ends_with(".rs") {
                break;
            }
            folder = &source.path[..folder.len() + 1 + part.len()];
        }
    }
    for (folder, modules) in modules {
        if modules.len() > DIRECTORY_MODULES_MAX {
            let wrong = format!("the directory has {} modules, the ceiling is {DIRECTORY_MODULES_MAX}", modules.len());
            findings.push(Finding::new(folder, 1, wrong, "put what belongs together into a folder of its own"));
        }
    }
}

/// One integration-test binary per crate: each more is one more program to link.
pub(super) fn test_binaries(tree: &Tree, findings: &mut Vec<Finding>) {
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    for source in tree.sources() {
        let Some((folder, name)) = source.path.split_once("/tests/") else { continue };
        if name.contains('/') && !name.ends_with("/main.rs") || folder.contains("/src") {
            continue;
        }
        if let Some(other) = first.insert(folder, &source.path) {
            let wrong = format!("a second integration-test binary beside {other}");
            findings.push(Finding::new(&source.path, 1, wrong, "make it a module of the first one: `tests/it/main.rs` and its siblings"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{no_finding, one_finding};
    use super::*;

    #[test]
    fn a_file_above_the_ceiling_is_found_and_its_tests_do_not_count() {
        let long = format!("//! A file.\n{}", "// line\n".repeat(800));
        one_finding(files, &[("crates/a/src/x.rs", &long)], "crates/a/src/x.rs:800: the file has 802 lines");
        let tested = format!("//! A file.\n#[cfg(test)]\nmod tests {{\n{}}}\n", "// line\n".repeat(800));
        no_finding(files, &[("crates/a/src/x.rs", &tested), ("crates/a/src/x/tests.rs", &long)]);
    }

    #[test]
    fn a_function_above_the_ceiling_is_found() {
        let body = |lines: usize| format!("type F = fn(u8);\nfn declared();\nfn long() {{\n{}}}\n", "    call();\n".repeat(lines));
        one_finding(functions, &[("crates/a/src/x.rs", &body(69))], "crates/a/src/x.rs:3: function `long` has 71 lines");
        no_finding(functions, &[("crates/a/src/x.rs", &body(68))]);
    }

    #[test]
    fn a_trait_with_too_many_methods_is_found_and_nested_functions_do_not_count() {
        let of = |methods: usize| format!("pub trait Wide {{\n{}}}\n", "    fn m(&self) {\n        fn inner() {}\n    }\n".repeat(methods));
        one_finding(traits, &[("crates/a/src/x.rs", &of(8))], "crates/a/src/x.rs:1: trait `Wide` has 8 methods");
        no_finding(traits, &[("crates/a/src/x.rs", &of(7))]);
    }

    #[test]
    fn a_directory_with_too_many_modules_is_found_and_folders_count_once() {
        let paths: Vec<String> = (0..11).map(|n| format!("crates/a/src/m{n}.rs")).collect();
        let mut sample: Vec<(&str, &str)> = paths.iter().map(|p| (p.as_str(), "")).collect();
        sample.extend([("crates/a/src/lib.rs", ""), ("crates/a/src/m0/inner.rs", ""), ("crates/a/src/tests.rs", "")]);
        one_finding(directories, &sample, "crates/a/src:1: the directory has 11 modules");
        sample.remove(10);
        no_finding(directories, &sample);
    }

    #[test]
    fn a_second_integration_test_binary_is_found() {
        let modules = [("crates/a/tests/it/main.rs", ""), ("crates/a/tests/it/x.rs", ""), ("crates/a/src/m/tests/x.rs", "")];
        no_finding(test_binaries, &modules);
        let second = [modules[0], ("crates/a/tests/other.rs", "")];
        one_finding(test_binaries, &second, "crates/a/tests/other.rs:1: a second");
    }
}
