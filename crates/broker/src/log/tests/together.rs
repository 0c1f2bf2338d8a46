//! Appending, reading, cleaning and waiting at the same time.

use kafka_protocol::records::Compression;

use super::*;
use crate::batch::samples::numbered;

/// Readers of committed records never see an aborted one nor miss a committed one, while compaction takes the
/// aborted ones out under their hands.
#[test]
fn readers_are_not_disturbed_by_writers_and_cleaning() {
    const ROUNDS: i32 = 300;
    let opened = open(|config| {
        config.compact = true;
        config.delete = false;
        config.segment_bytes = 2000;
        config.min_cleanable_dirty_ratio = 0.0;
        config.delete_retention_ms = 0;
    });
    let log = &opened.log;
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|id| {
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let commit = round % 2 == 0;
                        let key = format!("{id}-{round}");
                        let record = (1, Some(key.as_str()), Some(if commit { "good" } else { "bad" }));
                        let sender = samples::Sender { id, epoch: 0, sequence: round, transactional: true };
                        let batch = samples::batch(sender, Compression::None, &[record]);
                        log.append(batch, TxnCheck::Verified, NOW).unwrap();
                        log.append_end_marker(id, 0, commit, NOW).unwrap();
                    }
                })
            })
            .collect();
        let mut seen = 0;
        let mut from = 0;
        let mut over = false;
        while !over || from < log.offsets().high_watermark {
            // Looked at before reading, so that the last round reads everything.
            over = writers.iter().all(|writer| writer.is_finished());
            log.clean(NOW).unwrap();
            let read = log.read(from, 700, true, Isolation::ReadCommitted).unwrap();
            let Some(last) = samples::headers(&read.records).last().copied() else { continue };
            let records = visible(samples::decode(read.records), &read.aborted, from, Isolation::ReadCommitted);
            assert!(records.iter().all(|record| text(record.value.as_ref()) == "good"));
            seen += records.len();
            from = last.last_offset() + 1;
        }
        assert_eq!(seen, 3 * ROUNDS as usize / 2);
    });
    assert_eq!(opened.consume(0, 1000, Isolation::ReadCommitted).len(), 3 * ROUNDS as usize / 2);
    opened.log.append(numbered(0, 0, ROUNDS, 1, false), TxnCheck::Verified, NOW).unwrap();
}
