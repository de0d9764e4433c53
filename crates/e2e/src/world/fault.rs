//! Scripts: what goes wrong at which step.
//!
//! A script is a list of clauses, separated by `;`, each on its own. A clause waits for some steps, one after the other, and acts at the
//! last: `rename manifest 2, rename ledger 1: kill after` kills the process after the ledger entry that follows the second manifest.
//! A number may be open: `append state 3+: full before` refuses from the third on.

use std::io;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Error, bail};

use super::step::{Object, Operation, Step};

/// What a process says that holds a step.
pub const HOLDS: &str = "holds";
/// Time from one look to the next whether a held step may go on.
const LOOK: Duration = Duration::from_millis(5);

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The process dies.
    Kill,
    /// The process halts until it is told to go on.
    Halt,
    /// The step waits, and the process says so, until it is told to go on; all else goes on.
    Hold,
    /// The process is asked to stop with a last checkpoint.
    Stop,
    /// The disk is full.
    Full,
    /// The disk may not be written.
    ReadOnly,
    /// The user may not.
    Denied,
    /// The disk or the mount gives an error; after the step: the answer is lost.
    Broken,
}

/// When: in relation to the step itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Before,
    After,
}

#[derive(Clone, Debug)]
struct Wait {
    step: Step,
    /// Which of the steps that match, counted from when the wait began.
    number: u64,
    and_all_after: bool,
}

#[derive(Clone, Debug)]
struct Clause {
    waits: Vec<Wait>,
    action: Action,
    moment: Moment,
    /// The wait that the clause is at, and how many steps matched it.
    at: usize,
    seen: u64,
}

/// A script, and how far it has come.
#[derive(Debug, Default)]
pub struct Script(Mutex<Vec<Clause>>);

/// Action and moment by their words.
fn act(words: &str) -> Result<(Action, Moment), Error> {
    let (action, moment) = words.trim().split_once(' ').context("expected an action and before or after")?;
    let action = match action {
        "kill" => Action::Kill,
        "halt" => Action::Halt,
        "hold" => Action::Hold,
        "stop" => Action::Stop,
        "full" => Action::Full,
        "read-only" => Action::ReadOnly,
        "denied" => Action::Denied,
        "broken" => Action::Broken,
        other => bail!("no such action: {other}"),
    };
    match moment.trim() {
        "before" => Ok((action, Moment::Before)),
        "after" => Ok((action, Moment::After)),
        other => bail!("neither before nor after: {other}"),
    }
}

impl FromStr for Wait {
    type Err = Error;

    fn from_str(text: &str) -> Result<Wait, Error> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [operation, object, number] = words[..] else { bail!("expected an operation, an object and a number: {text}") };
        let operation = Operation::parse(operation).with_context(|| format!("no such operation: {operation}"))?;
        let object = Object::parse(object).with_context(|| format!("no such object: {object}"))?;
        let (digits, and_all_after) = number.strip_suffix('+').map_or((number, false), |digits| (digits, true));
        Ok(Wait { step: Step { operation, object }, number: digits.parse().context("expected a number")?, and_all_after })
    }
}

impl FromStr for Script {
    type Err = Error;

    fn from_str(text: &str) -> Result<Script, Error> {
        let clause = |text: &str| {
            let (waits, words) = text.split_once(':').with_context(|| format!("expected steps, a colon and what happens: {text}"))?;
            let (action, moment) = act(words)?;
            let waits = waits.split(',').map(str::parse).collect::<Result<Vec<Wait>, Error>>()?;
            Ok(Clause { waits, action, moment, at: 0, seen: 0 })
        };
        let clauses = text.split(';').filter(|c| !c.trim().is_empty()).map(clause).collect::<Result<_, Error>>()?;
        Ok(Script(Mutex::new(clauses)))
    }
}

impl Clause {
    /// Hears of a step that is about to happen; whether it is the one to act at.
    fn hear(&mut self, step: Step) -> bool {
        let Some(wait) = self.waits.get(self.at) else { return false };
        if wait.step != step {
            return false;
        }
        self.seen += 1;
        if self.seen < wait.number {
            return false;
        }
        let last = self.at + 1 == self.waits.len();
        if !(last && wait.and_all_after) {
            self.at += 1;
            self.seen = 0;
        }
        last
    }
}

impl Script {
    /// Does a step as the script says.
    ///
    /// # Errors
    /// Those of the step, and those of the script.
    pub fn around<T, E: From<io::Error>>(&self, operation: Operation, object: Object, deed: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let step = Step { operation, object };
        let mut clauses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Every clause counts every step; the first that acts decides.
        let acting: Vec<(Action, Moment)> = clauses.iter_mut().filter_map(|c| c.hear(step).then_some((c.action, c.moment))).collect();
        drop(clauses);
        match acting.first() {
            None => deed(),
            Some((action, Moment::Before)) => {
                action.happen()?;
                deed()
            }
            Some((action, Moment::After)) => {
                let answer = deed()?;
                action.happen()?;
                Ok(answer)
            }
        }
    }
}

/// Becomes true when the process is told to go on.
fn goes_on() -> io::Result<Arc<AtomicBool>> {
    let goes_on = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGCONT, Arc::clone(&goes_on))?;
    Ok(goes_on)
}

impl Action {
    /// # Errors
    /// When the process lives on and is to be refused.
    fn happen(self) -> io::Result<()> {
        let own = rustix::process::getpid();
        match self {
            Action::Kill => loop {
                // Until it is true.
                let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
            },
            Action::Halt => {
                let goes_on = goes_on()?;
                rustix::process::kill_process(own, rustix::process::Signal::STOP)?;
                // Another thread may be the one that takes the signal, and this one must not get past the step meanwhile.
                while !goes_on.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                Ok(())
            }
            Action::Hold => {
                let goes_on = goes_on()?;
                println!("{HOLDS}");
                while !goes_on.load(Ordering::Relaxed) {
                    std::thread::park_timeout(LOOK);
                }
                Ok(())
            }
            Action::Stop => rustix::process::kill_process(own, rustix::process::Signal::TERM).map_err(io::Error::from),
            Action::Full => Err(rustix::io::Errno::NOSPC.into()),
            Action::ReadOnly => Err(rustix::io::Errno::ROFS.into()),
            Action::Denied => Err(rustix::io::Errno::ACCESS.into()),
            Action::Broken => Err(rustix::io::Errno::IO.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(script: &Script, operation: Operation, object: Object) -> bool {
        script.around(operation, object, || Ok::<(), io::Error>(())).is_err()
    }

    #[test]
    fn a_clause_acts_at_its_step_and_not_before() {
        let script: Script = "rename manifest 2, rename ledger 1: broken after".parse().expect("a script");
        let steps = [Object::Ledger, Object::Manifest, Object::Ledger, Object::Manifest, Object::State, Object::Ledger, Object::Ledger];
        let refusals: Vec<bool> = steps.iter().map(|object| refused(&script, Operation::Rename, *object)).collect();
        assert_eq!(refusals, [false, false, false, false, false, true, false]);
    }

    #[test]
    fn an_open_number_acts_from_then_on() {
        let script: Script = "append state 2+: full before; append state 1: denied before".parse().expect("a script");
        let refusals: Vec<bool> = (0..4).map(|_| refused(&script, Operation::Append, Object::State)).collect();
        assert_eq!(refusals, [true, true, true, true]);
        assert!(!refused(&script, Operation::Append, Object::Open));
    }

    #[test]
    fn a_script_with_a_mistake_is_refused() {
        for text in
            ["kill", "rename ledger: kill after", "rename boat 1: kill after", "rename ledger 1: sink after", "rename ledger x: kill after"]
        {
            assert!(text.parse::<Script>().is_err(), "{text}");
        }
    }
}
