#![allow(unsafe_code)]
//! Batch consumption through librdkafka's C API.
//!
//! The safe calls hand out one message at a time and cost two to three times the CPU. This module is
//! all the `unsafe` there is: a queue of one partition, and the messages taken from it, which stay in
//! librdkafka's memory and are freed when [`Taken`] is dropped.

use std::ffi::{CStr, CString, c_void};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use rdkafka::bindings as sys;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::RDKafkaErrorCode;
use tokio::sync::Notify;

use super::client::Consumer;

/// The queue of one partition, apart from the consumer's own.
pub(super) struct PartitionQueue {
    queue: NonNull<sys::rd_kafka_queue_t>,
    topic: CString,
    partition: i32,
    buffer: Vec<*mut sys::rd_kafka_message_t>,
    // Told when the queue is no longer empty; librdkafka holds a pointer into it.
    wake: Arc<Notify>,
    // Outlives the queue and all messages.
    consumer: Arc<Consumer>,
}

// SAFETY: a queue handle may be used from any thread (librdkafka locks inside), and the buffer holds
// messages only while `take`'s result borrows `self`.
unsafe impl Send for PartitionQueue {}

/// Called by librdkafka's threads.
unsafe extern "C" fn wake_up(_client: *mut sys::rd_kafka_t, opaque: *mut c_void) {
    // SAFETY: `opaque` is the `Notify` of a live `PartitionQueue`: dropping the queue first takes the
    // callback out under the lock that is held during calls.
    let wake = unsafe { &*(opaque as *const Notify) };
    wake.notify_one();
}

impl PartitionQueue {
    /// The queue of a partition, to be made before the partition is assigned: else its first messages
    /// would go to the consumer's own queue. `None` if the topic's name cannot be one.
    pub fn new(consumer: &Arc<Consumer>, topic: &str, partition: i32, wake: &Arc<Notify>) -> Option<PartitionQueue> {
        let topic = CString::new(topic).ok()?;
        let client = consumer.client().native_ptr();
        // SAFETY: the client lives as long as `consumer`, which the result keeps; `topic` is
        // NUL-terminated. The returned handle is owned and given back in `drop`.
        let queue = NonNull::new(unsafe { sys::rd_kafka_queue_get_partition(client, topic.as_ptr(), partition) })?;
        let opaque = Arc::as_ptr(wake) as *mut c_void;
        // SAFETY: a live queue; forwarding to NULL keeps its messages in it. `opaque` stays valid until
        // `drop` disables the callback, since the result owns a reference to it.
        unsafe {
            sys::rd_kafka_queue_forward(queue.as_ptr(), ptr::null_mut());
            sys::rd_kafka_queue_cb_event_enable(queue.as_ptr(), Some(wake_up), opaque);
        }
        let (wake, consumer) = (Arc::clone(wake), Arc::clone(consumer));
        Some(PartitionQueue { queue, topic, partition, buffer: Vec::new(), wake, consumer })
    }

    /// Takes at most `max` records and events that are there now, without waiting.
    pub fn take(&mut self, max: usize) -> Taken<'_> {
        self.buffer.resize(max, ptr::null_mut());
        // SAFETY: the buffer has room for `max` pointers, and all of them up to the returned count are
        // then owned messages.
        let taken = unsafe { sys::rd_kafka_consume_batch_queue(self.queue.as_ptr(), 0, self.buffer.as_mut_ptr(), max) };
        self.buffer.truncate(usize::try_from(taken).unwrap_or(0));
        Taken { messages: &mut self.buffer }
    }

    /// The offset behind the partition's last record as far as the client has heard.
    pub fn high_watermark(&self) -> Option<i64> {
        let (mut low, mut high) = (0, 0);
        let client = self.consumer.client().native_ptr();
        // SAFETY: a live client, a NUL-terminated name, two valid places for the answer.
        let code = unsafe {
            sys::rd_kafka_get_watermark_offsets(client, self.topic.as_ptr(), self.partition, &mut low, &mut high)
        };
        (code == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR && high >= 0).then_some(high)
    }
}

impl Drop for PartitionQueue {
    fn drop(&mut self) {
        // SAFETY: the handle is live and not used afterwards; the callback is taken out first, so
        // librdkafka no longer has the pointer to `wake`.
        unsafe {
            sys::rd_kafka_queue_cb_event_enable(self.queue.as_ptr(), None, ptr::null_mut());
            sys::rd_kafka_queue_destroy(self.queue.as_ptr());
        }
        // Something may have come between the last look and here; a lost wake-up would be for ever.
        self.wake.notify_one();
    }
}

/// Messages taken at once; freed when dropped.
pub(super) struct Taken<'q> {
    messages: &'q mut Vec<*mut sys::rd_kafka_message_t>,
}

impl Taken<'_> {
    /// The messages in the order of the log.
    pub fn iter(&self) -> impl Iterator<Item = Record<'_>> {
        self.messages.iter().map(|message| {
            // SAFETY: owned, live messages until `self` is dropped; the reference cannot outlive it.
            Record { message: unsafe { &**message } }
        })
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        for message in self.messages.drain(..) {
            // SAFETY: each is owned and freed once, as it leaves the buffer.
            unsafe { sys::rd_kafka_message_destroy(message) };
        }
    }
}

/// When a record says it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimestampKind {
    None,
    Create,
    LogAppend,
}

/// A record, or an event of its partition (see [`Record::error`]).
pub(super) struct Record<'t> {
    message: &'t sys::rd_kafka_message_t,
}

impl<'t> Record<'t> {
    /// The event this is instead of a record: the partition's end, or an error.
    pub fn error(&self) -> Option<RDKafkaErrorCode> {
        (self.message.err != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR).then(|| self.message.err.into())
    }

    /// The words that go with an error.
    pub fn error_text(&self) -> String {
        // SAFETY: a live message; the returned text belongs to it and is copied here.
        let text = unsafe { sys::rd_kafka_message_errstr(self.message) };
        if text.is_null() {
            return String::new();
        }
        // SAFETY: not NULL, and librdkafka's texts are NUL-terminated.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// The record's offset; for the end event, where the end is.
    pub fn offset(&self) -> i64 {
        self.message.offset
    }

    /// The value; `None` for a tombstone.
    pub fn payload(&self) -> Option<&'t [u8]> {
        bytes(self.message.payload, self.message.len)
    }

    /// The key, if it has one.
    pub fn key(&self) -> Option<&'t [u8]> {
        bytes(self.message.key, self.message.key_len)
    }

    /// The record's time in milliseconds, and whose it is; -1 where there is none.
    pub fn timestamp(&self) -> (i64, TimestampKind) {
        let mut kind = sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: a live message and a valid place for the kind.
        let time = unsafe { sys::rd_kafka_message_timestamp(self.message, &mut kind) };
        let kind = match kind {
            sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_CREATE_TIME => TimestampKind::Create,
            sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME => TimestampKind::LogAppend,
            _ => TimestampKind::None,
        };
        (time, kind)
    }

    /// The epoch of the leader that wrote it, if known.
    pub fn leader_epoch(&self) -> Option<i32> {
        // SAFETY: a live message.
        let epoch = unsafe { sys::rd_kafka_message_leader_epoch(self.message) };
        (epoch >= 0).then_some(epoch)
    }

    /// Calls `each` with every header, in order. Names that are not UTF-8 have their bad bytes replaced.
    pub fn headers(&self, mut each: impl FnMut(&str, Option<&[u8]>)) {
        let mut headers = ptr::null_mut();
        // SAFETY: a live message; the headers stay its own.
        let code = unsafe { sys::rd_kafka_message_headers(self.message, &mut headers) };
        if code != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
            return;
        }
        for index in 0.. {
            let (mut name, mut value, mut len) = (ptr::null(), ptr::null(), 0);
            // SAFETY: headers of a live message and valid places for the answer.
            let code = unsafe { sys::rd_kafka_header_get_all(headers, index, &mut name, &mut value, &mut len) };
            if code != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                return;
            }
            // SAFETY: on success the name is a NUL-terminated text of the headers.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
            each(&name, bytes(value as *mut c_void, len));
        }
    }
}

/// Bytes in librdkafka's memory; NULL is no value at all.
fn bytes<'t>(start: *mut c_void, len: usize) -> Option<&'t [u8]> {
    if start.is_null() {
        return None;
    }
    // SAFETY: callers pass the pointer and length of one field of a live message, and give the result
    // that message's lifetime.
    Some(unsafe { slice::from_raw_parts(start as *const u8, len) })
}
