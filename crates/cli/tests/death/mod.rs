//! Clients that work on while their broker dies and comes back, and remember what they were promised.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidegate_testing::kafka::Kafka;
use tidegate_testing::random::Random;
use tidegate_testing::rdkafka::config::ClientConfig;
use tidegate_testing::rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use tidegate_testing::rdkafka::error::KafkaError;
use tidegate_testing::rdkafka::message::{DeliveryResult, Message};
use tidegate_testing::rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use tidegate_testing::rdkafka::{ClientContext, Offset, TopicPartitionList};
use tidegate_testing::wait_for;

/// The topic of all transactions.
pub const TRANSACTIONS: &str = "transactions";
/// Its partitions.
pub const PARTITIONS: i32 = 3;
/// The topic of records without transactions.
pub const PLAIN: &str = "plain";
/// How long a client may take to do what it wants, kills included.
const LIMIT: Duration = Duration::from_secs(60);
const CALL: Duration = Duration::from_secs(2);

fn client(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("linger.ms", "0").set("log_level", "0");
    // A broker that is back is found at once.
    config.set("reconnect.backoff.ms", "5").set("reconnect.backoff.max.ms", "50");
    config.set("retry.backoff.ms", "20").set("socket.timeout.ms", "10000");
    config
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Committed,
    Aborted,
    /// Nobody said; the group's offset, which is part of the transaction, tells.
    Unclear,
}

/// A producer of numbered transactions. Transaction `n` writes records `id-n-i` and, as the offset of its own
/// group, `n`.
pub struct Transactional {
    bootstrap: String,
    id: u64,
    random: Random,
    producer: BaseProducer,
    /// Never joins; it only names the group of the offsets.
    group: BaseConsumer,
    next: u64,
    /// Each transaction's records and outcome.
    history: BTreeMap<u64, (Vec<String>, Outcome)>,
    unclear: usize,
}

impl Transactional {
    /// Producer `id` of this broker.
    pub fn new(bootstrap: &str, id: u64, random: Random) -> Transactional {
        let producer = initialised(bootstrap, id);
        let group = client(bootstrap).set("group.id", group_of(id)).create().expect("a consumer");
        let (bootstrap, history) = (bootstrap.to_owned(), BTreeMap::new());
        Transactional { bootstrap, id, random, producer, group, next: 1, history, unclear: 0 }
    }

    /// Works until it is done; counts its steps.
    pub fn run(&mut self, steps: &AtomicU64, done: &AtomicBool) {
        while !done.load(Ordering::Relaxed) {
            let n = self.next;
            self.next += 1;
            let records: Vec<String> = (0..=self.random.below(6)).map(|i| format!("{}-{n}-{i}", self.id)).collect();
            let outcome = self.attempt(n, &records, steps);
            self.history.insert(n, (records, outcome));
            if outcome == Outcome::Unclear {
                self.start_over(n);
            }
        }
    }

    fn attempt(&mut self, n: u64, records: &[String], steps: &AtomicU64) -> Outcome {
        let step = || steps.fetch_add(1, Ordering::Relaxed);
        if self.producer.begin_transaction().is_err() {
            return Outcome::Unclear;
        }
        for text in records {
            let partition = i32::try_from(self.random.below(PARTITIONS as u64)).expect("small");
            let record = BaseRecord::<(), str>::to(TRANSACTIONS).partition(partition).payload(text);
            if self.producer.send(record).is_err() {
                return Outcome::Unclear;
            }
            // Some go out one by one, some together.
            if self.random.below(3) == 0 {
                let _ = self.producer.flush(CALL);
                step();
            }
        }
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(TRANSACTIONS, 0, Offset::Offset(n as i64)).expect("a place");
        let metadata = self.group.group_metadata().expect("it has a group");
        if !self.until_sure(|p| p.send_offsets_to_transaction(&offsets, &metadata, CALL)) {
            return self.abort();
        }
        step();
        if self.random.below(5) == 0 {
            return self.abort();
        }
        let outcome = match self.until_sure(|p| p.commit_transaction(CALL)) {
            true => Outcome::Committed,
            false => self.abort(),
        };
        step();
        outcome
    }

    /// Aborts; whether that has taken place is unclear if the broker refuses, as it does after a commit.
    fn abort(&self) -> Outcome {
        match self.until_sure(|p| p.abort_transaction(CALL)) {
            true => Outcome::Aborted,
            false => Outcome::Unclear,
        }
    }

    /// Repeats a call as long as its errors say it may be repeated.
    fn until_sure(&self, call: impl Fn(&BaseProducer) -> Result<(), KafkaError>) -> bool {
        let end = Instant::now() + LIMIT;
        loop {
            // The client's own wait for reports does not end unless somebody takes them.
            let _ = self.producer.flush(CALL);
            match call(&self.producer) {
                Ok(()) => return true,
                Err(KafkaError::Transaction(error)) if error.is_retriable() && Instant::now() < end => {}
                Err(_) => return false,
            }
        }
    }

    /// A new producer of the same name ends what the old one left; then the group's offset is the truth.
    fn start_over(&mut self, n: u64) {
        self.producer = initialised(&self.bootstrap, self.id);
        let last = committed(&self.bootstrap, &group_of(self.id), TRANSACTIONS);
        let (_, outcome) = self.history.get_mut(&n).expect("it was just entered");
        *outcome = if last == Some(n as i64) { Outcome::Committed } else { Outcome::Aborted };
        self.unclear += 1;
    }
}

fn group_of(id: u64) -> String {
    format!("group-{id}")
}

fn initialised(bootstrap: &str, id: u64) -> BaseProducer {
    let mut config = client(bootstrap);
    config.set("transactional.id", format!("producer-{id}")).set("transaction.timeout.ms", "60000");
    let ready = wait_for(LIMIT, || {
        let producer: BaseProducer = config.create().expect("a producer");
        producer.init_transactions(CALL).ok().map(|()| producer)
    });
    ready.expect("the coordinator is back in time")
}

/// A group's committed offset of partition 0 of a topic.
fn committed(bootstrap: &str, group: &str, topic: &str) -> Option<i64> {
    let consumer: BaseConsumer = client(bootstrap).set("group.id", group).create().expect("a consumer");
    let mut wanted = TopicPartitionList::new();
    wanted.add_partition(topic, 0);
    let answer = wait_for(LIMIT, || consumer.committed_offsets(wanted.clone(), CALL).ok());
    answer.expect("the coordinator answers").elements()[0].offset().to_raw().filter(|offset| *offset >= 0)
}

/// All records of a topic that `isolation` shows, in order of partition and offset.
fn read(kafka: &Kafka, topic: &str, partitions: i32, isolation: &str) -> Vec<String> {
    let mut config = kafka.client();
    config.set("group.id", "reader").set("isolation.level", isolation).set("enable.partition.eof", "true");
    config.set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.create().expect("a consumer");
    let mut places = TopicPartitionList::new();
    for partition in 0..partitions {
        places.add_partition_offset(topic, partition, Offset::Beginning).expect("a place");
    }
    consumer.assign(&places).expect("assigned");
    let (mut found, mut ended) = (Vec::new(), BTreeSet::new());
    while ended.len() < partitions as usize {
        match consumer.poll(LIMIT).expect("something comes in time") {
            Ok(message) => {
                let text = String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned();
                found.push((message.partition(), message.offset(), text));
            }
            Err(KafkaError::PartitionEOF(partition)) => {
                ended.insert(partition);
            }
            Err(e) => panic!("{topic} cannot be read: {e}"),
        }
    }
    found.sort();
    found.into_iter().map(|(_, _, text)| text).collect()
}

/// Holds what readers see against what the producers were told; returns how many transactions were committed
/// and how many outcomes had to be asked for.
pub fn check_transactions(kafka: &Kafka, producers: &[Transactional]) -> (usize, usize) {
    let mut expected = Vec::new();
    let (mut committed, mut unclear) = (0, 0);
    for producer in producers {
        for (records, outcome) in producer.history.values() {
            assert_ne!(*outcome, Outcome::Unclear);
            if *outcome == Outcome::Committed {
                committed += 1;
                expected.extend(records.iter().cloned());
            }
        }
        unclear += producer.unclear;
        let last = producer.history.iter().filter(|(_, (_, o))| *o == Outcome::Committed).map(|(n, _)| *n as i64);
        assert_eq!(self::committed(kafka.bootstrap(), &group_of(producer.id), TRANSACTIONS), last.max());
    }
    // All producers have ended their transactions, so readers of committed records reach the end.
    let mut shown = read(kafka, TRANSACTIONS, PARTITIONS, "read_committed");
    shown.sort();
    expected.sort();
    let lost: Vec<&String> = expected.iter().filter(|text| shown.binary_search(text).is_err()).collect();
    let wrong: Vec<&String> = shown.iter().filter(|text| expected.binary_search(text).is_err()).collect();
    assert!(lost.is_empty() && wrong.is_empty(), "lost: {lost:?}; shown though aborted: {wrong:?}");
    assert_eq!(shown, expected, "each once");
    (committed, unclear)
}

/// Remembers which records were stored.
#[derive(Default)]
struct Stored(AtomicU64);

impl ClientContext for Stored {}

impl ProducerContext for Stored {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if result.is_ok() {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// An idempotent producer of numbered records; all of them must be stored in the end.
pub struct Plain {
    sent: u64,
    stored: u64,
}

impl Plain {
    /// Sends until it is done, then waits until all are stored.
    pub fn run(bootstrap: &str, done: &AtomicBool) -> Plain {
        let mut config = client(bootstrap);
        config.set("enable.idempotence", "true").set("message.timeout.ms", "120000");
        let producer: BaseProducer<Stored> = config.create_with_context(Stored::default()).expect("a producer");
        let mut sent = 0;
        while !done.load(Ordering::Relaxed) {
            let text = sent.to_string();
            producer
                .send(BaseRecord::<(), str>::to(PLAIN).partition(0).payload(&text))
                .map_err(|(e, _)| e)
                .expect("room");
            sent += 1;
            // At most a few are on their way, as many as the broker must remember to tell repeats apart.
            let stored = wait_for(LIMIT, || {
                producer.poll(Duration::from_millis(1));
                (producer.context().0.load(Ordering::Relaxed) + 8 > sent).then_some(())
            });
            stored.expect("records are stored in time");
        }
        producer.flush(LIMIT).expect("all are stored in time");
        let stored = producer.context().0.load(Ordering::Relaxed);
        Plain { sent, stored }
    }

    /// Every record once and in order; returns how many.
    pub fn check(&self, kafka: &Kafka) -> u64 {
        assert_eq!(self.stored, self.sent);
        let expected: Vec<String> = (0..self.sent).map(|n| n.to_string()).collect();
        let found = read(kafka, PLAIN, 1, "read_uncommitted");
        let first_difference = found.iter().zip(&expected).position(|(f, e)| f != e);
        assert_eq!((found.len(), first_difference), (expected.len(), None));
        self.sent
    }
}

/// A group that commits 1, 2, 3...
pub struct Committer {
    acknowledged: i64,
    tried: i64,
}

impl Committer {
    const GROUP: &str = "committer";

    /// Commits until it is done.
    pub fn run(bootstrap: &str, done: &AtomicBool) -> Committer {
        let consumer: BaseConsumer = client(bootstrap).set("group.id", Self::GROUP).create().expect("a consumer");
        let mut made = Committer { acknowledged: 0, tried: 0 };
        while !done.load(Ordering::Relaxed) {
            made.tried += 1;
            let mut places = TopicPartitionList::new();
            places.add_partition_offset(PLAIN, 0, Offset::Offset(made.tried)).expect("a place");
            if consumer.commit(&places, CommitMode::Sync).is_ok() {
                made.acknowledged = made.tried;
            }
        }
        made
    }

    /// The last offset is one that was acknowledged or tried after that; returns it.
    pub fn check(&self, kafka: &Kafka) -> i64 {
        let found = committed(kafka.bootstrap(), Self::GROUP, PLAIN).expect("an offset");
        assert!((self.acknowledged..=self.tried).contains(&found), "{found} of {}..={}", self.acknowledged, self.tried);
        found
    }
}
