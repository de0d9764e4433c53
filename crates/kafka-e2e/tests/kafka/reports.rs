//! Faults that users of other systems met, at a real broker.

use crate::support::bed;

#[test]
fn report_03_restoring_twice_finds_the_commit_done() {
    let mut bed = bed("report-03");
    // Committed and not recorded; the next generation finds that and dies before its first checkpoint; and once more.
    bed.dies(2, "rename manifest 2, commit sink 1, rename ledger 1: kill before");
    for parallelism in [3, 1] {
        bed.dies(parallelism, "rename manifest 1: kill before");
    }
    bed.ends_well(2);
}
