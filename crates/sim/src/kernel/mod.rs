//! The simulated machine: time, chance, the disk, and which processes are alive.
//!
//! Owns: everything that processes share, and what goes wrong with it; the history. Does not own: the processes' own code, or who runs
//! next (world). The engine meets it as its clock, its door to blocking work and its file system.
//!
//! Invariants:
//! 1. What happens depends on the seed and on nothing else.
//! 2. A process that is not alive changes nothing any more, whatever of its code still runs.

mod random;
mod history;
mod disk;
mod broker;
mod fault;
mod fiber;
mod door;
mod files;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use staunch_engine::runtime::Clock;
use staunch_types::Tick;

pub use broker::{Answer, Body, Broker, BrokerSettings, By, Decided, Decision, Fetched, Place, Refusal, SimBroker};
pub use disk::{Change, ChangeKind, Disk, FileId};
pub use door::{SimDoor, WorkId};
pub use fault::{Deed, Operation, Trap, Weather, When};
pub(crate) use fiber::text as panic_text;
pub use files::SimFiles;
pub use history::{History, LEGEND};
pub use random::Random;

use door::Queue;
use fault::Traps;

/// A process: one start of the job's program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// The machine. Clones of the `Arc` are the same one.
pub struct Kernel(Mutex<Machine>);

/// What is inside, while somebody holds it.
pub struct Machine {
    /// Monotonic time.
    pub now: Tick,
    /// By how much the wall clock is off, in milliseconds.
    pub wall_offset_ms: i64,
    /// Chance.
    pub random: Random,
    /// The history.
    pub history: History,
    /// The disk.
    pub disk: Disk,
    /// The broker, which no fault of ours makes forget anything.
    pub broker: Broker,
    /// General conditions.
    pub weather: Weather,
    traps: Traps,
    processes: BTreeMap<ProcessId, Seat>,
    works: u64,
    /// The first panic of a piece of work.
    panicked: Option<String>,
    /// Operations on the disk and the broker so far.
    pub operations: u64,
}

struct Seat {
    alive: bool,
    hung_until: Tick,
    queue: Queue,
}

/// The wall clock at the beginning, in milliseconds since 1970.
const WALL_START_MS: i64 = 1_700_000_000_000;

impl Kernel {
    /// A machine that was just switched on.
    #[must_use]
    pub fn new(seed: u64) -> Arc<Kernel> {
        Arc::new(Kernel(Mutex::new(Machine {
            now: Tick::default(),
            wall_offset_ms: WALL_START_MS,
            random: Random::new(seed),
            history: History::default(),
            disk: Disk::default(),
            broker: Broker::default(),
            weather: Weather::fair(),
            traps: Traps::default(),
            processes: BTreeMap::new(),
            works: 0,
            panicked: None,
            operations: 0,
        })))
    }

    /// The machine, for a moment.
    pub fn machine(&self) -> MutexGuard<'_, Machine> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line to the history.
    pub fn note(&self, line: fmt::Arguments<'_>) {
        self.machine().note(line);
    }

    /// Does one operation for a process, or what chance and traps make of it; the process may pause before and after.
    fn perform<T>(
        &self,
        process: ProcessId,
        operation: Operation,
        path: &str,
        action: impl FnOnce(&mut Machine) -> io::Result<T>,
    ) -> io::Result<T> {
        if fiber::can_pause() {
            let until = self.machine().pause_before(process, operation, path);
            if let Some(until) = until {
                fiber::pause(until);
            }
        }
        let (answer, pause) = self.machine().perform(process, operation, path, action);
        if let Some(until) = pause {
            fiber::pause(until);
        }
        answer
    }
}

impl Clock for Kernel {
    fn now(&self) -> Tick {
        self.machine().now
    }

    fn wall_ms(&self) -> i64 {
        let machine = self.machine();
        i64::try_from(machine.now.0 / 1_000_000).unwrap_or(i64::MAX) + machine.wall_offset_ms
    }
}

impl Machine {
    /// Adds a line to the history.
    pub fn note(&mut self, line: fmt::Arguments<'_>) {
        let now = self.now;
        self.history.add(now, line);
    }

    /// A new process.
    pub fn boot(&mut self, process: ProcessId) {
        self.processes.insert(process, Seat { alive: true, hung_until: Tick::default(), queue: Queue::default() });
    }

    /// Whether a process is alive, hung or not.
    #[must_use]
    pub fn is_alive(&self, process: ProcessId) -> bool {
        self.processes.get(&process).is_some_and(|seat| seat.alive)
    }

    /// Until when a process gets no turn.
    #[must_use]
    pub fn hung_until(&self, process: ProcessId) -> Tick {
        self.processes.get(&process).map_or(Tick::default(), |seat| seat.hung_until)
    }

    /// Kills a process.
    pub fn kill(&mut self, process: ProcessId) {
        if self.is_alive(process) {
            self.note(format_args!("w  kill {process}"));
        }
        if let Some(seat) = self.processes.get_mut(&process) {
            seat.alive = false;
        }
    }

    /// The machine loses power and comes back.
    pub fn power_loss(&mut self) {
        self.note(format_args!("w  power loss"));
        self.processes.values_mut().for_each(|seat| seat.alive = false);
        self.disk.power_loss(&mut self.random);
    }

    /// Gives a process no turn for so long.
    pub fn hang(&mut self, process: ProcessId, time: Duration) {
        self.note(format_args!("w  hang {process} for {time:?}"));
        let until = self.now + time;
        if let Some(seat) = self.processes.get_mut(&process) {
            seat.hung_until = seat.hung_until.max(until);
        }
    }

    /// Lets a hung process go on.
    pub fn wake(&mut self, process: ProcessId) {
        self.note(format_args!("w  wake {process}"));
        let now = self.now;
        if let Some(seat) = self.processes.get_mut(&process) {
            let until = std::mem::replace(&mut seat.hung_until, now);
            // Also the work in which it was halted goes on.
            seat.queue.bring_forward(until, now);
        }
    }

    /// Sets a trap.
    pub fn set(&mut self, trap: Trap) {
        self.traps.set(trap);
    }

    /// Takes all traps away.
    pub fn clear_traps(&mut self) {
        self.traps.clear();
    }

    /// How many traps have acted.
    #[must_use]
    pub fn sprung(&self) -> u64 {
        self.traps.sprung
    }

    /// The first panic of a piece of work, if there was one.
    #[must_use]
    pub fn panicked(&self) -> Option<&str> {
        self.panicked.as_deref()
    }

    /// Does one operation for a process, or what chance and traps make of it. Also tells until when the process is to pause.
    fn perform<T>(
        &mut self,
        process: ProcessId,
        operation: Operation,
        path: &str,
        action: impl FnOnce(&mut Machine) -> io::Result<T>,
    ) -> (io::Result<T>, Option<Tick>) {
        if !self.is_alive(process) {
            return (Err(dead()), None);
        }
        self.operations += 1;
        let deed = self.traps.spring(process, operation, path).or_else(|| self.weather.strikes(operation, &mut self.random));
        match deed {
            None | Some(Deed::Note) => {
                let answer = action(self);
                self.tell(process, operation, path, if answer.is_ok() { "" } else { " no" });
                (answer, None)
            }
            Some(Deed::Refuse(kind)) => {
                self.tell_always(process, operation, path, " !refused");
                (Err(kind.into()), None)
            }
            Some(Deed::LoseAnswer(kind)) => {
                let answer = action(self);
                self.tell_always(process, operation, path, " !lost");
                (answer.and(Err(kind.into())), None)
            }
            Some(Deed::LoseAnswerLate(time)) => {
                let answer = action(self);
                self.tell_always(process, operation, path, " !lost");
                (answer.and(Err(io::ErrorKind::TimedOut.into())), Some(self.now + time))
            }
            Some(Deed::Kill(When::Before)) => self.die(process, operation, path, Machine::kill),
            Some(Deed::PowerLoss(When::Before)) => self.die(process, operation, path, |machine, _| machine.power_loss()),
            Some(Deed::Kill(When::After)) => {
                let _ = action(self);
                self.die(process, operation, path, Machine::kill)
            }
            Some(Deed::PowerLoss(When::After)) => {
                let _ = action(self);
                self.die(process, operation, path, |machine, _| machine.power_loss())
            }
            Some(Deed::Hang(When::After, time)) => {
                let answer = action(self);
                self.tell_always(process, operation, path, "");
                self.hang(process, time);
                (answer, Some(self.now + time))
            }
            Some(Deed::Hang(When::Before, _)) => panic!("a hang before an operation is made of a pause"),
        }
    }

    fn die<T>(
        &mut self,
        process: ProcessId,
        operation: Operation,
        path: &str,
        end: impl FnOnce(&mut Machine, ProcessId),
    ) -> (io::Result<T>, Option<Tick>) {
        self.tell_always(process, operation, path, " !killed");
        end(self, process);
        (Err(dead()), None)
    }

    fn tell(&mut self, process: ProcessId, operation: Operation, path: &str, mark: &str) {
        if operation.writes() && !matches!(operation, Operation::Append | Operation::Produce | Operation::Enroll) {
            self.tell_always(process, operation, path, mark);
        }
    }

    fn tell_always(&mut self, process: ProcessId, operation: Operation, path: &str, mark: &str) {
        self.note(format_args!("k  {process} {operation:?} {path}{mark}"));
    }
}

/// What code of a dead process gets to hear, wherever it still runs.
fn dead() -> io::Error {
    io::Error::other("the process is dead")
}
