//! The ceiling: a loop in one thread that takes messages from librdkafka, transforms them, produces them and commits, with the same settings
//! of the client as ours. It keeps its positions as Kafka's own example of exactly once does: `send_offsets_to_transaction`.
//!
//! There are two ways to write it. *Plain*: one message per call, by the safe wrapper. *Batched*: many messages per call of librdkafka, a
//! topic handle instead of a name, acknowledgements only of what failed.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::ptr::null_mut;
use std::slice;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use hashbrown::HashMap;
use rdkafka::bindings as native;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Message, Offset, TopicPartitionList};

use crate::Place;
use crate::topics::{self, STEP};
use crate::workload::{Kind, Payment, Row, Total, WINDOW_MS};

/// Messages taken by one call, and between two looks at the clock.
const BATCH: usize = 1024;
/// How long nothing may come before the loop gives up.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// What our source asks of the client.
pub(crate) const READER: [(&str, &str); 4] =
    [("queued.max.messages.kbytes", "32768"), ("fetch.wait.max.ms", "50"), ("fetch.queue.backoff.ms", "5"), ("check.crcs", "true")];
/// What our sink asks of the client.
const WRITER: [(&str, &str); 3] = [("partitioner", "murmur2_random"), ("linger.ms", "5"), ("queue.buffering.max.kbytes", "65536")];

/// How the loop is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Plain,
    Batched,
}

/// Does a row's work up to the end that the input has now.
pub(crate) fn run(place: &Place, row: &Row, way: Way) -> Result<()> {
    let consumer = topics::reader(&place.brokers, &place.input, row.partitions, &READER)?;
    let mut left = vec![0; row.partitions as usize];
    for (partition, left) in (0..).zip(&mut left) {
        *left = consumer.fetch_watermarks(&place.input, partition, STEP)?.1;
    }
    let mut writer = Writer::new(place, row, way)?;
    let mut reader = Reader::new(&consumer, way)?;
    let mut progress = Progress { windows: Windows::new(row), next: vec![0; left.len()], ends: left };
    let (mut commit_at, mut heard) = (Instant::now() + place.interval, Instant::now());
    while progress.is_open() {
        let taken = reader.take(|message| match row.kind {
            Kind::Copy => writer.copy(message).and_then(|()| progress.note(message)).map(drop),
            Kind::Window => progress.add(message).and_then(|fired| fired.into_iter().try_for_each(|window| writer.fire(window))),
        })?;
        writer.serve();
        let now = Instant::now();
        if taken > 0 {
            heard = now;
        }
        ensure!(now - heard < SILENCE_MAX, "the input does not go on");
        if now >= commit_at {
            writer.commit(&consumer, &progress.next, place)?;
            writer.producer.begin_transaction()?;
            commit_at = Instant::now() + place.interval;
        }
    }
    writer.commit(&consumer, &progress.next, place)
}

/// A message, borrowed from librdkafka.
#[derive(Clone, Copy)]
struct Seen<'a> {
    partition: i32,
    offset: i64,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
}

enum Reader<'a> {
    Plain(&'a BaseConsumer),
    Batched { queue: *mut native::rd_kafka_queue_t, taken: Vec<*mut native::rd_kafka_message_t> },
}

impl Reader<'_> {
    fn new(consumer: &BaseConsumer, way: Way) -> Result<Reader<'_>> {
        if way == Way::Plain {
            return Ok(Reader::Plain(consumer));
        }
        // SAFETY: the client is alive; the queue lives for as long as the program.
        let queue = unsafe { native::rd_kafka_queue_get_consumer(consumer.client().native_ptr()) };
        ensure!(!queue.is_null(), "a consumer has no queue");
        Ok(Reader::Batched { queue, taken: vec![null_mut(); BATCH] })
    }

    fn take(&mut self, mut each: impl FnMut(Seen<'_>) -> Result<()>) -> Result<usize> {
        match self {
            Reader::Plain(consumer) => {
                for count in 0..BATCH {
                    let wait = if count == 0 { Duration::from_millis(5) } else { Duration::ZERO };
                    let Some(message) = consumer.poll(wait) else { return Ok(count) };
                    let message = message?;
                    let (partition, offset) = (message.partition(), message.offset());
                    each(Seen { partition, offset, key: message.key(), value: message.payload() })?;
                }
                Ok(BATCH)
            }
            Reader::Batched { queue, taken } => {
                // SAFETY: there is room for as many pointers as are asked for.
                let count = unsafe { native::rd_kafka_consume_batch_queue(*queue, 5, taken.as_mut_ptr(), taken.len()) };
                let mut result = Ok(());
                for &pointer in taken.iter().take(usize::try_from(count)?) {
                    // SAFETY: the message was just given to us, and is given back below.
                    let raw = unsafe { &*pointer };
                    if raw.err != native::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                        result = result.and(Err(anyhow!("the input cannot be read: {:?}", raw.err)));
                    } else if result.is_ok() {
                        // SAFETY: a pointer that is not null has so many bytes.
                        let part = |start: *mut std::ffi::c_void, length| {
                            (!start.is_null()).then(|| unsafe { slice::from_raw_parts(start.cast::<u8>(), length) })
                        };
                        let (key, value) = (part(raw.key, raw.key_len), part(raw.payload, raw.len));
                        result = each(Seen { partition: raw.partition, offset: raw.offset, key, value });
                    }
                    // SAFETY: no reference to the message is left.
                    unsafe { native::rd_kafka_message_destroy(pointer) };
                }
                result.map(|()| count as usize)
            }
        }
    }
}

struct Writer {
    topic: String,
    handle: Option<*mut native::rd_kafka_topic_t>,
    producer: BaseProducer,
    scratch: Vec<u8>,
}

impl Writer {
    fn new(place: &Place, row: &Row, way: Way) -> Result<Writer> {
        let mut config = topics::client(&place.brokers);
        for (name, value) in WRITER {
            config.set(name, value);
        }
        config.set("transactional.id", format!("bare-{}", place.output)).set("transaction.timeout.ms", "600000");
        if way == Way::Batched {
            config.set("delivery.report.only.error", "true");
        }
        let producer: BaseProducer = config.create()?;
        producer.init_transactions(STEP)?;
        producer.begin_transaction()?;
        let name = CString::new(place.output.as_str())?;
        // SAFETY: the client is alive, the name ends in zero, and no settings are handed over.
        let handle =
            (way == Way::Batched).then(|| unsafe { native::rd_kafka_topic_new(producer.client().native_ptr(), name.as_ptr(), null_mut()) });
        Ok(Writer { topic: place.output.clone(), handle, producer, scratch: Vec::with_capacity(row.value_bytes) })
    }

    fn copy(&mut self, message: Seen<'_>) -> Result<()> {
        self.scratch.clear();
        self.scratch.extend_from_slice(message.value.context("a value is null")?);
        self.scratch.make_ascii_uppercase();
        self.send(message.key.context("a key is null")?, &self.scratch)
    }

    fn fire(&mut self, totals: HashMap<u64, Total>) -> Result<()> {
        totals.iter().try_for_each(|(account, total)| self.send(&account.to_be_bytes(), &total.bytes()))
    }

    fn send(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let Some(handle) = self.handle else {
            return topics::send(&self.producer, BaseRecord::to(&self.topic).key(key).payload(value));
        };
        loop {
            // SAFETY: the topic is alive; key and value are copied.
            let refused = unsafe {
                let flags = native::RD_KAFKA_MSG_F_COPY;
                native::rd_kafka_produce(
                    handle,
                    -1,
                    flags,
                    value.as_ptr() as *mut _,
                    value.len(),
                    key.as_ptr().cast(),
                    key.len(),
                    null_mut(),
                )
            };
            // SAFETY: reads a number of this thread.
            match if refused == 0 { return Ok(()) } else { unsafe { native::rd_kafka_last_error() } } {
                native::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__QUEUE_FULL => self.producer.poll(Duration::from_millis(1)),
                code => bail!("a message cannot be queued: {code:?}"),
            }
        }
    }

    fn serve(&self) {
        self.producer.poll(Duration::ZERO);
    }

    fn commit(&self, consumer: &BaseConsumer, next: &[i64], place: &Place) -> Result<()> {
        // Not `flush`, which looks only each 100 ms.
        while self.producer.in_flight_count() > 0 {
            self.producer.poll(Duration::from_millis(1));
        }
        let mut offsets = TopicPartitionList::new();
        for (partition, next) in (0..).zip(next) {
            offsets.add_partition_offset(&place.input, partition, Offset::Offset(*next))?;
        }
        let group = consumer.group_metadata().context("a consumer has no group")?;
        self.producer.send_offsets_to_transaction(&offsets, &group, STEP)?;
        Ok(self.producer.commit_transaction(STEP)?)
    }
}

/// How far the input is read.
struct Progress {
    windows: Windows,
    next: Vec<i64>,
    ends: Vec<i64>,
}

impl Progress {
    fn is_open(&self) -> bool {
        self.next.iter().zip(&self.ends).any(|(next, end)| next < end)
    }

    /// Whether the partition is at its end.
    fn note(&mut self, message: Seen<'_>) -> Result<bool> {
        let at = message.partition as usize;
        self.next[at] = message.offset + 1;
        Ok(self.next[at] >= self.ends[at])
    }

    fn add(&mut self, message: Seen<'_>) -> Result<Vec<HashMap<u64, Total>>> {
        let payment = Payment::read(message.key, message.value).context("no payment")?;
        let is_end = self.note(message)?;
        Ok(self.windows.add(message.partition as usize, payment, is_end))
    }
}

/// Windows by hand.
struct Windows {
    open: BTreeMap<i64, HashMap<u64, Total>>,
    /// By partition: the newest time.
    times: Vec<i64>,
    watermark: i64,
}

impl Windows {
    fn new(row: &Row) -> Windows {
        Windows { open: BTreeMap::new(), times: vec![i64::MIN; row.partitions as usize], watermark: i64::MIN }
    }

    /// Adds a record and gives back the windows that end by it.
    fn add(&mut self, partition: usize, payment: Payment, is_end: bool) -> Vec<HashMap<u64, Total>> {
        let start = payment.time - payment.time.rem_euclid(WINDOW_MS);
        let total = self.open.entry(start).or_default().entry(payment.account).or_insert(Total { start, count: 0, sum: 0 });
        (total.count, total.sum) = (total.count + 1, total.sum + payment.amount);
        let time = if is_end { i64::MAX } else { payment.time };
        if self.times[partition] == time {
            return Vec::new();
        }
        self.times[partition] = time;
        let watermark = self.times.iter().copied().min().unwrap_or(i64::MIN);
        let mut fired = Vec::new();
        if watermark > self.watermark {
            self.watermark = watermark;
            while let Some(first) = self.open.first_entry().filter(|first| first.key().saturating_add(WINDOW_MS) <= watermark) {
                fired.push(first.remove());
            }
        }
        fired
    }
}
