//! The production executor: one thread per core, each owning tasks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

use staunch_types::{Error, ErrorKind, TaskId, Tick};

use super::{Clock, Phase, Signal, Slice, SliceTimes, Task, WakeFlag};

/// Records a task may take in per slice.
const SLICE_RECORDS_MAX: usize = 4096;
/// How long a slice should take at most. One that takes longer gets fewer records next time: the code of a job may be slow, and barriers
/// and other tasks wait meanwhile.
const SLICE_LONG: Duration = Duration::from_millis(5);
/// A slice that takes less than this gets more records next time.
const SLICE_SHORT: Duration = Duration::from_millis(1);
/// How long an idle worker looks around before it sleeps: shorter than waking a sleeping thread takes.
const SPIN: Duration = Duration::from_micros(20);
/// Orders that may wait for one worker.
const ORDERS_MAX: usize = 1024;

/// Runs tasks. Implemented by the thread executor and the simulator.
pub trait Executor: Send {
    /// A flag for a task that will be placed on the same worker as all tasks with this `lane`.
    fn flag(&self, lane: usize) -> Arc<WakeFlag>;

    /// Starts to run a task; `flag` was made for `lane`. A failure is told by `failed`, once, after which the task is gone.
    fn place(&mut self, lane: usize, task: Box<dyn Task>, flag: Arc<WakeFlag>, failed: Box<dyn FnOnce(TaskId, Error) + Send>);

    /// Ends all tasks: when it returns none runs and none is alive.
    fn clear(&mut self);
}

/// One thread per worker.
pub struct ThreadExecutor {
    workers: Vec<Worker>,
}

struct Worker {
    orders: SyncSender<Order>,
    parker: Arc<Parker>,
    thread: Option<thread::JoinHandle<()>>,
}

enum Order {
    Place(Placed),
    Clear(SyncSender<()>),
    Exit,
}

struct Placed {
    task: Box<dyn Task>,
    flag: Arc<WakeFlag>,
    wake_at: Option<Tick>,
    /// Records it may take in per slice.
    budget: usize,
    failed: Option<Box<dyn FnOnce(TaskId, Error) + Send>>,
}

/// Lets a thread sleep until signalled.
struct Parker {
    signalled: AtomicBool,
    sleeping: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Signal for Parker {
    fn signal(&self) {
        self.signalled.store(true, Ordering::SeqCst);
        if self.sleeping.load(Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }
}

/// Lets the thread that drives a job sleep until it is signalled.
pub struct Parking(Arc<Parker>);

impl Parking {
    /// For the calling thread.
    #[must_use]
    pub fn new() -> Parking {
        let parker = Parker { signalled: AtomicBool::new(false), sleeping: AtomicBool::new(false), thread: OnceLock::new() };
        let _ = parker.thread.set(thread::current());
        Parking(Arc::new(parker))
    }

    /// What wakes the thread.
    #[must_use]
    pub fn signal(&self) -> Arc<dyn Signal> {
        Arc::clone(&self.0) as Arc<dyn Signal>
    }

    /// Sleeps until signalled, until the flag is up, or until a time.
    pub fn sleep(&self, until: Option<Tick>, clock: &dyn Clock, flag: &WakeFlag) {
        if !flag.is_raised() {
            sleep(&self.0, until, clock);
        }
        self.0.signalled.store(false, Ordering::SeqCst);
    }
}

impl Default for Parking {
    fn default() -> Self {
        Self::new()
    }
}

impl ThreadExecutor {
    /// Starts `workers` threads; `times` hears how long slices take.
    ///
    /// # Errors
    /// `Invalid` when the system refuses to start a thread.
    pub fn new(workers: usize, clock: &Arc<dyn Clock>, times: &Arc<SliceTimes>) -> Result<ThreadExecutor, Error> {
        let mut all = Vec::new();
        for number in 0..workers.max(1) {
            let (orders, inbox) = sync_channel(ORDERS_MAX);
            let parker = Arc::new(Parker { signalled: AtomicBool::new(false), sleeping: AtomicBool::new(false), thread: OnceLock::new() });
            let (own, clock, times) = (Arc::clone(&parker), Arc::clone(clock), Arc::clone(times));
            let thread = thread::Builder::new()
                .name(format!("staunch-worker-{number}"))
                .spawn(move || work(&inbox, &own, clock.as_ref(), &times))
                .map_err(|error| {
                    Error::new(ErrorKind::Invalid, "R001", format!("the system refuses to start worker thread {number}"))
                        .cause(error)
                        .remedy("raise the limit on threads, or start with fewer workers")
                })?;
            all.push(Worker { orders, parker, thread: Some(thread) });
        }
        Ok(ThreadExecutor { workers: all })
    }

    fn order(&self, worker: usize, order: Order) {
        let worker = &self.workers[worker];
        // A worker thread ends only by `Exit`, which only `drop` sends.
        let sent = worker.orders.send(order);
        assert!(sent.is_ok(), "a worker thread ended without being told to");
        worker.parker.signal();
    }
}

impl Executor for ThreadExecutor {
    fn flag(&self, lane: usize) -> Arc<WakeFlag> {
        let signal: Arc<dyn Signal> = Arc::clone(&self.workers[lane % self.workers.len()].parker) as Arc<dyn Signal>;
        WakeFlag::new(signal)
    }

    fn place(&mut self, lane: usize, task: Box<dyn Task>, flag: Arc<WakeFlag>, failed: Box<dyn FnOnce(TaskId, Error) + Send>) {
        flag.raise();
        self.order(
            lane % self.workers.len(),
            Order::Place(Placed { task, flag, wake_at: None, budget: SLICE_RECORDS_MAX, failed: Some(failed) }),
        );
    }

    fn clear(&mut self) {
        let (done, all_done) = sync_channel(self.workers.len());
        for worker in 0..self.workers.len() {
            self.order(worker, Order::Clear(done.clone()));
        }
        for _ in 0..self.workers.len() {
            let answer = all_done.recv();
            assert!(answer.is_ok(), "a worker thread ended without being told to");
        }
    }
}

impl Drop for ThreadExecutor {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            if worker.orders.send(Order::Exit).is_ok() {
                worker.parker.signal();
            }
            if let Some(thread) = worker.thread.take() {
                let _ = thread.join();
            }
        }
    }
}

fn work(inbox: &Receiver<Order>, parker: &Parker, clock: &dyn Clock, times: &SliceTimes) {
    let _ = parker.thread.set(thread::current());
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1_000));
    let mut tasks: Vec<Placed> = Vec::new();
    let mut idle_since: Option<Tick> = None;
    loop {
        parker.signalled.store(false, Ordering::SeqCst);
        loop {
            match inbox.try_recv() {
                Ok(Order::Place(placed)) => tasks.push(placed),
                Ok(Order::Clear(done)) => {
                    tasks.clear();
                    let _ = done.send(());
                }
                Ok(Order::Exit) | Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => break,
            }
        }
        let mut busy = false;
        let mut at = 0;
        while at < tasks.len() {
            let placed = &mut tasks[at];
            let now = clock.now();
            let due = placed.wake_at.is_some_and(|t| t <= now);
            if placed.flag.lower() || due {
                busy = true;
                let goes_on = run(placed, Slice { now, wall_ms: clock.wall_ms(), budget: placed.budget });
                let took = clock.now().since(now);
                times.record(took);
                placed.budget = next_budget(placed.budget, took);
                if !goes_on {
                    tasks.swap_remove(at);
                    continue;
                }
            }
            at += 1;
        }
        if busy {
            idle_since = None;
            continue;
        }
        let now = clock.now();
        let since = *idle_since.get_or_insert(now);
        if now.since(since) < SPIN {
            std::hint::spin_loop();
            continue;
        }
        sleep(parker, tasks.iter().filter_map(|p| p.wake_at).min(), clock);
        idle_since = None;
    }
}

/// The budget after a slice that took so long.
fn next_budget(budget: usize, took: Duration) -> usize {
    if took > SLICE_LONG {
        (budget / 2).max(1)
    } else if took < SLICE_SHORT {
        (budget * 2).min(SLICE_RECORDS_MAX)
    } else {
        budget
    }
}

/// Runs a task once; false when it is over.
fn run(placed: &mut Placed, slice: Slice) -> bool {
    placed.wake_at = None;
    let error = match catch_unwind(AssertUnwindSafe(|| placed.task.run(slice))) {
        Ok(Ok(Phase::Ready)) => {
            placed.wake_at = Some(slice.now);
            return true;
        }
        Ok(Ok(Phase::Waiting(until))) => {
            placed.wake_at = until;
            return true;
        }
        Ok(Err(error)) => error,
        Err(panic) => panicked(&placed.task.running(), panic.as_ref()),
    };
    if let Some(failed) = placed.failed.take() {
        failed(placed.task.id(), error);
    }
    false
}

/// The error for a panic in a task.
pub(crate) fn panicked(operator: &str, panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a value that is not a text".into());
    Error::new(ErrorKind::Restart, "R002", format!("the code of an operator panicked: {text}"))
        .at(format!("operator={operator}"))
        .data("the records since the last checkpoint are read again after the restart; none of their output is visible")
        .remedy("correct the code, or let it return an error for bad records instead of panicking")
}

fn sleep(parker: &Parker, until: Option<Tick>, clock: &dyn Clock) {
    parker.sleeping.store(true, Ordering::SeqCst);
    if !parker.signalled.load(Ordering::SeqCst) {
        match until {
            Some(until) => thread::park_timeout(until.since(clock.now())),
            None => thread::park(),
        }
    }
    parker.sleeping.store(false, Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_with_slow_code_gets_few_records_and_many_again_when_it_is_fast() {
        let mut budget = SLICE_RECORDS_MAX;
        let slow = Duration::from_millis(3);
        for _ in 0..20 {
            budget = next_budget(budget, slow * budget as u32);
        }
        assert_eq!(budget, 1, "one record takes more than half of what a slice should");
        for _ in 0..20 {
            budget = next_budget(budget, Duration::from_nanos(50) * budget as u32);
        }
        assert_eq!(budget, SLICE_RECORDS_MAX);
        assert_eq!(next_budget(1, Duration::from_secs(1)), 1, "never nothing");
    }
}
