//! Reads partitions in one task: decodes what the fetcher brings, and keeps the positions.
//!
//! Owns: positions, and what becomes of messages that are no records. Does not own: the connection (`fetcher`).
//!
//! Invariant: the position of a partition is behind every message handed over, and before every other.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use staunch_api::{Gauge, Output, ReaderContext, ReaderPhase, Rejected, SourceReader, SplitRead, SplitSnapshot};
use staunch_types::{Digest, Result, Tick, Timestamp};

use super::Settings;
use super::fetcher::{Fetched, Fetcher};
use super::lag::{LagWatch, Watch};
use super::partition::PartitionSplit;
use crate::message::{Decode, Headers, Message};
use crate::{codes, figures};

/// Reads Kafka in one task.
pub struct KafkaReader<T, D> {
    decode: D,
    fetcher: Fetcher,
    lag: LagWatch,
    partitions: Gauge,
    open: BTreeMap<u32, Open>,
    batch: Fetched,
    /// Entries of the batch that are done.
    done: usize,
    /// The slot the output was told last.
    told: Option<u32>,
    /// Slots that wait for their first message: the output is told of them, so that they can count as idle.
    fresh: Vec<u32>,
    /// Slots whose position has changed and is not shown yet.
    moved: Vec<u32>,
    ended: Vec<SplitRead>,
    record: PhantomData<fn() -> T>,
}

struct Open {
    /// Whether the fetcher has it: one that ends where it begins is not read, as no message and no end would come.
    is_read: bool,
    split: PartitionSplit,
    read_from: i64,
    digest: Digest,
    watch: Option<Arc<Watch>>,
}

impl Open {
    /// Shows the position to whoever watches the lag.
    fn show(&self) {
        if let Some(watch) = &self.watch {
            watch.reached(self.split.position);
        }
    }

    fn take_read(&mut self) -> Option<SplitRead> {
        let (from, to) = (self.read_from as u64, self.split.position as u64);
        self.read_from = self.split.position;
        (to > from).then(|| SplitRead { split: staunch_api::Split::id(&self.split), from, to, digest: std::mem::take(&mut self.digest) })
    }
}

impl<T, D: Decode<T>> KafkaReader<T, D> {
    pub(super) fn new(settings: &Settings, decode: D, context: ReaderContext) -> Result<KafkaReader<T, D>> {
        let config = settings.consumer(&context.name, context.task_index);
        let (fetcher, consumer) = Fetcher::start(&config, context.io.waker().clone())?;
        Ok(KafkaReader {
            decode,
            fetcher,
            partitions: context.metrics.gauge(figures::PARTITIONS),
            lag: LagWatch::start(consumer, context.metrics)?,
            open: BTreeMap::new(),
            batch: Fetched::default(),
            done: 0,
            told: None,
            fresh: Vec::new(),
            moved: Vec::new(),
            ended: Vec::new(),
            record: PhantomData,
        })
    }

    fn show_partitions(&self) {
        self.partitions.set(i64::try_from(self.open.len()).ok());
    }

    /// Shows the positions that have changed: once for each stretch of messages of one partition.
    fn show_positions(&mut self) {
        for slot in self.moved.drain(..).chain(self.told) {
            self.open.get(&slot).inspect(|open| open.show());
        }
    }

    /// The next batch, if there is one.
    fn turn(&mut self) -> Result<bool> {
        let Some(next) = self.fetcher.next()? else { return Ok(false) };
        self.fetcher.give_back(std::mem::replace(&mut self.batch, next));
        self.done = 0;
        Ok(true)
    }

    /// Ends a partition that is read up to where it should be.
    fn end_if_done<O: Output<T>>(&mut self, slot: u32, out: &mut O) -> Result<()> {
        let is_done = |open: &mut Open| open.split.stop.is_some_and(|stop| open.split.position >= stop);
        if self.open.get_mut(&slot).is_some_and(is_done)
            && let Some(mut open) = self.open.remove(&slot)
        {
            self.ended.extend(open.take_read());
            if open.is_read {
                self.fetcher.leave(open.split)?;
            }
            out.end_split(slot);
            self.told = None;
            self.show_partitions();
        }
        Ok(())
    }

    /// Hands over at most so many records.
    fn hand_over<O: Output<T>>(&mut self, budget: usize, out: &mut O) -> Result<ReaderPhase> {
        let slots: Vec<u32> = self.open.iter().filter(|(_, open)| open.split.stop.is_some()).map(|(slot, _)| *slot).collect();
        slots.into_iter().try_for_each(|slot| self.end_if_done(slot, out))?;
        for slot in std::mem::take(&mut self.fresh).into_iter().filter(|slot| self.open.contains_key(slot)) {
            out.begin_split(slot);
            self.told = Some(slot);
        }
        let mut left = budget;
        while left > 0 && out.room() {
            let Some(entry) = self.batch.entries.get(self.done) else {
                if self.turn()? {
                    continue;
                }
                return Ok(if self.open.is_empty() { ReaderPhase::WaitingSplits } else { ReaderPhase::WaitingIo });
            };
            self.done += 1;
            let slot = entry.slot;
            // What came after its partition was ended.
            let Some(open) = self.open.get_mut(&slot) else { continue };
            let (taken, offset) = (&entry.taken, entry.taken.offset());
            if !taken.is_message() {
                // Markers of transactions, and messages of aborted ones, take offsets too.
                open.split.position = open.split.position.max(offset);
                open.show();
                self.end_if_done(slot, out)?;
                continue;
            }
            if open.split.stop.is_some_and(|stop| offset >= stop) {
                open.split.position = open.split.position.max(offset);
                self.end_if_done(slot, out)?;
                continue;
            }
            left -= 1;
            if self.told != Some(slot) {
                out.begin_split(slot);
                self.moved.extend(self.told.replace(slot));
            }
            let timestamp = taken.timestamp();
            let message = Message {
                topic: &open.split.topic,
                partition: open.split.partition,
                offset,
                timestamp,
                key: taken.key(),
                value: taken.value(),
                headers: Headers::of(taken),
            };
            match self.decode.decode(&message) {
                Ok(record) => out.push(record, timestamp.map_or(Timestamp::MIN, Timestamp)),
                Err(reason) => out.reject(rejected(&message, reason))?,
            }
            open.digest.add(message.value.unwrap_or_default());
            open.split.position = offset + 1;
            if open.split.stop.is_some() {
                self.end_if_done(slot, out)?;
            }
        }
        Ok(ReaderPhase::Ready)
    }
}

impl<T: Send + 'static, D: Decode<T>> SourceReader for KafkaReader<T, D> {
    type Record = T;
    type Split = PartitionSplit;

    fn add_split(&mut self, slot: u32, split: PartitionSplit) -> Result<()> {
        let is_read = split.stop.is_none_or(|stop| split.position < stop);
        if is_read {
            self.fetcher.read(slot, split.clone())?;
        }
        self.fresh.push(slot);
        let watch = is_read.then(|| self.lag.watch(&split));
        self.open.insert(slot, Open { is_read, read_from: split.position, split, digest: Digest::default(), watch });
        self.show_partitions();
        Ok(())
    }

    fn poll<O: Output<T>>(&mut self, _now: Tick, budget: usize, out: &mut O) -> Result<ReaderPhase> {
        let phase = self.hand_over(budget, out);
        self.show_positions();
        phase
    }

    fn snapshot(&mut self) -> SplitSnapshot<PartitionSplit> {
        let mut reads = std::mem::take(&mut self.ended);
        reads.extend(self.open.values_mut().filter_map(Open::take_read));
        SplitSnapshot { splits: self.open.values().map(|open| open.split.clone()).collect(), reads }
    }
}

#[cold]
fn rejected(message: &Message<'_>, reason: String) -> Rejected {
    let raw = message.value.unwrap_or_default();
    Rejected {
        code: codes::MESSAGE_BAD.into(),
        reason,
        place: format!("topic={} partition={} offset={}", message.topic, message.partition, message.offset),
        raw: String::from_utf8_lossy(&raw[..raw.len().min(Rejected::RAW_BYTES_MAX)]).into_owned(),
    }
}
