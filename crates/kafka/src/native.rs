//! Many messages for one call of librdkafka.
//!
//! Owns: the calls that the safe wrapper does not offer, and that every message taken is given back. Does not own: what is done with them.

use std::ptr::NonNull;
use std::slice;
use std::time::Duration;

use rdkafka::bindings as native;
use rdkafka::consumer::BaseConsumer;
use rdkafka::consumer::{Consumer, ConsumerContext};

use crate::message::push_header;

/// Messages taken by one call.
pub(crate) const BATCH_MAX: usize = 1024;

/// The queue of a consumer.
pub(crate) struct Queue {
    queue: NonNull<native::rd_kafka_queue_t>,
    taken: Vec<*mut native::rd_kafka_message_t>,
}

/// One thing that came out of the queue.
pub(crate) enum Taken<'a> {
    Message(TakenMessage<'a>),
    /// Everything before this offset was read.
    End {
        topic: &'a str,
        partition: i32,
        offset: i64,
    },
    Error {
        code: native::rd_kafka_resp_err_t,
        text: String,
        topic: &'a str,
        partition: i32,
    },
}

/// A message, while librdkafka owns its bytes.
pub(crate) struct TakenMessage<'a> {
    raw: &'a native::rd_kafka_message_t,
}

// SAFETY: the queue belongs to one fetcher, which is used by one thread at a time; librdkafka's queues may be used from any thread.
unsafe impl Send for Queue {}

impl Queue {
    /// The queue into which all partitions of a consumer go. It must not outlive the consumer.
    pub(crate) fn of<C: ConsumerContext>(consumer: &BaseConsumer<C>) -> Option<Queue> {
        // SAFETY: the client's pointer is valid while the consumer is; the queue is given back in `drop`.
        let queue = unsafe { native::rd_kafka_queue_get_consumer(consumer.client().native_ptr()) };
        NonNull::new(queue).map(|queue| Queue { queue, taken: vec![std::ptr::null_mut(); BATCH_MAX] })
    }

    /// Waits for something, then takes what else is there, and hands each to `each`.
    pub(crate) fn take(&mut self, wait: Duration, mut each: impl FnMut(Taken<'_>)) -> usize {
        let milliseconds = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
        let mut count = self.take_up_to(1, milliseconds);
        if count == 1 {
            // SAFETY: of the pointers in `taken`, the first was just filled in.
            unsafe { hand_over(&self.taken[..1], &mut each) };
            let more = self.take_up_to(BATCH_MAX, 0);
            // SAFETY: the first `more` pointers were just filled in.
            unsafe { hand_over(&self.taken[..more], &mut each) };
            count += more;
        }
        count
    }

    fn take_up_to(&mut self, most: usize, milliseconds: i32) -> usize {
        // SAFETY: `taken` has room for `most` pointers, and the queue is valid.
        let count = unsafe { native::rd_kafka_consume_batch_queue(self.queue.as_ptr(), milliseconds, self.taken.as_mut_ptr(), most) };
        usize::try_from(count).unwrap_or(0)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `rd_kafka_queue_get_consumer` and is given back once.
        unsafe { native::rd_kafka_queue_destroy(self.queue.as_ptr()) }
    }
}

/// # Safety
/// All pointers are of messages that belong to the caller, who does not use them again.
unsafe fn hand_over(taken: &[*mut native::rd_kafka_message_t], each: &mut impl FnMut(Taken<'_>)) {
    for &pointer in taken {
        // SAFETY: the caller's promise.
        if let Some(raw) = unsafe { pointer.as_ref() } {
            // SAFETY: the message is alive.
            each(unsafe { look(raw) });
        }
        // SAFETY: the message belongs to us, and no reference to it is left.
        unsafe { native::rd_kafka_message_destroy(pointer) };
    }
}

/// # Safety
/// The message is alive, with all that it points to.
unsafe fn look(raw: &native::rd_kafka_message_t) -> Taken<'_> {
    match raw.err {
        native::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR => Taken::Message(TakenMessage { raw }),
        native::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__PARTITION_EOF => {
            // SAFETY: the caller's promise.
            Taken::End { topic: unsafe { topic(raw) }, partition: raw.partition, offset: raw.offset }
        }
        // SAFETY: the caller's promise.
        code => Taken::Error { code, text: unsafe { error_text(raw) }, topic: unsafe { topic(raw) }, partition: raw.partition },
    }
}

/// # Safety
/// As for [`look`].
unsafe fn topic(raw: &native::rd_kafka_message_t) -> &str {
    if raw.rkt.is_null() {
        return "";
    }
    // SAFETY: a topic handle has a name, which lives as long as the handle.
    unsafe { std::ffi::CStr::from_ptr(native::rd_kafka_topic_name(raw.rkt)) }.to_str().unwrap_or_default()
}

/// # Safety
/// As for [`look`].
unsafe fn error_text(raw: &native::rd_kafka_message_t) -> String {
    // SAFETY: of a message with an error, this is a text or null.
    let text = unsafe { native::rd_kafka_message_errstr(raw) };
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the text ends in zero and lives as long as the message.
    unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

impl TakenMessage<'_> {
    pub(crate) fn topic(&self) -> &str {
        // SAFETY: the message is alive.
        unsafe { topic(self.raw) }
    }

    pub(crate) fn partition(&self) -> i32 {
        self.raw.partition
    }

    pub(crate) fn offset(&self) -> i64 {
        self.raw.offset
    }

    pub(crate) fn key(&self) -> Option<&[u8]> {
        // SAFETY: the message is alive; a pointer that is not null has so many bytes.
        (!self.raw.key.is_null()).then(|| unsafe { slice::from_raw_parts(self.raw.key.cast(), self.raw.key_len) })
    }

    pub(crate) fn value(&self) -> Option<&[u8]> {
        // SAFETY: as for the key.
        (!self.raw.payload.is_null()).then(|| unsafe { slice::from_raw_parts(self.raw.payload.cast(), self.raw.len) })
    }

    pub(crate) fn timestamp(&self) -> Option<i64> {
        let mut kind = native::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message is alive.
        let time = unsafe { native::rd_kafka_message_timestamp(self.raw, &raw mut kind) };
        (kind != native::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE && time >= 0).then_some(time)
    }

    /// Appends the headers.
    pub(crate) fn copy_headers(&self, out: &mut Vec<u8>) {
        let mut headers = std::ptr::null_mut();
        // SAFETY: the message is alive; the headers stay its own.
        let found = unsafe { native::rd_kafka_message_headers(self.raw, &raw mut headers) };
        if found != native::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
            return;
        }
        for number in 0.. {
            let (mut name, mut value, mut length) = (std::ptr::null(), std::ptr::null(), 0);
            // SAFETY: the headers are alive as the message is; all places for answers are valid.
            let found = unsafe { native::rd_kafka_header_get_all(headers, number, &raw mut name, &raw mut value, &raw mut length) };
            if found != native::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                return;
            }
            // SAFETY: a header that was found has a name that ends in zero.
            let name = unsafe { std::ffi::CStr::from_ptr(name) }.to_string_lossy();
            // SAFETY: a value that is not null has so many bytes.
            let value = (!value.is_null()).then(|| unsafe { slice::from_raw_parts(value.cast::<u8>(), length) });
            push_header(out, &name, value);
        }
    }
}
