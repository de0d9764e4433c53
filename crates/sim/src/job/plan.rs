//! The plan of each shape, in the engine's words.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use staunch_engine::job::{Environment, Plan, Settings, SourceStart, Start as Beginning, Stream};
use staunch_engine::operator::window::{Fold, Hopping, Session, Tumbling};
use staunch_engine::operator::{Identity, Transform, Watermarks};
use staunch_files::{FileSink, FileSource, SplitSize};
use staunch_types::Timestamp;

use super::input::pattern;
use super::{JobSpec, OUT, Row, Shape, Start};
use crate::check::topic;
use crate::kernel::SimBroker;
use crate::sink::{TopicSettings, TopicSink};

/// By how much rows may be out of order; the input is so by less.
const DISORDER: Duration = Duration::from_millis(200);
/// Length of a window, from one to the next of those that overlap, and the gap between sessions.
pub(super) const WINDOW: Duration = Duration::from_millis(400);
pub(super) const SLIDE: Duration = Duration::from_millis(150);
pub(super) const GAP: Duration = Duration::from_millis(90);

/// How far ahead of the others a row may be.
const AHEAD: Duration = Duration::from_secs(3_600);

/// What is kept of the rows of a key in a window.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Total {
    rows: u64,
    sum: i64,
}

impl Total {
    fn add(&mut self, row: &Row) {
        self.rows += 1;
        self.sum += row.value;
    }

    fn merge(&mut self, other: &Total) {
        self.rows += other.rows;
        self.sum += other.sum;
    }

    fn row(&self, key: u32, start: Timestamp) -> Row {
        Row { id: self.rows, key, value: self.sum, at: start.0 }
    }
}

impl JobSpec {
    /// The plan for one start.
    #[must_use]
    pub fn plan(&self, start: &Start, broker: &SimBroker) -> Plan {
        let planner = Planner { job: self, broker };
        planner.plan(start)
    }
}

/// A job at its broker.
struct Planner<'j> {
    job: &'j JobSpec,
    broker: &'j SimBroker,
}

impl Planner<'_> {
    fn plan(&self, start: &Start) -> Plan {
        let mut settings = Settings::new();
        settings.parallelism = start.parallelism.0;
        let mut env = Environment::new(settings);
        match self.job.shape {
            Shape::Straight => self.sink(self.source(&env, 0).map(doubled).filter(|row| !row.id.is_multiple_of(3)), "out"),
            Shape::Rebalanced => {
                let rows = self.source(&env, 0).filter(|row| row.key != 3).rebalance().parallelism(start.parallelism.1);
                self.sink(rows.map(doubled), "out");
            }
            Shape::Split => {
                let [even, odd] = self.source(&env, 0).split("parity", |row| (row.id % 2) as usize);
                self.sink(even.map(doubled), "even");
                self.sink(odd.rebalance().parallelism(start.parallelism.1), "odd");
            }
            Shape::Shared => {
                let shared = self.source(&env, 0).share();
                self.sink(shared.stream(), "even");
                let very_many = self.job.very_many;
                let many = shared.stream().flat_map(move |row| many_of(row, very_many)).rebalance().parallelism(start.parallelism.1);
                self.sink(many.map(doubled), "odd");
            }
            Shape::United => {
                let both = self.source(&env, 0).union(self.source(&env, 1).map(doubled));
                self.sink(both.parallelism(start.parallelism.1), "out");
            }
            Shape::Counted | Shape::Windowed | Shape::Hopped | Shape::Sessions | Shape::Guarded => self.keyed(&env, start),
        }
        env.plan().unwrap_or_else(|error| panic!("{error}"))
    }

    fn keyed(&self, env: &Environment, start: &Start) {
        let watermarks = Watermarks::bounded(DISORDER);
        let rows = self.source(env, 0);
        match self.job.shape {
            Shape::Counted => {
                let keyed = rows.key_by(|row| row.key).parallelism(start.parallelism.1);
                let numbered = keyed.stateful_map(
                    "count",
                    || 0,
                    |count: &mut i64, row: &Row| {
                        *count += 1;
                        Row { id: 0, key: row.key, value: *count, at: 0 }
                    },
                );
                self.sink(numbered, "out");
            }
            Shape::Windowed => {
                let keyed = rows.event_time(|row| Timestamp(row.at), watermarks).key_by(|row| row.key).parallelism(start.parallelism.1);
                let (sums, late) = keyed.window(Tumbling::of(WINDOW)).fold_with_late("window", Total::default, Total::add);
                self.sink(sums.map(|result| result.value.row(result.key, result.start)), "out");
                self.sink(late, "late");
            }
            Shape::Hopped => {
                let shared = rows.share();
                self.sink(shared.stream(), "all");
                let timed = shared.stream().event_time(|row| Timestamp(row.at), watermarks.per_record());
                let keyed = timed.key_by(|row| row.key).parallelism(start.parallelism.1);
                let sums =
                    keyed.window(Hopping::of(WINDOW, SLIDE)).aggregate("window", Fold::new(Total::default, Total::add).merge(Total::merge));
                self.sink(sums.map(|result| result.value.row(result.key, result.start)), "out");
            }
            Shape::Sessions => {
                let keyed = rows.event_time(|row| Timestamp(row.at), watermarks).key_by(|row| row.key).parallelism(start.parallelism.1);
                let sums =
                    keyed.window(Session::gap(GAP)).aggregate_sessions("window", Fold::new(Total::default, Total::add).merge(Total::merge));
                self.sink(sums.map(|result| result.value.row(result.key, result.start)), "out");
            }
            Shape::Guarded => {
                let (timed, ahead) = rows.event_time_guarded(|row| Timestamp(row.at), watermarks.per_record(), AHEAD);
                let keyed = timed.key_by(|row| row.key).parallelism(start.parallelism.1);
                let sums = keyed.window(Tumbling::of(WINDOW)).fold("window", Total::default, Total::add);
                self.sink(sums.map(|result| result.value.row(result.key, result.start)), "out");
                self.sink(ahead, "ahead");
            }
            Shape::Straight | Shape::Rebalanced | Shape::Split | Shape::Shared | Shape::United => {}
        }
    }

    fn source(&self, env: &Environment, number: usize) -> Stream<SourceStart<FileSource<Row>>, Identity> {
        let source = FileSource::csv::<Row>(pattern(number)).split_size(self.job.split_bytes, self.job.chunk_bytes);
        // The first row of a split is let on whatever its time, so it must be known which rows are first.
        let source = if self.job.shape == Shape::Guarded { source.one_split() } else { source };
        env.source(&format!("in-{number}"), source)
    }

    fn sink<S: Beginning, X: Transform<S::Item, Out = Row>>(&self, stream: Stream<S, X>, name: &str) {
        if let Some(settings) = &self.job.topics {
            let settings = TopicSettings { journal: self.job.journal, ..settings.clone() };
            return stream.sink(name, TopicSink::new(settings, &topic(&self.job.name, name), self.broker.clone()));
        }
        let mut sink = FileSink::csv::<Row>(format!("{OUT}/{name}"));
        if let Some(bytes) = self.job.roll_bytes {
            sink = sink.roll_bytes(bytes);
        }
        if let Some(age) = self.job.roll_every {
            sink = sink.roll_every(age);
        }
        if self.job.journal {
            sink = sink.journal();
        }
        stream.sink(name, sink);
    }
}

/// Small splits and chunks, so that there are many steps at which something can go wrong.
trait Small {
    fn split_size(self, split_bytes: u64, chunk_bytes: usize) -> Self;
}

impl Small for FileSource<Row> {
    fn split_size(self, split_bytes: u64, chunk_bytes: usize) -> Self {
        self.splits(SplitSize::Bytes(split_bytes)).chunk_bytes(chunk_bytes)
    }
}

/// A row with its value doubled, plus one.
fn doubled(row: Row) -> Row {
    Row { value: row.value * 2 + 1, ..row }
}

/// As many rows as the key says: none, one, or very many, told apart by their value.
fn many_of(row: Row, very_many: u32) -> Vec<Row> {
    let count = match row.key {
        0 => 0,
        11 if row.id.is_multiple_of(7) => very_many,
        _ => 1,
    };
    (0..count).map(|n| Row { value: row.value * 10_000 + i64::from(n), ..row.clone() }).collect()
}
