//! The oracle: output and expectation as multisets of lines.
//!
//! Owns: reading all visible files of a directory, and the wording of a difference. Does not own: what is expected.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use flate2::read::MultiGzDecoder;

/// Lines and how often each is there.
pub type Multiset = BTreeMap<String, u64>;

/// Differing lines that are shown.
const SHOWN_MAX: usize = 10;

/// The lines of a file but its first; unpacked if its name ends in `.gz`.
///
/// # Errors
/// When the file cannot be read, or its last line is cut.
pub fn read_file(path: &Path, into: &mut Multiset) -> Result<()> {
    read_lines(path, true, into)
}

fn read_lines(path: &Path, mut header: bool, into: &mut Multiset) -> Result<()> {
    let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    let plain: Box<dyn Read> =
        if path.extension().is_some_and(|e| e == "gz") { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut reader = BufReader::with_capacity(1 << 20, plain);
    let mut line = String::new();
    while reader.read_line(&mut line).with_context(|| format!("read {}", path.display()))? > 0 {
        ensure!(line.ends_with('\n'), "the last line of {} is cut: {line:?}", path.display());
        if !std::mem::take(&mut header) {
            *into.entry(line.trim_end().to_owned()).or_default() += 1;
        }
        line.clear();
    }
    Ok(())
}

/// The lines of all visible files of a directory.
///
/// # Errors
/// When one cannot be read, or is not complete.
pub fn read_directory(directory: &Path) -> Result<Multiset> {
    read_all(directory, true)
}

fn read_all(directory: &Path, header: bool) -> Result<Multiset> {
    let mut lines = Multiset::new();
    for entry in fs::read_dir(directory).with_context(|| format!("list {}", directory.display()))? {
        let path = entry?.path();
        if !is_hidden(&path) {
            read_lines(&path, header, &mut lines)?;
        }
    }
    Ok(lines)
}

/// The lines of all visible files of a directory, of a format without a header.
///
/// # Errors
/// As [`read_directory`].
pub fn read_plain(directory: &Path) -> Result<Multiset> {
    read_all(directory, false)
}

/// Hidden files in a directory.
///
/// # Errors
/// When it cannot be listed.
pub fn hidden(directory: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| format!("list {}", directory.display()))? {
        let path = entry?.path();
        if is_hidden(&path) {
            names.push(path.display().to_string());
        }
    }
    names.sort();
    Ok(names)
}

/// # Errors
/// When hidden files are in a directory, or it cannot be listed.
pub fn expect_nothing_hidden(directory: &Path) -> Result<()> {
    let hidden = hidden(directory)?;
    ensure!(hidden.is_empty(), "hidden files are left: {hidden:?}");
    Ok(())
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

/// Compares.
///
/// # Errors
/// With how many lines are lost, doubled or wrong, and some of them.
pub fn compare(found: &Multiset, expected: &Multiset, what: &str) -> Result<()> {
    let (mut lost, mut extra, mut shown) = (0, 0, String::new());
    let mut examples = 0;
    for line in found.keys().chain(expected.keys().filter(|l| !found.contains_key(*l))) {
        let (is, should) = (found.get(line).copied().unwrap_or(0), expected.get(line).copied().unwrap_or(0));
        lost += should.saturating_sub(is);
        extra += is.saturating_sub(should);
        if is != should && examples < SHOWN_MAX {
            examples += 1;
            let _ = write!(shown, "\n  {is} times, should be {should}: {line}");
        }
    }
    if lost + extra > 0 {
        bail!("{what}: {lost} lines lost, {extra} lines too many{shown}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(lines: &[&str]) -> Multiset {
        let mut set = Multiset::new();
        lines.iter().for_each(|l| *set.entry((*l).to_owned()).or_default() += 1);
        set
    }

    #[test]
    fn a_lost_a_doubled_and_a_changed_line_are_each_seen() {
        let expected = set(&["a", "b", "b", "c"]);
        assert!(compare(&expected, &expected, "same").is_ok());
        for wrong in [&["a", "b", "c"][..], &["a", "a", "b", "b", "c"], &["a", "b", "b", "d"], &[]] {
            assert!(compare(&set(wrong), &expected, "wrong").is_err(), "{wrong:?}");
        }
    }
}
