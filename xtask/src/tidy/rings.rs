//! The rings: which crate may know which, and what the inner ones must be unable to do.
//!
//! Owns: the ring of each crate, the list of heavy dependencies, the words ring 0 may not use.
//! Does not own: calls into the outside world in the other rings; `clippy.toml` forbids those.
//!
//! Follows: ARCHITECTURE.md, "Rings".

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::source::{Source, has_word};
use super::tree::is_of_workspace;
use super::{Finding, Tree};

/// Every crate of the workspace and its ring.
const RINGS: [(&str, u8); 20] = [
    ("staunch-types", 0),
    ("staunch-protocol", 0),
    ("staunch-format", 0),
    ("staunch-api", 1),
    ("staunch-engine", 1),
    ("staunch-files", 2),
    ("staunch-kafka", 2),
    ("staunch-http", 2),
    ("staunch-objects", 2),
    ("staunch-rocksdb", 2),
    ("staunch", 3),
    ("staunch-sim", 3),
    ("staunch-e2e", 3),
    ("staunch-bench", 3),
    ("staunch-kafka-testbed", 3),
    ("staunch-store-testbed", 3),
    ("staunch-kafka-e2e", 3),
    ("staunch-kafka-bench", 3),
    ("staunch-examples", 3),
    ("xtask", 3),
];
/// Crates that start an outside system for tests. They know no other crate of ours, so an arrow to one brings nothing else along; any
/// crate's tests may use them, and nothing but tests.
const TESTBEDS: [&str; 2] = ["staunch-kafka-testbed", "staunch-store-testbed"];
const FACADE: &str = "staunch";
/// The one feature outside of the facade: what implementors' tests need, and no program has.
const TEST_KIT: &str = "testkit";
const ENGINE: &str = "staunch-engine";
const LEAVES: u8 = 2;

/// Dependencies that cost minutes to build or bring C and C++: each in exactly one manifest, so that one crate can be
/// left out to be rid of it.
const HEAVY: [&str; 18] = [
    "rdkafka",
    "kafka-protocol",
    "rust-rocksdb",
    "rocksdb",
    "zstd",
    "object_store",
    "hdfs-native",
    "tokio-postgres",
    "etcd-client",
    "kube",
    "tonic",
    "axum",
    "hyper",
    "arrow",
    "parquet",
    "datafusion",
    "iceberg",
    "pyo3",
];

/// What ring 0 must be unable to do, by the words that would do it.
const IMPURE: [(&str, &str); 15] = [
    ("Instant", "take a `Tick` as an argument"),
    ("SystemTime", "take a `Timestamp` as an argument"),
    ("std::fs", "return an effect and let the driver do it"),
    ("std::io", "work on byte slices and return values"),
    ("std::net", "return an effect and let the driver do it"),
    ("std::env", "take the value as an argument"),
    ("std::process", "return an effect and let the driver do it"),
    ("std::thread", "return an effect and let the driver do it"),
    ("RwLock", "be a plain value; whoever shares it brings the lock"),
    ("Mutex", "be a plain value; whoever shares it brings the lock"),
    ("rand", "take the random value as an argument"),
    ("async", "be a plain function; waiting is the driver's"),
    ("await", "be a plain function; waiting is the driver's"),
    ("HashMap", "use an ordered map: the order of iteration is part of the behaviour"),
    ("HashSet", "use an ordered set: the order of iteration is part of the behaviour"),
];

struct Manifest<'a> {
    path: &'a str,
    text: &'a str,
    table: Table,
}

impl Manifest<'_> {
    fn name(&self) -> &str {
        self.table.get("package").and_then(|p| p.get("name")).and_then(Value::as_str).unwrap_or_default()
    }

    /// Names and values of all dependencies, those for tests, build scripts and single targets included.
    fn dependencies(&self) -> Vec<(&str, &Value)> {
        let targets = self.table.get("target").and_then(Value::as_table);
        let tables = targets.into_iter().flat_map(|t| t.values().filter_map(Value::as_table)).chain([&self.table]);
        let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
        let found = tables.flat_map(|table| kinds.iter().filter_map(|kind| table.get(*kind).and_then(Value::as_table)));
        found.flat_map(|table| table.iter().map(|(name, value)| (name.as_str(), value))).collect()
    }

    /// Whether a dependency is for tests and nothing else.
    fn only_for_tests(&self, name: &str) -> bool {
        let count = self.dependencies().iter().filter(|(other, _)| *other == name).count();
        let in_tests = self.table.get("dev-dependencies").and_then(Value::as_table).is_some_and(|table| table.contains_key(name));
        in_tests && count == 1
    }

    /// The line on which a key stands, or 1.
    fn line_of(&self, key: &str) -> usize {
        let begins =
            |line: &str| line.trim_start().trim_start_matches('[').strip_prefix(key).is_some_and(|r| r.starts_with(['.', ' ', '=', ']']));
        self.text.lines().position(begins).map_or(1, |at| at + 1)
    }
}

/// The manifests of the workspace's members; one that does not parse is cargo's to report.
fn members(tree: &Tree) -> Vec<Manifest<'_>> {
    let files = tree.ending("/Cargo.toml").filter(|file| is_of_workspace(&file.path));
    files.filter_map(|file| Some(Manifest { path: &file.path, text: &file.text, table: file.text.parse().ok()? })).collect()
}

fn ring_of(name: &str) -> Option<u8> {
    RINGS.iter().find(|(known, _)| *known == name).map(|(_, ring)| *ring)
}

/// Arrows between crates point inward, and the leaves and the engine do not know each other.
pub(super) fn arrows(tree: &Tree, findings: &mut Vec<Finding>) {
    for manifest in members(tree) {
        let Some(ring) = ring_of(manifest.name()) else {
            let wrong = format!("crate `{}` has no ring", manifest.name());
            findings.push(Finding::new(
                manifest.path,
                1,
                wrong,
                "give it one in xtask/src/tidy/rings.rs, with a decision note that names its reason to be a crate",
            ));
            continue;
        };
        for (name, _) in manifest.dependencies() {
            let Some(inner) = ring_of(name) else { continue };
            let outward = inner > ring && !(TESTBEDS.contains(&name) && manifest.only_for_tests(name));
            let burdened = TESTBEDS.contains(&manifest.name());
            let sideways = ring == LEAVES && (inner == LEAVES || name == ENGINE);
            if outward || sideways || burdened {
                let wrong = format!("`{}` of ring {ring} depends on `{name}` of ring {inner}", manifest.name());
                findings.push(Finding::new(
                    manifest.path,
                    manifest.line_of(name),
                    wrong,
                    "arrows point inward, and a leaf knows only ring 0 and `staunch-api`: move what both need inward",
                ));
            }
        }
    }
}

/// Versions, lints and features have one place each.
pub(super) fn manifests(tree: &Tree, findings: &mut Vec<Finding>) {
    for manifest in members(tree) {
        let lints = manifest.table.get("lints").and_then(|l| l.get("workspace")).and_then(Value::as_bool);
        if lints != Some(true) {
            findings.push(Finding::new(manifest.path, 1, "the workspace's lints are not on", "add `[lints]` with `workspace = true`"));
        }
        let features = manifest.table.get("features").and_then(Value::as_table);
        if features.is_some_and(|features| features.keys().any(|name| name != TEST_KIT)) && manifest.name() != FACADE {
            let line = manifest.line_of("features");
            findings.push(Finding::new(
                manifest.path,
                line,
                "features outside of the facade",
                "features exist only in `staunch`; leave out a whole crate instead",
            ));
        }
        for (name, value) in manifest.dependencies() {
            if value.get("workspace").and_then(Value::as_bool) != Some(true) {
                let wrong = format!("dependency `{name}` is not pinned in the workspace table");
                findings.push(Finding::new(
                    manifest.path,
                    manifest.line_of(name),
                    wrong,
                    "pin it in the root Cargo.toml and write `workspace = true` here",
                ));
            }
        }
    }
    git_dependencies(tree, findings);
}

fn git_dependencies(tree: &Tree, findings: &mut Vec<Finding>) {
    let Some(table) = tree.text("Cargo.toml").and_then(|text| text.parse::<Table>().ok()) else { return };
    let pinned = table.get("workspace").and_then(|w| w.get("dependencies")).and_then(Value::as_table);
    for (name, _) in pinned.into_iter().flatten().filter(|(_, value)| value.get("git").is_some()) {
        findings.push(Finding::new("Cargo.toml", 1, format!("dependency `{name}` comes from git"), "depend on a published version"));
    }
    if table.contains_key("patch") {
        findings.push(Finding::new("Cargo.toml", 1, "a dependency is patched", "depend on a published version"));
    }
}

/// Each heavy dependency appears in exactly one manifest; tests that stand outside may use it to look at the product from there.
pub(super) fn heavy(tree: &Tree, findings: &mut Vec<Finding>) {
    let mut first: BTreeMap<String, String> = BTreeMap::new();
    for manifest in members(tree) {
        let from_outside = |name: &str| ring_of(manifest.name()) == Some(3) && manifest.only_for_tests(name);
        for (name, _) in manifest.dependencies().into_iter().filter(|(name, _)| HEAVY.contains(name) && !from_outside(name)) {
            let owner = first.entry(name.to_owned()).or_insert_with(|| manifest.path.to_owned());
            if *owner != manifest.path {
                let wrong = format!("the heavy dependency `{name}` is already in {owner}");
                findings.push(Finding::new(
                    manifest.path,
                    manifest.line_of(name),
                    wrong,
                    "reach it through that crate, or through a trait of `staunch-api`",
                ));
            }
        }
    }
}

/// Ring 0 computes and nothing else.
pub(super) fn purity(tree: &Tree, findings: &mut Vec<Finding>) {
    let inner: Vec<Manifest> = members(tree).into_iter().filter(|m| ring_of(m.name()) == Some(0)).collect();
    for folder in inner.iter().filter_map(|m| m.path.strip_suffix("/Cargo.toml")) {
        for source in tree.sources_of(folder) {
            impure_words(source, findings);
        }
    }
}

fn impure_words(source: &Source, findings: &mut Vec<Finding>) {
    for (number, line) in source.numbered().filter(|(number, _)| !source.is_test(*number)) {
        for (word, remedy) in IMPURE {
            let grouped = word.strip_prefix("std::").is_some_and(|module| line.contains("std::{") && has_word(line, module));
            if has_word(line, word) || grouped {
                findings.push(Finding::new(&source.path, number, format!("ring 0 uses `{word}`"), remedy));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{findings, no_finding, one_finding};
    use super::*;

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n{rest}")
    }

    #[test]
    fn an_outward_arrow_is_found_also_among_dependencies_of_tests() {
        for (from, to) in [("staunch-protocol", "staunch-api"), ("staunch-engine", "staunch-files"), ("staunch-engine", "staunch-sim")] {
            for kind in ["dependencies", "dev-dependencies", "target.'cfg(unix)'.dependencies"] {
                let text = manifest(from, &format!("[{kind}]\n{to}.workspace = true\n"));
                one_finding(arrows, &[("crates/x/Cargo.toml", &text)], &format!("crates/x/Cargo.toml:6: `{from}`"));
            }
        }
    }

    #[test]
    fn a_testbed_serves_tests_only_and_knows_nobody() {
        let leaf = |kind: &str| manifest("staunch-files", &format!("[{kind}]\nstaunch-kafka-testbed.workspace = true\n"));
        no_finding(arrows, &[("crates/files/Cargo.toml", &leaf("dev-dependencies"))]);
        one_finding(arrows, &[("crates/files/Cargo.toml", &leaf("dependencies"))], "crates/files/Cargo.toml:6: ");
        let both = format!("{}[dev-dependencies]\nstaunch-kafka-testbed.workspace = true\n", leaf("dependencies"));
        assert_eq!(findings(arrows, &[("crates/files/Cargo.toml", &both)]).len(), 2);
        let testbed = manifest("staunch-kafka-testbed", "[dependencies]\nstaunch-types.workspace = true\n");
        one_finding(arrows, &[("crates/kafka-testbed/Cargo.toml", &testbed)], "crates/kafka-testbed/Cargo.toml:6: ");
    }

    #[test]
    fn a_leaf_that_knows_the_engine_or_another_leaf_is_found_and_inward_arrows_are_fine() {
        let leaf = |to: &str| manifest("staunch-files", &format!("[dependencies]\n{to}.workspace = true\n"));
        one_finding(arrows, &[("crates/files/Cargo.toml", &leaf("staunch-engine"))], "crates/files/Cargo.toml:6: ");
        one_finding(arrows, &[("crates/files/Cargo.toml", &leaf("staunch-files"))], "crates/files/Cargo.toml:6: ");
        no_finding(arrows, &[("crates/files/Cargo.toml", &leaf("staunch-api"))]);
    }

    #[test]
    fn a_crate_without_a_ring_is_found() {
        one_finding(arrows, &[("crates/new/Cargo.toml", &manifest("staunch-new", ""))], "crates/new/Cargo.toml:1: crate `staunch-new`");
        one_finding(arrows, &[("examples/Cargo.toml", &manifest("staunch-new", ""))], "examples/Cargo.toml:1: crate `staunch-new`");
    }

    #[test]
    fn loose_manifests_are_found() {
        let own = manifest("staunch-api", "[dependencies]\nserde = \"1\"\n");
        one_finding(manifests, &[("crates/api/Cargo.toml", &own)], "crates/api/Cargo.toml:6: dependency `serde`");
        let features = manifest("staunch-api", "[features]\na = []\n");
        one_finding(manifests, &[("crates/api/Cargo.toml", &features)], "crates/api/Cargo.toml:5: features");
        no_finding(manifests, &[("crates/staunch/Cargo.toml", &manifest("staunch", "[features]\na = []\n"))]);
        let lintless = "[package]\nname = \"staunch-api\"\n";
        one_finding(manifests, &[("crates/api/Cargo.toml", lintless)], "crates/api/Cargo.toml:1: the workspace's lints");
        let git = "[workspace.dependencies]\na = { git = \"https://example.org/a\" }\n";
        one_finding(manifests, &[("Cargo.toml", git)], "Cargo.toml:1: dependency `a` comes from git");
        one_finding(manifests, &[("Cargo.toml", "[patch.crates-io]\n")], "Cargo.toml:1: a dependency is patched");
    }

    #[test]
    fn a_heavy_dependency_in_two_manifests_is_found() {
        let with = |name: &str| manifest(name, "[dependencies]\nzstd.workspace = true\n");
        let (a, b) = (with("staunch-files"), with("staunch-engine"));
        one_finding(heavy, &[("crates/engine/Cargo.toml", &b), ("crates/files/Cargo.toml", &a)], "crates/files/Cargo.toml:6: the heavy");
        no_finding(heavy, &[("crates/files/Cargo.toml", &a)]);
    }

    #[test]
    fn each_impure_word_in_ring_0_is_found_and_elsewhere_and_in_tests_it_is_not() {
        let (inner, outer) = (manifest("staunch-protocol", ""), manifest("staunch-engine", ""));
        for (word, _) in IMPURE {
            let line = format!("use x::{word};\n");
            let manifest = ("crates/protocol/Cargo.toml", inner.as_str());
            one_finding(
                purity,
                &[manifest, ("crates/protocol/src/x.rs", &line)],
                &format!("crates/protocol/src/x.rs:1: ring 0 uses `{word}`"),
            );
            no_finding(purity, &[manifest, ("crates/protocol/src/x/tests.rs", &line)]);
            no_finding(purity, &[("crates/engine/Cargo.toml", &outer), ("crates/engine/src/x.rs", &line)]);
        }
    }

    #[test]
    fn an_impure_module_in_a_grouped_use_is_found() {
        let manifest = manifest("staunch-protocol", "");
        let sample = [("crates/protocol/Cargo.toml", manifest.as_str()), ("crates/protocol/src/x.rs", "use std::{fmt, fs};\n")];
        one_finding(purity, &sample, "crates/protocol/src/x.rs:1: ring 0 uses `std::fs`");
    }
}
