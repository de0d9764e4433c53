//! Who runs next: one turn of the simulated world.
//!
//! Owns: the seeded choice among processes, tasks and pieces of blocking work that could go on. Does not own: what they do.

use std::time::Duration;

use staunch_engine::runtime::{Clock, Phase, Slice};
use staunch_types::Tick;

use super::World;
use super::process::Process;
use crate::kernel::{Kernel, ProcessId, WorkId};

/// A turn that can be given.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    Master(ProcessId),
    Task(ProcessId, usize, Slice),
    Io(ProcessId, WorkId),
}

/// Records of a slice, most often many, sometimes hardly any.
const BUDGETS: [usize; 8] = [4096, 4096, 4096, 256, 64, 7, 2, 1];
/// How much time one turn takes.
const TURN_NANOS: (u64, u64) = (500, 20_000);
/// For how long somebody gets no turn.
const STARVED: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(2));

impl World {
    /// Chooses among all who can run now; lets time pass when nobody can.
    pub(super) fn choose(&mut self) -> Option<Turn> {
        loop {
            let now = self.now();
            let (ready, next) = self.ready(now);
            let mut machine = self.kernel.machine();
            if ready.is_empty() {
                machine.now = next?;
                continue;
            }
            let nanos = machine.random.between(TURN_NANOS.0, TURN_NANOS.1);
            machine.now.0 += nanos;
            let mut turn = *machine.random.pick(&ready);
            let starve = machine.weather.starve;
            if machine.random.chance(starve) {
                let until = now + machine.random.duration(STARVED.0, STARVED.1);
                machine.note(format_args!("w  starve {turn:?} until {}", until.0 / 1_000));
                drop(machine);
                self.hold(turn, until);
                continue;
            }
            if let Turn::Task(_, _, slice) = &mut turn {
                slice.now = machine.now;
                slice.budget = *machine.random.pick(&BUDGETS);
                drop(machine);
                slice.wall_ms = self.kernel.wall_ms();
            }
            return Some(turn);
        }
    }

    /// Who can run now, and when somebody else will be able to.
    fn ready(&self, now: Tick) -> (Vec<Turn>, Option<Tick>) {
        let machine = self.kernel.machine();
        let mut ready = Vec::new();
        let mut next: Option<Tick> = None;
        for (&id, process) in &self.processes {
            let hung = machine.hung_until(id);
            let mut consider = |at: Option<Tick>, turn: Turn| {
                let Some(at) = at else { return };
                let at = at.max(hung);
                if at <= now {
                    ready.push(turn);
                } else if next.is_none_or(|next| at < next) {
                    next = Some(at);
                }
            };
            let due = |raised: bool, wake_at: Option<Tick>, held: Tick| if raised { Some(held) } else { wake_at.map(|at| at.max(held)) };
            consider(due(process.flag.is_raised(), process.wake_at, process.held_until), Turn::Master(id));
            for (at, seated) in process.tasks.all().iter().enumerate() {
                let slice = Slice { now, wall_ms: 0, budget: 0 };
                consider(due(seated.flag.is_raised(), seated.wake_at, seated.held_until), Turn::Task(id, at, slice));
            }
            for (work, at) in machine.works(id) {
                consider(Some(at), Turn::Io(id, work));
            }
        }
        (ready, next)
    }

    fn hold(&mut self, turn: Turn, until: Tick) {
        match turn {
            Turn::Master(id) => {
                if let Some(process) = self.processes.get_mut(&id) {
                    process.held_until = until;
                }
            }
            Turn::Task(id, at, _) => {
                if let Some(process) = self.processes.get(&id) {
                    process.tasks.all()[at].held_until = until;
                }
            }
            Turn::Io(id, work) => self.machine().delay(id, work, until),
        }
    }
}

impl Process {
    /// Gives a turn to a task.
    pub(super) fn run_task(&self, kernel: &Kernel, id: ProcessId, at: usize, slice: Slice) {
        let mut tasks = self.tasks.all();
        let seated = &mut tasks[at];
        let task = seated.task.id();
        seated.wake_at = None;
        seated.flag.lower();
        let answer = seated.task.run(slice);
        let text = match &answer {
            Ok(Phase::Ready) => {
                seated.wake_at = Some(slice.now);
                " more".to_owned()
            }
            Ok(Phase::Waiting(until)) => {
                seated.wake_at = *until;
                String::new()
            }
            Err(error) => format!(" failed: {} {}", error.code(), error.what()),
        };
        kernel.note(format_args!("{id} t {task} b{}{text}", slice.budget));
        if let Err(error) = answer {
            let mut seated = tasks.remove(at);
            drop(tasks);
            if let Some(failed) = seated.failed.take() {
                failed(task, error);
            }
        }
    }
}
