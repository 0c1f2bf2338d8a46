//! What a job has written, and how it differs from what it should have.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};

use crate::chaos::input::row;
use crate::kafka::Kafka;

const LIMIT: Duration = Duration::from_secs(60);

/// All values of a topic that somebody sees who reads with this isolation level.
pub fn read_topic(kafka: &Kafka, topic: &str, partitions: i32, isolation: &str) -> Result<Vec<String>, String> {
    let mut config = kafka.client();
    config.set("group.id", "kills-check").set("enable.auto.commit", "false").set("enable.partition.eof", "true");
    config.set("isolation.level", isolation).set("log_level", "0");
    let consumer: BaseConsumer = config.create().map_err(|e| e.to_string())?;
    let mut places = TopicPartitionList::new();
    for partition in 0..partitions {
        places.add_partition_offset(topic, partition, Offset::Beginning).map_err(|e| e.to_string())?;
    }
    consumer.assign(&places).map_err(|e| e.to_string())?;
    let (mut found, mut ended) = (Vec::new(), BTreeSet::new());
    let deadline = Instant::now() + LIMIT;
    while ended.len() < partitions as usize {
        if Instant::now() > deadline {
            return Err(format!("topic {topic} cannot be read to its end"));
        }
        match consumer.poll(Duration::from_secs(1)) {
            Some(Ok(message)) => {
                found.push(String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned());
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => drop(ended.insert(partition)),
            // A broker that has just come back is asked again.
            Some(Err(_)) | None => {}
        }
    }
    Ok(found)
}

/// How rows differ from the expected ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Rows that are not there.
    pub lost: Vec<String>,
    /// Rows that are there more than once.
    pub doubled: Vec<String>,
    /// Rows with other contents.
    pub wrong: Vec<String>,
}

impl Difference {
    /// Between rows as JSON and the expected ones.
    pub fn of(rows: &[String], expected: &BTreeMap<String, String>) -> Result<Difference, String> {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for text in rows {
            let (key, values) = row(text)?;
            found.entry(key).or_default().push(values);
        }
        let mut difference = Difference::default();
        for (key, values) in expected {
            match found.remove(key) {
                None => difference.lost.push(format!("{key}: {values}")),
                Some(all) => {
                    if all.len() > 1 {
                        difference.doubled.push(format!("{key}: {}", all.join(" and ")));
                    }
                    if let Some(other) = all.iter().find(|other| *other != values) {
                        difference.wrong.push(format!("{key}: {other} instead of {values}"));
                    }
                }
            }
        }
        difference.wrong.extend(found.into_iter().map(|(key, all)| format!("{key}: {} unexpectedly", all.join(" "))));
        Ok(difference)
    }

    /// Nothing differs.
    pub fn is_none(&self) -> bool {
        *self == Difference::default()
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, rows) in [("lost", &self.lost), ("doubled", &self.doubled), ("wrong", &self.wrong)] {
            for row in rows.iter().take(10) {
                writeln!(f, "  {what}: {row}")?;
            }
            if rows.len() > 10 {
                writeln!(f, "  {what}: {} more", rows.len() - 10)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_lost_doubled_or_wrong() {
        let json = |key: &str, n: i64| format!(r#"{{"k":"{key}","w":"x","n":{n},"s":0,"lo":0,"hi":0}}"#);
        let expected = ["a", "b", "c"].map(|key| (format!("{key} x"), "n=1 s=0 lo=0 hi=0".to_owned()));
        let rows = [json("a", 1), json("a", 1), json("b", 2), json("z", 1)];
        let found = Difference::of(&rows, &expected.into()).unwrap();
        assert_eq!((found.lost.len(), found.doubled.len(), found.wrong.len()), (1, 1, 2), "{found}");
        assert!(found.lost[0].starts_with("c x") && found.doubled[0].starts_with("a x"), "{found}");
    }
}
