//! The working tree as text.
//!
//! Owns: which files are looked at, and their text, read once. Rust files are masked once as well.
//! Does not own: any opinion about them.

use std::fs;
use std::path::Path;

use anyhow::Context;

use super::source::Source;

/// Folders that hold no text of ours, by name; `.gitignore` names them too.
const FOLDERS_SKIPPED: [&str; 5] = [".git", "target", "work", "__pycache__", "node_modules"];
/// Ends of the names of files that are looked at. `Cargo.lock` is generated, so it is not among them.
const NAMES_READ: [&str; 12] =
    [".rs", ".toml", ".md", ".sh", ".py", ".java", ".yml", ".yaml", ".json", "Makefile", ".ci/run", ".gitignore"];

/// Folders of the workspace's crates.
const WORKSPACE: [&str; 3] = ["crates/", "examples/", "xtask/"];

/// Whether a file belongs to a crate of the workspace.
pub(super) fn is_of_workspace(path: &str) -> bool {
    WORKSPACE.iter().any(|folder| path.starts_with(folder))
}

/// One file: its path from the root with `/` between parts, and its text.
#[derive(Debug)]
pub(crate) struct File {
    pub(super) path: String,
    pub(super) text: String,
}

/// All text files of the checkout, sorted by path.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: Vec<File>,
    sources: Vec<Source>,
}

impl Tree {
    /// Reads the checkout below `root`.
    ///
    /// # Errors
    /// When a folder or file cannot be read, or a file is not UTF-8.
    pub(crate) fn load(root: &Path) -> anyhow::Result<Tree> {
        let mut files = Vec::new();
        walk(root, "", &mut files)?;
        Ok(Tree::of(files))
    }

    /// A tree of given files.
    pub(super) fn of(mut files: Vec<File>) -> Tree {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let sources = files.iter().filter(|f| f.path.ends_with(".rs")).map(|f| Source::new(&f.path, &f.text)).collect();
        Tree { files, sources }
    }

    /// Every text file.
    pub(crate) fn files(&self) -> &[File] {
        &self.files
    }

    /// Every Rust file of the workspace (the programs under `bench/` are measured, not ours to style).
    pub(super) fn sources(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter().filter(|s| is_of_workspace(&s.path))
    }

    /// The Rust files of one crate's folder.
    pub(super) fn sources_of<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a Source> {
        self.sources().filter(move |s| s.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
    }

    /// The text of a file, if it is there.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        let at = self.files.binary_search_by(|f| f.path.as_str().cmp(path)).ok()?;
        Some(&self.files[at].text)
    }

    /// Files whose names end so.
    pub(super) fn ending<'a>(&'a self, end: &'a str) -> impl Iterator<Item = &'a File> {
        self.files.iter().filter(move |f| f.path.ends_with(end))
    }

    /// Whether a path is a file or a folder with files in it. Files that are not text count by their names only.
    pub(super) fn has(&self, path: &str) -> bool {
        self.files.iter().any(|f| f.path == path || f.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
    }
}

fn walk(folder: &Path, prefix: &str, files: &mut Vec<File>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("read folder {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            if !FOLDERS_SKIPPED.contains(&name.as_str()) {
                walk(&entry.path(), &format!("{path}/"), files)?;
            }
        } else {
            let read = NAMES_READ.iter().any(|end| path.ends_with(end));
            let text = if read { fs::read_to_string(entry.path()).with_context(|| format!("read file {path}"))? } else { String::new() };
            files.push(File { path, text });
        }
    }
    Ok(())
}
