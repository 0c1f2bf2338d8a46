//! The topics: what exists, how it is configured, and the logs of its partitions.
//!
//! The catalogue is a journal; what the journal does not say does not exist. Folders of partitions are made
//! before a topic is written down and removed after it is struck out, so whatever moment a process dies at, a
//! start finds at worst a folder too many, and removes it.

mod config;
mod definitions;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use kafka_protocol::ResponseError;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::journal::Journal;
use crate::log::{Cleaned, PartitionLog};

pub use config::{ConfigChange, ConfigEntry, ConfigOp, TopicConfig};
pub use definitions::ConfigKind;

/// Longest name of a topic: a folder's name less room for the partition's number.
const NAME_MAX: usize = 249;
/// Most partitions of a topic, as many as Kafka makes at a time.
const PARTITIONS_MAX: i32 = 10_000;
/// Journal entries that may lie around before the journal is written anew.
const JOURNAL_SLACK: usize = 1000;

/// A topic at one moment; changing it makes a new one that shares the logs.
#[derive(Debug)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its id, never used again.
    pub id: Uuid,
    /// Its configuration.
    pub config: Arc<TopicConfig>,
    /// Its partitions, by number.
    pub partitions: Vec<Arc<PartitionLog>>,
}

/// Why a topic is not made or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Kafka's code.
    pub error: ResponseError,
    /// A sentence for the user.
    pub message: String,
}

impl From<Refusal> for ResponseError {
    fn from(refusal: Refusal) -> Self {
        refusal.error
    }
}

/// An entry of the catalogue's journal.
#[derive(Clone, Debug, Deserialize, Serialize)]
enum Change {
    Create { name: String, id: Uuid, partitions: i32, configs: BTreeMap<String, String> },
    Delete { name: String },
    Partitions { name: String, total: i32 },
    Configs { name: String, configs: BTreeMap<String, String> },
}

/// The catalogue.
#[derive(Debug)]
pub struct Topics {
    folder: PathBuf,
    defaults: TopicConfig,
    topics: RwLock<BTreeMap<String, Arc<Topic>>>,
    /// Held by whoever changes the catalogue, from the check to the last folder.
    journal: Mutex<Journal<Change>>,
}

/// A topic as the journal describes it.
struct Described {
    id: Uuid,
    partitions: i32,
    configs: BTreeMap<String, String>,
}

impl Topics {
    /// Opens the catalogue in `data` and the logs of all partitions.
    ///
    /// # Errors
    /// Trouble of the disk, and `InvalidData` for damage.
    pub fn open(data: &Path, defaults: TopicConfig, now_ms: i64) -> io::Result<Topics> {
        let folder = data.join("topics");
        fs::create_dir_all(&folder)?;
        let (journal, changes) = Journal::open(&data.join("topics.journal"))?;
        let described = described(changes);
        remove_unknown_folders(&folder, &described)?;
        let mut topics = BTreeMap::new();
        for (name, topic) in described {
            let config = defaults.with_overrides(&topic.configs).map_err(|message| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("the topic {name} has a setting that is refused: {message}"),
                )
            })?;
            let config = Arc::new(config);
            let partitions = open_partitions(&folder, &name, 0..topic.partitions, &config, now_ms)?;
            topics.insert(name.clone(), Arc::new(Topic { name, id: topic.id, config, partitions }));
        }
        Ok(Topics { folder, defaults, topics: RwLock::new(topics), journal: Mutex::new(journal) })
    }

    /// The topic of this name.
    pub fn get(&self, name: &str) -> Option<Arc<Topic>> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The topic with this id.
    pub fn by_id(&self, id: Uuid) -> Option<Arc<Topic>> {
        let topics = self.topics.read().unwrap_or_else(PoisonError::into_inner);
        topics.values().find(|topic| topic.id == id).cloned()
    }

    /// All names, in order.
    pub fn names(&self) -> Vec<String> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// All topics, by name.
    pub fn all(&self) -> Vec<Arc<Topic>> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Makes a topic.
    ///
    /// # Errors
    /// As [`Topics::validate_create`], and `KAFKA_STORAGE_ERROR`.
    pub fn create(
        &self,
        name: &str,
        partitions: i32,
        configs: &BTreeMap<String, String>,
        now_ms: i64,
    ) -> Result<Arc<Topic>, Refusal> {
        let mut journal = self.journal();
        let config = Arc::new(self.validate_create(name, partitions, configs)?);
        let id = Uuid::new_v4();
        let made = open_partitions(&self.folder, name, 0..partitions, &config, now_ms).and_then(|partitions_made| {
            journal.append(&Change::Create { name: name.into(), id, partitions, configs: configs.clone() })?;
            Ok(partitions_made)
        });
        let partitions = made.map_err(|error| storage(name, &error))?;
        let topic = Arc::new(Topic { name: name.into(), id, config, partitions });
        self.put(Arc::clone(&topic));
        Ok(topic)
    }

    /// Checks whether a topic could be made; returns the configuration it would have.
    ///
    /// # Errors
    /// `INVALID_TOPIC_EXCEPTION`, `TOPIC_ALREADY_EXISTS`, `INVALID_PARTITIONS`, `INVALID_CONFIG`.
    pub fn validate_create(
        &self,
        name: &str,
        partitions: i32,
        configs: &BTreeMap<String, String>,
    ) -> Result<TopicConfig, Refusal> {
        check_name(name).map_err(|message| refuse(ResponseError::InvalidTopicException, message))?;
        if self.get(name).is_some() {
            return Err(refuse(ResponseError::TopicAlreadyExists, format!("Topic '{name}' already exists.")));
        }
        // Kafka's metrics write both signs as one, so it refuses names that differ in nothing else.
        let flat = |name: &str| name.replace('.', "_");
        if let Some(other) = self.names().into_iter().find(|other| flat(other) == flat(name)) {
            let message = format!("Topic '{name}' collides with existing topic: {other}");
            return Err(refuse(ResponseError::InvalidTopicException, message));
        }
        check_partitions(partitions)?;
        self.defaults.with_overrides(configs).map_err(|message| refuse(ResponseError::InvalidConfig, message))
    }

    /// Removes a topic and its records.
    ///
    /// # Errors
    /// `UNKNOWN_TOPIC_OR_PARTITION`, `KAFKA_STORAGE_ERROR`.
    pub fn delete(&self, name: &str) -> Result<(), Refusal> {
        let mut journal = self.journal();
        let topic = self.existing(name)?;
        journal.append(&Change::Delete { name: name.into() }).map_err(|error| storage(name, &error))?;
        self.topics.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        for partition in &topic.partitions {
            partition.delete().map_err(|error| storage(name, &error))?;
        }
        self.shorten(&mut journal).map_err(|error| storage(name, &error))
    }

    /// Adds partitions until there are `total`.
    ///
    /// # Errors
    /// `UNKNOWN_TOPIC_OR_PARTITION`, `INVALID_PARTITIONS`, `KAFKA_STORAGE_ERROR`.
    pub fn add_partitions(&self, name: &str, total: i32, now_ms: i64) -> Result<Arc<Topic>, Refusal> {
        let mut journal = self.journal();
        let topic = self.validate_add_partitions(name, total)?;
        let have = topic.partitions.len() as i32;
        let made = open_partitions(&self.folder, name, have..total, &topic.config, now_ms).and_then(|made| {
            journal.append(&Change::Partitions { name: name.into(), total })?;
            Ok(made)
        });
        let mut partitions = topic.partitions.clone();
        partitions.extend(made.map_err(|error| storage(name, &error))?);
        let config = Arc::clone(&topic.config);
        let topic = Arc::new(Topic { name: name.into(), id: topic.id, config, partitions });
        self.put(Arc::clone(&topic));
        Ok(topic)
    }

    /// Checks whether partitions could be added; returns the topic as it is.
    ///
    /// # Errors
    /// `UNKNOWN_TOPIC_OR_PARTITION`, `INVALID_PARTITIONS`.
    pub fn validate_add_partitions(&self, name: &str, total: i32) -> Result<Arc<Topic>, Refusal> {
        let topic = self.existing(name)?;
        let have = topic.partitions.len() as i32;
        if total <= have {
            let relation = if total == have { "already has" } else { "currently has" };
            let message = format!("The topic {name} {relation} {have} partition(s); {total} would not be an increase.");
            return Err(refuse(ResponseError::InvalidPartitions, message));
        }
        check_partitions(total)?;
        Ok(topic)
    }

    /// Every setting of a topic.
    pub fn configs(&self, name: &str) -> Option<Vec<ConfigEntry>> {
        self.get(name).map(|topic| topic.config.entries())
    }

    /// Changes settings one by one.
    ///
    /// # Errors
    /// `UNKNOWN_TOPIC_OR_PARTITION`, `INVALID_CONFIG`, `KAFKA_STORAGE_ERROR`.
    pub fn set_configs(&self, name: &str, changes: Vec<ConfigChange>, validate_only: bool) -> Result<(), Refusal> {
        let mut journal = self.journal();
        let topic = self.existing(name)?;
        let configs =
            topic.config.changed(&changes).map_err(|message| refuse(ResponseError::InvalidConfig, message))?;
        self.configure(&mut journal, &topic, configs, validate_only)
    }

    /// Replaces all of a topic's own settings, as `AlterConfigs` does.
    ///
    /// # Errors
    /// As [`Topics::set_configs`].
    pub fn replace_configs(
        &self,
        name: &str,
        configs: &BTreeMap<String, String>,
        validate_only: bool,
    ) -> Result<(), Refusal> {
        let mut journal = self.journal();
        let topic = self.existing(name)?;
        self.configure(&mut journal, &topic, configs.clone(), validate_only)
    }

    /// Runs retention and compaction in every partition; trouble with one does not keep the others from it.
    ///
    /// # Errors
    /// The first trouble there was, with the partition's name.
    pub fn clean_all(&self, now_ms: i64) -> io::Result<Cleaned> {
        let mut total = Cleaned::default();
        let mut trouble = None;
        for topic in self.all() {
            for (number, partition) in topic.partitions.iter().enumerate() {
                match partition.clean(now_ms) {
                    Ok(cleaned) => total.add(cleaned),
                    Err(error) => {
                        let text = format!("cleaning {}-{number}: {error}", topic.name);
                        trouble.get_or_insert(io::Error::new(error.kind(), text));
                    }
                }
            }
        }
        trouble.map_or(Ok(total), Err)
    }

    fn configure(
        &self,
        journal: &mut Journal<Change>,
        topic: &Topic,
        configs: BTreeMap<String, String>,
        validate_only: bool,
    ) -> Result<(), Refusal> {
        let config = self.defaults.with_overrides(&configs);
        let config = Arc::new(config.map_err(|message| refuse(ResponseError::InvalidConfig, message))?);
        if validate_only {
            return Ok(());
        }
        let written = journal.append(&Change::Configs { name: topic.name.clone(), configs });
        written.map_err(|error| storage(&topic.name, &error))?;
        for partition in &topic.partitions {
            partition.reconfigure(Arc::clone(&config));
        }
        let partitions = topic.partitions.clone();
        self.put(Arc::new(Topic { name: topic.name.clone(), id: topic.id, config, partitions }));
        self.shorten(journal).map_err(|error| storage(&topic.name, &error))
    }

    fn existing(&self, name: &str) -> Result<Arc<Topic>, Refusal> {
        self.get(name).ok_or_else(|| {
            refuse(ResponseError::UnknownTopicOrPartition, format!("The topic '{name}' does not exist."))
        })
    }

    fn put(&self, topic: Arc<Topic>) {
        self.topics.write().unwrap_or_else(PoisonError::into_inner).insert(topic.name.clone(), topic);
    }

    fn journal(&self) -> MutexGuard<'_, Journal<Change>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shorten(&self, journal: &mut Journal<Change>) -> io::Result<()> {
        let topics = self.all();
        if journal.len() < 2 * topics.len() + JOURNAL_SLACK {
            return Ok(());
        }
        journal.rewrite(topics.iter().map(|topic| Change::Create {
            name: topic.name.clone(),
            id: topic.id,
            partitions: topic.partitions.len() as i32,
            configs: topic.config.overrides().clone(),
        }))
    }
}

/// The topics after all changes.
fn described(changes: Vec<Change>) -> BTreeMap<String, Described> {
    let mut topics = BTreeMap::new();
    for change in changes {
        match change {
            Change::Create { name, id, partitions, configs } => {
                topics.insert(name, Described { id, partitions, configs });
            }
            Change::Delete { name } => {
                topics.remove(&name);
            }
            Change::Partitions { name, total } => {
                topics.entry(name).and_modify(|topic| topic.partitions = total);
            }
            Change::Configs { name, configs } => {
                topics.entry(name).and_modify(|topic| topic.configs = configs);
            }
        }
    }
    topics
}

fn open_partitions(
    folder: &Path,
    topic: &str,
    numbers: std::ops::Range<i32>,
    config: &Arc<TopicConfig>,
    now_ms: i64,
) -> io::Result<Vec<Arc<PartitionLog>>> {
    let open = |number| PartitionLog::open(&folder.join(partition_folder(topic, number)), Arc::clone(config), now_ms);
    numbers.map(|number| open(number).map(Arc::new)).collect()
}

fn partition_folder(topic: &str, number: i32) -> String {
    format!("{topic}-{number}")
}

fn remove_unknown_folders(folder: &Path, topics: &BTreeMap<String, Described>) -> io::Result<()> {
    let known: BTreeSet<String> = topics
        .iter()
        .flat_map(|(name, topic)| (0..topic.partitions).map(move |number| partition_folder(name, number)))
        .collect();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !known.contains(entry.file_name().to_string_lossy().as_ref()) && entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Source: Kafka's `Topic.validate`.
fn check_name(name: &str) -> Result<(), String> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() {
        Err("Topic name is invalid: the empty string is not allowed".to_owned())
    } else if name == "." || name == ".." {
        Err("Topic name is invalid: '.' or '..' is not allowed".to_owned())
    } else if name.len() > NAME_MAX {
        Err(format!("Topic name is invalid: the length of '{name}' is longer than the max allowed length {NAME_MAX}"))
    } else if !name.bytes().all(legal) {
        Err(format!(
            "Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        ))
    } else {
        Ok(())
    }
}

fn check_partitions(partitions: i32) -> Result<(), Refusal> {
    if (1..=PARTITIONS_MAX).contains(&partitions) {
        return Ok(());
    }
    let message = format!("Number of partitions was set to {partitions}; it must be from 1 to {PARTITIONS_MAX}.");
    Err(refuse(ResponseError::InvalidPartitions, message))
}

fn refuse(error: ResponseError, message: String) -> Refusal {
    Refusal { error, message }
}

fn storage(topic: &str, error: &io::Error) -> Refusal {
    refuse(ResponseError::KafkaStorageError, format!("the disk refused a change of topic {topic}: {error}"))
}
