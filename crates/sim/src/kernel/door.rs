//! Blocking work: queued, begun after a while, now and then pausing in the middle of a file operation.

use std::collections::BTreeMap;
use std::sync::Arc;

use staunch_api::IoDoor;
use staunch_types::Tick;

use super::fault::{Deed, Operation, When};
use super::fiber::{Fiber, Outcome, Work, run};
use super::{Kernel, Machine, ProcessId};

/// Number of a piece of work, in the order in which they were handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkId(pub u64);

/// The door of one process.
pub struct SimDoor {
    kernel: Arc<Kernel>,
    process: ProcessId,
}

impl SimDoor {
    /// The door of a process.
    #[must_use]
    pub fn new(kernel: Arc<Kernel>, process: ProcessId) -> SimDoor {
        SimDoor { kernel, process }
    }
}

impl IoDoor for SimDoor {
    fn submit(&self, work: Work) {
        let mut machine = self.kernel.machine();
        let refused = machine.enqueue(self.process, work);
        // What was refused may use the disk when it is dropped.
        drop(machine);
        drop(refused);
    }
}

/// The work of one process.
#[derive(Default)]
pub(super) struct Queue(BTreeMap<WorkId, Item>);

struct Item {
    due: Tick,
    state: State,
}

impl Queue {
    /// What waits until a time goes on at once.
    pub(super) fn bring_forward(&mut self, until: Tick, now: Tick) {
        self.0.values_mut().filter(|item| item.due == until).for_each(|item| item.due = now);
    }
}

enum State {
    Waiting(Work),
    Paused(Fiber),
}

impl Machine {
    fn enqueue(&mut self, process: ProcessId, work: Work) -> Option<Work> {
        let (low, high) = self.weather.slow;
        let due = self.now + self.random.duration(low, high);
        let id = WorkId(self.works);
        self.works += 1;
        match self.processes.get_mut(&process).filter(|seat| seat.alive) {
            Some(seat) => drop(seat.queue.0.insert(id, Item { due, state: State::Waiting(work) })),
            None => return Some(work),
        }
        None
    }

    /// Pieces of work of a process, with the time at which each is to begin or to go on.
    pub fn works(&self, process: ProcessId) -> impl Iterator<Item = (WorkId, Tick)> {
        self.processes.get(&process).into_iter().flat_map(|seat| seat.queue.0.iter().map(|(id, item)| (*id, item.due)))
    }

    /// Lets a piece of work wait longer.
    pub fn delay(&mut self, process: ProcessId, work: WorkId, until: Tick) {
        if let Some(item) = self.processes.get_mut(&process).and_then(|seat| seat.queue.0.get_mut(&work)) {
            item.due = until;
        }
    }

    /// Until when a piece of work pauses before an operation, if it does.
    pub(super) fn pause_before(&mut self, process: ProcessId, operation: Operation, path: &str) -> Option<Tick> {
        if !self.is_alive(process) {
            return None;
        }
        if let Some(time) = self.traps.hang_before(process, operation, path) {
            self.note(format_args!("k  {process} {operation:?} {path} ~"));
            self.hang(process, time);
            return Some(self.now + time);
        }
        let (low, high) = self.weather.slow;
        let pauses = self.random.chance(self.weather.pause);
        pauses.then(|| self.now + self.random.duration(low, high))
    }

    /// After a refused append some of the bytes may be there.
    pub(super) fn append_torn(&mut self, process: ProcessId, file: super::FileId, bytes: &[u8]) {
        if self.is_alive(process) {
            let part = self.random.below(bytes.len() as u64 + 1) as usize;
            self.disk.append(file, &bytes[..part]);
        }
    }
}

impl super::fault::Traps {
    fn hang_before(&mut self, process: ProcessId, operation: Operation, path: &str) -> Option<std::time::Duration> {
        match self.spring_if(process, operation, path, |deed| matches!(deed, Deed::Hang(When::Before, _)))? {
            Deed::Hang(When::Before, time) => Some(time),
            _ => None,
        }
    }
}

impl Kernel {
    /// Begins a piece of work, or lets it go on.
    pub fn work(&self, process: ProcessId, id: WorkId) {
        let (item, deep) = {
            let mut machine = self.machine();
            let deep = machine.weather.deep;
            let deep = machine.random.chance(deep);
            let item = machine.processes.get_mut(&process).and_then(|seat| seat.queue.0.remove(&id));
            machine.note(format_args!("{process} io {}", id.0));
            (item, deep)
        };
        let Some(item) = item else { return };
        let (outcome, fiber) = match item.state {
            State::Waiting(work) if deep => {
                let fiber = Fiber::new(work);
                (fiber.resume(), Some(fiber))
            }
            State::Waiting(work) => (run(work), None),
            State::Paused(fiber) => (fiber.resume(), Some(fiber)),
        };
        let mut machine = self.machine();
        match (outcome, fiber) {
            (Outcome::Paused(due), Some(fiber)) => {
                machine.note(format_args!("{process} io {} ~", id.0));
                if let Some(seat) = machine.processes.get_mut(&process) {
                    seat.queue.0.insert(id, Item { due, state: State::Paused(fiber) });
                }
            }
            (Outcome::Paused(_), None) => panic!("work that is no fiber has paused"),
            (Outcome::Over, _) => {}
            (Outcome::Panicked(text), _) => drop(machine.panicked.get_or_insert(text)),
        }
    }

    /// Ends all work of a process that is no longer alive.
    pub fn bury(&self, process: ProcessId) {
        loop {
            let queue = {
                let mut machine = self.machine();
                assert!(!machine.is_alive(process), "{process} is buried alive");
                machine.processes.get_mut(&process).map(|seat| std::mem::take(&mut seat.queue.0)).unwrap_or_default()
            };
            if queue.is_empty() {
                return;
            }
            for item in queue.into_values() {
                match item.state {
                    State::Waiting(work) => drop(work),
                    // All that it still does is refused, so it ends soon.
                    State::Paused(fiber) => while matches!(fiber.resume(), Outcome::Paused(_)) {},
                }
            }
        }
    }
}
