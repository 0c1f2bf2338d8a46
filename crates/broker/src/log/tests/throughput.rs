//! How fast batches go in and out. Not a test: it asserts nothing about time. Run it with optimisation:
//! `CARGO_PROFILE_TEST_OPT_LEVEL=3 cargo test -p tidegate-broker throughput -- --ignored --nocapture`.

#![allow(clippy::disallowed_methods, reason = "it measures the real clock")]

use std::time::Instant;

use super::*;
use crate::batch::samples::plain;

#[test]
#[ignore = "a measurement"]
fn throughput() {
    for (batch_records, batches) in [(5_000, 400), (50, 40_000), (1, 200_000)] {
        let value = "x".repeat(160);
        let opened = open(|config| {
            config.index_interval_bytes = 4096;
            config.max_message_bytes = 1 << 21;
        });
        let bytes = plain(&vec![(1, None, Some(value.as_str())); batch_records]);
        let records = (batch_records * batches) as f64;
        let megabytes = (bytes.len() * batches) as f64 / 1e6;
        let rate = |what: &str, start: Instant| {
            let seconds = start.elapsed().as_secs_f64();
            let (thousands, per_second) = (records / seconds / 1e3, megabytes / seconds);
            println!(
                "{batch_records:>5} records a batch: {what:<9} {thousands:>8.0} k records/s {per_second:>7.0} MB/s"
            );
        };

        let start = Instant::now();
        for _ in 0..batches {
            opened.at(bytes.clone());
        }
        rate("append", start);

        for max_bytes in [1 << 20, 64 << 10] {
            let start = Instant::now();
            let mut from = 0;
            while from < opened.log.offsets().high_watermark {
                let read = opened.log.read(from, max_bytes, true, Isolation::ReadCommitted).unwrap();
                let last = last_offset(&read.records);
                from = last + 1;
            }
            rate(&format!("read {}k", max_bytes >> 10), start);
        }

        let start = Instant::now();
        let reopened = PartitionLog::open(&opened.path(), Arc::clone(&opened.config), NOW).unwrap();
        rate("open", start);
        assert_eq!(reopened.offsets(), opened.log.offsets());
    }
}

/// Offset of the last record, found as the sender of a fetch finds it: by the heads.
fn last_offset(records: &[u8]) -> i64 {
    let mut at = 0;
    let mut last = -1;
    while at < records.len() {
        let header = batch::parse(&records[at..]).unwrap();
        at += header.size;
        last = header.last_offset();
    }
    last
}
