use staunch_sim::explore::explore;

#[test]
fn the_same_seed_gives_the_same_history_byte_by_byte() {
    for seed in [2, 3, 5, 8, 13] {
        let (first, second) = (explore(seed), explore(seed));
        assert!(first.history() == second.history(), "seed {seed} has two histories");
        assert!(first.steps > 50, "seed {seed} has only {} steps", first.steps);
    }
}

#[test]
fn another_seed_gives_another_history() {
    assert_ne!(explore(2).history(), explore(3).history());
}
