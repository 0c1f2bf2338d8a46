use bytes::Bytes;
use kafka_protocol::records::Compression;
use tempfile::TempDir;

use super::*;
use crate::batch::samples;
use crate::log::{Isolation, TxnCheck};

const NOW: i64 = 1_000_000;

fn open(folder: &TempDir) -> Topics {
    Topics::open(folder.path(), TopicConfig::default(), NOW).unwrap()
}

fn catalogue() -> (TempDir, Topics) {
    let folder = tempfile::tempdir().unwrap();
    let topics = open(&folder);
    (folder, topics)
}

fn settings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn record() -> Bytes {
    samples::plain(&[(1, Some("k"), Some("v"))])
}

fn append(topic: &Topic, partition: usize) {
    topic.partitions[partition].append(record(), TxnCheck::Verified, NOW).unwrap();
}

fn code<T: std::fmt::Debug>(result: Result<T, Refusal>) -> ResponseError {
    result.unwrap_err().error
}

fn value(topics: &Topics, topic: &str, name: &str) -> (String, bool) {
    let entry = topics.configs(topic).unwrap().into_iter().find(|entry| entry.name == name).unwrap();
    (entry.value, entry.is_default)
}

#[test]
fn topics_and_their_records_survive() {
    let (folder, topics) = catalogue();
    let made = topics.create("orders", 2, &settings(&[("retention.ms", "5000")]), NOW).unwrap();
    append(&made, 1);
    topics.create("gone", 1, &settings(&[]), NOW).unwrap();
    topics.delete("gone").unwrap();
    topics.add_partitions("orders", 3, NOW).unwrap();
    drop(topics);

    let topics = open(&folder);
    assert_eq!(topics.names(), ["orders"]);
    let topic = topics.get("orders").unwrap();
    assert_eq!((topic.id, topic.partitions.len(), topic.config.retention_ms), (made.id, 3, 5000));
    assert_eq!(topics.by_id(made.id).unwrap().name, "orders");
    assert_eq!(topic.partitions[1].offsets().high_watermark, 1);
    assert_eq!(value(&topics, "orders", "retention.ms"), ("5000".to_owned(), false));
    assert!(!folder.path().join("topics/gone-0").exists());
}

#[test]
fn a_topic_made_again_is_another_one() {
    let (_folder, topics) = catalogue();
    let first = topics.create("orders", 1, &settings(&[]), NOW).unwrap();
    append(&first, 0);
    topics.delete("orders").unwrap();
    let second = topics.create("orders", 1, &settings(&[]), NOW).unwrap();
    assert_ne!(first.id, second.id);
    assert_eq!(second.partitions[0].offsets().high_watermark, 0);
    assert!(topics.by_id(first.id).is_none());
    let refused = first.partitions[0].append(record(), TxnCheck::Verified, NOW).unwrap_err();
    assert_eq!(refused, ResponseError::UnknownTopicOrPartition, "who still holds the old one writes nowhere");
}

#[test]
fn folders_that_no_entry_names_are_removed() {
    let (folder, topics) = catalogue();
    append(&topics.create("orders", 1, &settings(&[]), NOW).unwrap(), 0);
    drop(topics);
    // As after a death between making folders and writing the entry.
    for left in ["half-0", "orders-1"] {
        fs::create_dir(folder.path().join("topics").join(left)).unwrap();
    }
    let topics = open(&folder);
    let mut left: Vec<_> =
        fs::read_dir(folder.path().join("topics")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["orders-0"]);
    assert_eq!(topics.get("orders").unwrap().partitions[0].offsets().high_watermark, 1);
}

#[test]
fn names_follow_kafka_s_rules() {
    let (_folder, topics) = catalogue();
    for name in ["", ".", "..", "a/b", "a b", "ä", &"x".repeat(250)] {
        assert_eq!(code(topics.create(name, 1, &settings(&[]), NOW)), ResponseError::InvalidTopicException, "{name}");
    }
    topics.create("a.b", 1, &settings(&[]), NOW).unwrap();
    let refused = topics.create("a_b", 1, &settings(&[]), NOW).unwrap_err();
    assert_eq!(refused.error, ResponseError::InvalidTopicException);
    assert!(refused.message.contains("a.b"), "{refused}");
    assert_eq!(code(topics.create("a.b", 1, &settings(&[]), NOW)), ResponseError::TopicAlreadyExists);
    topics.create(&"x".repeat(249), 1, &settings(&[]), NOW).unwrap();
}

#[test]
fn partitions_only_grow() {
    let (_folder, topics) = catalogue();
    for partitions in [0, -1, 10_001] {
        assert_eq!(code(topics.create("t", partitions, &settings(&[]), NOW)), ResponseError::InvalidPartitions);
    }
    let before = topics.create("t", 2, &settings(&[]), NOW).unwrap();
    for total in [1, 2, 10_001] {
        assert_eq!(code(topics.add_partitions("t", total, NOW)), ResponseError::InvalidPartitions);
    }
    let after = topics.add_partitions("t", 3, NOW).unwrap();
    assert!(Arc::ptr_eq(&before.partitions[0], &after.partitions[0]), "old partitions are shared, not reopened");
    assert_eq!(code(topics.add_partitions("u", 3, NOW)), ResponseError::UnknownTopicOrPartition);
    assert_eq!(code(topics.delete("u")), ResponseError::UnknownTopicOrPartition);
}

#[test]
fn every_default_is_one_of_its_setting_s_values() {
    let mut config = TopicConfig::default();
    for definition in definitions::ALL {
        definition.set(&mut config, definition.default).unwrap();
        assert!(definition.documentation.ends_with('.'), "{}", definition.name);
    }
    assert_eq!(config, TopicConfig::default());
    let mut names: Vec<_> = definitions::ALL.iter().map(|definition| definition.name).collect();
    names.sort_unstable();
    names.dedup();
    let all: Vec<_> = definitions::ALL.iter().map(|definition| definition.name).collect();
    assert_eq!(names, all, "sorted, and none twice");
}

#[test]
fn settings_are_typed() {
    let config = TopicConfig::default()
        .with_overrides(&settings(&[
            ("cleanup.policy", "compact, delete"),
            ("compression.type", "zstd"),
            ("message.timestamp.type", "LogAppendTime"),
            ("min.cleanable.dirty.ratio", "0.1"),
            ("segment.bytes", "2000000"),
            ("max.message.bytes", "99"),
            ("preallocate", "TRUE"),
            ("compression.zstd.level", "-5"),
            ("follower.replication.throttled.replicas", "0:1, 1:1"),
        ]))
        .unwrap();
    assert!(config.compact && config.delete && config.log_append_time);
    assert_eq!((config.compression, config.compression_level()), (Some(Compression::Zstd), Some(-5)));
    let neither = TopicConfig::default().with_overrides(&settings(&[("cleanup.policy", "")])).unwrap();
    assert!(!neither.compact && !neither.delete);
    assert_eq!((config.segment_bytes, config.max_message_bytes), (2_000_000, 99));
    assert!((config.min_cleanable_dirty_ratio - 0.1).abs() < f64::EPSILON);
}

#[test]
fn wrong_settings_are_refused_by_name() {
    let (_folder, topics) = catalogue();
    for (name, text) in [
        ("retention.ms", "soon"),
        ("retention.ms", "-2"),
        ("segment.bytes", "5"),
        ("cleanup.policy", "shred"),
        ("compression.gzip.level", "0"),
        ("leader.replication.throttled.replicas", "x"),
        ("compression.type", "lz4,zstd"),
        ("min.cleanable.dirty.ratio", "2"),
        ("min.cleanable.dirty.ratio", "NaN"),
        ("preallocate", "maybe"),
        ("remote.storage.enable", "true"),
        ("no.such.setting", "1"),
    ] {
        let refused = topics.create("t", 1, &settings(&[(name, text)]), NOW).unwrap_err();
        assert_eq!(refused.error, ResponseError::InvalidConfig, "{name}={text}");
        assert!(refused.message.contains(name), "{refused}");
    }
    let lags = settings(&[("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "5")]);
    assert_eq!(code(topics.create("t", 1, &lags, NOW)), ResponseError::InvalidConfig);
    assert!(topics.names().is_empty());
}

#[test]
fn settings_change_one_by_one_or_all_at_once() {
    let (folder, topics) = catalogue();
    topics.create("t", 1, &settings(&[("retention.ms", "1"), ("segment.ms", "7")]), NOW).unwrap();
    let change = |name: &str, op| ConfigChange { name: name.to_owned(), op };
    let changes = vec![
        change("retention.ms", ConfigOp::Set("2".to_owned())),
        change("segment.ms", ConfigOp::Delete),
        change("cleanup.policy", ConfigOp::Append("compact".to_owned())),
    ];
    topics.set_configs("t", changes.clone(), true).unwrap();
    assert_eq!(value(&topics, "t", "retention.ms"), ("1".to_owned(), false), "only validated");
    topics.set_configs("t", changes, false).unwrap();
    let check = |topics: &Topics| {
        assert_eq!(value(topics, "t", "retention.ms"), ("2".to_owned(), false));
        assert_eq!(value(topics, "t", "segment.ms"), ("604800000".to_owned(), true));
        assert_eq!(value(topics, "t", "cleanup.policy"), ("delete,compact".to_owned(), false));
        assert!(topics.get("t").unwrap().config.compact);
    };
    check(&topics);
    check(&{
        drop(topics);
        open(&folder)
    });
    let topics = open(&folder);
    let take = vec![change("cleanup.policy", ConfigOp::Subtract("delete".to_owned()))];
    topics.set_configs("t", take, false).unwrap();
    assert_eq!(value(&topics, "t", "cleanup.policy").0, "compact");
    let wrong = vec![change("retention.ms", ConfigOp::Append("1".to_owned()))];
    assert_eq!(code(topics.set_configs("t", wrong, false)), ResponseError::InvalidConfig);
    topics.replace_configs("t", &settings(&[("segment.ms", "9")]), false).unwrap();
    assert_eq!(value(&topics, "t", "cleanup.policy"), ("delete".to_owned(), true));
    assert_eq!(value(&topics, "t", "segment.ms"), ("9".to_owned(), false));
}

#[test]
fn a_changed_setting_is_in_force_at_once() {
    let (_folder, topics) = catalogue();
    let topic = topics.create("t", 1, &settings(&[]), NOW).unwrap();
    append(&topic, 0);
    topics.replace_configs("t", &settings(&[("max.message.bytes", "10")]), false).unwrap();
    let refused = topic.partitions[0].append(record(), TxnCheck::Verified, NOW).unwrap_err();
    assert_eq!(refused, ResponseError::MessageTooLarge);
}

#[test]
fn the_journal_does_not_grow_for_ever() {
    let (folder, topics) = catalogue();
    topics.create("t", 1, &settings(&[]), NOW).unwrap();
    for round in 0..3 * JOURNAL_SLACK {
        topics.replace_configs("t", &settings(&[("segment.ms", &(round + 1).to_string())]), false).unwrap();
    }
    assert!(topics.journal().len() < 2 * JOURNAL_SLACK);
    drop(topics);
    let last = (3 * JOURNAL_SLACK).to_string();
    assert_eq!(value(&open(&folder), "t", "segment.ms").0, last);
}

#[test]
fn cleaning_reaches_every_partition_and_names_the_one_in_trouble() {
    let (folder, topics) = catalogue();
    let topic = topics.create("t", 3, &settings(&[("retention.ms", "10")]), NOW).unwrap();
    (0..3).for_each(|partition| append(&topic, partition));
    fs::remove_dir_all(folder.path().join("topics/t-0")).unwrap();
    let error = topics.clean_all(NOW).unwrap_err();
    assert!(error.to_string().contains("t-0"), "{error}");
    let ends = topic.partitions[1..].iter().map(|partition| partition.read(0, 10, true, Isolation::ReadCommitted));
    assert!(ends.into_iter().all(|read| read.unwrap_err() == ResponseError::OffsetOutOfRange));
}
