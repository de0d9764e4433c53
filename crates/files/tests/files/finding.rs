//! Which files a path names.

use staunch_api::Split;
use staunch_api::testkit::{Fault, MemoryFiles, Operation, discover};
use staunch_files::FileSource;
use staunch_types::{ErrorKind, Result};

use super::support::{Row, assert_error, shared, with};

fn tree() -> MemoryFiles {
    with(&[
        ("/in/b.csv", b"x"),
        ("/in/a.csv", b"x"),
        ("/in/.a.csv", b"x"),
        ("/in/c.txt", b"x"),
        ("/in/sub/d.csv", b"x"),
        ("/in/sub/deep/e.csv", b"x"),
        ("/in/.sub/f.csv", b"x"),
        ("/in/odd[1].csv", b"x"),
        ("/other/g.csv", b"x"),
    ])
}

fn found(path: &str, files: &MemoryFiles) -> Result<Vec<String>> {
    let discovery = discover(&FileSource::csv::<Row>(path), &shared(files), None)?;
    Ok(discovery.splits.iter().map(Split::id).collect())
}

#[test]
fn files_directories_and_patterns_name_files_sorted_by_path() {
    for (path, expected) in [
        ("/in/a.csv", vec!["/in/a.csv"]),
        ("/in", vec!["/in/a.csv", "/in/b.csv", "/in/c.txt", "/in/odd[1].csv"]),
        ("/in/", vec!["/in/a.csv", "/in/b.csv", "/in/c.txt", "/in/odd[1].csv"]),
        ("/in/*.csv", vec!["/in/a.csv", "/in/b.csv", "/in/odd[1].csv"]),
        ("/in/[ab].csv", vec!["/in/a.csv", "/in/b.csv"]),
        ("/in/?.*", vec!["/in/a.csv", "/in/b.csv", "/in/c.txt"]),
        ("/in/**/*.csv", vec!["/in/a.csv", "/in/b.csv", "/in/odd[1].csv", "/in/sub/d.csv", "/in/sub/deep/e.csv"]),
        ("/*/*.csv", vec!["/in/a.csv", "/in/b.csv", "/in/odd[1].csv", "/other/g.csv"]),
        ("/*/sub/**/e.csv", vec!["/in/sub/deep/e.csv"]),
        ("/in/*/*.csv", vec!["/in/sub/d.csv"]),
        ("/in/odd[1].csv", vec!["/in/odd[1].csv"]),
        ("in/*.txt", vec!["in/c.txt"]),
        ("*/c.txt", vec!["in/c.txt"]),
    ] {
        assert_eq!(found(path, &tree()).unwrap_or_else(|error| panic!("{path}: {error}")), expected, "{path}");
    }
}

#[test]
fn a_missing_file_is_an_error_with_how_far_the_path_exists() {
    let error = found("/in/sub/x/y.csv", &tree()).expect_err("missing");
    assert_error(&error, "F001", &["path=/in/sub/x/y.csv", "what exists of it is /in/sub"]);
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_error(&found("/in/a.csv/x", &tree()).expect_err("a file on the way"), "F001", &["path=/in/a.csv/x"]);
}

#[test]
fn a_directory_without_files_is_an_error_that_knows_of_directories_inside() {
    let files = tree();
    files.make_directory("/empty/.dots");
    assert_error(&found("/empty", &files).expect_err("empty"), "F002", &["path=/empty", "put files there"]);
    files.make_directory("/outer/inner");
    assert_error(&found("/outer", &files).expect_err("empty"), "F002", &["has 1 directories", "/outer/**/*"]);
}

#[test]
fn a_pattern_without_matches_or_that_is_none_is_an_error() {
    assert_error(&found("/in/*.parquet", &tree()).expect_err("no match"), "F003", &["path=/in/*.parquet", "what exists of it is /in"]);
    assert_error(&found("/nowhere/*.csv", &tree()).expect_err("no match"), "F003", &["path=/nowhere/*.csv"]);
    assert_error(
        &found("nowhere/*.csv", &tree()).expect_err("no match"),
        "F003",
        &["path=nowhere/*.csv", "relative to the working directory"],
    );
    assert_error(&found("/in/a**.csv", &tree()).expect_err("no pattern"), "F004", &["path=/in/a**.csv"]);
    assert_error(&found("/in/[.csv", &tree()).expect_err("no pattern"), "F004", &["path=/in/[.csv"]);
}

#[test]
fn directories_without_end_as_a_link_back_makes_them_are_an_error_and_not_read_over_and_over() {
    let below = |depth: usize| format!("/in{}/a.csv", "/loop".repeat(depth));
    assert_eq!(found("/in/**/*.csv", &with(&[(&below(32), b"x")])).expect("deep"), [below(32)]);
    let error = found("/in/**/*.csv", &with(&[(&below(33), b"x")])).expect_err("too deep");
    assert_error(&error, "F015", &["at most 32 directories", "path=/in/loop", "take the link away"]);
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn a_file_whose_name_is_not_utf8_is_an_error_and_not_passed_over() {
    let files = with(&[("/in/a\u{FFFD}.csv", b"x")]);
    assert_error(&found("/in", &files).expect_err("refused"), "F014", &["file=/in/a", "rename the file"]);
}

#[test]
fn no_permission_to_look_or_read_is_an_error_with_the_path() {
    for (operation, path, place) in [
        (Operation::Metadata, "/in/a.csv", "path=/in/a.csv"),
        (Operation::Open, "/in/a.csv", "path=/in/a.csv"),
        (Operation::List, "/in", "path=/in"),
        (Operation::List, "/in/**/*.csv", "path=/in"),
        (Operation::Read, "/in/a.csv", "path=/in/a.csv"),
    ] {
        let files = tree();
        files.fail(Fault { operation, path_has: "/in".into(), error: std::io::ErrorKind::PermissionDenied, after: 0 });
        let error = found(path, &files).expect_err("denied");
        assert_error(&error, "F005", &[place, "let the user that runs the job"]);
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    let files = tree();
    files.fail(Fault { operation: Operation::List, path_has: "/in".into(), error: std::io::ErrorKind::TimedOut, after: 0 });
    assert_eq!(found("/in", &files).expect_err("no answer").kind(), ErrorKind::Retry);
}

#[test]
fn other_compressions_and_utf16_are_named() {
    for (bytes, text) in [
        (&b"\xFD7zXZ\0...."[..], "an xz file"),
        (b"BZh91AY&SY....", "a bzip2 file"),
        (b"PK\x03\x04....", "a zip archive"),
        (b"PAR1....", "a Parquet file"),
        (b"\xFF\xFEi\0d\0", "UTF-16"),
    ] {
        assert_error(&found("/in", &with(&[("/in", bytes)])).expect_err("refused"), "F007", &["file=/in", text]);
    }
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let files = with(&[("/in", b"x")]);
    let source = || FileSource::csv::<Row>("/in");
    let json = || FileSource::json_lines::<Row>("/in");
    for (source, text) in [
        (source().delimiter(b'"'), "ASCII delimiter"),
        (source().delimiter(0xE9), "ASCII delimiter"),
        (source().splits(staunch_files::SplitSize::Bytes(0)), "at least one byte"),
        (source().line_bytes_max(0), "line_bytes_max"),
        (source().chunk_bytes(0), "chunk_bytes"),
        (source().watch(std::time::Duration::ZERO), "found zero"),
        (source().multiline(true).quotes(false), "needs quotes"),
        (json().headers(false), "`headers` is an option of CSV"),
        (FileSource::csv::<Row>(""), "expected a path"),
    ] {
        assert_error(&discover(&source, &shared(&files), None).expect_err(text), "F008", &[text]);
    }
    let maps = FileSource::csv::<std::collections::BTreeMap<String, String>>("/in").headers(false);
    assert_error(&discover(&maps, &shared(&files), None).expect_err("maps"), "F008", &["by position"]);
}
