//! A checkpoint store that cannot be written, fills up, goes away or gives back other bytes.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use staunch_e2e::flights::Case;
use staunch_e2e::job::{Job, PATIENCE, Start};
use staunch_e2e::process::{Finished, Running};

use crate::support::{self, SLOW, all_files, dies, ends_well};

/// The error that ended the job names the store and the code, once in each start.
fn fails_with(job: &Job, start: &Start, exit: i32, code: &str) -> Finished {
    let failed = job.run(start).and_then(|f| f.expect(exit)).unwrap_or_else(|error| panic!("{}: {error:#}", start.script));
    assert!(failed.errors.contains(code), "{}: no {code} in:\n{}", start.script, failed.errors);
    failed
}

#[test]
fn row_22_a_store_that_cannot_be_written_is_refused_at_the_start() {
    let scripts = [
        "create store 1+: read-only before",
        "append store 1+: full before",
        "rename store 1+: denied before",
        "directory store 1+: read-only before",
    ];
    support::each(&scripts, |script| {
        let (_folder, job) = support::january_job(Case::D);
        fails_with(&job, &Start::with(2).script(script), 4, "C011");
        assert!(job.visible_files().expect("a list").is_empty());
        ends_well(&job, 2);
    });
}

/// One failed checkpoint leads to a restart, the second of those ends the job: as the defaults, but in seconds.
fn impatient(start: Start) -> Start {
    start.more(&["--failures-tolerated", "0", "--restarts-tolerated", "1"])
}

#[test]
fn row_22_a_store_that_fills_up_fails_the_job_with_the_reason_and_output_never_runs_ahead() {
    support::each(&["append state 8+: full before", "create manifest 4+: full before", "append ledger 7+: full before"], |script| {
        let (_folder, job) = support::january_job(Case::D);
        let failed = fails_with(&job, &impatient(Start::with(2).slow(SLOW).script(script)), 1, "J010");
        assert!(failed.errors.contains("No space left"), "{script}: the reason is not told:\n{}", failed.errors);
        // What is visible is exactly what the ledger says.
        job.verify().and_then(|f| f.expect(0)).unwrap_or_else(|error| panic!("{script}: {error:#}"));
        ends_well(&job, 3);
    });
}

#[test]
fn row_22_a_store_that_refuses_for_a_moment_delays_an_epoch_and_loses_nothing() {
    let (_folder, job) = support::january_job(Case::D);
    let script =
        "append state 5: full before; rename state 9: broken before; create manifest 4: full before; rename ledger 9: broken before";
    let ended = job.run(&Start::with(2).slow(SLOW).script(script)).and_then(|f| f.expect(0)).expect("the job ends well");
    assert!(ended.lines.iter().any(|l| l.starts_with("failed ")), "no epoch failed: {:?}", ended.lines);
    job.check().unwrap_or_else(|error| panic!("{error:#}"));
}

#[test]
fn row_22_a_store_that_goes_away_while_the_job_runs_fails_it_and_output_never_runs_ahead() {
    let (_folder, job) = support::january_job(Case::D);
    let mut running = job.start(&impatient(Start::with(2).slow(SLOW))).expect("a start");
    running.until(PATIENCE, "third epoch", |l| l.starts_with("committed 3")).expect("progress");
    let away = job.root.join("away");
    fs::rename(job.checkpoints(), &away).expect("a rename");
    let failed = running.wait(PATIENCE).and_then(|f| f.expect(1)).expect("a failure");
    assert!(failed.errors.contains("error[J010]"), "{}", failed.errors);
    assert!(failed.errors.contains(&job.folder().display().to_string()), "the directory is not named:\n{}", failed.errors);
    assert!(!job.checkpoints().exists(), "the store was begun anew: {:?}", all_files(&job.checkpoints()));
    // Brought back, the store is as it was, and the job goes on.
    fs::rename(&away, job.checkpoints()).expect("a rename");
    job.verify().and_then(|f| f.expect(0)).expect("what is visible is what the ledger says");
    ends_well(&job, 3);
}

/// A real disk of one megabyte, where the system lets us have one.
#[test]
fn row_22_a_really_full_disk_fails_the_job_with_the_reason() {
    let (folder, job) = support::year_job(Case::C);
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).expect("a folder");
    let own_mount = |words: &[OsString]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", "mount -t tmpfs -o size=1m tmpfs \"$0\" && exec \"$@\""]).arg(&disk).args(words);
        command
    };
    if !own_mount(&["true".into()]).output().is_ok_and(|o| o.status.success()) {
        eprintln!("no mount of our own on this machine: the script of the other tests has to do");
        return;
    }
    let mut words = job.words(&Start::with(2).slow(4_000_000).interval(Duration::from_millis(20)));
    let directory = words.iter().position(|w| w == "--checkpoint-dir").expect("an option") + 1;
    words[directory] = disk.clone().into();
    words.extend(["--failures-tolerated", "0", "--restarts-tolerated", "1"].map(OsString::from));
    let failed = Running::start(own_mount(&words)).and_then(|r| r.wait(PATIENCE)).and_then(|f| f.expect(1)).expect("a failure");
    assert!(failed.errors.contains("No space left"), "{}", failed.errors);
}

/// What one kind of damage makes of an object.
type Damage = fn(&[u8]) -> Vec<u8>;

const DAMAGES: [(&str, Damage); 5] = [
    ("a flipped bit at the front", |bytes| flipped(bytes, 0)),
    ("a flipped bit in the middle", |bytes| flipped(bytes, bytes.len() / 2)),
    ("a flipped bit at the end", |bytes| flipped(bytes, bytes.len() - 1)),
    ("half of it cut off", |bytes| bytes[..bytes.len() / 2].to_vec()),
    ("nothing left", |_| Vec::new()),
];
/// Not for state: what lies behind the blocks that a manifest names is never read.
const LONGER: (&str, Damage) = ("a byte too many", |bytes| [bytes, &[0]].concat());

fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 0x10;
    bytes
}

/// The newest object of a kind that the newest checkpoint, of epoch 6, needs.
fn newest(job: &Job, folder: &str) -> PathBuf {
    let mut objects = all_files(&job.folder().join(folder));
    // Those of epoch 7, which was never sealed, are of no interest to anybody.
    objects.retain(|path| !path.contains("/e0000000007-") && !path.ends_with(".unfinished"));
    PathBuf::from(objects.pop().expect("an object"))
}

/// A job that was killed with some epochs kept.
fn killed() -> (tempfile::TempDir, Job) {
    let (folder, job) = support::january_job(Case::D);
    dies(&job, 2, "rename manifest 7: kill before");
    (folder, job)
}

fn is_corrupt(job: &Job, file: &Path, what: &str, more: &[&str]) {
    let before = job.visible_files().expect("a list");
    let refused = job.run(&Start::with(2).more(more)).and_then(|f| f.expect(1)).unwrap_or_else(|e| panic!("{what}: {e:#}"));
    let name = file.file_name().expect("a name").to_string_lossy();
    assert!(refused.errors.contains(&*name), "{what} of {name}: the file is not named:\n{}", refused.errors);
    assert_eq!(job.visible_files().expect("a list"), before, "{what}: output became visible");
    let verified = job.verify().and_then(|f| f.expect(1)).unwrap_or_else(|e| panic!("{what} of {name}: {e:#}"));
    assert!(verified.errors.contains(&*name), "{what} of {name}: verify does not name it:\n{}", verified.errors);
}

fn damage_is_named(folder: &str, also_older: bool) {
    let (_folder, job) = killed();
    let kept = support::copy_of(&job);
    let file = newest(&job, folder);
    let original = fs::read(&file).expect("an object");
    let longer = (folder != "state").then_some(LONGER);
    for (what, damage) in DAMAGES.into_iter().chain(longer) {
        fs::write(&file, damage(&original)).expect("room");
        is_corrupt(&job, &file, what, &[]);
        fs::write(&file, &original).expect("room");
    }
    fs::remove_file(&file).expect("an object");
    if folder != "ledger" {
        is_corrupt(&job, &file, "a missing object", &[]);
    }
    if also_older {
        kept.restore(&job);
        fs::write(&file, &original[..10]).expect("room");
        let ended = job.run(&Start::with(2).more(&["--restore", "5"])).and_then(|f| f.expect(0)).expect("an older one is restored");
        assert_eq!(support::restored_from(&ended), Some(5));
    }
    kept.restore(&job);
    ends_well(&job, 3);
}

#[test]
fn row_23_a_damaged_manifest_is_named_and_an_older_one_can_be_restored() {
    damage_is_named("manifests", true);
}

#[test]
fn row_23_damaged_state_is_named_and_older_state_can_be_restored() {
    damage_is_named("state", true);
}

#[test]
fn row_23_a_damaged_ledger_entry_is_named() {
    damage_is_named("ledger", false);
}

#[test]
fn row_23_a_ledger_entry_that_is_gone_from_the_middle_is_missed() {
    let (_folder, job) = killed();
    let kept = support::copy_of(&job);
    let entries = all_files(&job.folder().join("ledger"));
    fs::remove_file(&entries[entries.len() / 2]).expect("an entry");
    let refused = job.run(&Start::with(2)).and_then(|f| f.expect(1)).expect("a refusal");
    assert!(refused.errors.contains("ledger/"), "{}", refused.errors);
    job.verify().and_then(|f| f.expect(1)).expect("a finding");
    kept.restore(&job);
    ends_well(&job, 3);
}
