//! Figures that sources, sinks and the engine tell while they run.
//!
//! Owns: the figures' names, labels and present values. Does not own: their presentation, any clock, what is measured.
//!
//! Telling a figure is one atomic write; making one takes a lock. Counters and distributions live as long as the process, so that they
//! outlive restarts of the job; others go with the last handle to them, as the partitions that a task has given away.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// What a figure is. A constant of whoever tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Figure {
    /// Its name, by the rules of Prometheus; the unit comes last.
    pub name: &'static str,
    /// What it says, in one sentence.
    pub help: &'static str,
}

/// Stands for "no value".
const NONE: i64 = i64::MIN;
/// Upper bounds of the parts of a distribution of times, in milliseconds; one more part is above them.
pub const TIME_BOUNDS_MS: [u64; 14] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 60_000];

/// Where figures are told, with labels.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    told: Arc<Mutex<Told>>,
    labels: Labels,
}

/// Labels and their values, sorted by label.
pub type Labels = Vec<(&'static str, String)>;

type Told = BTreeMap<(Figure, Labels), Cell>;

#[derive(Debug)]
enum Cell {
    Counter(Arc<AtomicU64>),
    Value(Weak<AtomicI64>),
    Moment { at_ms: Weak<AtomicI64>, is_ahead: bool },
    Times(Arc<TimeCells>),
}

#[derive(Debug, Default)]
struct TimeCells {
    parts: [AtomicU64; TIME_BOUNDS_MS.len() + 1],
    sum_us: AtomicU64,
}

/// Counts up.
#[derive(Clone, Debug)]
pub struct Counter(Arc<AtomicU64>);

/// Has a value now, or none.
#[derive(Clone, Debug)]
pub struct Gauge(Arc<AtomicI64>);

/// How long ago something was, or how far off it is: told as a moment, shown as seconds.
#[derive(Clone, Debug)]
pub struct Moment(Arc<AtomicI64>);

/// How long things took.
#[derive(Clone, Debug)]
pub struct Times(Arc<TimeCells>);

/// A figure as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// What it is.
    pub figure: Figure,
    /// Its labels.
    pub labels: Labels,
    /// Its value.
    pub value: SampleValue,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum SampleValue {
    /// Of a counter.
    Count(u64),
    /// Of anything that goes up and down.
    Value(f64),
    /// How many took how long.
    Times {
        /// How many, by [`TIME_BOUNDS_MS`]; each alone, not summed up.
        parts: Vec<u64>,
        /// All of them together, in seconds.
        sum: f64,
    },
}

impl Metrics {
    /// The same place, with a label more.
    #[must_use]
    pub fn with(&self, label: &'static str, value: impl Into<String>) -> Metrics {
        let mut labels = self.labels.clone();
        let value = value.into();
        match labels.binary_search_by_key(&label, |(known, _)| known) {
            Ok(at) => labels[at].1 = value,
            Err(at) => labels.insert(at, (label, value)),
        }
        Metrics { told: Arc::clone(&self.told), labels }
    }

    /// A counter; of two with the same name and labels, both count the same.
    #[must_use]
    pub fn counter(&self, figure: Figure) -> Counter {
        let mut told = self.lock();
        let cell = told.entry(self.key(figure)).or_insert_with(|| Cell::Counter(Arc::default()));
        match cell {
            Cell::Counter(count) => Counter(Arc::clone(count)),
            // Somebody gave the name to two kinds of figures; the first one keeps it.
            Cell::Value(_) | Cell::Moment { .. } | Cell::Times(_) => Counter(Arc::default()),
        }
    }

    /// A value that goes up and down; none yet.
    #[must_use]
    pub fn gauge(&self, figure: Figure) -> Gauge {
        let value = Arc::new(AtomicI64::new(NONE));
        self.lock().insert(self.key(figure), Cell::Value(Arc::downgrade(&value)));
        Gauge(value)
    }

    /// Seconds since a moment; none yet.
    #[must_use]
    pub fn seconds_since(&self, figure: Figure) -> Moment {
        self.moment(figure, false)
    }

    /// Seconds until a moment, negative when it has passed; none yet.
    #[must_use]
    pub fn seconds_until(&self, figure: Figure) -> Moment {
        self.moment(figure, true)
    }

    fn moment(&self, figure: Figure, is_ahead: bool) -> Moment {
        let at = Arc::new(AtomicI64::new(NONE));
        self.lock().insert(self.key(figure), Cell::Moment { at_ms: Arc::downgrade(&at), is_ahead });
        Moment(at)
    }

    /// How long things took; of two with the same name and labels, both add to the same.
    #[must_use]
    pub fn times(&self, figure: Figure) -> Times {
        let mut told = self.lock();
        let cell = told.entry(self.key(figure)).or_insert_with(|| Cell::Times(Arc::default()));
        match cell {
            Cell::Times(cells) => Times(Arc::clone(cells)),
            Cell::Counter(_) | Cell::Value(_) | Cell::Moment { .. } => Times(Arc::default()),
        }
    }

    /// All figures as they are at `wall_ms`, in milliseconds since 1970; sorted by name and labels.
    #[must_use]
    pub fn samples(&self, wall_ms: i64) -> Vec<Sample> {
        let mut told = self.lock();
        told.retain(|_, cell| match cell {
            Cell::Counter(_) | Cell::Times(_) => true,
            Cell::Value(value) => value.strong_count() > 0,
            Cell::Moment { at_ms, .. } => at_ms.strong_count() > 0,
        });
        let now = |weak: &Weak<AtomicI64>| weak.upgrade().map(|value| value.load(Ordering::Relaxed)).filter(|value| *value != NONE);
        let value_of = |cell: &Cell| match cell {
            Cell::Counter(count) => Some(SampleValue::Count(count.load(Ordering::Relaxed))),
            Cell::Value(value) => now(value).map(|value| SampleValue::Value(value as f64)),
            Cell::Moment { at_ms, is_ahead } => now(at_ms).map(|at| {
                let since = wall_ms.saturating_sub(at) as f64 / 1000.0;
                SampleValue::Value(if *is_ahead { -since } else { since })
            }),
            Cell::Times(cells) => Some(SampleValue::Times {
                parts: cells.parts.iter().map(|part| part.load(Ordering::Relaxed)).collect(),
                sum: cells.sum_us.load(Ordering::Relaxed) as f64 / 1e6,
            }),
        };
        let samples = told
            .iter()
            .filter_map(|((figure, labels), cell)| Some(Sample { figure: *figure, labels: labels.clone(), value: value_of(cell)? }));
        samples.collect()
    }

    fn key(&self, figure: Figure) -> (Figure, Labels) {
        (figure, self.labels.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counter {
    /// Counts.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }
}

impl Gauge {
    /// Tells the value, or that there is none.
    pub fn set(&self, value: Option<i64>) {
        self.0.store(value.unwrap_or(NONE), Ordering::Relaxed);
    }
}

impl Moment {
    /// Tells the moment, in milliseconds since 1970, or that there is none.
    pub fn set(&self, at_ms: Option<i64>) {
        self.0.store(at_ms.unwrap_or(NONE), Ordering::Relaxed);
    }
}

impl Times {
    /// One took so long.
    pub fn add(&self, time: Duration) {
        let part = TIME_BOUNDS_MS.partition_point(|bound| Duration::from_millis(*bound) < time);
        self.0.parts[part].fetch_add(1, Ordering::Relaxed);
        self.0.sum_us.fetch_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
