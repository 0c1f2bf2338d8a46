//! The table of topic settings: name, type, default, limits, meaning.
//!
//! Names, types, limits and defaults are those of Kafka 4 (`TopicConfig`, `LogConfig`), with one deviation:
//! `retention.ms` is -1 here, not a week. This is a broker for development; replaying last year's events must not
//! lose them at the next check of retention, which goes by the records' own times.

use kafka_protocol::records::Compression;

use super::config::{TopicConfig, list};

/// The type of a setting's values, as `DescribeConfigs` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigKind {
    /// `true` or `false`.
    Boolean,
    /// One of some words.
    String,
    /// A 32-bit number.
    Int,
    /// A 64-bit number.
    Long,
    /// A number with a fraction.
    Double,
    /// Comma-separated words.
    List,
}

/// One setting.
pub(super) struct Definition {
    pub name: &'static str,
    pub kind: ConfigKind,
    pub default: &'static str,
    pub documentation: &'static str,
    rule: Rule,
}

/// How a text becomes a value.
enum Rule {
    /// A whole number within limits.
    Number { min: i64, max: i64, set: fn(&mut TopicConfig, i64) },
    /// A number from 0 to 1.
    Ratio(fn(&mut TopicConfig, f64)),
    /// A whole number within limits, or -1.
    NumberOrDefault { min: i64, max: i64, set: fn(&mut TopicConfig, i64) },
    /// One of these words, or for a list any of them and none.
    Words { known: &'static [&'static str], set: fn(&mut TopicConfig, &str) },
    /// `*`, or pairs of a partition and a broker, `0:1,1:1`.
    Replicas,
}

impl Definition {
    /// Puts `text` into `config`.
    ///
    /// # Errors
    /// A sentence that says what the value should have been.
    pub(super) fn set(&self, config: &mut TopicConfig, text: &str) -> Result<(), String> {
        let refuse = |wanted: String| Err(format!("invalid value '{text}' for {}: {wanted}", self.name));
        let text = text.trim();
        match self.rule {
            Rule::Number { min, max, set } => match text.parse::<i64>() {
                Ok(number) if (min..=max).contains(&number) => set(config, number),
                _ => return refuse(format!("a whole number from {min} to {max} is needed")),
            },
            Rule::Ratio(set) => match text.parse::<f64>() {
                Ok(ratio) if (0.0..=1.0).contains(&ratio) => set(config, ratio),
                _ => return refuse("a number from 0 to 1 is needed".to_owned()),
            },
            Rule::NumberOrDefault { min, max, set } => match text.parse::<i64>() {
                Ok(number) if number == -1 || (min..=max).contains(&number) => set(config, number),
                _ => return refuse(format!("-1 or a whole number from {min} to {max} is needed")),
            },
            Rule::Words { known, set } if self.kind == ConfigKind::List => {
                if list(text).any(|word| !known.contains(&word)) {
                    return refuse(format!("some of {} are needed", known.join(", ")));
                }
                set(config, text);
            }
            Rule::Words { known, set } => {
                // Kafka takes booleans in any case, other words as they are.
                let lower = text.to_ascii_lowercase();
                let word = if self.kind == ConfigKind::Boolean { lower.as_str() } else { text };
                if !known.contains(&word) {
                    return refuse(format!("one of {} is needed", known.join(", ")));
                }
                set(config, word);
            }
            Rule::Replicas => {
                let number = |part: &str| part.parse::<u32>().is_ok();
                let pair = |item: &str| item.split_once(':').is_some_and(|(left, right)| number(left) && number(right));
                if text != "*" && !list(text).all(pair) {
                    return refuse("'*' or pairs of partition:broker are needed".to_owned());
                }
            }
        }
        Ok(())
    }
}

const INT_MAX: i64 = i32::MAX as i64;

const fn number(
    name: &'static str,
    kind: ConfigKind,
    default: &'static str,
    limits: (i64, i64),
    set: fn(&mut TopicConfig, i64),
    documentation: &'static str,
) -> Definition {
    Definition { name, kind, default, documentation, rule: Rule::Number { min: limits.0, max: limits.1, set } }
}

const fn words(
    name: &'static str,
    kind: ConfigKind,
    default: &'static str,
    known: &'static [&'static str],
    set: fn(&mut TopicConfig, &str),
    documentation: &'static str,
) -> Definition {
    Definition { name, kind, default, documentation, rule: Rule::Words { known, set } }
}

const fn level(name: &'static str, default: &'static str, rule: Rule, documentation: &'static str) -> Definition {
    Definition { name, kind: ConfigKind::Int, default, documentation, rule }
}

const fn replicas(name: &'static str) -> Definition {
    let documentation = "Accepted without effect: there is one replica.";
    Definition { name, kind: ConfigKind::List, default: "", documentation, rule: Rule::Replicas }
}

/// Every setting, by name.
#[rustfmt::skip]
pub(super) const ALL: &[Definition] = &[
    words("cleanup.policy", ConfigKind::List, "delete", &["compact", "delete"],
        |config, text| {
            config.compact = list(text).any(|word| word == "compact");
            config.delete = list(text).any(|word| word == "delete");
        },
        "What happens to old records: 'delete' drops whole segments by age and size, 'compact' keeps the latest record of each key; both may be given."),
    level("compression.gzip.level", "-1",
        Rule::NumberOrDefault { min: 1, max: 9, set: |config, level| config.gzip_level = level as i32 },
        "How hard 'gzip' as compression.type tries; -1 is the codec's default."),
    level("compression.lz4.level", "9",
        Rule::Number { min: 1, max: 17, set: |config, level| config.lz4_level = level as i32 },
        "How hard 'lz4' as compression.type tries."),
    words("compression.type", ConfigKind::String, "producer", &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"],
        |config, text| config.compression = codec(text),
        "How batches are compressed in the log: 'producer' keeps what the producer chose, anything else compresses again."),
    level("compression.zstd.level", "3",
        Rule::Number { min: -131_072, max: 22, set: |config, level| config.zstd_level = level as i32 },
        "How hard 'zstd' as compression.type tries; negative levels are the fastest."),
    number("delete.retention.ms", ConfigKind::Long, "86400000", (0, i64::MAX),
        |config, ms| config.delete_retention_ms = ms,
        "How long a compacted topic still shows tombstones after they were compacted, in milliseconds."),
    number("file.delete.delay.ms", ConfigKind::Long, "60000", (0, i64::MAX), |_, _| {},
        "Accepted without effect: files that are no longer needed are removed at once."),
    number("flush.messages", ConfigKind::Long, "9223372036854775807", (1, i64::MAX),
        |config, messages| config.flush_messages = messages,
        "After how many records the log is forced to the disk; by default the operating system decides."),
    number("flush.ms", ConfigKind::Long, "9223372036854775807", (0, i64::MAX),
        |config, ms| config.flush_ms = ms,
        "After how many milliseconds the log is forced to the disk; by default the operating system decides."),
    replicas("follower.replication.throttled.replicas"),
    number("index.interval.bytes", ConfigKind::Int, "4096", (0, INT_MAX),
        |config, bytes| config.index_interval_bytes = bytes.unsigned_abs(),
        "How many bytes of log there are for each entry of its index."),
    replicas("leader.replication.throttled.replicas"),
    number("local.retention.bytes", ConfigKind::Long, "-2", (-2, -2), |_, _| {},
        "Only -2, as retention.bytes: there is no remote storage."),
    number("local.retention.ms", ConfigKind::Long, "-2", (-2, -2), |_, _| {},
        "Only -2, as retention.ms: there is no remote storage."),
    number("max.compaction.lag.ms", ConfigKind::Long, "9223372036854775807", (1, i64::MAX),
        |config, ms| config.max_compaction_lag_ms = ms,
        "The longest time a record stays uncompacted in a compacted topic, in milliseconds."),
    number("max.message.bytes", ConfigKind::Int, "1048588", (0, INT_MAX),
        |config, bytes| config.max_message_bytes = bytes as usize,
        "The largest batch of records that is accepted, after compression, in bytes."),
    number("message.timestamp.after.max.ms", ConfigKind::Long, "3600000", (0, i64::MAX),
        |config, ms| config.timestamp_after_max_ms = ms,
        "How far a record's time may be ahead of the broker's clock, in milliseconds; not with LogAppendTime."),
    number("message.timestamp.before.max.ms", ConfigKind::Long, "9223372036854775807", (0, i64::MAX),
        |config, ms| config.timestamp_before_max_ms = ms,
        "How far a record's time may be behind the broker's clock, in milliseconds; not with LogAppendTime."),
    words("message.timestamp.type", ConfigKind::String, "CreateTime", &["CreateTime", "LogAppendTime"],
        |config, text| config.log_append_time = text == "LogAppendTime",
        "Whose clock gives a record its time: the producer's (CreateTime) or the broker's (LogAppendTime)."),
    Definition { name: "min.cleanable.dirty.ratio", kind: ConfigKind::Double, default: "0.5",
        rule: Rule::Ratio(|config, ratio| config.min_cleanable_dirty_ratio = ratio),
        documentation: "The share of uncompacted bytes in a compacted topic above which it is compacted." },
    number("min.compaction.lag.ms", ConfigKind::Long, "0", (0, i64::MAX),
        |config, ms| config.min_compaction_lag_ms = ms,
        "The shortest time a record stays uncompacted in a compacted topic, in milliseconds."),
    number("min.insync.replicas", ConfigKind::Int, "1", (1, INT_MAX),
        |config, replicas| config.min_insync_replicas = replicas as i32,
        "How many replicas must have a record for acks=all; there is one, so more than 1 refuses such writes."),
    words("preallocate", ConfigKind::Boolean, "false", &["true", "false"], |_, _| {},
        "Accepted without effect: segments grow as they are written."),
    words("remote.log.copy.disable", ConfigKind::Boolean, "false", &["false"], |_, _| {},
        "Only 'false': there is no remote storage."),
    words("remote.log.delete.on.disable", ConfigKind::Boolean, "false", &["false"], |_, _| {},
        "Only 'false': there is no remote storage."),
    words("remote.storage.enable", ConfigKind::Boolean, "false", &["false"], |_, _| {},
        "Only 'false': there is no remote storage."),
    number("retention.bytes", ConfigKind::Long, "-1", (i64::MIN, i64::MAX),
        |config, bytes| config.retention_bytes = bytes,
        "How large a partition may get before its oldest segments are deleted, in bytes; -1 is without limit."),
    number("retention.ms", ConfigKind::Long, "-1", (-1, i64::MAX),
        |config, ms| config.retention_ms = ms,
        "How long records stay, in milliseconds, by the largest record time of a segment; -1, the default of this development broker, is for ever (Kafka's default is a week)."),
    number("segment.bytes", ConfigKind::Int, "1073741824", (1 << 20, INT_MAX),
        |config, bytes| config.segment_bytes = bytes.unsigned_abs(),
        "The size at which a new segment file is begun, in bytes; retention and compaction work on whole segments."),
    number("segment.index.bytes", ConfigKind::Int, "10485760", (4, INT_MAX), |_, _| {},
        "Accepted without effect: an index is as large as its segment needs."),
    number("segment.jitter.ms", ConfigKind::Long, "0", (0, i64::MAX), |_, _| {},
        "Accepted without effect: segments are begun exactly at segment.ms."),
    number("segment.ms", ConfigKind::Long, "604800000", (1, i64::MAX),
        |config, ms| config.segment_ms = ms,
        "The span of record time after which a new segment file is begun, in milliseconds."),
    words("unclean.leader.election.enable", ConfigKind::Boolean, "false", &["true", "false"], |_, _| {},
        "Accepted without effect: there is one replica."),
];

fn codec(name: &str) -> Option<Compression> {
    match name {
        "uncompressed" => Some(Compression::None),
        "gzip" => Some(Compression::Gzip),
        "snappy" => Some(Compression::Snappy),
        "lz4" => Some(Compression::Lz4),
        "zstd" => Some(Compression::Zstd),
        _ => None,
    }
}
