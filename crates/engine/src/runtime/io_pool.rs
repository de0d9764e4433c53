//! Threads that may block.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use staunch_api::IoDoor;

type Work = Box<dyn FnOnce() + Send>;

/// A small pool of threads for blocking work, started as needed. How much is queued is bounded by those who queue: each keeps
/// a fixed number of pieces under way.
pub struct IoPool {
    shared: Arc<Shared>,
    threads_max: usize,
}

struct Shared {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl IoPool {
    /// A pool of at most `threads_max` threads.
    #[must_use]
    pub fn new(threads_max: usize) -> IoPool {
        IoPool {
            shared: Arc::new(Shared { queue: Mutex::new(Queue::default()), arrived: Condvar::new() }),
            threads_max: threads_max.max(1),
        }
    }
}

impl IoDoor for IoPool {
    fn submit(&self, work: Work) {
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.work.push_back(work);
        if queue.idle < queue.work.len() && queue.threads < self.threads_max {
            queue.threads += 1;
            let shared = Arc::clone(&self.shared);
            let spawned = thread::Builder::new().name("staunch-io".into()).stack_size(512 * 1024).spawn(move || serve(&shared));
            if spawned.is_err() {
                queue.threads -= 1;
                assert!(queue.threads > 0, "the system refuses to start a thread for blocking work");
            }
        }
        drop(queue);
        self.shared.arrived.notify_one();
    }
}

impl Drop for IoPool {
    fn drop(&mut self) {
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.shared.arrived.notify_all();
    }
}

fn serve(shared: &Shared) {
    let mut queue = shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(work) = queue.work.pop_front() {
            drop(queue);
            // A panic in a connector's closure loses that closure's answer; its owner sees none and times out. It must not take the pool along.
            let _ = catch_unwind(AssertUnwindSafe(work));
            queue = shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        if queue.closed {
            return;
        }
        queue.idle += 1;
        queue = shared.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner);
        queue.idle -= 1;
    }
}
