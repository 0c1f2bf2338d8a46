//! Kills at random moments: what comes out at the end is what one undisturbed run gives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tidegate_testing::kafka::Kafka;
use tidegate_testing::rdkafka::consumer::{BaseConsumer, Consumer};
use tidegate_testing::rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use tidegate_testing::rdkafka::{Offset, TopicPartitionList};

use crate::standalone::{LIMIT, Random, Standalone, broker, committed, number};

const PARTITIONS: i32 = 2;
const KEYS: i64 = 5;
/// Numbers in one window.
const IN_WINDOW: i64 = 100;

/// Number `n`, at millisecond `n * 10`.
fn record(n: i64) -> String {
    let ms = n * 10;
    let (minute, second, ms) = (ms / 60_000, ms / 1_000 % 60, ms % 1_000);
    let (hour, minute) = (minute / 60, minute % 60);
    format!("{{\"id\":{n},\"k\":\"k{}\",\"ts\":\"2026-01-01 {hour:02}:{minute:02}:{second:02}.{ms:03}\"}}", n % KEYS)
}

fn script(kafka: &Kafka, names: &Names) -> String {
    let bootstrap = kafka.bootstrap();
    let Names { numbers, rows, counts } = names;
    let sink = |topic: &str| {
        format!(
            "'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json',
             'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{topic}'"
        )
    };
    format!(
        "SET 'execution.checkpointing.interval' = '150 ms';
         SET 'execution.checkpointing.num-retained' = '2';
         CREATE TABLE numbers (id BIGINT, k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH (
           'connector' = 'kafka', 'topic' = '{numbers}', 'properties.bootstrap.servers' = '{bootstrap}',
           'properties.group.id' = '{numbers}', 'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
         CREATE TABLE o (id BIGINT) WITH ({});
         CREATE TABLE c (k STRING, ws TIMESTAMP(3), n BIGINT, s BIGINT) WITH ({});
         EXECUTE STATEMENT SET BEGIN
           INSERT INTO o SELECT id FROM numbers;
           INSERT INTO c SELECT k, window_start, COUNT(*), SUM(id)
             FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY k, window_start, window_end;
         END;",
        sink(rows),
        sink(counts)
    )
}

struct Names {
    numbers: String,
    rows: String,
    counts: String,
}

/// Writes numbers until it is told how many there are to be.
fn produce(kafka: &Kafka, topic: &str, end: &AtomicI64) -> i64 {
    let producer: BaseProducer = kafka.client().set("linger.ms", "2").create().expect("a producer");
    let mut n = 0;
    while n < end.load(Ordering::SeqCst) {
        for _ in 0..10 {
            let (text, partition) = (record(n), i32::try_from(n % i64::from(PARTITIONS)).expect("small"));
            let record = BaseRecord::<(), str>::to(topic).partition(partition).payload(&text);
            producer.send(record).map_err(|(e, _)| e).expect("room");
            n += 1;
        }
        producer.poll(Duration::ZERO);
        std::thread::sleep(Duration::from_millis(5));
    }
    producer.flush(LIMIT).expect("stored");
    n
}

#[test]
fn no_kill_loses_or_doubles_a_row() {
    let (kafka, folder) = (Arc::new(broker()), tempfile::tempdir().expect("a folder"));
    let names = Names {
        numbers: kafka.new_topic("numbers", PARTITIONS),
        rows: kafka.new_topic("rows", 1),
        counts: kafka.new_topic("counts", 1),
    };
    let end = Arc::new(AtomicI64::new(i64::MAX));
    let producer = {
        let (kafka, topic, end) = (Arc::clone(&kafka), names.numbers.clone(), Arc::clone(&end));
        std::thread::spawn(move || produce(&kafka, &topic, &end))
    };
    let mut random = Random::seeded(7);
    let mut standalone = Standalone::start(folder.path());
    let job = standalone.submit(&script(&kafka, &names));
    let kills = number("TIDEGATE_JOB_KILLS", 6);
    for kill in 0..kills {
        match kill % 3 {
            // Once it has come so far that there is something to go on from.
            0 => standalone.wait("output", || (!committed(&kafka, &names.rows, 1).is_empty()).then_some(())),
            _ => std::thread::sleep(Duration::from_millis(random.below(1_200))),
        }
        drop(standalone);
        standalone = Standalone::start(folder.path());
        assert_eq!(standalone.jobs().keys().collect::<Vec<_>>(), [&job], "{}", standalone.said());
    }
    standalone.wait_for_state(&job, "RUNNING");
    end.store(0, Ordering::SeqCst);
    let count = producer.join().expect("it ends");
    // Something late enough to close the last full window.
    kafka.send(&names.numbers, 0, &[Some(&record(count + IN_WINDOW * 3))]);
    kafka.send(&names.numbers, 1, &[Some(&record(count + IN_WINDOW * 3))]);
    let full = count / IN_WINDOW;
    standalone.wait("all output", || {
        let done = committed(&kafka, &names.rows, 1).len() as i64 >= count + 2
            && committed(&kafka, &names.counts, 1).len() as i64 >= full * KEYS;
        done.then_some(())
    });
    check_rows(&committed(&kafka, &names.rows, 1), count);
    check_counts(&committed(&kafka, &names.counts, 1), full);
    let restarts = standalone.get(&format!("/jobs/{job}/tidegate/audit"))["restarts"].clone();
    assert_eq!(restarts[0]["restart"].as_u64(), Some(kills), "{restarts}");
    check_group(&standalone, &kafka, &names.numbers, count + 2);
}

fn check_rows(rows: &[Value], count: i64) {
    let mut seen: BTreeMap<i64, usize> = BTreeMap::new();
    for row in rows {
        *seen.entry(row["id"].as_i64().expect("an id")).or_default() += 1;
    }
    let lost: Vec<i64> = (0..count).filter(|id| !seen.contains_key(id)).collect();
    let last = count + IN_WINDOW * 3;
    let doubled: Vec<_> = seen.iter().filter(|(id, n)| **n != 1 + usize::from(**id == last)).collect();
    assert!(lost.is_empty() && doubled.is_empty(), "lost {lost:?}, wrong number of times {doubled:?}");
}

fn check_counts(rows: &[Value], full: i64) {
    let mut sums: BTreeMap<(String, String), Vec<(i64, i64)>> = BTreeMap::new();
    for row in rows {
        let text = |name: &str| row[name].as_str().expect("text").to_owned();
        let number = |name: &str| row[name].as_i64().expect("a number");
        sums.entry((text("ws"), text("k"))).or_default().push((number("n"), number("s")));
    }
    for window in 0..full {
        for key in 0..KEYS {
            let ids = (window * IN_WINDOW..(window + 1) * IN_WINDOW).filter(|id| id % KEYS == key);
            let (minute, second) = (window / 60, window % 60);
            let start = format!("2026-01-01 {:02}:{:02}:{second:02}", minute / 60, minute % 60);
            let found = sums.iter().find(|((ws, k), _)| ws.starts_with(&start) && *k == format!("k{key}"));
            let (_, found) = found.unwrap_or_else(|| panic!("the window {start} of k{key} is missing"));
            assert_eq!(found, &[(IN_WINDOW / KEYS, ids.sum::<i64>())], "window {start}, key k{key}");
        }
    }
}

/// The source tells its group how far complete checkpoints have read.
fn check_group(standalone: &Standalone, kafka: &Kafka, topic: &str, records: i64) {
    let consumer: BaseConsumer = kafka.client().set("group.id", topic).create().expect("a consumer");
    standalone.wait("the group's offsets", || {
        let mut wanted = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            wanted.add_partition(topic, partition);
        }
        let answer = consumer.committed_offsets(wanted, Duration::from_secs(5)).ok()?;
        let offsets = answer.elements().into_iter().map(|element| match element.offset() {
            Offset::Offset(offset) => offset,
            _ => 0,
        });
        (offsets.sum::<i64>() == records).then_some(())
    });
}
