//! Topics and records of the test broker.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::executor::block_on;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::kafka::Kafka;

impl Kafka {
    /// Settings of a client of this broker.
    pub fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.bootstrap());
        config
    }

    /// Makes a topic of this name; panics if it cannot.
    pub fn create_topic(&self, name: &str, partitions: i32) {
        let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        let made = block_on(self.admin().create_topics([&topic], &AdminOptions::new())).expect("the broker answers");
        for result in made {
            result.unwrap_or_else(|(name, code)| panic!("topic {name} could not be made: {code}"));
        }
    }

    /// A name that nothing else on this broker has: `<stem>-<process>-<n>`.
    pub fn new_name(&self, stem: &str) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("{stem}-{}-{n}", std::process::id())
    }

    /// Makes a topic with a name of its own and returns the name.
    pub fn new_topic(&self, stem: &str, partitions: i32) -> String {
        let name = self.new_name(stem);
        self.create_topic(&name, partitions);
        name
    }

    /// Gives a topic more partitions: `total` of them.
    pub fn add_partitions(&self, topic: &str, total: usize) {
        let request = NewPartitions::new(topic, total);
        let made =
            block_on(self.admin().create_partitions([&request], &AdminOptions::new())).expect("the broker answers");
        for result in made {
            result.unwrap_or_else(|(name, code)| panic!("partitions of {name} could not be made: {code}"));
        }
    }

    /// Sends messages (`None` is a tombstone) to a partition and waits until they are stored.
    pub fn send(&self, topic: &str, partition: i32, messages: &[Option<&str>]) {
        let producer: BaseProducer = self.client().set("linger.ms", "0").create().expect("a producer");
        for message in messages {
            let mut record = BaseRecord::<(), str>::to(topic).partition(partition);
            if let Some(text) = message {
                record = record.payload(*text);
            }
            producer.send(record).map_err(|(e, _)| e).expect("the queue has room");
        }
        producer.flush(Duration::from_secs(20)).expect("the broker takes the messages");
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.client().create().expect("an admin client")
    }
}
