//! Plans that cannot run, or not with what is stored.

use super::Case;
use super::embedded::{self, Kind};

pub(super) fn cases() -> Vec<Case> {
    let plan = |kind, code, spoilt| Case::new(kind, 4, code).run(embedded::spoilt(spoilt));
    let stored = |kind, code, spoilt| plan(kind, code, spoilt).spoil(|place| assert_eq!(embedded::ends(place, Kind::Good).code, 0));
    vec![
        plan("a job without a source", "J001", Kind::NoSource),
        plan("a parallelism of zero for one step", "J002", Kind::ZeroParallelism),
        plan("two operators with one name", "J003", Kind::DoubledName),
        plan("a stream that goes nowhere", "J004", Kind::Nowhere),
        plan("an operator with an empty name", "J005", Kind::EmptyName),
        plan("a job with an empty name", "J107", Kind::EmptyJobName),
        plan("two states of one operator with one name", "J012", Kind::DoubledState),
        stored("another number of key groups than the checkpoint has", "J008", Kind::OtherKeyGroups),
        stored("an operator with state under another name", "J009", Kind::OtherName),
    ]
}
