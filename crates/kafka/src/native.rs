//! Many messages for one call of librdkafka, read where librdkafka has them.
//!
//! Owns: the calls that the safe wrapper does not offer, and that every message taken is given back. Does not own: what is done with them.

use std::ffi::CStr;
use std::ptr::{NonNull, null, null_mut};
use std::slice;
use std::time::Duration;

use rdkafka::bindings as native;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};

use crate::message::Header;

/// Messages taken by one call.
pub(crate) const BATCH_MAX: usize = 1024;

/// The queue of a consumer.
pub(crate) struct Queue {
    queue: NonNull<native::rd_kafka_queue_t>,
}

/// A message, or what librdkafka tells in its place. The bytes are librdkafka's, until this is dropped: the consumer must live as long.
#[repr(transparent)]
pub(crate) struct Taken(NonNull<native::rd_kafka_message_t>);

/// What was taken.
pub(crate) enum What {
    Message,
    /// Everything before its offset was read.
    End,
    Error {
        code: native::rd_kafka_resp_err_t,
        text: String,
    },
}

/// A topic as librdkafka knows it. Two that are equal are the same topic, as long as a message of each is held.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct TopicHandle(*const native::rd_kafka_topic_t);

// SAFETY: the queue belongs to one fetcher, which is used by one thread at a time; librdkafka's queues may be used from any thread.
unsafe impl Send for Queue {}

// SAFETY: a message has one owner, and librdkafka lets any thread read it and give it back.
unsafe impl Send for Taken {}

impl Queue {
    /// The queue into which all partitions of a consumer go. It must not outlive the consumer.
    pub(crate) fn of<C: ConsumerContext>(consumer: &BaseConsumer<C>) -> Option<Queue> {
        // SAFETY: the client's pointer is valid while the consumer is; the queue is given back in `drop`.
        let queue = unsafe { native::rd_kafka_queue_get_consumer(consumer.client().native_ptr()) };
        NonNull::new(queue).map(|queue| Queue { queue })
    }

    /// Waits for something, then takes what else is there.
    pub(crate) fn take(&mut self, wait: Duration, into: &mut Vec<Taken>) {
        let milliseconds = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
        if self.take_up_to(1, milliseconds, into) == 1 {
            self.take_up_to(BATCH_MAX, 0, into);
        }
    }

    fn take_up_to(&mut self, most: usize, milliseconds: i32, into: &mut Vec<Taken>) -> usize {
        into.reserve(most);
        let room = into.spare_capacity_mut().as_mut_ptr().cast::<*mut native::rd_kafka_message_t>();
        // SAFETY: there is room for `most` pointers, and the queue is valid.
        let count = unsafe { native::rd_kafka_consume_batch_queue(self.queue.as_ptr(), milliseconds, room, most) };
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: so many pointers were just filled in, none of them null; each is of a message that is ours now.
        unsafe { into.set_len(into.len() + count) };
        count
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `rd_kafka_queue_get_consumer` and is given back once.
        unsafe { native::rd_kafka_queue_destroy(self.queue.as_ptr()) }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // SAFETY: the message belongs to us, and no reference to it is left.
        unsafe { native::rd_kafka_message_destroy(self.0.as_ptr()) }
    }
}

impl Taken {
    fn raw(&self) -> &native::rd_kafka_message_t {
        // SAFETY: the message is alive until this is dropped.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn what(&self) -> What {
        match self.raw().err {
            native::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR => What::Message,
            native::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__PARTITION_EOF => What::End,
            code => What::Error { code, text: self.error_text() },
        }
    }

    /// Whether it is a message.
    pub(crate) fn is_message(&self) -> bool {
        self.raw().err == native::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR
    }

    fn error_text(&self) -> String {
        // SAFETY: of a message with an error, this is a text or null.
        let text = unsafe { native::rd_kafka_message_errstr(self.raw()) };
        if text.is_null() {
            return String::new();
        }
        // SAFETY: the text ends in zero and lives as long as the message.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    pub(crate) fn topic_handle(&self) -> TopicHandle {
        TopicHandle(self.raw().rkt)
    }

    pub(crate) fn topic(&self) -> &str {
        if self.raw().rkt.is_null() {
            return "";
        }
        // SAFETY: a topic handle has a name, which lives as long as the handle; the message holds it.
        unsafe { CStr::from_ptr(native::rd_kafka_topic_name(self.raw().rkt)) }.to_str().unwrap_or_default()
    }

    pub(crate) fn partition(&self) -> i32 {
        self.raw().partition
    }

    pub(crate) fn offset(&self) -> i64 {
        self.raw().offset
    }

    pub(crate) fn key(&self) -> Option<&[u8]> {
        let raw = self.raw();
        // SAFETY: the message is alive; a pointer that is not null has so many bytes.
        (!raw.key.is_null()).then(|| unsafe { slice::from_raw_parts(raw.key.cast(), raw.key_len) })
    }

    pub(crate) fn value(&self) -> Option<&[u8]> {
        let raw = self.raw();
        // SAFETY: as for the key.
        (!raw.payload.is_null()).then(|| unsafe { slice::from_raw_parts(raw.payload.cast(), raw.len) })
    }

    pub(crate) fn timestamp(&self) -> Option<i64> {
        let mut kind = native::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message is alive.
        let time = unsafe { native::rd_kafka_message_timestamp(self.raw(), &raw mut kind) };
        (kind != native::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE && time >= 0).then_some(time)
    }

    /// A header by its number. The first question costs as much as parsing all of them, also of a message that has none.
    pub(crate) fn header(&self, number: usize) -> Option<Header<'_>> {
        let mut headers = null_mut();
        // SAFETY: the message is alive, and used by this thread alone; the headers stay its own.
        let found = unsafe { native::rd_kafka_message_headers(self.raw(), &raw mut headers) };
        if found != native::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
            return None;
        }
        let (mut name, mut value, mut length) = (null(), null(), 0);
        // SAFETY: the headers are alive as the message is; all places for answers are valid.
        let found = unsafe { native::rd_kafka_header_get_all(headers, number, &raw mut name, &raw mut value, &raw mut length) };
        if found != native::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
            return None;
        }
        // SAFETY: a header that was found has a name that ends in zero; it lives as long as the message.
        let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("\u{FFFD}");
        // SAFETY: a value that is not null has so many bytes, which live as long.
        let value = (!value.is_null()).then(|| unsafe { slice::from_raw_parts(value.cast::<u8>(), length) });
        Some((name, value))
    }
}
