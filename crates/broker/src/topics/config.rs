//! What a topic is configured with: typed values, made from the texts that clients send.

use std::collections::BTreeMap;

use kafka_protocol::records::Compression;

use super::definitions::{self, ConfigKind, Definition};

/// A topic's settings in force: the broker's defaults with the topic's own on top.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicConfig {
    /// `cleanup.policy` contains `delete`: old segments go.
    pub delete: bool,
    /// `cleanup.policy` contains `compact`: only the latest record of each key stays.
    pub compact: bool,
    /// `retention.ms`: how long records stay, -1 for ever.
    pub retention_ms: i64,
    /// `retention.bytes`: how large a partition may get, -1 without limit.
    pub retention_bytes: i64,
    /// `segment.bytes`: size at which a new file is begun.
    pub segment_bytes: u64,
    /// `segment.ms`: span of time after which a new file is begun.
    pub segment_ms: i64,
    /// `max.message.bytes`: largest batch.
    pub max_message_bytes: usize,
    /// `message.timestamp.type` is `LogAppendTime`.
    pub log_append_time: bool,
    /// `message.timestamp.before.max.ms`: how far in the past a record's time may lie.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`: how far in the future a record's time may lie.
    pub timestamp_after_max_ms: i64,
    /// `min.cleanable.dirty.ratio`: share of uncompacted bytes that makes compaction worth it.
    pub min_cleanable_dirty_ratio: f64,
    /// `delete.retention.ms`: how long a compacted topic shows tombstones.
    pub delete_retention_ms: i64,
    /// `min.compaction.lag.ms`: age before which a record is not compacted away.
    pub min_compaction_lag_ms: i64,
    /// `max.compaction.lag.ms`: age at which a record is compacted in any case.
    pub max_compaction_lag_ms: i64,
    /// `compression.type`; `None` keeps the producer's.
    pub compression: Option<Compression>,
    /// `compression.gzip.level`, -1 for the codec's own default.
    pub gzip_level: i32,
    /// `compression.lz4.level`.
    pub lz4_level: i32,
    /// `compression.zstd.level`.
    pub zstd_level: i32,
    /// `flush.messages`: records after which the file is forced to the disk.
    pub flush_messages: i64,
    /// `flush.ms`: time after which the file is forced to the disk.
    pub flush_ms: i64,
    /// `min.insync.replicas`: replicas that `acks=all` needs; there is one.
    pub min_insync_replicas: i32,
    /// `index.interval.bytes`: bytes of log for each entry of its index.
    pub index_interval_bytes: u64,
    /// The settings that are the topic's own, as texts.
    pub(crate) overrides: BTreeMap<String, String>,
}

impl Default for TopicConfig {
    fn default() -> Self {
        let mut config = TopicConfig {
            delete: true,
            compact: false,
            retention_ms: -1,
            retention_bytes: -1,
            segment_bytes: 1 << 30,
            segment_ms: i64::MAX,
            max_message_bytes: 1 << 20,
            log_append_time: false,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: i64::MAX,
            min_cleanable_dirty_ratio: 0.5,
            delete_retention_ms: 0,
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: i64::MAX,
            compression: None,
            gzip_level: -1,
            lz4_level: 9,
            zstd_level: 3,
            flush_messages: i64::MAX,
            flush_ms: i64::MAX,
            min_insync_replicas: 1,
            index_interval_bytes: 4096,
            overrides: BTreeMap::new(),
        };
        for definition in definitions::ALL {
            definition
                .set(&mut config, definition.default)
                .expect("every default is one of its own setting's values; a test sets them all");
        }
        config
    }
}

/// A setting as clients are shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Its name, as Kafka calls it.
    pub name: &'static str,
    /// The value in force.
    pub value: String,
    /// Whether the value is the broker's, not the topic's own.
    pub is_default: bool,
    /// The type of its values.
    pub kind: ConfigKind,
    /// What it does, in a sentence.
    pub documentation: &'static str,
}

/// One change to a setting, as `IncrementalAlterConfigs` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigChange {
    /// The setting's name.
    pub name: String,
    /// What happens to it.
    pub op: ConfigOp,
}

/// What happens to a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigOp {
    /// It gets this value.
    Set(String),
    /// It goes back to the broker's default.
    Delete,
    /// The items of this list are added to it.
    Append(String),
    /// The items of this list are taken out of it.
    Subtract(String),
}

impl TopicConfig {
    /// This configuration with a topic's own settings on top.
    ///
    /// # Errors
    /// A sentence that names the setting that is unknown or whose value does not do.
    pub fn with_overrides(&self, overrides: &BTreeMap<String, String>) -> Result<TopicConfig, String> {
        let mut config = self.clone();
        for (name, value) in overrides {
            definition(name)?.set(&mut config, value)?;
        }
        config.overrides.extend(overrides.clone());
        if config.max_compaction_lag_ms < config.min_compaction_lag_ms {
            return Err(format!(
                "max.compaction.lag.ms ({}) must not be less than min.compaction.lag.ms ({})",
                config.max_compaction_lag_ms, config.min_compaction_lag_ms
            ));
        }
        Ok(config)
    }

    /// The level of `compression.type`, where it has one.
    pub fn compression_level(&self) -> Option<i32> {
        match self.compression? {
            Compression::Gzip => (self.gzip_level >= 0).then_some(self.gzip_level),
            Compression::Lz4 => Some(self.lz4_level),
            Compression::Zstd => Some(self.zstd_level),
            Compression::None | Compression::Snappy => None,
        }
    }

    /// The topic's own settings.
    pub fn overrides(&self) -> &BTreeMap<String, String> {
        &self.overrides
    }

    /// Every setting with the value in force.
    pub fn entries(&self) -> Vec<ConfigEntry> {
        definitions::ALL
            .iter()
            .map(|definition| ConfigEntry {
                name: definition.name,
                value: self.value(definition),
                is_default: !self.overrides.contains_key(definition.name),
                kind: definition.kind,
                documentation: definition.documentation,
            })
            .collect()
    }

    fn value(&self, definition: &Definition) -> String {
        self.overrides.get(definition.name).cloned().unwrap_or_else(|| definition.default.to_owned())
    }

    /// The topic's own settings after `changes`.
    ///
    /// # Errors
    /// As [`TopicConfig::with_overrides`], and for adding to or taking from what is no list.
    pub fn changed(&self, changes: &[ConfigChange]) -> Result<BTreeMap<String, String>, String> {
        let mut overrides = self.overrides.clone();
        for change in changes {
            let definition = definition(&change.name)?;
            match &change.op {
                ConfigOp::Set(value) => {
                    overrides.insert(change.name.clone(), value.clone());
                }
                ConfigOp::Delete => {
                    overrides.remove(&change.name);
                }
                ConfigOp::Append(items) | ConfigOp::Subtract(items) => {
                    if definition.kind != ConfigKind::List {
                        return Err(format!("{} is no list: set it instead of adding or taking out", change.name));
                    }
                    let now = overrides.get(&change.name).map_or(definition.default, String::as_str);
                    let mut list: Vec<&str> = list(now).collect();
                    match &change.op {
                        ConfigOp::Append(_) => list.extend(self::list(items).filter(|item| !now.contains(item))),
                        _ => list.retain(|item| !self::list(items).any(|gone| gone == *item)),
                    }
                    let value = list.join(",");
                    overrides.insert(change.name.clone(), value);
                }
            }
        }
        Ok(overrides)
    }
}

/// The items of a comma-separated text.
pub(super) fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn definition(name: &str) -> Result<&'static Definition, String> {
    let known = definitions::ALL.iter().find(|definition| definition.name == name);
    known.ok_or_else(|| format!("unknown topic config name: {name}"))
}
