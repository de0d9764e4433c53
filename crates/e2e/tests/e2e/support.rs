//! Programs, inputs and folders of the tests.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use flate2::read::GzDecoder;
use staunch_e2e::flights::Case;
use staunch_e2e::job::{Job, Programs, data};
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

/// A plain file, unpacked once for all tests.
fn plain(packed: &str, kept: &'static OnceLock<(TempDir, PathBuf)>) -> &'static Path {
    let (_, path) = kept.get_or_init(|| {
        let folder = folder();
        let path = folder.path().join("flights.csv");
        let packed = fs::read(data().join(packed)).expect("the flights");
        let mut plain = Vec::new();
        GzDecoder::new(&packed[..]).read_to_end(&mut plain).expect("packed flights");
        fs::write(&path, plain).expect("room for the flights");
        (folder, path)
    });
    path
}

/// All flights.
pub(crate) fn year() -> &'static Path {
    static YEAR: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    plain("flights.csv.gz", &YEAR)
}

/// Those of January, for jobs that are started often.
pub(crate) fn january() -> &'static Path {
    static JANUARY: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    plain("demo/flights-2013-01.csv.gz", &JANUARY)
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
