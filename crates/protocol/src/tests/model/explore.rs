//! The search: every state that can be reached, each once.
//!
//! Owns: the depth-first walk, the set of states seen, the trace of a counterexample. Does not own: states and steps.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::check;
use super::digest::digest;
use super::scenario::Scenario;
use super::world::{Action, World};

/// States of one scenario at most; beyond it the search fails rather than stop early in silence.
const STATES_MAX: usize = 5_000_000;

/// What a search found.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) states: usize,
    pub(super) steps: usize,
    /// States in which nothing more happens by itself.
    pub(super) ends: usize,
    pub(super) violation: Option<Violation>,
}

/// A broken promise and how to get there.
#[derive(Debug)]
pub(super) struct Violation {
    pub(super) promise: String,
    pub(super) trace: Vec<String>,
}

struct Frame {
    world: World,
    actions: Vec<Action>,
    next: usize,
}

/// Visits every reachable state, or the first that breaks a promise.
pub(super) fn explore(scenario: &Scenario) -> Outcome {
    let mut outcome = Outcome::default();
    let mut seen: HashSet<u128, BuildHasherDefault<Identity>> = HashSet::default();
    let world = World::new(scenario);
    let mut stack = Vec::new();
    seen.insert(digest(&world));
    outcome.states = 1;
    stack.push(Frame { actions: world.actions(), world, next: 0 });
    while let Some(frame) = stack.last_mut() {
        let Some(action) = frame.actions.get(frame.next).cloned() else {
            stack.pop();
            continue;
        };
        frame.next += 1;
        outcome.steps += 1;
        let step = catch_unwind(AssertUnwindSafe(|| {
            let mut world = frame.world.clone();
            world.apply(scenario, &action)?;
            let new = seen.insert(digest(&world));
            if new {
                promises(&frame.world, &world, scenario)?;
            }
            Ok(new.then_some(world))
        }));
        match step.unwrap_or_else(|panic| Err(format!("assertion: {}", text(panic.as_ref())))) {
            Err(promise) => {
                let trace = stack.iter().map(|frame| format!("{:?}", frame.actions[frame.next - 1])).collect();
                outcome.violation = Some(Violation { promise, trace });
                return outcome;
            }
            Ok(None) => {}
            Ok(Some(world)) => {
                outcome.states += 1;
                assert!(outcome.states <= STATES_MAX, "{}: more than {STATES_MAX} states", scenario.name);
                outcome.ends += usize::from(world.is_settled());
                stack.push(Frame { actions: world.actions(), world, next: 0 });
            }
        }
    }
    outcome
}

/// Checks what a step may have broken.
fn promises(before: &World, after: &World, scenario: &Scenario) -> Result<(), String> {
    if !before.ledger.is(&after.ledger) || !before.outside.is(&after.outside) {
        check::always(after, scenario)?;
    }
    if after.is_settled() {
        check::at_the_end(after, scenario)?;
    }
    Ok(())
}

fn text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("?").to_owned()
}

/// A digest is its own hash.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u128(&mut self, value: u128) {
        self.0 = value as u64;
    }
}
