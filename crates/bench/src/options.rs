//! The command line: `staunch-bench WORKLOAD [--name value …]`, with the names of the Flink programs.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use crate::source::Schedule;

/// What to run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) workload: String,
    values: BTreeMap<String, String>,
}

const KNOWN: [&str; 21] = [
    "name",
    "parallelism",
    "workers",
    "checkpoint",
    "keys",
    "populate",
    "warmup",
    "window",
    "windows",
    "rate",
    "eventRate",
    "outDir",
    "ckptdir",
    "maxRecords",
    "backend",
    // Of RocksDB: bytes of memory, bytes of them for objects, directory.
    "memory",
    "objects",
    "dbdir",
    "input",
    "format",
    // Of Flink only: ours has no such setting.
    "bufferTimeout",
];

impl Options {
    pub(crate) fn parse(words: &[String]) -> Result<Options, String> {
        let (workload, rest) = words.split_first().ok_or_else(|| usage("no workload was given"))?;
        let mut values = BTreeMap::new();
        for pair in rest.chunks(2) {
            let [name, value] = pair else { return Err(usage(&format!("{} has no value", pair[0]))) };
            let name = name.strip_prefix("--").filter(|n| KNOWN.contains(n)).ok_or_else(|| usage(&format!("unknown option {name}")))?;
            values.insert(name.to_owned(), value.clone());
        }
        Ok(Options { workload: workload.clone(), values })
    }

    pub(crate) fn with(&self, workload: &str, pairs: &[(&str, &str)]) -> Options {
        let mut options = self.clone();
        options.workload = workload.to_owned();
        for (name, value) in pairs {
            options.values.entry((*name).to_owned()).or_insert_with(|| (*value).to_owned());
        }
        options
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    pub(crate) fn number<T: FromStr>(&self, name: &str, default: T) -> Result<T, String> {
        self.text(name).map_or(Ok(default), |v| v.parse().map_err(|_| usage(&format!("--{name} {v} is not a number"))))
    }

    pub(crate) fn checkpoint(&self) -> Result<Option<Duration>, String> {
        Ok(Some(self.number("checkpoint", 0)?).filter(|ms| *ms > 0).map(Duration::from_millis))
    }

    pub(crate) fn schedule(&self) -> Result<Schedule, String> {
        Ok(Schedule {
            populate: self.number("populate", 0)?,
            warmup: Duration::from_secs_f64(self.number("warmup", 2.0)?),
            window: Duration::from_secs_f64(self.number("window", 3.0)?),
            windows: self.number("windows", 3)?,
            rate: self.number("rate", 0)?,
            records_max: self.number("maxRecords", u64::MAX)?,
        })
    }
}

fn usage(what: &str) -> String {
    format!(
        "staunch-bench: {what}\nusage: staunch-bench q0|q0read|mapfilter|count|countproj|tumble|hop|bigstate|latency|filesink|make-files|files|firstrow|all [--NAME VALUE …]\n\
         names: {}\n(parallelism 1, checkpoint in ms, 0 = off, warmup and window in seconds)",
        KNOWN.join(", ")
    )
}
