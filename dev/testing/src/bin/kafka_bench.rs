//! Clicks from a real Kafka: fills a topic, then lets `dev/bench/bench.py` measure the job against a
//! bare consume loop of the same client.
//!
//! `kafka_bench TIDEGATE FOLDER` is the benchmark; `kafka_bench consume BOOTSTRAP TOPIC` is the loop.
#![allow(unsafe_code)] // The loop calls what the connector calls: librdkafka's batch consumption.
#![allow(clippy::disallowed_methods)]

use std::ffi::CString;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode};
use std::ptr;
use std::time::Duration;

use rdkafka::bindings as sys;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tidegate_testing::kafka::Kafka;
use tidegate_testing::workspace;

const PARTITIONS: i32 = 4;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["consume", bootstrap, topic] => consume(bootstrap, topic),
        [tidegate, folder] => bench(tidegate, folder),
        _ => Err("usage: kafka_bench TIDEGATE FOLDER".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("kafka_bench: {e}");
            ExitCode::FAILURE
        }
    }
}

fn bench(tidegate: &str, folder: &str) -> Result<(), String> {
    let python = |more: &[&str]| {
        let mut command = Command::new("python3");
        command
            .arg(workspace().join("dev/bench/bench.py"))
            .args(["--tidegate", tidegate, "--folder", folder])
            .args(more);
        command.status().map_err(|e| e.to_string()).and_then(|s| if s.success() { Ok(()) } else { Err(s.to_string()) })
    };
    python(&["--only", "generate"])?;
    let kafka = Kafka::start()?;
    kafka.create_topic("clicks", PARTITIONS);
    fill(&kafka, &format!("{folder}/clicks-5000000.json"))?;
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let own = own.to_str().ok_or("a path that is not UTF-8")?;
    python(&["--only", "kafka", "--kafka", kafka.bootstrap(), "--consumer", own])
}

fn fill(kafka: &Kafka, path: &str) -> Result<(), String> {
    let producer: BaseProducer = kafka
        .client()
        .set("linger.ms", "20")
        .set("batch.size", "1000000")
        .set("queue.buffering.max.messages", "500000")
        .set("compression.type", "none")
        .create()
        .map_err(|e| e.to_string())?;
    let file = BufReader::new(std::fs::File::open(path).map_err(|e| format!("{path}: {e}"))?);
    for (i, line) in file.lines().enumerate() {
        let line = line.map_err(|e| e.to_string())?;
        let partition = (i as i32) % PARTITIONS;
        let mut record = BaseRecord::<(), str>::to("clicks").partition(partition).payload(line.as_str());
        while let Err((_, back)) = producer.send(record) {
            producer.poll(Duration::from_millis(5));
            record = back;
        }
    }
    producer.flush(Duration::from_secs(120)).map_err(|e| e.to_string())
}

/// Reads the topic once from its beginning to its end, in batches per partition queue.
fn consume(bootstrap: &str, topic: &str) -> Result<(), String> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "bare-loop")
        .set("enable.auto.commit", "false")
        .create()
        .map_err(|e| e.to_string())?;
    let name = CString::new(topic).map_err(|e| e.to_string())?;
    let mut queues = Vec::new();
    let mut list = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        list.add_partition_offset(topic, partition, Offset::Beginning).map_err(|e| e.to_string())?;
        let (_, end) =
            consumer.fetch_watermarks(topic, partition, Duration::from_secs(10)).map_err(|e| e.to_string())?;
        // SAFETY: a live client and a NUL-terminated name; the queue lives until the process ends.
        let queue =
            unsafe { sys::rd_kafka_queue_get_partition(consumer.client().native_ptr(), name.as_ptr(), partition) };
        // SAFETY: the queue that was just made; NULL keeps its messages in it.
        unsafe { sys::rd_kafka_queue_forward(queue, ptr::null_mut()) };
        queues.push((queue, end));
    }
    consumer.assign(&list).map_err(|e| e.to_string())?;
    let mut buffer = vec![ptr::null_mut(); 4096];
    let (mut rows, mut bytes) = (0u64, 0u64);
    while !queues.is_empty() {
        consumer.poll(Duration::ZERO);
        queues.retain(|(queue, end)| {
            // SAFETY: a live queue, room for as many messages as are asked for; each is read, then freed once.
            let taken = unsafe { sys::rd_kafka_consume_batch_queue(*queue, 1, buffer.as_mut_ptr(), buffer.len()) };
            let mut reached = false;
            for message in &buffer[..taken.max(0) as usize] {
                // SAFETY: as above.
                unsafe {
                    rows += 1;
                    bytes += (**message).len as u64;
                    reached = (**message).offset + 1 >= *end;
                    sys::rd_kafka_message_destroy(*message);
                }
            }
            !reached
        });
    }
    println!("{rows} rows, {bytes} bytes");
    Ok(())
}
