//! The exactly-once sink against each kind of broker: crashes, zombies, other parallelisms and prefixes, an
//! outage. What counts is what a consumer of committed records sees.

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::{Int32Array, RecordBatch, StringArray};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use tempfile::TempDir;
use tidegate_api::audit::{Auditor, Finding, OutputName};
use tidegate_api::config::Configuration;
use tidegate_api::connector::{
    Committable, CommitterContext, ConnectorFactory, Notifier, Sink, SinkCommitter, SinkWriter, TableDescriptor,
    WriterContext,
};
use tidegate_api::metrics::MetricGroup;
use tidegate_api::{Batch, Result};
use tidegate_connectors::kafka::KafkaFactory;
use tidegate_testing::each_broker;
use tidegate_testing::kafka::{self, Kafka, Kind, Settings};
use tidegate_time::SystemClock;

use support::{LIMIT, error_of, table};

each_broker! {
    async
    rows_are_seen_when_their_checkpoint_is_complete,
    no_crash_loses_or_doubles_a_row,
    an_outage_is_waited_for,
    the_end_of_a_job_without_checkpoints_publishes,
    a_timeout_above_the_brokers_is_refused,
    a_snapshot_from_before_a_fork_is_recognised,
    nothing_is_lost_however_long_the_outage,
    a_transaction_that_holds_the_progress_back_is_named,
    what_does_not_fit_is_told_before_a_job_starts,
    the_account_tells_what_was_replayed_and_what_was_there,
}

const PARTITIONS: i32 = 3;

/// What a checkpoint holds of one subtask.
#[derive(Clone, Default)]
struct Kept {
    staged: Vec<Committable>,
    writer: serde_json::Value,
}

/// A job that writes the numbers from 0 on, run by hand.
struct Job {
    bootstrap: String,
    topic: String,
    options: Vec<(&'static str, String)>,
    /// Files of checkpoints.
    store: TempDir,
    checkpoints: u64,
    /// The last complete checkpoint: its subtasks, and the first number that is not in it.
    complete: (Vec<Kept>, i32),
    notices: Arc<Mutex<Vec<String>>>,
    /// What committers found, in order.
    findings: Arc<Mutex<Vec<(OutputName, Finding)>>>,
}

/// One life of a subtask.
struct Subtask {
    writer: Box<dyn SinkWriter>,
    committer: Box<dyn SinkCommitter>,
    staged: Vec<Committable>,
    _staging: TempDir,
}

/// One life of a job.
struct Run {
    subtasks: Vec<Subtask>,
    next: i32,
}

impl Job {
    fn new(kafka: &Kafka, topic: &str) -> Job {
        Job {
            bootstrap: kafka.bootstrap().to_owned(),
            topic: topic.to_owned(),
            options: Vec::new(),
            store: tempfile::tempdir().expect("a folder"),
            checkpoints: 0,
            complete: (Vec::new(), 0),
            notices: Arc::default(),
            findings: Arc::default(),
        }
    }

    fn table(&self, prefix: &str) -> TableDescriptor {
        let prefix = format!("{}-{prefix}", self.topic);
        let mut options =
            vec![("sink.delivery-guarantee", "exactly-once"), ("sink.transactional-id-prefix", prefix.as_str())];
        options.extend(self.options.iter().map(|(key, value)| (*key, value.as_str())));
        table(&self.bootstrap, &self.topic, &options)
    }

    fn sink(&self, prefix: &str) -> Arc<dyn Sink> {
        KafkaFactory.sink(&self.table(prefix), &Configuration::default()).expect("a sink")
    }

    fn committer(&self, sink: &dyn Sink, subtask: usize, parallelism: usize) -> Box<dyn SinkCommitter> {
        let notices = Arc::clone(&self.notices);
        let notices = Notifier::new(move |text| notices.lock().expect("not poisoned").push(text.to_owned()));
        let findings = Arc::clone(&self.findings);
        let audit =
            Auditor::new(move |name, finding| findings.lock().expect("not poisoned").push((name.clone(), finding)));
        let metrics = Arc::new(MetricGroup::default());
        let ctx = CommitterContext { subtask, parallelism, metrics, notices, audit };
        sink.committer(ctx).expect("a committer").expect("one for exactly once")
    }

    /// Goes on from the last complete checkpoint, as the engine does it.
    async fn start(&self, prefix: &str, parallelism: usize) -> Result<Run> {
        let sink = self.sink(prefix);
        let mut subtasks = Vec::new();
        for subtask in 0..parallelism {
            let old = self.complete.0.iter().enumerate().filter(|(index, _)| index % parallelism == subtask);
            let old: Vec<Kept> = old.map(|(_, kept)| kept.clone()).collect();
            let mut committer = self.committer(sink.as_ref(), subtask, parallelism);
            committer.recover(old.iter().flat_map(|kept| kept.staged.clone()).collect()).await?;
            let staging = tempfile::tempdir().expect("a folder");
            let writer = sink.writer(WriterContext {
                subtask,
                parallelism,
                rowtime: None,
                metrics: Arc::new(MetricGroup::default()),
                staging: Some(staging.path().to_owned()),
                restored: old.into_iter().map(|kept| kept.writer).collect(),
                clock: Arc::new(SystemClock::new()),
            })?;
            subtasks.push(Subtask { writer, committer, staged: Vec::new(), _staging: staging });
        }
        Ok(Run { subtasks, next: self.complete.1 })
    }

    /// The barrier in all subtasks; the checkpoint is complete when this is kept in [`Job::complete`].
    async fn barrier(&mut self, run: &mut Run) -> (Vec<Kept>, i32) {
        self.checkpoints += 1;
        let mut kept = Vec::new();
        for subtask in &mut run.subtasks {
            let new = subtask.writer.pre_commit(self.checkpoints).await.expect("staged");
            subtask.staged.extend(new);
            let staged = subtask.staged.iter().map(|c| self.keep(c)).collect();
            kept.push(Kept { staged, writer: subtask.writer.snapshot().expect("a snapshot") });
        }
        (kept, run.next)
    }

    /// Copies a committable's files to where checkpoints are.
    fn keep(&self, committable: &Committable) -> Committable {
        let copy = |path: &PathBuf| {
            let kept = self.store.path().join(path.file_name().expect("a name"));
            if !kept.exists() {
                std::fs::copy(path, &kept).expect("a copy");
            }
            kept
        };
        Committable { files: committable.files.iter().map(copy).collect(), ..committable.clone() }
    }
}

impl Run {
    async fn write(&mut self, count: i32) {
        let parallelism = i32::try_from(self.subtasks.len()).expect("few");
        for (index, subtask) in (0..).zip(&mut self.subtasks) {
            let ids: Vec<i32> = (self.next..self.next + count).filter(|id| id % parallelism == index).collect();
            subtask.writer.write(batch(&ids)).await.expect("staged");
        }
        self.next += count;
    }

    async fn commit(&mut self) -> Result<()> {
        for subtask in &mut self.subtasks {
            subtask.committer.commit(subtask.staged.clone()).await?;
            subtask.staged.clear();
        }
        Ok(())
    }
}

fn batch(ids: &[i32]) -> Batch {
    let schema = table("h:1", "t", &[]).physical.to_arrow();
    let names = StringArray::from(vec!["x"; ids.len()]);
    let columns = RecordBatch::try_new(schema, vec![Arc::new(Int32Array::from(ids.to_vec())), Arc::new(names)]);
    Batch::inserts(columns.expect("columns of the schema"))
}

/// How often each number is in the topic, for who reads committed records only.
fn seen(kafka: &Kafka, topic: &str) -> BTreeMap<i32, usize> {
    let mut config = kafka.client();
    config.set("group.id", "check").set("isolation.level", "read_committed").set("enable.partition.eof", "true");
    let consumer: BaseConsumer = config.create().expect("a consumer");
    let mut list = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        list.add_partition_offset(topic, partition, Offset::Beginning).expect("a place");
    }
    consumer.assign(&list).expect("assigned");
    let (mut counts, mut ended) = (BTreeMap::new(), 0);
    while ended < PARTITIONS {
        match consumer.poll(LIMIT).expect("an answer in time") {
            Ok(message) => {
                let value: serde_json::Value =
                    serde_json::from_slice(message.payload().expect("a value")).expect("JSON");
                let id = value["id"].as_i64().and_then(|id| i32::try_from(id).ok()).expect("an id");
                *counts.entry(id).or_default() += 1;
            }
            Err(KafkaError::PartitionEOF(_)) => ended += 1,
            Err(error) => panic!("{error}"),
        }
    }
    counts
}

fn assert_once(kafka: &Kafka, topic: &str, end: i32) {
    let seen = seen(kafka, topic);
    let lost: Vec<i32> = (0..end).filter(|id| !seen.contains_key(id)).collect();
    let doubled: Vec<&i32> = seen.iter().filter(|(_, count)| **count > 1).map(|(id, _)| id).collect();
    assert!(lost.is_empty() && doubled.is_empty(), "lost {lost:?}, doubled {doubled:?}");
    assert_eq!(seen.len(), usize::try_from(end).expect("positive"), "nothing else was written");
}

async fn rows_are_seen_when_their_checkpoint_is_complete(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = kafka.new_topic("once", PARTITIONS);
    let mut job = Job::new(kafka, &topic);
    let mut run = job.start("a", 1).await.expect("it opens");
    run.write(10).await;
    job.complete = job.barrier(&mut run).await;
    run.write(5).await;
    assert!(seen(kafka, &topic).is_empty(), "nothing is committed yet");
    run.commit().await.expect("committed");
    assert_once(kafka, &topic, 10);
    // An epoch without rows has nothing to commit.
    job.complete = job.barrier(&mut run).await;
    run.commit().await.expect("committed");
    let nothing = job.barrier(&mut run).await;
    assert!(nothing.0[0].staged.is_empty());
    assert_once(kafka, &topic, 15);
}

/// Choices that a seed decides.
struct Choices(u64);

impl Choices {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

async fn no_crash_loses_or_doubles_a_row(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = kafka.new_topic("crashes", PARTITIONS);
    let mut choices = Choices(0x9E37_79B9_7F4A_7C15);
    let mut job = Job::new(kafka, &topic);
    let mut zombies: Vec<Run> = Vec::new();
    let (mut crashes, mut rounds) = (0, 0);
    while crashes < 24 {
        rounds += 1;
        assert!(rounds < 400, "it gets on");
        // A zombie either comes before it is fenced or after.
        if choices.below(2) == 0 {
            wake(&mut zombies).await;
        }
        let prefix = ["a", "b"][choices.below(2) as usize];
        let started = job.start(prefix, 1 + choices.below(3) as usize).await;
        wake(&mut zombies).await;
        // A zombie that was in the middle of its own recovery may have fenced the new run: then that starts again.
        let Ok(mut run) = started else { continue };
        loop {
            run.write(1 + choices.below(60) as i32).await;
            let crash = choices.below(7);
            if crash == 0 {
                break;
            }
            let checkpoint = job.barrier(&mut run).await;
            if crash == 1 {
                break;
            }
            job.complete = checkpoint;
            if crash == 2 {
                zombies.push(run);
                crashes += 1;
                break;
            }
            if crash == 3 {
                // Somewhere in the middle: the outcome is unknown, and a call may still be under way.
                let limit = Duration::from_millis(choices.below(12));
                if tokio::time::timeout(limit, run.commit()).await.is_err() && choices.below(2) == 0 {
                    zombies.push(run);
                }
                crashes += 1;
                break;
            }
            if run.commit().await.is_err() || crash == 4 {
                crashes += 1;
                break;
            }
        }
    }
    wake(&mut zombies).await;
    let mut run = job.start("a", 2).await.expect("it opens");
    run.write(10).await;
    job.complete = job.barrier(&mut run).await;
    run.commit().await.expect("committed");
    assert_once(kafka, &topic, run.next);
}

/// Lets what was given up commit what it believes to be its own.
async fn wake(zombies: &mut Vec<Run>) {
    for mut zombie in zombies.drain(..) {
        // It is fenced or it is not; neither may hurt.
        let _ = zombie.commit().await;
    }
}

async fn an_outage_is_waited_for(kind: Kind) {
    if kind == Kind::Real && kafka::real::available().is_none() {
        return;
    }
    let mut kafka = Kafka::start(kind, Settings::default()).expect("a broker");
    let topic = kafka.new_topic("outage", PARTITIONS);
    let mut job = Job::new(&kafka, &topic);
    let mut run = job.start("a", 1).await.expect("it opens");
    run.write(10).await;
    job.complete = job.barrier(&mut run).await;
    kafka.interrupt();
    let notices = Arc::clone(&job.notices);
    let commit = tokio::spawn(async move {
        run.commit().await.expect("committed");
        run
    });
    let told = async {
        while notices.lock().expect("not poisoned").is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), told).await.expect("a notice");
    assert!(!commit.is_finished());
    kafka.resume().expect("the broker comes back");
    let mut run = tokio::time::timeout(Duration::from_secs(60), commit).await.expect("in time").expect("no panic");
    run.write(10).await;
    job.complete = job.barrier(&mut run).await;
    run.commit().await.expect("committed");
    assert_once(&kafka, &topic, 20);
    let notices = notices.lock().expect("not poisoned").clone();
    assert!(
        notices[0].contains("waits for Kafka") && notices.last().is_some_and(|n| n.contains("again")),
        "{notices:?}"
    );
}

async fn the_end_of_a_job_without_checkpoints_publishes(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = kafka.new_topic("bounded", PARTITIONS);
    let job = Job::new(kafka, &topic);
    let sink = job.sink("a");
    let mut first = job.committer(sink.as_ref(), 0, 1);
    first.recover(Vec::new()).await.expect("it opens");
    let folder = tempfile::tempdir().expect("a folder");
    let ctx = |staging| WriterContext {
        subtask: 0,
        parallelism: 1,
        rowtime: None,
        metrics: Arc::new(MetricGroup::default()),
        staging,
        restored: Vec::new(),
        clock: Arc::new(SystemClock::new()),
    };
    let nowhere = sink.writer(ctx(None)).err().expect("rows must wait somewhere").to_string();
    assert!(nowhere.contains("io.tmp.dirs"), "{nowhere}");
    let mut writer = sink.writer(ctx(Some(folder.path().to_owned()))).expect("it opens");
    writer.write(batch(&[0, 1, 2])).await.expect("staged");
    writer.finish().await.expect("finished");
    let staged = writer.pre_commit(0).await.expect("staged");
    assert!(staged[0].files[0].starts_with(folder.path()));
    // The engine asks for another committer at the end.
    job.committer(sink.as_ref(), 0, 1).commit(staged).await.expect("committed");
    assert_once(kafka, &topic, 3);
}

async fn a_timeout_above_the_brokers_is_refused(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = kafka.new_topic("timeout", PARTITIONS);
    let mut job = Job::new(kafka, &topic);
    job.options.push(("properties.transaction.timeout.ms", "3600000".to_owned()));
    let text = error_of(job.start("a", 1).await.map(|_| ()));
    assert!(text.contains("'3600000'") && text.contains("900000"), "{text}");
    // It is known before the job starts.
    let text = error_of(job.sink("a").preflight(&every("1 s")).map(|_| ()));
    assert!(text.contains("'3600000'") && text.contains("900000"), "{text}");
}

/// The settings of a job that takes checkpoints.
fn every(interval: &str) -> Configuration {
    let mut config = Configuration::default();
    config.set("execution.checkpointing.interval", interval);
    config
}

async fn what_does_not_fit_is_told_before_a_job_starts(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = kafka.new_topic("fits", PARTITIONS);
    let mut job = Job::new(kafka, &topic);
    // A transaction is as long as a segment takes to be written: an interval that is longer does not matter.
    job.options.push(("properties.transaction.timeout.ms", "1000".to_owned()));
    let sink = job.sink("a");
    assert_eq!(sink.preflight(&every("1 min")).expect("allowed"), Vec::<String>::new());
    let warnings = sink.preflight(&every("5 d")).expect("allowed");
    assert!(warnings.len() == 1 && warnings[0].contains("432000000 ms"), "{warnings:?}");
    let warnings = sink.preflight(&Configuration::default()).expect("allowed");
    assert!(warnings.len() == 1 && warnings[0].contains("takes none"), "{warnings:?}");
    // Brokers that are away say nothing against it.
    let mut job = Job::new(kafka, &topic);
    job.bootstrap = "127.0.0.1:1".to_owned();
    assert_eq!(job.sink("a").preflight(&every("1 min")).expect("allowed"), Vec::<String>::new());
}

/// A writer that died in the middle of a transaction: records of it are in the topic, and nothing says any more
/// that it goes on.
fn die_in_a_transaction(kafka: &Kafka, topic: &str, id: &str, timeout_ms: u32) -> BaseProducer {
    let mut config = kafka.client();
    config.set("transactional.id", id).set("transaction.timeout.ms", timeout_ms.to_string());
    let producer: BaseProducer = config.create().expect("a producer");
    producer.init_transactions(LIMIT).expect("initialised");
    producer.begin_transaction().expect("begun");
    for id in 0..4 {
        let text = format!("{{\"id\":{id},\"name\":\"x\"}}");
        producer.send(BaseRecord::<(), str>::to(topic).payload(&text)).map_err(|(e, _)| e).expect("room");
    }
    producer.flush(LIMIT).expect("stored");
    producer
}

/// Behind the last record that readers of this isolation may see, over all partitions.
fn end(kafka: &Kafka, topic: &str, isolation: &str) -> i64 {
    let consumer: BaseConsumer =
        kafka.client().set("group.id", "end").set("isolation.level", isolation).create().expect("a consumer");
    let mut list = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        list.add_partition_offset(topic, partition, Offset::End).expect("a place");
    }
    let answer = consumer.offsets_for_times(list, LIMIT).expect("the broker answers");
    answer.elements().iter().map(|element| element.offset().to_raw().expect("an offset").max(0)).sum()
}

async fn nothing_is_lost_however_long_the_outage(kind: Kind) {
    const TIMEOUT_MS: u32 = 1_500;
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = kafka.new_topic("expired", PARTITIONS);
    let mut job = Job::new(kafka, &topic);
    job.options.push(("properties.transaction.timeout.ms", TIMEOUT_MS.to_string()));
    let mut run = job.start("a", 1).await.expect("it opens");
    run.write(5).await;
    job.complete = job.barrier(&mut run).await;
    run.commit().await.expect("committed");
    run.write(10).await;
    // The checkpoint is complete, and the process dies while it commits.
    job.complete = job.barrier(&mut run).await;
    drop(run);
    let dead = die_in_a_transaction(kafka, &topic, &format!("{topic}-a-0"), TIMEOUT_MS);
    assert!(end(kafka, &topic, "read_committed") < end(kafka, &topic, "read_uncommitted"), "it is open");
    // The outage lasts longer than brokers keep a transaction.
    let gone = tidegate_testing::wait_for(Duration::from_secs(60), || {
        (end(kafka, &topic, "read_committed") == end(kafka, &topic, "read_uncommitted")).then_some(())
    });
    gone.expect("the broker gives the transaction up");
    assert!(dead.commit_transaction(LIMIT).is_err(), "whoever keeps rows in open transactions has lost them");
    assert_once(kafka, &topic, 5);

    let mut run = job.start("a", 1).await.expect("it opens again");
    assert_once(kafka, &topic, 15);
    run.write(5).await;
    job.complete = job.barrier(&mut run).await;
    run.commit().await.expect("committed");
    assert_once(kafka, &topic, 20);
}

async fn a_transaction_that_holds_the_progress_back_is_named(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = kafka.new_topic("held", PARTITIONS);
    let mut job = Job::new(kafka, &topic);
    let mut run = job.start("a", 1).await.expect("it opens");
    run.write(5).await;
    job.complete = job.barrier(&mut run).await;
    run.commit().await.expect("committed");
    drop(run);
    // A transaction that the id does not end when it is opened, as one that Kafka has left half ended.
    let group = format!("eos.{topic}-a-0");
    let other = die_in_a_transaction(kafka, &topic, &format!("{topic}-other"), 60_000);
    let consumer: BaseConsumer = kafka.client().set("group.id", &group).create().expect("a consumer");
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset(&topic, 0, Offset::Offset(1)).expect("a place");
    let metadata = consumer.group_metadata().expect("a group");
    other.send_offsets_to_transaction(&offsets, &metadata, LIMIT).expect("taken");

    let notices = Arc::clone(&job.notices);
    let restart = tokio::spawn(async move { job.start("a", 1).await.map(|run| (job, run)) });
    let told = async {
        while !notices.lock().expect("not poisoned").iter().any(|text| text.contains("holds it back")) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), told).await.unwrap_or_else(|_| panic!("{notices:?}"));
    assert!(!restart.is_finished(), "what is not known is waited for");
    let notices = notices.lock().expect("not poisoned").clone();
    let notice = notices.iter().find(|text| text.contains("holds it back")).expect("it was told");
    for part in [group.as_str(), "find-hanging", "docs/recovery.md"] {
        assert!(notice.contains(part), "no {part} in {notice}");
    }
    other.abort_transaction(LIMIT).expect("aborted");
    let restarted = tokio::time::timeout(Duration::from_secs(60), restart).await.expect("in time").expect("no panic");
    let (mut job, mut run) = restarted.expect("it opens");
    run.write(5).await;
    job.complete = job.barrier(&mut run).await;
    run.commit().await.expect("committed");
    assert_once(kafka, &topic, 10);
}

async fn the_account_tells_what_was_replayed_and_what_was_there(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = kafka.new_topic("account", PARTITIONS);
    let mut job = Job::new(kafka, &topic);
    let mut run = job.start("a", 1).await.expect("it opens");
    run.write(5).await;
    job.complete = job.barrier(&mut run).await;
    let sink = job.sink("a");
    let described = sink.describe(&job.complete.0[0].staged[0]).expect("it is described");
    assert_eq!((described.rows, described.checkpoint), (5, Some(1)));
    assert!(described.bytes.is_some_and(|bytes| bytes > 0));
    let name = |sequence| OutputName::Sequence {
        transactional_id: format!("{topic}-a-0"),
        group: format!("eos.{topic}-a-0"),
        sequence,
    };
    assert_eq!(described.name, name(1));
    // It dies after the commit, which it could not say to anybody any more.
    run.commit().await.expect("committed");
    run.write(5).await;
    let second = job.barrier(&mut run).await;
    drop(run);
    job.complete = (
        vec![Kept {
            staged: [job.complete.0[0].staged.clone(), second.0[0].staged.clone()].concat(),
            ..second.0[0].clone()
        }],
        second.1,
    );
    job.findings.lock().expect("not poisoned").clear();
    let _run = job.start("a", 1).await.expect("it opens");
    let findings = job.findings.lock().expect("not poisoned").clone();
    assert_eq!(findings, [(name(1), Finding::WasThere), (name(2), Finding::Published)]);
    assert_once(kafka, &topic, 10);
}

async fn a_snapshot_from_before_a_fork_is_recognised(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = kafka.new_topic("fork", PARTITIONS);
    let mut job = Job::new(kafka, &topic);
    let mut run = job.start("a", 1).await.expect("it opens");
    run.write(10).await;
    // This snapshot is complete and is put aside; the job goes on from before it.
    let aside = job.barrier(&mut run).await;
    drop(run);
    let mut run = job.start("a", 1).await.expect("it opens");
    run.write(7).await;
    job.complete = job.barrier(&mut run).await;
    run.commit().await.expect("committed");
    drop(run);
    job.complete = aside;
    let text = error_of(job.start("a", 1).await.map(|_| ()));
    assert!(text.contains("was written with other rows") && text.contains("force-recovery"), "{text}");
    assert_once(kafka, &topic, 7);
}
