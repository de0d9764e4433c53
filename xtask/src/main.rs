//! Chores of the house, run as `cargo xtask COMMAND`.
//!
//! Owns: `tidy`, the checks of STYLE.md and of the rings that no compiler makes.
//! Does not own: formatting and lints, which are cargo's (`make lint` runs all three).

#![allow(clippy::disallowed_methods, reason = "a tool for developers reads the working tree itself")]

mod tidy;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

const HELP: &str =
    "usage: cargo xtask tidy\n\n  tidy    check sizes, words, rings and pages; prints file:line, what is wrong and what to do";

fn main() -> anyhow::Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy(),
        ["help" | "--help" | "-h"] | [] => {
            println!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        other => {
            eprintln!("unknown command: {}\n{HELP}", other.join(" "));
            Ok(ExitCode::from(2))
        }
    }
}

fn tidy() -> anyhow::Result<ExitCode> {
    let tree = tidy::Tree::load(&root()?)?;
    let findings = tidy::check(&tree);
    let mut text: String = findings.iter().map(|finding| format!("{finding}\n")).collect();
    text += &format!("tidy: {} files, {} findings\n", tree.files().len(), findings.len());
    // Whoever reads may stop reading; the exit code tells all the same.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The root of the checkout that cargo runs this in. Asked for when it runs: clones that share a build folder share the program too.
fn root() -> anyhow::Result<PathBuf> {
    let own = std::env::var_os("CARGO_MANIFEST_DIR").context("CARGO_MANIFEST_DIR is not set; run this as `cargo xtask`")?;
    Ok(Path::new(&own).join(".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let tree = tidy::Tree::load(&root().expect("cargo runs the tests")).expect("the working tree can be read");
        let findings: Vec<String> = tidy::check(&tree).iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "\n{}\n{} findings; `cargo xtask tidy` prints them too", findings.join("\n"), findings.len());
    }
}
