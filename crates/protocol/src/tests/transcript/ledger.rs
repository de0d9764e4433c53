//! Transcripts of the ledger: `ledger head=3 generation=1`, `claim`, `append stopped|committed e1`, `store op1 appended` …, `time`.

use staunch_types::{Epoch, Generation, LedgerSeq, Tick};

use super::{Script, check, notices, told, until, words};
use crate::ledger::{Answer, Claimant, Effect, Entry, Event, Facts, Found, Ledger, Limits, Origin, holds_all_facts};
use crate::mutation::Mutation;
use crate::{Attempt, Reason};

struct Words(Ledger);

impl Default for Words {
    fn default() -> Self {
        Words(Ledger::recover(Facts::default(), Origin::Empty, Claimant(1), Limits::default()))
    }
}

fn facts(head: &str, generation: &str) -> Facts {
    let generation = Generation(value(generation, "generation="));
    Facts { head: LedgerSeq(value(head, "head=")), generation, ..Facts::default() }
}

fn value<T: std::str::FromStr>(word: &str, name: &str) -> T {
    words::number(word.strip_prefix(name).unwrap_or_else(|| panic!("expected `{name}`, found `{word}`")))
}

impl Script for Words {
    const FOLDER: &'static str = "ledger";

    fn line(&mut self, now: Tick, words: &[&str]) -> Vec<String> {
        let generation = self.0.generation();
        let answered = |op, answer| Event::Answered { op: words::op(op), answer };
        let event = match words {
            ["ledger", head, generation] => {
                self.0 = Ledger::recover(
                    facts(head, generation),
                    Origin::Empty,
                    Claimant(1),
                    Limits { claims_max: 2, attempts_max: 3, ..Limits::default() },
                );
                return Vec::new();
            }
            ["claim"] => Event::ClaimRequested,
            ["append", "stopped"] => Event::AppendRequested(Entry::Stopped { generation }),
            ["append", "committed", epoch] => {
                let epoch = words::epoch(epoch);
                Event::AppendRequested(Entry::Committed { epoch, generation, lost: Vec::new(), resent: Vec::new() })
            }
            ["store", op, "appended"] => answered(op, Answer::Appended),
            ["store", op, "conflicted"] => answered(op, Answer::Conflicted),
            ["store", op, "unanswered"] => answered(op, Answer::Unanswered),
            ["store", op, "refused", kind] => answered(op, Answer::Refused { kind: words::kind(kind) }),
            ["store", op, "found", "own"] => answered(op, Answer::Found(Found::Own)),
            ["store", op, "found", "other"] => answered(op, Answer::Found(Found::Other)),
            ["store", op, "found", "absent"] => answered(op, Answer::Found(Found::Absent)),
            ["store", op, "read-failed"] => answered(op, Answer::ReadFailed),
            ["store", op, "reloaded", head, generation] => {
                answered(op, Answer::Reloaded { facts: facts(head, generation), origin: Origin::Empty })
            }
            ["time"] => Event::TimePassed,
            _ => panic!("no event {words:?}"),
        };
        let (stale, deadline, mut out) = (self.0.stale_events(), self.0.deadline(), Vec::new());
        self.0.step(now, event, &mut out);
        let mut lines = told(&out, show, [stale, self.0.stale_events()]);
        lines.extend(until(deadline, self.0.deadline()));
        lines
    }
}

fn show(effect: &Effect) -> String {
    match effect {
        Effect::Append { op, seq, entry } => format!("append {op} at {seq}: {}", words::entry(entry)),
        Effect::ReadBack { op, seq } => format!("read back {op} at {seq}"),
        Effect::Reload { op } => format!("reload {op}"),
        Effect::Claimed { facts } => format!("is claimed: generation {} at {}", facts.generation, facts.head),
        Effect::Appended { entry } => format!("is appended: {}", words::entry(entry)),
        Effect::Refused { entry, kind } => format!("is refused ({}): {}", words::lower(kind), words::entry(entry)),
        Effect::Unknown { entry } => format!("is unknown: {}", words::entry(entry)),
        Effect::Fenced => "fenced".into(),
    }
}

#[test]
fn appends_wait_for_their_turn_behind_the_claim() {
    check::<Words>("appends_wait_for_their_turn_behind_the_claim");
}

#[test]
fn a_lost_answer_is_read_back() {
    check::<Words>("a_lost_answer_is_read_back");
}

#[test]
fn an_append_that_may_still_arrive_is_never_given_up_as_absent() {
    check::<Words>("an_append_that_may_still_arrive_is_never_given_up_as_absent");
}

#[test]
fn a_stale_generation_cannot_append() {
    check::<Words>("a_stale_generation_cannot_append");
}

#[test]
fn a_lost_race_for_a_claim_is_run_again() {
    check::<Words>("a_lost_race_for_a_claim_is_run_again");
}

#[test]
fn a_refused_append_is_reported_and_the_next_one_tried() {
    check::<Words>("a_refused_append_is_reported_and_the_next_one_tried");
}

#[test]
fn transcripts_of_the_ledger_notice_broken_rules() {
    assert!(notices::<Words>("a_lost_answer_is_read_back", Mutation::TrustLostAnswer));
    assert!(notices::<Words>("an_append_that_may_still_arrive_is_never_given_up_as_absent", Mutation::GiveUpDoubtful));
    assert!(notices::<Words>("a_stale_generation_cannot_append", Mutation::IgnoreConflict));
    assert!(notices::<Words>("a_lost_race_for_a_claim_is_run_again", Mutation::ReclaimGeneration));
}

fn sealed(epoch: u64, generation: u64, settled: u64) -> Entry {
    let attempt = Attempt { epoch: Epoch(epoch), generation: words::generation(&format!("g{generation}")) };
    let committables = vec![words::committable(&format!("{attempt}:sink0:0/0#0"))];
    Entry::Sealed { attempt, reason: Reason::Interval, committables, settled: Epoch(settled) }
}

fn committed(epoch: u64, generation: u64) -> Entry {
    Entry::Committed { epoch: Epoch(epoch), generation: words::generation(&format!("g{generation}")), lost: Vec::new(), resent: Vec::new() }
}

fn claimed(generation: u64, origin: Origin) -> Entry {
    Entry::Claimed { generation: words::generation(&format!("g{generation}")), claimant: Claimant(generation.into()), origin }
}

fn numbered(entries: &[Entry], first: usize) -> impl Iterator<Item = (LedgerSeq, &Entry)> {
    entries.iter().enumerate().skip(first).map(|(at, entry)| (LedgerSeq(at as u64 + 1), entry))
}

#[test]
fn a_suffix_that_holds_all_facts_gives_the_facts_of_the_whole_ledger() {
    let entries = [
        claimed(1, Origin::Empty),
        sealed(1, 1, 0),
        sealed(2, 1, 0),
        committed(1, 1),
        committed(2, 1),
        sealed(3, 1, 2),
        sealed(4, 1, 2),
        committed(3, 1),
        claimed(2, Origin::Epoch(Epoch(2))),
        claimed(3, Origin::Epoch(Epoch(2))),
        committed(4, 3),
        sealed(7, 3, 6),
        Entry::Stopped { generation: words::generation("g3") },
        claimed(4, Origin::Epoch(Epoch(7))),
    ];
    let mut enough = 0;
    for end in 1..=entries.len() {
        let whole = Facts::of(numbered(&entries[..end], 0)).expect("in order");
        for first in (0..end).filter(|first| holds_all_facts(&entries[*first..end])) {
            let suffix = Facts::of(numbered(&entries[..end], first)).expect("in order");
            assert_eq!(suffix, whole, "first={first} end={end}");
            enough += 1;
        }
    }
    assert!(enough > 20, "only {enough} suffixes were enough");
}

#[test]
fn a_ledger_whose_entries_cannot_follow_each_other_is_corrupt() {
    let code = |entries: &[Entry]| Facts::of(numbered(entries, 0)).expect_err("damaged").code().to_owned();
    assert_eq!(code(&[claimed(2, Origin::Empty), claimed(2, Origin::Empty)]), "C202");
    assert_eq!(code(&[claimed(2, Origin::Empty), sealed(1, 1, 0)]), "C202");
    assert_eq!(code(&[sealed(1, 1, 0)]), "C202");
    assert_eq!(code(&[claimed(1, Origin::Empty), sealed(2, 1, 0), sealed(2, 1, 0)]), "C203");
    let gap = [(LedgerSeq(1), claimed(1, Origin::Empty)), (LedgerSeq(3), sealed(1, 1, 0))];
    assert_eq!(Facts::of(gap.iter().map(|(seq, entry)| (*seq, entry))).expect_err("a gap").code(), "C201");
}
