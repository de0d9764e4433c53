//! The world: processes of one job on one machine, run step by step in an order that the seed decides.
//!
//! Owns: who runs next, how far time jumps when nobody can, the life and death of processes, and that checks look after every step.
//! Does not own: the machine (kernel), the job (job), what must hold (check).

mod executor;
mod process;
mod turn;
mod finale;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use staunch_engine::cluster::{JobEvent, MasterPhase};
use staunch_protocol::Reason;
use staunch_types::{Error, TaskId, Tick};

use crate::check::{Checks, Violation};
use crate::job::{JobSpec, Start};
use crate::kernel::{Kernel, Machine, ProcessId, SimBroker, Trap, Weather};
use process::Process;
use turn::Turn;

pub use finale::PATIENCE;
pub use process::Told;

/// See the module.
pub struct World {
    /// The machine.
    pub kernel: Arc<Kernel>,
    /// The job that all processes run.
    pub job: Rc<JobSpec>,
    /// What must hold.
    pub checks: Checks,
    processes: BTreeMap<ProcessId, Process>,
    /// Processes that have ended of their own accord, and how.
    pub ended: BTreeMap<ProcessId, Result<Reason, Error>>,
    told: BTreeMap<ProcessId, Told>,
    /// Turns given.
    pub steps: u64,
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Somebody had a turn.
    Ran,
    /// Nobody can have one, now or later.
    Still,
}

impl World {
    /// A machine with the job's input on it, and no process.
    #[must_use]
    pub fn new(seed: u64, job: JobSpec) -> World {
        let kernel = Kernel::new(seed);
        job.place_input(&mut kernel.machine().disk);
        kernel.machine().disk.take_changes();
        let checks = Checks::new(&job);
        World { kernel, job: Rc::new(job), checks, processes: BTreeMap::new(), ended: BTreeMap::new(), told: BTreeMap::new(), steps: 0 }
    }

    /// The machine, for a moment.
    pub fn machine(&self) -> std::sync::MutexGuard<'_, Machine> {
        self.kernel.machine()
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Tick {
        self.machine().now
    }

    /// Sets the general conditions.
    pub fn weather(&self, weather: Weather) {
        let mut machine = self.machine();
        machine.note(format_args!("w  weather {weather:?}"));
        machine.weather = weather;
    }

    /// Sets a trap.
    pub fn trap(&self, trap: Trap) {
        self.machine().set(trap);
    }

    /// Starts the program once more.
    pub fn start(&mut self, start: &Start) -> ProcessId {
        let id = ProcessId(self.told.len() as u32 + 1);
        self.kernel.note(format_args!("w  start {id}: parallelism {:?}, {:?}", start.parallelism, start.restore));
        let broker = SimBroker::new(Arc::clone(&self.kernel), id);
        let process = Process::start(&self.kernel, id, self.job.plan(start, &broker), self.job.config(start), self.job.object_bytes);
        self.told.insert(id, Rc::clone(&process.told));
        self.processes.insert(id, process);
        id
    }

    /// Kills a process.
    pub fn kill(&mut self, id: ProcessId) {
        self.machine().kill(id);
        self.bury();
    }

    /// Cuts the power; all processes die.
    pub fn power_loss(&mut self) {
        self.machine().power_loss();
        self.bury();
    }

    /// Asks the job in a process to end.
    pub fn stop(&mut self, id: ProcessId, reason: Reason) {
        self.kernel.note(format_args!("w  stop {id}: {reason:?}"));
        if let Some(process) = self.processes.get(&id) {
            process.stop(reason);
        }
    }

    /// Gives a task no turn for so long.
    pub fn hold_task(&mut self, id: ProcessId, task: TaskId, time: Duration) {
        self.kernel.note(format_args!("w  hold {id} task {task} for {time:?}"));
        let until = self.now() + time;
        if let Some(process) = self.processes.get(&id) {
            process.tasks.all().iter_mut().filter(|seated| seated.task.id() == task).for_each(|seated| seated.held_until = until);
        }
    }

    /// Processes that are alive, hung or not.
    pub fn alive(&self) -> impl Iterator<Item = ProcessId> {
        self.processes.keys().copied()
    }

    /// What the job told in a process.
    #[must_use]
    pub fn told(&self, id: ProcessId) -> Vec<JobEvent> {
        self.told.get(&id).map(|told| told.borrow().clone()).unwrap_or_default()
    }

    /// Gives one turn, and looks whether all is well.
    ///
    /// # Errors
    /// What is not.
    pub fn step(&mut self) -> Result<Step, Violation> {
        let Some(turn) = self.choose() else { return Ok(Step::Still) };
        self.steps += 1;
        self.give(turn);
        self.bury();
        let panicked = self.machine().panicked().map(str::to_owned);
        if let Some(text) = panicked {
            return Err(Violation::new("panic", format!("blocking work panicked: {text}")));
        }
        self.look()?;
        Ok(Step::Ran)
    }

    /// Looks at what has changed on the disk and at the broker.
    ///
    /// # Errors
    /// What must not be.
    pub fn look(&mut self) -> Result<(), Violation> {
        let mut machine = self.kernel.machine();
        let (changes, decided) = (machine.disk.take_changes(), machine.broker.take_decided());
        if !changes.is_empty() {
            self.checks.changed(&machine.disk, &changes)?;
        }
        self.checks.decided(&decided)
    }

    /// The transaction of the job that has been open for longest times out.
    pub fn oldest_times_out(&self) {
        let mut machine = self.kernel.machine();
        let machine = &mut *machine;
        machine.note(format_args!("w  the oldest transaction of {} times out", self.job.name));
        machine.broker.oldest_times_out(&format!("{}/", self.job.name), machine.now, &mut machine.random);
    }

    /// Lets the broker do what has come due.
    pub fn broker_goes_on(&self) {
        let mut machine = self.kernel.machine();
        let machine = &mut *machine;
        machine.broker.advance(machine.now, &mut machine.random);
    }

    /// Lets time pass until the broker has written all markers.
    pub fn markers_arrive(&self) {
        let mut machine = self.kernel.machine();
        let machine = &mut *machine;
        while let Some(at) = machine.broker.next_marker() {
            machine.now = machine.now.max(at);
            machine.broker.advance(machine.now, &mut machine.random);
        }
    }

    /// Runs until something is true; false when nobody can run any more or the time is over.
    ///
    /// # Errors
    /// What is not well.
    pub fn run_until(&mut self, within: Duration, mut until: impl FnMut(&World) -> bool) -> Result<bool, Violation> {
        let end = self.now() + within;
        while !until(self) {
            if self.now() >= end || self.step()? == Step::Still {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs until a process has ended or was killed; how it ended, if it did within this time.
    ///
    /// # Errors
    /// What is not well.
    pub fn run_out(&mut self, id: ProcessId, within: Duration) -> Result<Option<Result<Reason, Error>>, Violation> {
        self.run_until(within, |world| !world.processes.contains_key(&id))?;
        Ok(self.ended.get(&id).cloned())
    }

    fn give(&mut self, turn: Turn) {
        match turn {
            Turn::Io(id, work) => self.kernel.work(id, work),
            Turn::Master(id) => {
                let Some(process) = self.processes.get_mut(&id) else { return };
                self.kernel.note(format_args!("{id} m"));
                process.flag.lower();
                match process.master.run() {
                    MasterPhase::Waiting(until) => process.wake_at = until,
                    MasterPhase::Done(result) => {
                        let text = match &result {
                            Ok(reason) => format!("{reason:?}"),
                            Err(error) => format!("{:?} {} {}", error.kind(), error.code(), error.what()),
                        };
                        self.kernel.note(format_args!("{id} * ended: {text}"));
                        self.ended.insert(id, result);
                        self.machine().kill(id);
                    }
                }
            }
            Turn::Task(id, at, slice) => {
                if let Some(process) = self.processes.get(&id) {
                    process.run_task(&self.kernel, id, at, slice);
                }
            }
        }
    }

    /// Lets go of all processes that are no longer alive.
    fn bury(&mut self) {
        let dead: Vec<ProcessId> = {
            let machine = self.kernel.machine();
            self.processes.keys().filter(|id| !machine.is_alive(**id)).copied().collect()
        };
        for id in dead {
            if let Some(process) = self.processes.remove(&id) {
                std::mem::take(&mut *process.tasks.all());
                drop(process);
            }
            self.kernel.bury(id);
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let all: Vec<ProcessId> = self.processes.keys().copied().collect();
        all.into_iter().for_each(|id| self.machine().kill(id));
        self.bury();
    }
}
