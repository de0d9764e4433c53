//! What a process costs: processor time, in all and by the names of its threads.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often threads are looked at; what one does after the last look before its end is not seen.
const LOOK: Duration = Duration::from_millis(100);
/// Clock ticks of the system per second, as Linux tells them to programs.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor seconds of this process so far.
pub(crate) fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Processor seconds of another process so far; zero where the system does not tell.
pub(crate) fn processor_seconds_of(process: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name, in brackets, may have spaces; user and system time are the 12th and 13th word behind it.
    let words: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| words.get(at).and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / TICKS_PER_SECOND
}

/// Looks at this process's threads now and then.
pub(crate) struct Threads {
    over: Arc<AtomicBool>,
    watch: JoinHandle<BTreeMap<String, f64>>,
}

impl Threads {
    pub(crate) fn watch() -> Threads {
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let watch = thread::spawn(move || {
            let mut threads = BTreeMap::new();
            while !seen.load(Ordering::Relaxed) {
                thread::park_timeout(LOOK);
                look(&mut threads);
            }
            let mut by_name: BTreeMap<String, f64> = BTreeMap::new();
            threads.into_values().for_each(|(name, seconds)| *by_name.entry(name).or_default() += seconds);
            by_name
        });
        Threads { over, watch }
    }

    /// Processor seconds by name.
    pub(crate) fn finish(self) -> BTreeMap<String, f64> {
        self.over.store(true, Ordering::Relaxed);
        self.watch.thread().unpark();
        self.watch.join().unwrap_or_default()
    }
}

fn look(threads: &mut BTreeMap<String, (String, f64)>) {
    for thread in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let id = thread.file_name().to_string_lossy().into_owned();
        let read = |file: &str| fs::read_to_string(thread.path().join(file)).unwrap_or_default();
        let nanoseconds = read("schedstat").split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
        if let Some(nanoseconds) = nanoseconds {
            threads.insert(id, (read("comm").trim().replace(' ', "-"), nanoseconds / 1e9));
        }
    }
}
