use std::collections::BTreeMap;

use kafka_protocol::records::Compression;
use proptest::prelude::*;

use super::*;
use crate::batch::samples::{PLAIN, Sample, Sender, batch, headers, plain};

/// A compacted log that is compacted whenever there is anything to do.
fn compacted(change: impl FnOnce(&mut TopicConfig)) -> Opened {
    open(|config| {
        config.compact = true;
        config.delete = false;
        config.segment_bytes = 400;
        config.min_cleanable_dirty_ratio = 0.0;
        change(config);
    })
}

/// Fills the growing segment until a new one begins, so that everything before can be compacted.
fn settle(opened: &Opened) {
    let growing = opened.files(".log").last().cloned();
    while opened.files(".log").last() == growing.as_ref() {
        opened.at(plain(&[(1, Some("filler"), Some("a filler that fills the segment"))]));
    }
}

/// Offset, key and value of everything but fillers.
fn contents(opened: &Opened, isolation: Isolation) -> Vec<(i64, String, String)> {
    let records = opened.consume(0, 300, isolation);
    let shown = records.iter().map(|record| (record.offset, text(record.key.as_ref()), text(record.value.as_ref())));
    shown.filter(|(_, key, _)| key != "filler").collect()
}

fn triples(expected: &[(i64, &str, &str)]) -> Vec<(i64, String, String)> {
    expected.iter().map(|(offset, key, value)| (*offset, (*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn the_latest_record_of_each_key_stays_under_its_offset() {
    for codec in [Compression::None, Compression::Gzip] {
        let mut opened = compacted(|_| {});
        let send = |records: &[Sample<'_>]| opened.at(batch(PLAIN, codec, records));
        send(&[(10, Some("a"), Some("1")), (11, Some("b"), Some("1")), (12, Some("a"), Some("2"))]);
        send(&[(13, Some("c"), Some("1"))]);
        send(&[(14, Some("b"), Some("2")), (15, Some("d"), Some("1"))]);
        settle(&opened);
        let cleaned = opened.log.clean(NOW).unwrap();
        assert!(cleaned.compacted_records >= 2 && cleaned.freed_bytes > 0, "{cleaned:?}");
        let expected = triples(&[(2, "a", "2"), (3, "c", "1"), (4, "b", "2"), (5, "d", "1")]);
        assert_eq!(contents(&opened, Isolation::ReadUncommitted), expected);
        // Times and headers of what stays are untouched.
        let first = &opened.consume(0, 1 << 20, Isolation::ReadUncommitted)[0];
        assert_eq!((first.timestamp, first.headers.len()), (12, 1));
        opened.reopen();
        assert_eq!(contents(&opened, Isolation::ReadUncommitted), expected);
        assert_eq!(opened.log.clean(NOW).unwrap(), Cleaned::default(), "there is nothing new to do");
    }
}

#[test]
fn later_passes_reach_records_that_were_clean() {
    let opened = compacted(|_| {});
    for value in ["1", "2", "3"] {
        opened.at(plain(&[(1, Some("a"), Some(value)), (1, Some(value), Some("own"))]));
        settle(&opened);
        opened.log.clean(NOW).unwrap();
    }
    let found = contents(&opened, Isolation::ReadUncommitted);
    let keys: Vec<_> = found.iter().map(|(_, key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(keys, [("1", "own"), ("2", "own"), ("a", "3"), ("3", "own")]);
}

#[test]
fn the_growing_segment_is_left_alone() {
    let opened = compacted(|_| {});
    opened.at(plain(&[(1, Some("a"), Some("1"))]));
    opened.at(plain(&[(1, Some("a"), Some("2"))]));
    assert_eq!(opened.log.clean(NOW).unwrap(), Cleaned::default());
    assert_eq!(contents(&opened, Isolation::ReadUncommitted).len(), 2);
}

#[test]
fn tombstones_are_shown_for_a_while() {
    let mut opened = compacted(|config| config.delete_retention_ms = 1000);
    opened.at(plain(&[(7, Some("a"), Some("1")), (8, Some("b"), Some("1"))]));
    opened.at(plain(&[(9, Some("a"), None)]));
    settle(&opened);
    opened.log.clean(NOW).unwrap();
    let with_tombstone = triples(&[(1, "b", "1"), (2, "a", "<none>")]);
    assert_eq!(contents(&opened, Isolation::ReadUncommitted), with_tombstone);
    let tombstone = &opened.consume(2, 1 << 20, Isolation::ReadUncommitted)[0];
    assert_eq!(tombstone.timestamp, 9, "its time survives that the batch now carries a horizon");

    opened.reopen();
    settle(&opened);
    opened.log.clean(NOW + 999).unwrap();
    assert_eq!(contents(&opened, Isolation::ReadUncommitted), with_tombstone);
    settle(&opened);
    opened.log.clean(NOW + 1000).unwrap();
    assert_eq!(contents(&opened, Isolation::ReadUncommitted), triples(&[(1, "b", "1")]));
}

#[test]
fn aborted_records_go_and_replace_nothing() {
    let mut opened = compacted(|config| config.delete_retention_ms = 1000);
    let send = |sequence, transactional, records: &[Sample<'_>]| {
        opened.at(batch(Sender { id: 7, epoch: 0, sequence, transactional }, Compression::None, records))
    };
    opened.at(plain(&[(1, Some("a"), Some("kept"))]));
    send(0, true, &[(1, Some("a"), Some("aborted")), (1, Some("b"), Some("aborted"))]);
    opened.log.append_end_marker(7, 0, false, NOW).unwrap();
    send(2, true, &[(1, Some("c"), Some("committed"))]);
    opened.log.append_end_marker(7, 0, true, NOW).unwrap();
    settle(&opened);
    opened.log.clean(NOW).unwrap();
    let expected = triples(&[(0, "a", "kept"), (4, "c", "committed")]);
    assert_eq!(contents(&opened, Isolation::ReadUncommitted), expected);
    assert_eq!(contents(&opened, Isolation::ReadCommitted), expected);

    // The marker of the emptied transaction goes once readers on their way have had their time.
    let markers = |opened: &Opened| {
        let mut from = 0;
        let mut markers = Vec::new();
        loop {
            let records = opened.log.read(from, 1 << 20, true, Isolation::ReadUncommitted).unwrap().records;
            let Some(last) = headers(&records).last().copied() else { return markers };
            let control = headers(&records).into_iter().filter(BatchHeader::is_control);
            markers.extend(control.map(|header| header.base_offset));
            from = last.last_offset() + 1;
        }
    };
    assert_eq!(markers(&opened), [3, 5]);
    for now_ms in [NOW + 500, NOW + 5000] {
        settle(&opened);
        opened.log.clean(now_ms).unwrap();
        opened.reopen();
        assert_eq!(contents(&opened, Isolation::ReadCommitted), expected);
    }
    assert_eq!(markers(&opened), [5]);
}

#[test]
fn an_open_transaction_holds_compaction_up() {
    let opened = compacted(|_| {});
    opened.at(plain(&[(1, Some("a"), Some("1"))]));
    opened.at(batch(
        Sender { id: 7, epoch: 0, sequence: 0, transactional: true },
        Compression::None,
        &[(1, Some("a"), Some("open"))],
    ));
    settle(&opened);
    settle(&opened);
    assert_eq!(opened.log.clean(NOW).unwrap(), Cleaned::default());
    opened.log.append_end_marker(7, 0, true, NOW).unwrap();
    settle(&opened);
    opened.log.clean(NOW).unwrap();
    assert_eq!(contents(&opened, Isolation::ReadCommitted), triples(&[(1, "a", "open")]));
}

#[test]
fn compaction_waits_for_its_share_and_its_time() {
    let opened = compacted(|config| {
        config.min_cleanable_dirty_ratio = 0.9;
        config.max_compaction_lag_ms = 5000;
        config.min_compaction_lag_ms = 0;
        config.segment_ms = i64::MAX;
    });
    let send = |time, value| opened.at(plain(&[(time, Some("a"), Some(value))]));
    send(NOW, "1");
    settle(&opened);
    assert_ne!(opened.log.clean(NOW).unwrap(), Cleaned::default(), "all of it is dirty");
    send(NOW, "2");
    settle(&opened);
    let lagging = Arc::new(TopicConfig { min_compaction_lag_ms: 100, ..(*opened.config).clone() });
    opened.log.reconfigure(lagging);
    assert_eq!(opened.log.clean(NOW + 99).unwrap(), Cleaned::default(), "too young, and too small a share");
}

#[test]
fn small_neighbours_become_one_segment() {
    let mut opened = compacted(|_| {});
    for _ in 0..6 {
        opened.at(plain(&[(1, Some("a"), Some("the same key again"))]));
        settle(&opened);
    }
    let before = opened.files(".log").len();
    opened.log.clean(NOW).unwrap();
    settle(&opened);
    opened.log.clean(NOW).unwrap();
    let after = opened.files(".log").len();
    assert!(after < before, "{before} segments have become {after}");
    let expected = contents(&opened, Isolation::ReadUncommitted);
    assert_eq!(expected.len(), 1);
    opened.reopen();
    assert_eq!(contents(&opened, Isolation::ReadUncommitted), expected);
    assert_eq!(
        opened.log.offset_for(OffsetQuery::Timestamp(0, Isolation::ReadUncommitted)).unwrap().map(|found| found.1),
        Some(1)
    );
}

/// A process that dies amid a pass leaves files from before or after the commit; both must open.
#[test]
fn a_pass_that_died_is_undone_or_ended() {
    let mut opened = compacted(|_| {});
    for round in 0..8 {
        opened.at(plain(&[(round, Some("a"), Some("the same key again"))]));
    }
    settle(&opened);
    let all = contents(&opened, Isolation::ReadUncommitted);
    let names = opened.files(".log");
    let (first, second) = (opened.path().join(&names[0]), &names[1]);

    // Before the commit: a half-written file.
    fs::write(opened.path().join(format!("{}.cleaned", names[0])), [1, 2, 3]).unwrap();
    opened.reopen();
    assert_eq!(contents(&opened, Isolation::ReadUncommitted), all);
    assert!(opened.files(".cleaned").is_empty());

    // After it: the first two segments are replaced by one file, and nothing else is done yet.
    let kept = fs::read(&first).unwrap();
    let next = opened.files(".log")[2].trim_end_matches(".log").to_owned();
    fs::write(opened.path().join(format!("{}-{next}.swap", names[0].trim_end_matches(".log"))), kept).unwrap();
    opened.reopen();
    assert!(opened.files(".swap").is_empty());
    assert!(!opened.files(".log").contains(second));
    let left = contents(&opened, Isolation::ReadUncommitted);
    assert!(left.len() < all.len() && left.iter().all(|record| all.contains(record)));
    opened.reopen();
    assert_eq!(contents(&opened, Isolation::ReadUncommitted), left);
}

#[derive(Clone, Debug)]
enum Step {
    /// Records of this producer (0 is nobody), as keys and whether they are tombstones.
    Append {
        producer: i64,
        transactional: bool,
        records: Vec<(u8, bool)>,
        zstd: bool,
    },
    End {
        producer: i64,
        commit: bool,
    },
    Clean {
        after_ms: i64,
    },
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0i64..3, any::<bool>(), prop::collection::vec((0u8..6, prop::bool::weighted(0.2)), 1..5), any::<bool>())
            .prop_map(|(producer, transactional, records, zstd)| Step::Append { producer, transactional, records, zstd }),
        3 => (1i64..3, any::<bool>()).prop_map(|(producer, commit)| Step::End { producer, commit }),
        3 => (0i64..3000).prop_map(|after_ms| Step::Clean { after_ms }),
        1 => Just(Step::Reopen),
    ]
}

/// What a reader that keeps the latest value of each key ends up with.
fn table(records: impl Iterator<Item = (String, Option<String>)>) -> BTreeMap<String, String> {
    let mut table = BTreeMap::new();
    for (key, value) in records {
        match value {
            Some(value) => drop(table.insert(key, value)),
            None => drop(table.remove(&key)),
        }
    }
    table
}

/// A record as it was sent.
type Sent = (i64, String, Option<String>);

#[derive(Default)]
struct Model {
    committed: Vec<Sent>,
    /// Sequence numbers, and records of open transactions, by producer.
    sequences: BTreeMap<i64, i32>,
    open: BTreeMap<i64, Vec<Sent>>,
}

impl Model {
    fn append(&mut self, opened: &Opened, producer: i64, transactional: bool, keys: &[(u8, bool)], zstd: bool) {
        let transactional = producer > 0 && (transactional || self.open.contains_key(&producer));
        let base = opened.log.offsets().high_watermark;
        let records: Vec<Sent> = (base..)
            .zip(keys)
            .map(|(offset, (key, tombstone))| (offset, key.to_string(), (!tombstone).then(|| offset.to_string())))
            .collect();
        let samples: Vec<Sample<'_>> =
            records.iter().map(|(offset, key, value)| (*offset, Some(key.as_str()), value.as_deref())).collect();
        let sequence = self.sequences.entry(producer).or_default();
        let sender = match producer {
            0 => PLAIN,
            id => Sender { id, epoch: 0, sequence: *sequence, transactional },
        };
        *sequence += records.len() as i32;
        let codec = if zstd { Compression::Zstd } else { Compression::None };
        assert_eq!(opened.at(batch(sender, codec, &samples)), base);
        if transactional {
            self.open.entry(producer).or_default().extend(records);
        } else {
            self.committed.extend(records);
        }
    }

    fn end(&mut self, opened: &Opened, producer: i64, commit: bool) {
        if let Some(records) = self.open.remove(&producer) {
            opened.log.append_end_marker(producer, 0, commit, NOW).unwrap();
            if commit {
                self.committed.extend(records);
            }
        }
    }

    fn check(&self, opened: &Opened) {
        let stable = opened.log.offsets().last_stable;
        let mut before: Vec<Sent> = self.committed.iter().filter(|(offset, ..)| *offset < stable).cloned().collect();
        before.sort();
        let seen = opened.consume(0, 500, Isolation::ReadCommitted);
        let seen: Vec<Sent> = seen
            .iter()
            .map(|record| {
                let value = record.value.as_ref().map(|value| text(Some(value)));
                (record.offset, text(record.key.as_ref()), value)
            })
            .collect();
        assert!(seen.iter().all(|record| before.contains(record)), "{seen:?} is not of {before:?}");
        assert!(seen.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let pairs = |records: Vec<Sent>| table(records.into_iter().map(|(_, key, value)| (key, value)));
        assert_eq!(pairs(seen), pairs(before));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Compaction takes nothing from a reader that wants the latest value of each key, whatever happens between.
    #[test]
    fn a_table_built_from_a_compacted_log_is_the_same(steps in prop::collection::vec(step(), 1..60)) {
        let mut opened = compacted(|config| {
            config.segment_bytes = 600;
            config.delete_retention_ms = 1000;
        });
        let mut model = Model::default();
        let mut now_ms = NOW;
        for step in &steps {
            match step {
                Step::Append { producer, transactional, records, zstd } => {
                    model.append(&opened, *producer, *transactional, records, *zstd);
                }
                Step::End { producer, commit } => model.end(&opened, *producer, *commit),
                Step::Clean { after_ms } => {
                    now_ms += after_ms;
                    opened.log.clean(now_ms).unwrap();
                }
                Step::Reopen => opened.reopen(),
            }
            model.check(&opened);
        }
        opened.reopen();
        model.check(&opened);
    }
}
