//! The plan of each shape, in the engine's words.

use staunch_engine::job::{Environment, Plan, Settings, SourceStart, Start as Beginning, Stream};
use staunch_engine::operator::{Identity, Transform};
use staunch_files::{FileSink, FileSource, SplitSize};

use super::input::pattern;
use super::{JobSpec, OUT, Row, Shape, Start};

impl JobSpec {
    /// The plan for one start.
    #[must_use]
    pub fn plan(&self, start: &Start) -> Plan {
        let mut settings = Settings::new();
        settings.parallelism = start.parallelism.0;
        let mut env = Environment::new(settings);
        match self.shape {
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
                let very_many = self.very_many;
                let many = shared.stream().flat_map(move |row| many_of(row, very_many)).rebalance().parallelism(start.parallelism.1);
                self.sink(many.map(doubled), "odd");
            }
            Shape::United => {
                let both = self.source(&env, 0).union(self.source(&env, 1).map(doubled));
                self.sink(both.parallelism(start.parallelism.1), "out");
            }
        }
        env.plan().unwrap_or_else(|error| panic!("{error}"))
    }

    fn source(&self, env: &Environment, number: usize) -> Stream<SourceStart<FileSource<Row>>, Identity> {
        let source = FileSource::csv::<Row>(pattern(number)).split_size(self.split_bytes, self.chunk_bytes);
        env.source(&format!("in-{number}"), source)
    }

    fn sink<S: Beginning, X: Transform<S::Item, Out = Row>>(&self, stream: Stream<S, X>, name: &str) {
        let mut sink = FileSink::csv::<Row>(format!("{OUT}/{name}"));
        if let Some(bytes) = self.roll_bytes {
            sink = sink.roll_bytes(bytes);
        }
        if let Some(age) = self.roll_every {
            sink = sink.roll_every(age);
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
