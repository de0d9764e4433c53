//! Programs, inputs and folders of the tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;

use flate2::read::GzDecoder;
use staunch_e2e::flights::Case;
use staunch_e2e::job::{Job, Programs, Start, data};
use staunch_e2e::process::Finished;
use staunch_e2e::straight;
use tempfile::TempDir;

/// The programs under test.
pub(crate) fn programs() -> Programs {
    Programs {
        flights: PathBuf::from(env!("CARGO_BIN_EXE_flights")),
        staunch: PathBuf::from(env!("CARGO_BIN_EXE_staunch-under-test")),
        data: data(),
    }
}

/// A folder that goes with the test.
pub(crate) fn folder() -> TempDir {
    tempfile::Builder::new().prefix("staunch-e2e-").tempdir().expect("a temporary folder")
}

/// A plain file, unpacked once for all tests, where Cargo keeps what tests need: a static would not be dropped, and its folder stay.
fn plain(packed: &str, name: &str) -> PathBuf {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let packed = fs::read(data().join(packed)).expect("the flights");
    let mut unpacked = tempfile::NamedTempFile::new_in(kept).expect("a file");
    std::io::copy(&mut GzDecoder::new(&packed[..]), &mut unpacked).expect("room for the flights");
    let path = kept.join(name);
    unpacked.persist(&path).expect("a rename");
    path
}

/// All flights.
pub(crate) fn year() -> &'static Path {
    static YEAR: OnceLock<PathBuf> = OnceLock::new();
    YEAR.get_or_init(|| plain("flights.csv.gz", "flights-2013.csv"))
}

/// Those of January, for jobs that are started often.
pub(crate) fn january() -> &'static Path {
    static JANUARY: OnceLock<PathBuf> = OnceLock::new();
    JANUARY.get_or_init(|| plain("demo/flights-2013-01.csv.gz", "flights-2013-01.csv"))
}

/// A job over all flights, in a folder of its own.
pub(crate) fn year_job(case: Case) -> (TempDir, Job) {
    let folder = folder();
    let job = Job::over_all_flights(&programs(), case, year(), folder.path()).expect("the expectation");
    (folder, job)
}

/// A job over January, in a folder of its own; what is expected was made by a straight line of code.
pub(crate) fn january_job(case: Case) -> (TempDir, Job) {
    let folder = folder();
    let expected = straight::expected(case, january()).expect("the flights of January");
    let job = Job::new(&programs(), case, january(), folder.path(), expected);
    (folder, job)
}

/// The paths of all files below a folder.
pub(crate) fn all_files(folder: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(all_files(&path));
        } else {
            files.push(path.display().to_string());
        }
    }
    files.sort();
    files
}

/// So slow that the input lasts for many checkpoints.
pub(crate) const SLOW: u64 = 500_000;

/// Does the same with each of some cases, all at the same time: most of a case is waiting for its processes.
pub(crate) fn each<T: Copy + Send>(cases: &[T], test: impl Fn(T) + Sync) {
    thread::scope(|scope| {
        let test = &test;
        let running: Vec<_> = cases
            .iter()
            .map(|case| {
                let case = *case;
                scope.spawn(move || test(case))
            })
            .collect();
        let failed = running.into_iter().filter_map(|r| r.join().err()).count();
        assert!(failed == 0, "{failed} of {} cases failed; what each said is above", cases.len());
    });
}

/// Starts the job, which dies as the script says.
pub(crate) fn dies(job: &Job, parallelism: u32, script: &str) -> Finished {
    let finished = job.run(&Start::with(parallelism).slow(SLOW).script(script));
    finished.and_then(|finished| finished.expect_killed(&format!("the script \"{script}\""))).unwrap_or_else(|error| panic!("{error:#}"))
}

/// Lets the job end, and checks all that it leaves.
pub(crate) fn ends_well(job: &Job, parallelism: u32) -> Finished {
    let ended = job.run(&Start::with(parallelism)).and_then(|f| f.expect(0)).expect("the job ends well");
    job.check().unwrap_or_else(|error| panic!("{error:#}"));
    let left = unfinished(job);
    assert!(left.is_empty(), "half-written objects were never collected: {left:?}");
    ended
}

/// Half-written objects in the store.
pub(crate) fn unfinished(job: &Job) -> Vec<String> {
    all_files(&job.folder()).into_iter().filter(|f| f.ends_with(".unfinished")).collect()
}

/// What `staunch txn list` says.
pub(crate) fn in_doubt(job: &Job) -> String {
    job.staunch(&["txn", "list", &job.folder().display().to_string()]).and_then(|f| f.expect(0)).expect("an answer").lines.join("\n")
}

/// The epoch that a process began from.
pub(crate) fn restored_from(finished: &Finished) -> Option<u64> {
    let claimed = finished.lines.iter().find(|l| l.starts_with("claimed ")).expect("a claim");
    claimed.split_once(" from ").map(|(_, epoch)| epoch.parse().expect("a number"))
}

/// Checkpoints and output of a job at a moment when it does not run.
pub(crate) struct Kept(TempDir);

/// Copies them.
pub(crate) fn copy_of(job: &Job) -> Kept {
    let copy = folder();
    for name in ["checkpoints", "output"] {
        copy_folder(&job.root.join(name), &copy.path().join(name));
    }
    Kept(copy)
}

impl Kept {
    /// Brings them back.
    pub(crate) fn restore(&self, job: &Job) {
        for name in ["checkpoints", "output"] {
            fs::remove_dir_all(job.root.join(name)).expect("a folder");
            copy_folder(&self.0.path().join(name), &job.root.join(name));
        }
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).expect("room");
        }
    }
}
