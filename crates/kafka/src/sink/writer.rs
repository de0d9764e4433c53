//! Writes records in one task: encodes them into batches for the thread that produces them.
//!
//! Owns: batches, and the order of prepares. Does not own: producers and transactions (`producer`).
//!
//! Invariant: at most [`BATCHES_MAX`] batches are under way; then there is no room.

use std::collections::VecDeque;
use std::marker::PhantomData;

use staunch_api::{Prepared, SinkWriter, WriterContext};
use staunch_types::{Epoch, Error, ErrorKind, Result, Tick, Timestamp};

use super::Settings;
use super::batch::OutBatch;
use super::producer::{Answer, Order, ProducerThread};
use crate::codes;
use crate::message::Encode;

/// Bytes of messages that go to the thread together.
const BATCH_BYTES: usize = 256 * 1024;
/// Batches under way at most.
pub(super) const BATCHES_MAX: usize = 8;

/// Writes records to Kafka, in one task.
pub struct KafkaWriter<T, E> {
    encode: E,
    thread: ProducerThread,
    batch: OutBatch,
    used: Vec<OutBatch>,
    under_way: usize,
    prepared: VecDeque<Prepared>,
    failed: Option<Error>,
    record: PhantomData<fn(T)>,
}

impl<T, E: Encode<T>> KafkaWriter<T, E> {
    pub(super) fn new(settings: Settings, encode: E, context: WriterContext) -> Result<KafkaWriter<T, E>> {
        Ok(KafkaWriter {
            encode,
            thread: ProducerThread::start(settings, context)?,
            batch: OutBatch::default(),
            used: Vec::new(),
            under_way: 0,
            prepared: VecDeque::new(),
            failed: None,
            record: PhantomData,
        })
    }

    fn hand_over(&mut self) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let next = self.used.pop().unwrap_or_default();
        let full = std::mem::replace(&mut self.batch, next);
        self.under_way += 1;
        self.thread.order(Order::Batch(full))
    }

    fn listen(&mut self) -> Result<()> {
        while let Some(answer) = self.thread.answer() {
            match answer {
                Answer::Used(mut batch) => {
                    batch.clear();
                    self.used.push(batch);
                    self.under_way -= 1;
                }
                Answer::Prepared(prepared) => self.prepared.push_back(prepared),
                Answer::Failed(error) => {
                    self.failed.get_or_insert(error);
                }
            }
        }
        self.failed.clone().map_or(Ok(()), Err)
    }
}

impl<T: Send + 'static, E: Encode<T>> SinkWriter for KafkaWriter<T, E> {
    type Record = T;

    #[inline]
    fn write(&mut self, record: T, time: Timestamp) -> Result<()> {
        let encode = &self.encode;
        let written = self.batch.push(|draft| {
            if time != Timestamp::MIN && time != Timestamp::MAX {
                draft.timestamp(time.0);
            }
            encode.encode(&record, draft)
        });
        if let Err(reason) = written {
            return Err(unwritable(reason));
        }
        if self.batch.bytes() >= BATCH_BYTES {
            self.hand_over()?;
            return self.listen();
        }
        Ok(())
    }

    #[inline]
    fn room(&self) -> bool {
        self.under_way < BATCHES_MAX
    }

    fn work(&mut self, _now: Tick) -> Result<Option<Tick>> {
        self.listen()?;
        if self.room() {
            self.hand_over()?;
        }
        Ok(None)
    }

    fn prepare(&mut self, epoch: Epoch) -> Result<()> {
        self.hand_over()?;
        self.thread.order(Order::Prepare(epoch))
    }

    fn poll_prepared(&mut self) -> Result<Option<Prepared>> {
        self.listen()?;
        Ok(self.prepared.pop_front())
    }

    fn end(&mut self) {}
}

#[cold]
fn unwritable(reason: String) -> Error {
    Error::new(ErrorKind::Invalid, codes::RECORD_UNWRITABLE, format!("the record cannot become a message: {reason}"))
        .data("nothing of the present epoch is visible; what is committed is whole")
        .remedy("map the record to one that can be written before the sink, or choose another format")
}
