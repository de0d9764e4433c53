//! Output that somebody changed: `staunch verify` says so, and where.

use std::fs;
use std::path::PathBuf;

use staunch_e2e::flights::Case;
use staunch_e2e::job::{Job, Start};

use crate::support;

/// A job that has ended, with several files.
fn ended() -> (tempfile::TempDir, Job) {
    let (folder, job) = support::january_job(Case::D);
    job.run(&Start::with(2).slow(2_000_000)).and_then(|f| f.expect(0)).expect("the job ends well");
    job.check().unwrap_or_else(|error| panic!("{error:#}"));
    (folder, job)
}

/// The largest visible file.
fn largest(job: &Job) -> PathBuf {
    job.visible_files().expect("a list").into_iter().max_by_key(|f| fs::metadata(f).map_or(0, |m| m.len())).expect("a file")
}

/// Changes the largest file; verify must name it, and be content again when it is as it was.
fn is_noticed(job: &Job, what: &str, change: impl FnOnce(&str) -> String) {
    let file = largest(job);
    let before = fs::read_to_string(&file).expect("a text");
    let changed = change(&before);
    assert_ne!(changed, before, "{what}: nothing was changed");
    fs::write(&file, changed).expect("room");
    names(job, what, &file);
    fs::write(&file, before).expect("room");
    job.verify().and_then(|f| f.expect(0)).expect("the output is as it was");
}

fn names(job: &Job, what: &str, file: &std::path::Path) {
    let said = job.verify().and_then(|f| f.expect(1)).unwrap_or_else(|error| panic!("{what} went unnoticed: {error:#}"));
    let name = file.file_name().expect("a name").to_string_lossy();
    assert!(said.errors.contains(&*name), "{what}: the file is not named:\n{}", said.errors);
}

#[test]
fn verify_notices_a_line_that_was_deleted_doubled_changed_or_moved() {
    let (_folder, job) = ended();
    let nth = |text: &str, n: usize| text.lines().nth(n).map(|l| format!("{l}\n")).expect("a line");
    is_noticed(&job, "a deleted line", |text| text.replacen(&nth(text, 3), "", 1));
    is_noticed(&job, "a doubled line", |text| text.replacen(&nth(text, 3), &nth(text, 3).repeat(2), 1));
    is_noticed(&job, "a changed digit", |text| {
        let line = nth(text, 3);
        let other: String = line.chars().map(|c| if c == '1' { '2' } else { c }).collect();
        text.replacen(&line, &other, 1)
    });
    is_noticed(&job, "one line in the place of another", |text| text.replacen(&nth(text, 3), &nth(text, 4), 1));
    is_noticed(&job, "a line of another's", |text| format!("{text}999999,1357040700000,EWR\n"));
    is_noticed(&job, "a cut last line", |text| text[..text.len() - 4].to_owned());
    is_noticed(&job, "an empty file", |_| String::new());
    is_noticed(&job, "another header", |text| text.replacen("origin", "airport", 1));
}

#[test]
fn verify_notices_a_file_that_was_removed_or_copied() {
    let (_folder, job) = ended();
    let file = largest(&job);
    let away = file.with_file_name("elsewhere");
    fs::rename(&file, &away).expect("a rename");
    names(&job, "a removed file", &file);
    fs::rename(&away, &file).expect("a rename");
    let copy = PathBuf::from(file.display().to_string().replace(".csv", "77.csv"));
    assert_ne!(copy, file);
    fs::copy(&file, &copy).expect("room");
    names(&job, "a copied file", &copy);
    fs::remove_file(&copy).expect("a copy");
    job.verify().and_then(|f| f.expect(0)).expect("the output is as it was");
}
