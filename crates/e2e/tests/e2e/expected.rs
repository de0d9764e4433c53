//! The jobs on flights give what another engine gave, at every parallelism.

use staunch_e2e::flights::Case;
use staunch_e2e::job::Start;
use staunch_e2e::straight;

use crate::support;

fn equals_expected(case: Case, parallelisms: &[u32]) {
    for parallelism in parallelisms {
        let (_folder, job) = support::year_job(case);
        let ended = job.run(&Start::with(*parallelism)).and_then(|f| f.expect(0)).and_then(|_| job.check());
        ended.unwrap_or_else(|error| panic!("case {} with {parallelism} tasks: {error:#}", case.word()));
    }
}

#[test]
fn tumbling_windows_by_origin_equal_the_expected_ones_at_every_parallelism() {
    equals_expected(Case::A, &[1, 2, 3, 7]);
}

#[test]
fn hopping_windows_by_carrier_equal_the_expected_ones_at_every_parallelism() {
    equals_expected(Case::B, &[1, 2, 3, 7]);
}

#[test]
fn sessions_by_aeroplane_equal_the_expected_ones_at_every_parallelism() {
    equals_expected(Case::C, &[1, 2, 3, 7]);
}

#[test]
fn late_records_are_the_same_ones_at_every_parallelism() {
    equals_expected(Case::D, &[1, 3]);
}

#[test]
fn the_straight_line_gives_what_the_other_engine_gave() {
    let (_folder, job) = support::year_job(Case::D);
    let straight = straight::expected(Case::D, support::year()).expect("the flights");
    assert!(straight == job.expected, "the oracle of the tests over January is wrong");
}

#[test]
fn a_compressed_file_gives_what_the_plain_one_gives() {
    let (_folder, mut job) = support::year_job(Case::A);
    job.input = staunch_e2e::job::data().join("flights.csv.gz");
    let ended = job.run(&Start::with(2)).and_then(|f| f.expect(0)).and_then(|_| job.check());
    ended.unwrap_or_else(|error| panic!("{error:#}"));
}
