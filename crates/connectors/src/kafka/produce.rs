//! A small producer for who makes events instead of running a job: the demo.
//!
//! It puts each record into the partition it is told, and says when all of them are acknowledged, so the
//! caller knows exactly what a topic holds.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::{FutureProducer, FutureRecord};
use tidegate_api::{Error, Result};

use super::client::Health;

/// How long the brokers may take for an answer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// One record to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it goes.
    pub partition: i32,
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
}

/// Makes topics and fills them.
pub struct Producer {
    client: FutureProducer<Health>,
    admin: AdminClient<Health>,
    bootstrap: String,
}

impl Producer {
    /// A producer for these brokers (`host:port`, separated by commas). Connects at its first use; must be
    /// called in an asynchronous program.
    pub fn new(bootstrap: &str) -> Result<Producer> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", bootstrap);
        config.set("client.id", "tidegate-demo");
        let refused = |e| Error::invalid(format!("Kafka's client refuses '{bootstrap}': {e}"));
        let admin = AdminClient::from_config_and_context(&config, Health::default()).map_err(refused)?;
        config.set("enable.idempotence", "true");
        // Every few milliseconds there is something to send; waiting for more would only delay it.
        config.set("linger.ms", "1");
        config.set("message.timeout.ms", TIMEOUT.as_millis().to_string());
        let client = FutureProducer::from_config_and_context(&config, Health::default()).map_err(refused)?;
        Ok(Producer { client, admin, bootstrap: bootstrap.to_owned() })
    }

    /// Makes a topic, which must not exist yet.
    pub async fn create_topic(&self, topic: &str, partitions: i32) -> Result<()> {
        let wanted = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        let options = AdminOptions::new().request_timeout(Some(TIMEOUT)).operation_timeout(Some(TIMEOUT));
        let failed = |why: String| {
            Error::job(format!("Topic '{topic}' cannot be made on Kafka at '{}': {why}.", self.bootstrap))
        };
        // The client says only that time is over; why is what the network said before.
        let reason = || self.admin.inner().context().last_error();
        let answers = self.admin.create_topics([&wanted], &options).await;
        let answers = answers.map_err(|e| failed(reason().unwrap_or_else(|| e.to_string())))?;
        match answers.into_iter().next() {
            Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Err(failed("it exists already".into())),
            Some(Err((_, code))) => Err(failed(code.to_string())),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// Removes a topic.
    pub async fn delete_topic(&self, topic: &str) -> Result<()> {
        let options = AdminOptions::new().request_timeout(Some(TIMEOUT)).operation_timeout(Some(TIMEOUT));
        let failed = |why: String| {
            Error::job(format!("Topic '{topic}' cannot be removed from Kafka at '{}': {why}.", self.bootstrap))
        };
        let answers = self.admin.delete_topics(&[topic], &options).await.map_err(|e| failed(e.to_string()))?;
        match answers.into_iter().next() {
            Some(Err((_, code))) => Err(failed(code.to_string())),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// Sends records and waits until the brokers have acknowledged all of them. Records of one partition
    /// keep their order.
    pub async fn send(&self, topic: &str, records: &[Record]) -> Result<()> {
        // Each is in the client's queue before the next is; only the acknowledgements are waited for together.
        let mut sent = Vec::with_capacity(records.len());
        for record in records {
            let record = FutureRecord::to(topic).partition(record.partition).key(&record.key).payload(&record.value);
            let queued = self.client.send_result(record).map_err(|(e, _)| self.failed(topic, &e.to_string()))?;
            sent.push(queued);
        }
        for acknowledged in sent {
            match acknowledged.await {
                Ok(Ok(_)) => {}
                Ok(Err((e, _))) => return Err(self.failed(topic, &e.to_string())),
                Err(_) => return Err(self.failed(topic, "the client was shut down")),
            }
        }
        Ok(())
    }

    fn failed(&self, topic: &str, why: &str) -> Error {
        Error::job(format!("A record cannot be sent to topic '{topic}' of Kafka at '{}': {why}.", self.bootstrap))
    }
}
