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

/// What a consumer group holds of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct GroupOffset {
    /// The partition.
    pub partition: i32,
    /// The next offset to read; negative when the group has none.
    pub offset: i64,
}

/// Whether each payment of a topic is there once, as the judge found it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Once {
    /// Records of the topic.
    pub records: u64,
    /// Payments that are not there.
    pub lost: u64,
    /// The first of them.
    pub lost_first: Vec<String>,
    /// Payments that are there more than once.
    pub doubled: u64,
    /// The first of them.
    pub doubled_first: Vec<String>,
    /// Records that are no payment which was fed.
    pub strange: u64,
    /// The first of them.
    pub strange_first: Vec<String>,
    /// Records that come before an earlier one of their account, or lie in another partition than it.
    pub disordered: u64,
    /// The first of them.
    pub disordered_first: Vec<String>,
    /// Records whose count or sum is not that of their account so far.
    pub miscounted: u64,
    /// The first of them.
    pub miscounted_first: Vec<String>,
}

impl Once {
    /// Whether everything is there once, in order, with the right counts.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        (self.lost, self.doubled, self.strange, self.disordered, self.miscounted) == (0, 0, 0, 0, 0)
    }
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

    /// Gives a topic more partitions and waits until they can be written to.
    ///
    /// # Errors
    /// When the brokers refuse.
    pub fn grow_topic(&mut self, topic: &str, partitions: u32) -> Result<()> {
        self.ask(&["grow", topic, "--partitions", &partitions.to_string()]).map(|_: Vec<serde_json::Value>| ())
    }

    /// Writes the payments with these numbers, one to each account in turn, and between them so many texts `bad NUMBER`.
    ///
    /// # Errors
    /// When not all are taken.
    pub fn feed(&mut self, topic: &str, numbers: std::ops::Range<u64>, accounts: u64, bad: u64) -> Result<()> {
        let words = [("--begin", numbers.start), ("--end", numbers.end), ("--accounts", accounts), ("--bad", bad)];
        let words = words.map(|(word, number)| format!("{word}={number}"));
        self.ask(&["feed", topic, &words[0], &words[1], &words[2], &words[3]]).map(|_: Vec<serde_json::Value>| ())
    }

    /// Whether each of the payments below `end` is in a topic once, in order per account, to a `read_committed` reader.
    ///
    /// # Errors
    /// When it cannot be read to the end.
    pub fn once(&mut self, topic: &str, end: u64, accounts: u64) -> Result<Once> {
        let found = self.ask(&["once", topic, &format!("--end={end}"), &format!("--accounts={accounts}")])?;
        found.into_iter().next().context("the judge gave no answer")
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

    /// What a consumer group holds of each partition of a topic.
    ///
    /// # Errors
    /// When the brokers do not answer.
    pub fn group(&mut self, group: &str, topic: &str) -> Result<Vec<GroupOffset>> {
        self.ask(&["group", group, topic])
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
