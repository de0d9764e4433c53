//! The command line.

use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};

use crate::latency::Probe;
use crate::workload::{Kind, Row};

/// Who does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Engine {
    Loop,
    LoopBatched,
    Staunch,
    Flink,
}

impl Engine {
    const ALL: [Engine; 4] = [Engine::Loop, Engine::LoopBatched, Engine::Staunch, Engine::Flink];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Engine::Loop => "loop",
            Engine::LoopBatched => "loop-batched",
            Engine::Staunch => "staunch",
            Engine::Flink => "flink",
        }
    }

    pub(crate) fn parse(name: &str) -> Result<Engine> {
        Engine::ALL.into_iter().find(|engine| engine.name() == name).ok_or_else(|| anyhow!("unknown engine {name:?}"))
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Throughput(Row),
    Latency(Probe),
    Mark,
}

impl Work {
    pub(crate) fn row(&self) -> Option<Row> {
        match self {
            Work::Throughput(row) => Some(*row),
            Work::Latency(_) | Work::Mark => None,
        }
    }

    fn name(&self) -> String {
        match self {
            Work::Throughput(row) => row.name(),
            Work::Latency(probe) => probe.name(),
            Work::Mark => "kafka-mark".into(),
        }
    }
}

/// What to do.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) passes: usize,
    pub(crate) rows: Vec<Work>,
    pub(crate) engines: Vec<Engine>,
    pub(crate) results: Option<PathBuf>,
}

/// All that is measured: copies and windows, the latency of copies, and what a mark costs.
fn rows(scale: f64, seconds: u64) -> Vec<Work> {
    let shapes = [
        (Kind::Copy, 100, 1, 6_000_000.0),
        (Kind::Copy, 100, 8, 6_000_000.0),
        (Kind::Copy, 1000, 1, 1_500_000.0),
        (Kind::Copy, 1000, 8, 1_500_000.0),
        (Kind::Window, 100, 1, 12_000_000.0),
        (Kind::Window, 100, 8, 12_000_000.0),
    ];
    let row = |(kind, value_bytes, partitions, records)| Row { kind, value_bytes, partitions, records: (records * scale) as u64 };
    let mut all: Vec<Work> = shapes.into_iter().map(|shape| Work::Throughput(row(shape))).collect();
    all.extend([1, 8].map(|partitions| Work::Latency(Probe { partitions, rate: 20_000, seconds, skipped: seconds * 2 / 5 })));
    all.push(Work::Mark);
    all
}

impl Options {
    /// `cargo bench` says `--bench`; without that word all but Flink runs once with few records.
    pub(crate) fn parse(words: &[String]) -> Result<Options> {
        if !words.iter().any(|word| word == "--bench") {
            println!("few records, for the checks: the figures mean nothing; `make bench-kafka` measures");
            let mut few = rows(0.003, 0);
            few.retain(|work| matches!(work, Work::Throughput(Row { value_bytes: 100, partitions: 8, .. })));
            few.push(Work::Latency(Probe { partitions: 1, rate: 2_000, seconds: 1, skipped: 0 }));
            return Ok(Options { passes: 1, rows: few, engines: vec![Engine::Loop, Engine::LoopBatched, Engine::Staunch], results: None });
        }
        let mut options = Options { passes: 3, rows: Vec::new(), engines: Engine::ALL.to_vec(), results: None };
        let (mut scale, mut seconds, mut names) = (1.0, 25, None);
        let words: Vec<&String> = words.iter().filter(|word| *word != "--bench").collect();
        for pair in words.chunks(2) {
            let [name, value] = pair else { bail!("{} has no value", pair[0]) };
            match name.as_str() {
                "--passes" => options.passes = value.parse()?,
                "--engines" => options.engines = value.split(',').map(Engine::parse).collect::<Result<_>>()?,
                "--rows" => names = Some(value.split(',').map(str::to_owned).collect::<Vec<_>>()),
                "--scale" => scale = value.parse()?,
                "--seconds" => seconds = value.parse()?,
                "--results" => options.results = Some(PathBuf::from(value)),
                other => bail!("unknown option {other}"),
            }
        }
        let all = rows(scale, seconds);
        let known = |work: &Work| work.name().trim_start_matches("kafka-").to_owned();
        if let Some(unknown) = names.iter().flatten().find(|name| !all.iter().any(|work| known(work) == **name)) {
            bail!("unknown row {unknown}; there are {}", all.iter().map(known).collect::<Vec<_>>().join(", "));
        }
        options.rows = all.into_iter().filter(|work| names.as_ref().is_none_or(|names| names.contains(&known(work)))).collect();
        Ok(options)
    }
}
