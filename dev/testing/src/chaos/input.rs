//! The input of a kill test: numbered records, out of order by up to two seconds, and what windows of ten
//! seconds make of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::Value;

use crate::kafka::Kafka;

/// Partitions of the topics.
pub const PARTITIONS: i32 = 3;
const KEYS: u64 = 16;
/// Keys of one group, which the table of files is partitioned by.
const KEYS_OF_GROUP: u64 = 4;
const WINDOW_MS: i64 = 10_000;
/// 2024-01-01, one in the morning.
const START_MS: i64 = 1_704_070_800_000;
const DAY_MS: i64 = 1_704_067_200_000;
const STEP_MS: i64 = 50;
/// Records that go out together, and the pause after them.
const BURST: u64 = 8;
const PAUSE: Duration = Duration::from_millis(10);
/// The key of the records that close all windows.
const END: &str = "end";
/// How long the broker may be away.
const LIMIT: Duration = Duration::from_secs(120);

fn time_of(number: u64) -> i64 {
    let number = number as i64;
    START_MS + number * STEP_MS - (number * 37 % 11) * 200
}

fn record(number: u64) -> String {
    let key = number.wrapping_mul(7) % KEYS;
    let (group, value) = (key / KEYS_OF_GROUP, (number * 7_919 % 2_003) as i64 - 1_000);
    format!(r#"{{"id":{number},"k":"k{key:02}","g":"g{group}","v":{value},"ms":{}}}"#, time_of(number))
}

fn partition(number: u64) -> i32 {
    (number % PARTITIONS as u64) as i32
}

/// Writes records until it is told to end.
pub struct Generator {
    thread: Option<JoinHandle<Result<u64, String>>>,
    end: Arc<AtomicBool>,
}

impl Generator {
    /// Begins to write into the topic.
    pub fn start(kafka: &Kafka, topic: &str) -> Result<Generator, String> {
        let mut config = kafka.client();
        config.set("enable.idempotence", "true").set("message.timeout.ms", "300000").set("linger.ms", "5");
        config.set("reconnect.backoff.ms", "20").set("reconnect.backoff.max.ms", "200").set("log_level", "0");
        let producer: BaseProducer = config.create().map_err(|e| e.to_string())?;
        let end = Arc::new(AtomicBool::new(false));
        let (ended, topic) = (Arc::clone(&end), topic.to_owned());
        let thread = std::thread::spawn(move || generate(&producer, &topic, &ended));
        Ok(Generator { thread: Some(thread), end })
    }

    /// Ends with records that close all windows, and says how many there were before.
    pub fn finish(&mut self) -> Result<u64, String> {
        self.end.store(true, Ordering::Relaxed);
        let thread = self.thread.take().ok_or("the generator has ended before")?;
        thread.join().map_err(|_| "the generator panicked".to_owned())?
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

fn generate(producer: &BaseProducer, topic: &str, end: &AtomicBool) -> Result<u64, String> {
    let mut number = 0;
    while !end.load(Ordering::Relaxed) {
        for _ in 0..BURST {
            send(producer, topic, partition(number), &record(number))?;
            number += 1;
        }
        producer.poll(Duration::ZERO);
        // Not more than that on its way: the rest waits while the broker is away.
        while producer.in_flight_count() > 20_000 && !end.load(Ordering::Relaxed) {
            producer.poll(PAUSE);
        }
        std::thread::sleep(PAUSE);
    }
    let last = time_of(number) + 100 * WINDOW_MS;
    for partition in 0..PARTITIONS {
        let text = format!(r#"{{"id":-1,"k":"{END}","g":"{END}","v":0,"ms":{last}}}"#);
        send(producer, topic, partition, &text)?;
    }
    producer.flush(LIMIT).map_err(|e| format!("the broker does not take the records: {e}"))?;
    Ok(number)
}

fn send(producer: &BaseProducer, topic: &str, partition: i32, text: &str) -> Result<(), String> {
    let record = BaseRecord::<(), str>::to(topic).partition(partition).payload(text);
    producer.send(record).map_err(|(e, _)| format!("the producer does not take a record: {e}"))
}

/// What an undisturbed job makes of the records: a row for each key and window, by both.
pub fn expected(records: &[String], count: u64) -> Result<BTreeMap<String, String>, String> {
    let mut windows: BTreeMap<(String, i64), (i64, i64, i64, i64)> = BTreeMap::new();
    let mut seen = vec![0_u8; count as usize];
    for text in records {
        let record: Value = serde_json::from_str(text).map_err(|e| format!("{text}: {e}"))?;
        let number = |name: &str| record[name].as_i64().ok_or_else(|| format!("no {name} in {text}"));
        let key = record["k"].as_str().unwrap_or_default().to_owned();
        if key == END {
            continue;
        }
        let (id, value, ms) = (number("id")?, number("v")?, number("ms")?);
        let times = usize::try_from(id).ok().and_then(|id| seen.get_mut(id)).ok_or("a record nobody has sent")?;
        *times += 1;
        let start = ms.div_euclid(WINDOW_MS) * WINDOW_MS;
        let window = windows.entry((key, start)).or_insert((0, 0, i64::MAX, i64::MIN));
        *window = (window.0 + 1, window.1 + value, window.2.min(id), window.3.max(id));
    }
    if let Some(id) = seen.iter().position(|times| *times != 1) {
        return Err(format!("the broker has record {id} {} times: that is its fault, not the job's", seen[id]));
    }
    let row = |((key, start), (n, s, lo, hi)): (&(String, i64), &(i64, i64, i64, i64))| {
        let key = format!("{key} {}", text_of(*start));
        (key, format!("n={n} s={s} lo={lo} hi={hi}"))
    };
    Ok(windows.iter().map(row).collect())
}

/// `2024-01-01 01:00:10Z`; all times are of that day.
fn text_of(ms: i64) -> String {
    let seconds = (ms - DAY_MS) / 1000;
    format!("2024-01-01 {:02}:{:02}:{:02}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// A row that a job has written, as [`expected`] has it.
pub fn row(text: &str) -> Result<(String, String), String> {
    let row: Value = serde_json::from_str(text).map_err(|e| format!("{text}: {e}"))?;
    let word = |name: &str| row[name].as_str().ok_or_else(|| format!("no {name} in {text}"));
    let number = |name: &str| row[name].as_i64().ok_or_else(|| format!("no {name} in {text}"));
    let key = format!("{} {}", word("k")?, word("w")?);
    let values = format!("n={} s={} lo={} hi={}", number("n")?, number("s")?, number("lo")?, number("hi")?);
    Ok((key, values))
}
