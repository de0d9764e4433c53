//! The pages hold together: notes are listed, links lead somewhere, words are explained, named tests exist.
//!
//! Owns: checks of `.md` files. Text between fences and in backticks is no link.
//! Does not own: whether a page is true; only its author and its reader can say.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Tree};

const DECISIONS: &str = "docs/decisions/";
const DECISIONS_PAGE: &str = "docs/decisions/README.md";
const GLOSSARY: &str = "docs/glossary.md";
const GUARANTEES: &str = "docs/guarantees.md";
/// Words whose meaning everything else rests on; the glossary has each as `**word**` at the start of a line.
const TERMS: [&str; 25] = [
    "Record",
    "Batch",
    "Event time",
    "Watermark",
    "Source",
    "Split",
    "Operator",
    "Chain",
    "Task",
    "Channel",
    "Key group",
    "Barrier",
    "Epoch",
    "Snapshot",
    "Checkpoint",
    "Manifest",
    "Durable",
    "Generation",
    "Ledger",
    "Sink",
    "Committable",
    "Prepared",
    "Committed",
    "Lost",
    "Phase",
];

/// Decision notes have a number of their own and a line in the list.
pub(super) fn decisions(tree: &Tree, findings: &mut Vec<Finding>) {
    let list = tree.text(DECISIONS_PAGE).unwrap_or_default();
    let mut numbers: BTreeMap<&str, &str> = BTreeMap::new();
    for file in tree.files().iter().filter(|f| f.path != DECISIONS_PAGE) {
        let Some(name) = file.path.strip_prefix(DECISIONS) else { continue };
        let number = name.split('-').next().unwrap_or_default();
        if number.len() != 4 || !number.bytes().all(|b| b.is_ascii_digit()) || !name.ends_with(".md") {
            findings.push(Finding::new(&file.path, 1, "a decision note without a number", "name it `NNNN-title.md`"));
        } else if let Some(other) = numbers.insert(number, &file.path) {
            findings.push(Finding::new(&file.path, 1, format!("the number is that of {other}"), "take the next free number"));
        }
        if !list.contains(&format!("]({name})")) {
            findings.push(Finding::new(
                &file.path,
                1,
                "the decision note is not listed",
                "add a line with a link in docs/decisions/README.md",
            ));
        }
    }
}

/// Links inside the repository lead to a file and, where they name one, a heading.
pub(super) fn links(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree.ending(".md") {
        for (line, target) in links_of(&file.text) {
            if ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme)) {
                continue;
            }
            let (path, anchor) = target.split_once('#').map_or((target.as_str(), None), |(path, anchor)| (path, Some(anchor)));
            let resolved = if path.is_empty() { file.path.clone() } else { resolve(&file.path, path) };
            if !tree.has(&resolved) {
                findings.push(Finding::new(
                    &file.path,
                    line,
                    format!("the link to {target} leads nowhere"),
                    "correct the path or take the link out",
                ));
            } else if let (Some(anchor), Some(text)) = (anchor, tree.text(&resolved))
                && resolved.ends_with(".md")
                && !headings_of(text).contains(anchor)
            {
                findings.push(Finding::new(
                    &file.path,
                    line,
                    format!("{resolved} has no heading #{anchor}"),
                    "correct the anchor or take it out",
                ));
            }
        }
    }
}

/// `path` as seen from the folder of `file`.
fn resolve(file: &str, path: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Lines outside of fenced blocks, with their numbers from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((at + 1, line))
    })
}

/// Targets of `[text](target)` with their lines.
fn links_of(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in prose(text) {
        let without_code: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for part in without_code.split("](").skip(1) {
            if let Some(end) = part.find(')') {
                links.push((number, part[..end].trim().to_owned()));
            }
        }
    }
    links
}

/// The anchors of a page's headings, as the usual renderers make them.
fn headings_of(text: &str) -> BTreeSet<String> {
    let headings = prose(text).map(|(_, line)| line).filter(|line| line.starts_with('#'));
    let keep = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    headings
        .map(|line| {
            line.trim_start_matches('#').trim().to_lowercase().chars().filter(keep).map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// The glossary explains each of the words everything rests on, once.
pub(super) fn glossary(tree: &Tree, findings: &mut Vec<Finding>) {
    let Some(text) = tree.text(GLOSSARY) else { return };
    let mut explained: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, line) in prose(text) {
        let Some(term) = line.strip_prefix("**").and_then(|rest| rest.split("**").next()) else { continue };
        if let Some(other) = explained.insert(term, number) {
            let wrong = format!("`{term}` is explained on line {other} already");
            findings.push(Finding::new(GLOSSARY, number, wrong, "keep one meaning, or find another word for the second"));
        }
    }
    for term in TERMS.iter().filter(|term| !explained.contains_key(*term)) {
        findings.push(Finding::new(GLOSSARY, 1, format!("`{term}` is not explained"), "add a line that begins with **the term**"));
    }
}

/// Tests that the page of guarantees names exist. A name is a backticked identifier of three words or more.
pub(super) fn named_tests(tree: &Tree, findings: &mut Vec<Finding>) {
    let Some(text) = tree.text(GUARANTEES) else { return };
    let functions: BTreeSet<String> = tree.sources().flat_map(|s| s.items("fn")).map(|(_, name)| name).collect();
    for (number, line) in prose(text) {
        for word in line.split('`').skip(1).step_by(2) {
            let name = word.rsplit("::").next().unwrap_or(word);
            let identifier = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
            if identifier && name.matches('_').count() >= 2 && !functions.contains(name) {
                let wrong = format!("there is no test `{name}`");
                findings.push(Finding::new(GUARANTEES, number, wrong, "name the test that shows it, or say that none does yet"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{findings, no_finding, one_finding};
    use super::*;

    #[test]
    fn unnumbered_unlisted_and_doubly_numbered_notes_are_found() {
        let list = (DECISIONS_PAGE, "[a](0001-a.md) [b](0001-b.md) [c](c.md)");
        one_finding(decisions, &[list, ("docs/decisions/c.md", "")], "docs/decisions/c.md:1: a decision note without a number");
        one_finding(decisions, &[list, ("docs/decisions/0002-x.md", "")], "docs/decisions/0002-x.md:1: the decision note is not listed");
        let both = [list, ("docs/decisions/0001-a.md", ""), ("docs/decisions/0001-b.md", "")];
        one_finding(decisions, &both, "docs/decisions/0001-b.md:1: the number is that of");
        no_finding(decisions, &both[..2]);
    }

    #[test]
    fn broken_links_are_found_and_good_ones_are_not() {
        one_finding(links, &[("docs/a.md", "x\nsee [b](b.md)")], "docs/a.md:2: the link to b.md leads nowhere");
        one_finding(links, &[("docs/a.md", "[b](../b.md#two)"), ("b.md", "# One\n")], "docs/a.md:1: b.md has no heading #two");
        let fine =
            "# A b, c\n[x](../b.md#one-2) [y](#a-b-c) [z](https://example.org) `[q](no.md)` [f](../crates/a)\n```\n[r](no.md)\n```\n";
        no_finding(links, &[("docs/a.md", fine), ("b.md", "## One 2\n"), ("crates/a/src/lib.rs", "//! Owns, does not own.")]);
    }

    #[test]
    fn missing_and_doubled_terms_are_found() {
        let all: String = TERMS.iter().map(|term| format!("**{term}** x\n")).collect();
        no_finding(glossary, &[(GLOSSARY, &all)]);
        one_finding(glossary, &[(GLOSSARY, &all.replace("**Epoch**", "Epoch"))], "docs/glossary.md:1: `Epoch` is not explained");
        one_finding(glossary, &[(GLOSSARY, &format!("{all}**Epoch** y\n"))], "docs/glossary.md:26: `Epoch` is explained on line");
    }

    #[test]
    fn a_named_test_that_does_not_exist_is_found() {
        let page = (GUARANTEES, "| E1 | `no_such_test_here` and `Epoch`, `a::a_test_that_is` |");
        let code = ("crates/a/src/x/tests.rs", "#[test]\nfn a_test_that_is() {}\n");
        one_finding(named_tests, &[page, code], "docs/guarantees.md:1: there is no test `no_such_test_here`");
        assert_eq!(findings(named_tests, &[page]).len(), 2);
    }
}
