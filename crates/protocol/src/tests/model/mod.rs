//! The model: coordinators, tasks, the ledger and an outside system composed, and every history of them within a budget of faults explored.
//!
//! Owns: the promises E1 to E8 and E10 as checks, the worlds they are checked in, and the proof that breaking a rule is noticed.
//! Does not own: the machines, which are those of production, unchanged.
//!
//! Each test explores all interleavings of messages, requests, answers and the faults in its budget. `--nocapture` shows how
//! many states that are.

mod check;
mod digest;
mod explore;
mod outside;
mod requests;
mod scenario;
mod shared;
mod tasks;
mod world;

use crate::commit::LostPolicy;
use crate::mutation::{Mutation, with};
use explore::{Violation, explore};
use scenario::{Budget, Ends, Orphans, Scenario};

const ONE_EPOCH: Budget = Budget {
    epochs: 1,
    crashes: 0,
    takeovers: 0,
    lost_answers: 0,
    lost_messages: 0,
    late_news: 0,
    repeats: 0,
    failed_uploads: 0,
    refusals: 0,
    expiries: 0,
    stops: 0,
    rewinds: 0,
};

/// Explores a scenario in which every promise must hold.
fn holds(scenario: &Scenario) {
    let outcome = explore(scenario);
    if let Some(violation) = &outcome.violation {
        panic!("{}: {}\n{}", scenario.name, violation.promise, violation.trace.join("\n"));
    }
    println!("{}: {} states, {} steps, {} ends", scenario.name, outcome.states, outcome.steps, outcome.ends);
    assert!(outcome.ends > 0, "no history ends");
}

fn fused(name: &'static str, budget: Budget) -> Scenario {
    Scenario::fused(name, budget)
}

fn joined(name: &'static str, budget: Budget) -> Scenario {
    Scenario::joined(name, budget)
}

#[test]
fn without_faults_everything_is_committed_once() {
    holds(&fused("two writers", ONE_EPOCH));
    holds(&fused("two records each", Budget { epochs: 2, ..ONE_EPOCH }).with_records([2, 2]));
    holds(&joined("channels", ONE_EPOCH));
}

#[test]
fn crashes_neither_lose_nor_double() {
    holds(&joined("channels, two crashes", Budget { crashes: 2, ..ONE_EPOCH }));
    holds(&fused("two records, a crash", Budget { crashes: 1, ..ONE_EPOCH }).with_records([2, 2]));
}

#[test]
fn crashes_while_recovering_lead_to_the_same_result() {
    holds(&fused("three crashes", Budget { crashes: 3, ..ONE_EPOCH }));
}

#[test]
fn lost_answers_are_found_out() {
    holds(&fused("two lost answers", Budget { lost_answers: 2, ..ONE_EPOCH }));
    holds(&fused("a lost answer, a crash", Budget { lost_answers: 1, crashes: 1, ..ONE_EPOCH }));
}

#[test]
fn lost_late_and_repeated_messages_change_nothing() {
    holds(&joined("channels, a lost message", Budget { lost_messages: 1, ..ONE_EPOCH }));
    holds(&fused("a lost message, a crash", Budget { lost_messages: 1, crashes: 1, ..ONE_EPOCH }));
    holds(&fused("a lost message, late news", Budget { lost_messages: 1, late_news: 1, ..ONE_EPOCH }));
    holds(&fused("a repeat, late news", Budget { repeats: 1, late_news: 1, ..ONE_EPOCH }));
}

#[test]
fn what_an_abandoned_epoch_prepared_is_committed_with_the_next() {
    let upload = joined("channels, a failed upload", Budget { failed_uploads: 1, ..ONE_EPOCH });
    holds(&Scenario { sinks: 1, ..upload }.with_records([1, 0]));
    holds(&fused("a failed upload, a crash", Budget { failed_uploads: 1, crashes: 1, ..ONE_EPOCH }));
    holds(&fused("a failed upload, late news", Budget { failed_uploads: 1, late_news: 1, ..ONE_EPOCH }).with_records([1, 0]));
    holds(&fused("a refused seal, a crash", Budget { refusals: 1, crashes: 1, ..ONE_EPOCH }));
}

#[test]
fn concurrent_epochs_are_sealed_in_order() {
    let two = Budget { epochs: 2, ..ONE_EPOCH };
    holds(&Scenario { concurrent_max: 2, ..joined("channels, two epochs at once", two) });
}

#[test]
fn of_two_coordinators_one_writes() {
    let last = Budget { epochs: 0, takeovers: 1, ..ONE_EPOCH };
    holds(&fused("a takeover, a crash", Budget { crashes: 1, ..last }));
    let one = Budget { lost_answers: 1, ..last };
    holds(&Scenario { sources: 1, ..fused("a takeover, a lost answer", one) });
    holds(&Scenario { sources: 1, ..fused("two takeovers", Budget { takeovers: 2, ..ONE_EPOCH }) });
}

#[test]
fn barriers_may_flow_behind_the_end_of_input() {
    let kept = |scenario: Scenario| Scenario { ends: Ends::KeepChannels, ..scenario };
    holds(&kept(joined("open channels, a crash", Budget { crashes: 1, ..ONE_EPOCH })));
    holds(&kept(joined("open channels, a lost message", Budget { lost_messages: 1, ..ONE_EPOCH })));
}

#[test]
fn orphans_go_on_without_effect() {
    holds(&Scenario { orphans: Orphans::GoOn, ..fused("orphans", Budget { crashes: 1, ..ONE_EPOCH }) });
}

#[test]
fn a_loss_stops_the_job_or_is_resent_or_accepted_on_record() {
    let expiry = Budget { expiries: 1, ..ONE_EPOCH };
    let crash = Budget { crashes: 1, ..expiry };
    holds(&fused("an expiry, fail", crash));
    holds(&Scenario { policy: LostPolicy::Accept, ..fused("an expiry, accept", crash) });
    holds(&Scenario { policy: LostPolicy::Resend, ..fused("an expiry, resend", crash) });
    holds(&Scenario { policy: LostPolicy::Resend, ..fused("an expiry, a lost answer, resend", Budget { lost_answers: 1, ..expiry }) });
}

#[test]
fn a_stop_stops_with_everything_committed() {
    holds(&fused("a stop, a crash", Budget { stops: 1, crashes: 1, ..ONE_EPOCH }));
}

#[test]
fn a_rewind_is_exact_along_its_own_line() {
    holds(&fused("a rewind", Budget { rewinds: 1, crashes: 1, ..ONE_EPOCH }));
    holds(&Scenario { sources: 1, ..fused("two rewinds", Budget { rewinds: 2, crashes: 2, ..ONE_EPOCH }) });
}

/// Explores until a promise is broken.
fn finds(rule: Mutation, scenarios: &[Scenario]) -> Option<Violation> {
    scenarios.iter().find_map(|scenario| with(Some(rule), || explore(scenario)).violation)
}

#[test]
fn the_model_finds_each_broken_rule() {
    let crash = fused("a crash", Budget { crashes: 1, ..ONE_EPOCH });
    let channels = joined("channels", ONE_EPOCH);
    let answers = fused("a lost answer", Budget { lost_answers: 1, crashes: 1, ..ONE_EPOCH });
    let upload = fused("a failed upload", Budget { failed_uploads: 1, ..ONE_EPOCH });
    let takeover = Scenario { sources: 1, ..fused("a takeover", Budget { takeovers: 1, ..ONE_EPOCH }) };
    let expiry = fused("an expiry", Budget { expiries: 1, crashes: 1, ..ONE_EPOCH });
    let orphans = Scenario { orphans: Orphans::GoOn, ..crash.clone() };
    let rules = [
        (Mutation::AlignForgetsChannel, &channels),
        (Mutation::AppendUnconditionally, &takeover),
        (Mutation::IgnoreConflict, &takeover),
        (Mutation::TrustLostAnswer, &answers),
        (Mutation::ReclaimGeneration, &crash),
        (Mutation::PermitBeforeDurable, &crash),
        (Mutation::AcceptLateAck, &upload),
        (Mutation::AcceptStaleGeneration, &orphans),
        (Mutation::SealWithoutLastAck, &crash),
        (Mutation::FinalByOneTask, &crash),
        (Mutation::ForgetCarried, &upload),
        (Mutation::SkipResolve, &crash),
        (Mutation::SkipSweep, &crash),
        (Mutation::LostAsCommitted, &expiry),
        (Mutation::TrustLostCommit, &answers),
        (Mutation::RecordBeforeProven, &crash),
    ];
    for (rule, scenario) in rules {
        let violation = finds(rule, std::slice::from_ref(scenario)).unwrap_or_else(|| panic!("{rule:?} was not found"));
        println!("{rule:?}: {} after {} steps", violation.promise, violation.trace.len());
    }
}
