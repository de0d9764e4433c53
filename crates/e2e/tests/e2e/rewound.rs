//! A person takes the job back to an older checkpoint.

use staunch_e2e::flights::Case;
use staunch_e2e::job::Start;
use staunch_e2e::lines;

use crate::support::{self, dies};

/// Epoch and generation in the name of a visible file: `part-<tag>-<epoch>-<generation>-<task>-<number>.csv`.
fn numbers(path: &std::path::Path) -> (u64, u64) {
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    let parts: Vec<&str> = name.split('-').collect();
    (parts[2].parse().expect("an epoch"), parts[3].parse().expect("a generation"))
}

#[test]
fn row_18_after_a_rewind_what_follows_is_new_output_and_nothing_is_skipped() {
    let (_folder, mut job) = support::january_job(Case::D);
    dies(&job, 3, "rename manifest 8: kill before");
    // Epochs 5 to 7 are kept, of which 7 may be in doubt.
    let ended = job.run(&Start::with(2).more(&["--restore", "5"])).and_then(|f| f.expect(0)).expect("the job ends well");
    assert_eq!(support::restored_from(&ended), Some(5));
    // What the first timeline wrote after epoch 5 stays: it was committed. The rewound one writes it again.
    for file in job.visible_files().expect("a list") {
        let (epoch, generation) = numbers(&file);
        if generation == 1 && epoch > 5 {
            let output = file.parent().and_then(|p| p.file_name()).expect("a folder").to_string_lossy().into_owned();
            lines::read_file(&file, job.expected.get_mut(&output).expect("an output")).expect("whole lines");
        }
        assert!(generation == 1 || epoch > 7, "an epoch of the first timeline was used again: {}", file.display());
    }
    job.check().unwrap_or_else(|error| panic!("{error:#}"));
}

#[test]
fn row_18_a_checkpoint_that_does_not_exist_is_refused() {
    let (_folder, job) = support::january_job(Case::D);
    dies(&job, 1, "rename manifest 3: kill before");
    let refused = job.run(&Start::with(2).more(&["--restore", "77"])).and_then(|f| f.expect(4)).expect("a refusal");
    assert!(refused.errors.contains("C014"), "{}", refused.errors);
    support::ends_well(&job, 2);
}
