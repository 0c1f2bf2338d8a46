//! Messages in, messages out, as fast as librdkafka goes.

use std::ffi::CString;
use std::fmt;
use std::ptr;
use std::time::Duration;

use rdkafka::bindings as sys;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

/// What was consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Messages.
    pub rows: u64,
    /// Bytes of their values.
    pub bytes: u64,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows, {} bytes", self.rows, self.bytes)
    }
}

/// Sends messages to all partitions in turn and waits until they are stored.
pub fn produce<'a>(
    bootstrap: &str,
    topic: &str,
    partitions: i32,
    messages: impl Iterator<Item = &'a [u8]>,
) -> Result<(), String> {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("linger.ms", "20")
        .set("batch.size", "1000000")
        .set("queue.buffering.max.messages", "500000")
        .set("compression.type", "none")
        .create()
        .map_err(|e| e.to_string())?;
    for (message, partition) in messages.zip((0..partitions).cycle()) {
        let mut record = BaseRecord::<(), [u8]>::to(topic).partition(partition).payload(message);
        while let Err((_, back)) = producer.send(record) {
            producer.poll(Duration::from_millis(5));
            record = back;
        }
    }
    producer.flush(Duration::from_secs(120)).map_err(|e| e.to_string())
}

/// Reads a topic once from its beginning to its end, in batches per partition queue.
pub fn consume(bootstrap: &str, topic: &str, partitions: i32) -> Result<Taken, String> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "bare-loop")
        .set("enable.auto.commit", "false")
        .create()
        .map_err(|e| e.to_string())?;
    let name = CString::new(topic).map_err(|e| e.to_string())?;
    let mut queues = Vec::new();
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset(topic, partition, Offset::Beginning).map_err(|e| e.to_string())?;
        let (_, end) =
            consumer.fetch_watermarks(topic, partition, Duration::from_secs(10)).map_err(|e| e.to_string())?;
        // SAFETY: a live client and a NUL-terminated name; the queue is destroyed below, before the client.
        let queue =
            unsafe { sys::rd_kafka_queue_get_partition(consumer.client().native_ptr(), name.as_ptr(), partition) };
        // SAFETY: the queue that was just made; NULL keeps its messages in it.
        unsafe { sys::rd_kafka_queue_forward(queue, ptr::null_mut()) };
        queues.push((queue, end));
    }
    consumer.assign(&list).map_err(|e| e.to_string())?;
    let mut buffer = vec![ptr::null_mut(); 4096];
    let mut taken = Taken { rows: 0, bytes: 0 };
    while !queues.is_empty() {
        consumer.poll(Duration::ZERO);
        queues.retain(|(queue, end)| {
            // SAFETY: a live queue, room for as many messages as are asked for; each is read, then freed once.
            let count = unsafe { sys::rd_kafka_consume_batch_queue(*queue, 1, buffer.as_mut_ptr(), buffer.len()) };
            let mut reached = false;
            for message in &buffer[..count.max(0) as usize] {
                // SAFETY: as above.
                unsafe {
                    taken.rows += 1;
                    taken.bytes += (**message).len as u64;
                    reached = (**message).offset + 1 >= *end;
                    sys::rd_kafka_message_destroy(*message);
                }
            }
            if reached {
                // SAFETY: the queue is dropped from the list, so this is its last use.
                unsafe { sys::rd_kafka_queue_destroy(*queue) };
            }
            !reached
        });
    }
    Ok(taken)
}
