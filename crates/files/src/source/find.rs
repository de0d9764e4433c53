//! Finds the files that a path names: one file, those of a directory, or those that match a pattern.

use std::io;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};
use staunch_api::{EntryKind, FileSystem, Metadata};
use staunch_types::{Error, ErrorKind, Result};

use crate::codes;

/// Directories below each other that a pattern with `**` goes down to.
const DEPTH_MAX: usize = 32;
/// Files that a source can have.
pub(crate) const FILES_MAX: usize = 1 << 20;

const MATCHING: MatchOptions = MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// A file that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) path: String,
    pub(crate) bytes: u64,
}

/// All files that `path` names, sorted by path.
///
/// # Errors
/// `Invalid` when there is none or one is not readable; `Retry` when the file system does not answer.
pub(crate) fn find(file_system: &dyn FileSystem, path: &Path) -> Result<Vec<Found>> {
    let text = path.to_string_lossy();
    let mut found = match lookup(file_system, path)? {
        Some(Metadata { kind: EntryKind::File, bytes }) => return Ok(vec![Found { path: text.into_owned(), bytes }]),
        Some(Metadata { kind: EntryKind::Directory, .. }) => in_directory(file_system, path)?,
        Some(Metadata { kind: EntryKind::Other, .. }) => return Err(not_a_file(path)),
        None if text.contains(['*', '?', '[']) => matching(file_system, &text)?,
        None => {
            return Err(Error::new(ErrorKind::Invalid, codes::PATH_MISSING, "expected a file, a directory or a pattern, found nothing")
                .at(format!("path={text}"))
                .data("nothing was read")
                .remedy(format!(
                    "check the path; it is taken relative to the working directory unless it starts with /{}",
                    nearest(file_system, path)
                )));
        }
    };
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Whether a file at `file` would be found by `path`, a directory, a pattern or the file itself; nothing needs to be there yet.
pub(crate) fn would_find(path: &Path, file: &Path) -> bool {
    let (Ok(path), Ok(file)) = (std::path::absolute(path), std::path::absolute(file)) else { return false };
    if file.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
        return false;
    }
    let is_matched = || Pattern::new(&path.to_string_lossy()).is_ok_and(|pattern| pattern.matches_path_with(&file, MATCHING));
    file == path || file.parent() == Some(&*path) || is_matched()
}

fn in_directory(file_system: &dyn FileSystem, directory: &Path) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    let mut directories = 0;
    for entry in list(file_system, directory)?.into_iter().filter(|entry| !entry.name.starts_with('.')) {
        match entry.metadata.kind {
            EntryKind::File => push(&mut found, directory.join(&entry.name), entry.metadata.bytes)?,
            EntryKind::Directory => directories += 1,
            EntryKind::Other => return Err(not_a_file(&directory.join(&entry.name))),
        }
    }
    if found.is_empty() {
        let inside = match directories {
            0 => String::new(),
            n => format!("; it has {n} directories, whose files a pattern such as {}/**/* would find", directory.display()),
        };
        return Err(Error::new(ErrorKind::Invalid, codes::DIRECTORY_EMPTY, format!("expected files in the directory, found none{inside}"))
            .at(format!("path={}", directory.display()))
            .data("nothing was read")
            .remedy("put files there (names that start with a dot do not count), or use `watch` to wait for them"));
    }
    Ok(found)
}

/// Walks the directories that can match, from the part of the pattern that has no wildcard.
fn matching(file_system: &dyn FileSystem, text: &str) -> Result<Vec<Found>> {
    let bad = |error: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Invalid, codes::PATTERN_BAD, "expected a path or a pattern of *, ?, ** and [a-z]")
            .at(format!("path={text}"))
            .cause(error)
            .data("nothing was read")
            .remedy("correct the pattern; ** stands alone between two slashes; a literal bracket is written [[]")
    };
    let pattern = Pattern::new(text).map_err(|error| bad(&error))?;
    let parts: Vec<&str> = text.split('/').collect();
    let literal = parts.iter().take_while(|part| !part.contains(['*', '?', '['])).count();
    let front: PathBuf = match &parts[..literal] {
        [] => PathBuf::new(),
        [""] => PathBuf::from("/"),
        front => PathBuf::from(front.join("/")),
    };
    let mut levels = Vec::new();
    for part in &parts[literal..] {
        levels.push(Pattern::new(part).map_err(|error| bad(&error))?);
    }
    let mut walk = Walk { file_system, pattern, levels, found: Vec::new() };
    walk.down(&front, 0)?;
    if walk.found.is_empty() {
        let relative = if text.starts_with('/') { "" } else { ", which is taken relative to the working directory" };
        return Err(Error::new(ErrorKind::Invalid, codes::PATTERN_MATCHES_NOTHING, "expected files that match the pattern, found none")
            .at(format!("path={text}"))
            .data("nothing was read")
            .remedy(format!("check the pattern{relative}, or use `watch` to wait for files{}", nearest(file_system, &front))));
    }
    Ok(walk.found)
}

struct Walk<'w> {
    file_system: &'w dyn FileSystem,
    pattern: Pattern,
    /// One pattern for each level below the literal front.
    levels: Vec<Pattern>,
    found: Vec<Found>,
}

impl Walk<'_> {
    fn down(&mut self, directory: &Path, depth: usize) -> Result<()> {
        let here = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        if !matches!(lookup(self.file_system, here)?, Some(Metadata { kind: EntryKind::Directory, .. })) {
            return Ok(());
        }
        for entry in list(self.file_system, here)? {
            let path = directory.join(&entry.name);
            match entry.metadata.kind {
                EntryKind::Directory if self.may_match_below(&entry.name, depth) && depth >= DEPTH_MAX => return Err(too_deep(&path)),
                EntryKind::Directory if self.may_match_below(&entry.name, depth) => self.down(&path, depth + 1)?,
                EntryKind::Directory => {}
                EntryKind::File if self.pattern.matches_path_with(&path, MATCHING) => push(&mut self.found, path, entry.metadata.bytes)?,
                EntryKind::File => {}
                EntryKind::Other if self.pattern.matches_path_with(&path, MATCHING) => return Err(not_a_file(&path)),
                EntryKind::Other => {}
            }
        }
        Ok(())
    }

    /// Whether a directory at a level can hold files that match.
    fn may_match_below(&self, name: &str, depth: usize) -> bool {
        match self.levels.iter().position(|level| level.as_str() == "**") {
            Some(any) if depth >= any => !name.starts_with('.'),
            _ => depth + 1 < self.levels.len() && self.levels[depth].matches_with(name, MATCHING),
        }
    }
}

fn push(found: &mut Vec<Found>, path: PathBuf, bytes: u64) -> Result<()> {
    if found.len() == FILES_MAX {
        return Err(files_too_many().at(format!("path={}", path.display())));
    }
    found.push(Found { path: path.to_string_lossy().into_owned(), bytes });
    Ok(())
}

/// Deeper than anybody keeps files. Through a link back, each file below it would be found again and again, under ever longer paths.
fn too_deep(path: &Path) -> Error {
    let what = format!("expected at most {DEPTH_MAX} directories below each other, found more: probably a link leads back to one above it");
    Error::new(ErrorKind::Invalid, codes::DIRECTORIES_TOO_DEEP, what)
        .at(format!("path={}", path.display()))
        .data("nothing was read")
        .remedy("take the link away, or name the levels of directories with `*` in place of `**`")
}

/// More files than a source remembers.
pub(crate) fn files_too_many() -> Error {
    Error::new(ErrorKind::Invalid, codes::FILES_TOO_MANY, format!("expected at most {FILES_MAX} files, found more"))
        .data("nothing of the files beyond was read")
        .remedy("join small files, or read them by several sources with a pattern each")
}

fn not_a_file(path: &Path) -> Error {
    Error::new(ErrorKind::Invalid, codes::NOT_A_FILE, "expected a regular file, found a socket, a device, a pipe or a broken link")
        .at(format!("path={}", path.display()))
        .data("nothing was read")
        .remedy("name regular files only")
}

fn lookup(file_system: &dyn FileSystem, path: &Path) -> Result<Option<Metadata>> {
    match file_system.metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(None),
        answer => answer.map_err(|error| unreadable(&error, path)),
    }
}

fn list(file_system: &dyn FileSystem, path: &Path) -> Result<Vec<staunch_api::DirectoryEntry>> {
    file_system.list(path).map_err(|error| unreadable(&error, path))
}

/// What a failure to look at a path means.
pub(crate) fn unreadable(error: &io::Error, path: &Path) -> Error {
    let at = format!("path={}", path.display());
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::new(ErrorKind::Invalid, codes::PERMISSION_DENIED, "no permission to read")
            .at(at)
            .cause(error)
            .data("nothing was read")
            .remedy("let the user that runs the job read the file, and enter and read each directory above it"),
        _ => Error::new(ErrorKind::Retry, codes::READ_FAILED, "the file system did not answer")
            .at(at)
            .cause(error)
            .data("nothing is lost; it is tried again")
            .remedy("see the disk or mount if it does not answer for long"),
    }
}

/// For people: how far a path exists.
fn nearest(file_system: &dyn FileSystem, path: &Path) -> String {
    path.ancestors()
        .find(|above| !above.as_os_str().is_empty() && matches!(file_system.metadata(above), Ok(Some(_))))
        .map_or(String::new(), |above| format!("; what exists of it is {}", above.display()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::would_find;

    #[test]
    fn what_a_path_would_find_needs_not_be_there() {
        let finds = |path: &str, file: &str| would_find(Path::new(path), Path::new(file));
        for path in ["/data", "/data/part-1.csv", "/data/*.csv", "/*/part-*", "/**/*.csv"] {
            assert!(finds(path, "/data/part-1.csv"), "{path}");
        }
        for path in ["/dat", "/data/out", "/data/*.json", "/data/x/*.csv", "/*.csv", "/data/part-2.csv"] {
            assert!(!finds(path, "/data/part-1.csv"), "{path}");
        }
        assert!(!finds("/data", "/data/.hidden"));
        assert!(finds("data", "data/x.csv"));
    }
}
