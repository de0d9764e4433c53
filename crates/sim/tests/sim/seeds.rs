//! A fixed set of seeds: those that once found a fault, and the first few hundred.

use staunch_sim::explore::explore;

/// Seeds that found a fault, with what it was. Code that changes gives a seed another meaning; the fault itself has a scenario in `found`.
const FOUND: &str = include_str!("seeds.txt");
/// Other seeds.
const OTHERS: u64 = 300;

fn all_is_well(seeds: impl Iterator<Item = u64>) {
    for seed in seeds {
        let report = explore(seed);
        assert!(report.violation.is_none(), "{}", report.text(200));
    }
}

#[test]
fn seeds_that_found_a_fault_find_none_now() {
    let seeds = FOUND.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_whitespace().next());
    let seeds: Vec<u64> = seeds.map(|seed| seed.parse().unwrap_or_else(|error| panic!("seed {seed:?}: {error}"))).collect();
    assert!(!seeds.is_empty());
    all_is_well(seeds.into_iter());
}

#[test]
fn the_first_seeds_find_no_fault() {
    all_is_well(0..OTHERS / 2);
}

#[test]
fn the_next_seeds_find_no_fault() {
    all_is_well(OTHERS / 2..OTHERS);
}
