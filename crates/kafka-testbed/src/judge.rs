//! The judge: what lies in the topics, as a client sees it that is not ours.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::installed::Installed;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/judge.py");

/// A Python process that answers questions, one line each.
#[derive(Debug)]
pub struct Judge {
    process: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// A record as a `read_committed` reader sees it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Record {
    /// Its topic.
    pub topic: String,
    /// Its partition.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Its key.
    pub key: Option<Bytes>,
    /// Its value.
    pub value: Option<Bytes>,
    /// Its headers, in their order.
    pub headers: Vec<(String, Option<Bytes>)>,
    /// Milliseconds since 1970-01-01 UTC.
    pub timestamp_ms: i64,
}

impl Record {
    /// The value, when it is text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Some(Bytes::Text(text)) => Some(text),
            Some(Bytes::Base64(_)) | None => None,
        }
    }
}

/// Bytes, as text where they are text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bytes {
    /// They are UTF-8.
    Text(String),
    /// They are not.
    Base64(String),
}

/// Where a partition ends for the two kinds of readers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PartitionEnd {
    /// The partition.
    pub partition: i32,
    /// The next offset that any reader sees.
    pub high_watermark: i64,
    /// The next offset that a `read_committed` reader sees; lower while a transaction is open.
    pub last_stable_offset: i64,
}

impl Judge {
    pub(crate) fn start(installed: &Installed, bootstrap: &str) -> Result<Judge> {
        let mut command = Command::new(installed.python());
        command.args([PROGRAM, "--bootstrap", bootstrap, "serve"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().context("start the judge; scripts/install.sh kafka brings its Python")?;
        let ask = process.stdin.take().expect("standard input is a pipe");
        let answers = BufReader::new(process.stdout.take().expect("standard output is a pipe"));
        Ok(Judge { process, ask, answers })
    }

    /// Makes a topic and waits until it can be written to.
    ///
    /// # Errors
    /// When the brokers refuse.
    pub fn create_topic(&mut self, topic: &str, partitions: u32) -> Result<()> {
        self.ask(&["create", topic, "--partitions", &partitions.to_string()]).map(|_: Vec<serde_json::Value>| ())
    }

    /// Removes a topic.
    ///
    /// # Errors
    /// When the brokers refuse.
    pub fn delete_topic(&mut self, topic: &str) -> Result<()> {
        self.ask(&["delete", topic]).map(|_: Vec<serde_json::Value>| ())
    }

    /// All records of a topic up to the last stable offset, read with `read_committed`, by partition and offset.
    ///
    /// # Errors
    /// When they cannot be read to the end.
    pub fn read(&mut self, topic: &str) -> Result<Vec<Record>> {
        self.ask(&["read", topic])
    }

    /// Where the partitions of a topic end.
    ///
    /// # Errors
    /// When the brokers do not answer.
    pub fn ends(&mut self, topic: &str) -> Result<Vec<PartitionEnd>> {
        self.ask(&["ends", topic])
    }

    /// Waits until no transaction is open in a topic: the markers of a decided one come a moment after the decision.
    ///
    /// # Errors
    /// When one is still open after a while.
    pub fn settle(&mut self, topic: &str) -> Result<Vec<PartitionEnd>> {
        self.ask(&["settle", topic])
    }

    fn ask<T: DeserializeOwned>(&mut self, words: &[&str]) -> Result<Vec<T>> {
        writeln!(self.ask, "{}", serde_json::to_string(words)?).context("the judge has gone")?;
        let mut found = Vec::new();
        loop {
            let mut line = String::new();
            if self.answers.read_line(&mut line).context("the judge has gone")? == 0 {
                bail!("the judge ended while asked {words:?}");
            }
            match serde_json::from_str::<End>(&line) {
                Ok(End { end: None }) => return Ok(found),
                Ok(End { end: Some(wrong) }) => return Err(anyhow!("the judge, asked {words:?}, says: {wrong}")),
                Err(_) => found.push(serde_json::from_str(&line).with_context(|| format!("the judge says {line}"))?),
            }
        }
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        let _ended_already = self.process.kill();
        let _gone = self.process.wait();
    }
}

/// The last line of an answer, with what went wrong.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    #[serde(deserialize_with = "Option::deserialize")]
    end: Option<String>,
}
