//! Programs, inputs and folders of the tests.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use flate2::read::GzDecoder;
use staunch_e2e::flights::Case;
use staunch_e2e::job::{Job, Programs, data};
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

/// All flights as one plain file, unpacked once for all tests.
pub(crate) fn plain_flights() -> &'static Path {
    static PLAIN: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = PLAIN.get_or_init(|| {
        let folder = folder();
        let path = folder.path().join("flights.csv");
        let packed = fs::read(data().join("flights.csv.gz")).expect("the flights");
        let mut plain = Vec::new();
        GzDecoder::new(&packed[..]).read_to_end(&mut plain).expect("packed flights");
        fs::write(&path, plain).expect("room for the flights");
        (folder, path)
    });
    path
}

/// A job in a folder of its own, over the plain file.
pub(crate) fn job(case: Case) -> (TempDir, Job) {
    let folder = folder();
    let job = Job::new(&programs(), case, plain_flights(), folder.path());
    (folder, job)
}
