//! Transcripts of assignment: `splits eager|on-request tasks=2 [known=a,b] [finished=a] [begun=b]`, `found a b`, `search ended`,
//! `requested 0`, `finished 0 a`.

use std::collections::BTreeSet;

use staunch_types::{KeyGroupCount, Tick};

use super::{Script, check, notices, words};
use crate::assign::{Effect, Event, Facts, Mode, Splits, key_group_ranges, restored_from};
use crate::mutation::Mutation;

struct Words(Splits<String>);

impl Default for Words {
    fn default() -> Self {
        Words(Splits::recover(Facts::default(), Mode::Eager))
    }
}

impl Words {
    fn set(&mut self, mode: &str, settings: &[&str]) {
        let mut facts = Facts::default();
        let names = |text: &str| text.split(',').map(String::from).collect::<BTreeSet<_>>();
        for setting in settings {
            match setting.split_once('=') {
                Some(("tasks", count)) => facts.parallelism = words::number(count),
                Some(("known", splits)) => facts.known = names(splits),
                Some(("finished", splits)) => facts.finished = names(splits),
                Some(("begun", splits)) => facts.begun = names(splits),
                _ => panic!("no setting `{setting}`"),
            }
        }
        self.0 = Splits::recover(facts, if mode == "eager" { Mode::Eager } else { Mode::OnRequest });
    }
}

impl Script for Words {
    const FOLDER: &'static str = "assign";

    fn line(&mut self, now: Tick, words: &[&str]) -> Vec<String> {
        let event = match words {
            ["splits", mode, settings @ ..] => {
                self.set(mode, settings);
                return Vec::new();
            }
            ["found", splits @ ..] => Event::Found { splits: splits.iter().map(ToString::to_string).collect() },
            ["search", "ended"] => Event::SearchEnded,
            ["requested", task] => Event::Requested { task: words::number(task) },
            ["finished", task, split] => Event::Finished { task: words::number(task), split: (*split).into() },
            _ => panic!("no event {words:?}"),
        };
        let mut out = Vec::new();
        self.0.step(now, event, &mut out);
        out.iter().map(show).collect()
    }
}

fn show(effect: &Effect<String>) -> String {
    match effect {
        Effect::Assign { task, split } => format!("assign {split} to {task}"),
        Effect::NoMoreSplits { task } => format!("no more splits for {task}"),
    }
}

#[test]
fn partitions_are_spread_evenly_and_new_ones_go_to_who_has_least() {
    check::<Words>("partitions_are_spread_evenly_and_new_ones_go_to_who_has_least");
}

#[test]
fn files_go_to_whoever_asks() {
    check::<Words>("files_go_to_whoever_asks");
}

#[test]
fn after_a_rescale_every_unfinished_split_is_given_out_once() {
    check::<Words>("after_a_rescale_every_unfinished_split_is_given_out_once");
}

#[test]
fn what_was_being_read_goes_out_at_once_after_a_restore() {
    check::<Words>("what_was_being_read_goes_out_at_once_after_a_restore");
}

#[test]
fn transcripts_of_assignment_notice_a_split_given_twice() {
    assert!(notices::<Words>("partitions_are_spread_evenly_and_new_ones_go_to_who_has_least", Mutation::SplitTwice));
}

#[test]
fn a_rescaled_task_restores_from_exactly_those_that_had_its_groups() {
    for count in [1, 7, 128, 1000] {
        let groups = KeyGroupCount::new(count).expect("valid");
        for (before, after) in [(3, 5), (5, 2), (1, 8), (8, 1), (300, 7), (4, 4)] {
            let old = key_group_ranges(groups, before);
            for (index, range) in key_group_ranges(groups, after).into_iter().enumerate() {
                let from = restored_from(groups, index as u32, after, before);
                for (task, old_range) in (0..before).zip(&old).filter(|(_, old_range)| !old_range.is_empty()) {
                    let shares = !range.is_empty() && old_range.overlaps(range);
                    assert_eq!(from.contains(&task), shares, "{count} groups, {before}->{after}, task {index} from {task}");
                }
            }
        }
    }
}
