//! The Kafka source against each kind of broker.

mod support;

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use tidegate_api::connector::SourceEvent;
use tidegate_testing::each_broker;
use tidegate_testing::kafka::{self, Kafka, Kind, Settings};

use support::{Reading, error_of, read_all, table, with_metadata};

each_broker! {
    async
    a_bounded_read_gives_every_row_once_and_ends,
    an_empty_bounded_topic_ends_at_once,
    startup_modes,
    timestamps_start_and_end_a_read,
    bounded_modes,
    an_unbounded_read_goes_on_and_says_when_there_is_nothing,
    a_busy_partition_does_not_hide_a_quiet_one,
    new_partitions_are_read_from_their_beginning,
    a_pattern_takes_whole_names,
    metadata_columns,
    blanks_and_tombstones_are_no_rows_but_counted,
    a_bad_record_fails_after_the_rows_before_it_and_says_where,
    keys_are_read_beside_values,
    aborted_and_control_records_do_not_show_and_do_not_block,
    a_missing_topic_is_named,
    a_lost_broker_is_not_silence_and_reading_goes_on_when_it_is_back,
    offsets_of_complete_checkpoints_are_committed,
}

const BOUNDED: (&str, &str) = ("scan.bounded.mode", "latest-offset");

/// A topic with rows `p*10 .. p*10 + n` in each partition p.
fn filled(kafka: &Kafka, stem: &str, partitions: i32, n: i32) -> String {
    let topic = kafka.new_topic(stem, partitions);
    for p in 0..partitions {
        let messages: Vec<String> = (0..n).map(|i| format!("{{\"id\":{},\"name\":\"r{i}\"}}", p * 10 + i)).collect();
        let messages: Vec<Option<&str>> = messages.iter().map(|m| Some(m.as_str())).collect();
        kafka.send(&topic, p, &messages);
    }
    topic
}

fn commit(kafka: &Kafka, group: &str, topic: &str, partition: i32, offset: i64) {
    let consumer: BaseConsumer = kafka.client().set("group.id", group).create().expect("a consumer");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Offset(offset)).expect("a place");
    consumer.commit(&list, CommitMode::Sync).expect("the group takes it");
}

/// What the group has committed of each partition; -1 for nothing.
fn group_offsets(kafka: &Kafka, group: &str, topic: &str, partitions: i32) -> Vec<i64> {
    let consumer: BaseConsumer = kafka.client().set("group.id", group).create().expect("a consumer");
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition(topic, partition);
    }
    let answer = consumer.committed_offsets(list, Duration::from_secs(10)).expect("the group answers");
    let offset = |offset| if let Offset::Offset(n) = offset { n } else { -1 };
    answer.elements().iter().map(|element| offset(element.offset())).collect()
}

async fn offsets_of_complete_checkpoints_are_committed(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = filled(kafka, "commits", 2, 3);
    let group = format!("group-{topic}");
    let options = [("properties.group.id", group.as_str())];
    let mut reading = Reading::start(&table(kafka.bootstrap(), &topic, &options)).await.expect("it opens");
    reading.take(6).await.expect("it reads");
    reading.reader.snapshot_taken(1);
    kafka.send(&topic, 1, &[Some("{\"id\":20}")]);
    reading.take(7).await.expect("it reads");
    reading.reader.snapshot_taken(2);
    assert_eq!(group_offsets(kafka, &group, &topic, 2), [-1, -1], "a barrier is no checkpoint yet");
    for (checkpoint, expected) in [(1, [3, 3]), (2, [3, 4])] {
        reading.reader.snapshot_completed(checkpoint);
        let reached = async {
            while reading.metric("commitsSucceeded") < checkpoint as i64 {
                reading.step().await.expect("it goes on");
            }
        };
        tokio::time::timeout(support::LIMIT, reached).await.expect("the broker answers");
        assert_eq!(group_offsets(kafka, &group, &topic, 2), expected);
    }
    let shown = format!("KafkaSourceReader.topic.{topic}.partition.1.committedOffset");
    assert_eq!((reading.metric(&shown), reading.metric("commitsFailed")), (4, 0));
    // One that was not taken, or not completed in turn, commits nothing of what is not known to be complete.
    kafka.send(&topic, 0, &[Some("{\"id\":21}")]);
    reading.take(8).await.expect("it reads");
    reading.reader.snapshot_taken(3);
    reading.reader.snapshot_completed(9);
    reading.until_quiet().await.expect("it is quiet");
    assert_eq!(group_offsets(kafka, &group, &topic, 2), [3, 4]);

    // A table that does not want it.
    let silent = format!("silent-{topic}");
    let options = [("properties.group.id", silent.as_str()), ("properties.commit.offsets.on.checkpoint", "false")];
    let mut reading = Reading::start(&table(kafka.bootstrap(), &topic, &options)).await.expect("it opens");
    reading.take(8).await.expect("it reads");
    reading.reader.snapshot_taken(1);
    reading.reader.snapshot_completed(1);
    reading.until_quiet().await.expect("it is quiet");
    assert_eq!(reading.metric("commitsSucceeded") + reading.metric("commitsFailed"), 0);
    assert_eq!(group_offsets(kafka, &silent, &topic, 2), [-1, -1]);
}

async fn a_bounded_read_gives_every_row_once_and_ends(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = filled(kafka, "bounded", 2, 3);
    let mut reading = Reading::start(&table(kafka.bootstrap(), &topic, &[BOUNDED])).await.expect("it opens");
    let rows = reading.read_to_end().await.expect("it reads");
    assert_eq!(rows, ["+I[0, r0]", "+I[1, r1]", "+I[2, r2]", "+I[10, r0]", "+I[11, r1]", "+I[12, r2]"]);
    assert_eq!(reading.splits, [format!("{topic}-0"), format!("{topic}-1")]);
    assert_eq!(reading.metric("pendingRecords"), 0);
    assert_eq!(reading.metric(&format!("KafkaSourceReader.topic.{topic}.partition.1.currentOffset")), 2);
    let place = reading.reader.locate(1, 2);
    assert_eq!(place, format!("topic {topic}, partition 1, offset 2"));
}

async fn an_empty_bounded_topic_ends_at_once(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = kafka.new_topic("empty", 3);
    let rows = read_all(&table(kafka.bootstrap(), &topic, &[BOUNDED])).await.expect("it reads");
    assert!(rows.is_empty());
}

async fn startup_modes(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = filled(kafka, "startup", 1, 5);
    let group = format!("group-of-{topic}");
    commit(kafka, &group, &topic, 0, 3);
    let read = |options: Vec<(&'static str, String)>| {
        let options: Vec<(&str, &str)> = options.iter().map(|(k, v)| (*k, v.as_str())).chain([BOUNDED]).collect();
        let table = table(kafka.bootstrap(), &topic, &options);
        async move { read_all(&table).await }
    };
    let mode = |mode: &str| ("scan.startup.mode", mode.to_owned());
    let group = ("properties.group.id", group);
    let rows = read(vec![mode("group-offsets"), group]).await.expect("committed");
    assert_eq!(rows, ["+I[3, r3]", "+I[4, r4]"]);
    let offsets = ("scan.startup.specific-offsets", "partition:0,offset:4".to_owned());
    assert_eq!(read(vec![mode("specific-offsets"), offsets]).await.expect("given"), ["+I[4, r4]"]);
    assert!(read(vec![mode("latest-offset")]).await.expect("nothing").is_empty());
    let other = || ("properties.group.id", format!("another-group-of-{topic}"));
    let text = error_of(read(vec![mode("group-offsets"), other()]).await);
    assert!(
        text.contains(&topic) && text.contains("another-group-of-") && text.contains("auto.offset.reset"),
        "{text}"
    );
    let reset = ("properties.auto.offset.reset", "earliest".to_owned());
    assert_eq!(read(vec![mode("group-offsets"), other(), reset]).await.expect("reset").len(), 5);
}

async fn timestamps_start_and_end_a_read(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = kafka.new_topic("times", 1);
    let producer: BaseProducer = kafka.client().create().expect("a producer");
    let base = 1_750_000_000_000_i64;
    for i in 0..5_i64 {
        let text = format!("{{\"id\":{i},\"name\":\"t\"}}");
        let record = BaseRecord::<(), str>::to(&topic).payload(&text).timestamp(base + i * 1000);
        producer.send(record).map_err(|(e, _)| e).expect("room");
    }
    producer.flush(Duration::from_secs(10)).expect("stored");
    let (start, end) = ((base + 500).to_string(), (base + 3000).to_string());
    let options = [
        ("scan.startup.mode", "timestamp"),
        ("scan.startup.timestamp-millis", start.as_str()),
        ("scan.bounded.mode", "timestamp"),
        ("scan.bounded.timestamp-millis", end.as_str()),
    ];
    let rows = read_all(&table(kafka.bootstrap(), &topic, &options)).await.expect("it reads");
    assert_eq!(rows, ["+I[1, t]", "+I[2, t]"]);
    let late = (base + 900_000_000).to_string();
    let options = [("scan.startup.mode", "timestamp"), ("scan.startup.timestamp-millis", late.as_str()), BOUNDED];
    assert!(read_all(&table(kafka.bootstrap(), &topic, &options)).await.expect("the end").is_empty());
}

async fn bounded_modes(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = filled(kafka, "ends", 2, 4);
    let group = format!("end-of-{topic}");
    let bounded = |mode: &'static str| ("scan.bounded.mode", mode);
    // An unnamed partition ends at the committed offset, and without one where it begins.
    let offsets = ("scan.bounded.specific-offsets", "partition:1,offset:2");
    let rows = read_all(&table(kafka.bootstrap(), &topic, &[bounded("specific-offsets"), offsets])).await;
    assert_eq!(rows.expect("it reads"), ["+I[10, r0]", "+I[11, r1]"]);
    let options = [bounded("group-offsets"), ("properties.group.id", group.as_str())];
    let text = error_of(read_all(&table(kafka.bootstrap(), &topic, &options)).await);
    assert!(text.contains("should end at the committed offset of group"), "{text}");
    commit(kafka, &group, &topic, 0, 1);
    commit(kafka, &group, &topic, 1, 0);
    assert_eq!(read_all(&table(kafka.bootstrap(), &topic, &options)).await.expect("it reads"), ["+I[0, r0]"]);
}

async fn an_unbounded_read_goes_on_and_says_when_there_is_nothing(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = filled(kafka, "live", 2, 1);
    let mut reading = Reading::start(&table(kafka.bootstrap(), &topic, &[])).await.expect("it opens");
    reading.until_quiet().await.expect("both were read and are quiet");
    assert_eq!(reading.texts(), ["+I[0, r0]", "+I[10, r0]"]);
    kafka.send(&topic, 1, &[Some("{\"id\":11}")]);
    assert_eq!(reading.take(3).await.expect("it comes"), ["+I[0, r0]", "+I[10, r0]", "+I[11, null]"]);
}

async fn a_busy_partition_does_not_hide_a_quiet_one(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = kafka.new_topic("busy", 2);
    let mut reading = Reading::start(&table(kafka.bootstrap(), &topic, &[])).await.expect("it opens");
    reading.until_quiet().await.expect("both are empty");
    let mut quiet = 0;
    for i in 0..400 {
        if i % 4 == 0 {
            kafka.send(&topic, 0, &[Some("{\"id\":1}")]);
        }
        if let SourceEvent::Quiet(splits) = reading.step().await.expect("it reads") {
            quiet += usize::from(splits.contains(&1));
        }
        if quiet > 2 && reading.rows.len() > 2 {
            return;
        }
    }
    panic!("{quiet} quiet reports beside {} rows", reading.rows.len());
}

async fn new_partitions_are_read_from_their_beginning(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = filled(kafka, "grows", 1, 2);
    let options = [("scan.startup.mode", "latest-offset"), ("scan.topic-partition-discovery.interval", "1 s")];
    let mut reading = Reading::start(&table(kafka.bootstrap(), &topic, &options)).await.expect("it opens");
    assert_eq!(reading.enumerator.discovery_interval(), Some(Duration::from_secs(1)));
    kafka.add_partitions(&topic, 2);
    kafka.send(&topic, 1, &[Some("{\"id\":7,\"name\":\"new\"}")]);
    assert_eq!(reading.discover().await.expect("it asks"), 1, "only what is new");
    assert_eq!(reading.take(1).await.expect("it reads"), ["+I[7, new]"]);
    assert_eq!(reading.discover().await.expect("it asks"), 0);
}

async fn a_pattern_takes_whole_names(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = filled(kafka, "pattern", 1, 1);
    kafka.create_topic(&format!("x{topic}"), 1);
    let pattern = format!("{}-.*", topic.rsplit_once('-').expect("numbered").0);
    let options = [("topic", ""), ("topic-pattern", pattern.as_str()), BOUNDED];
    let mut reading = Reading::start(&table(kafka.bootstrap(), "", &options)).await.expect("it opens");
    assert_eq!(reading.splits, [format!("{topic}-0")]);
    assert_eq!(reading.read_to_end().await.expect("it reads"), ["+I[0, r0]"]);
}

async fn metadata_columns(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = kafka.new_topic("metadata", 1);
    let producer: BaseProducer = kafka.client().create().expect("a producer");
    let header = |key, value| Header { key, value };
    let headers = OwnedHeaders::new().insert(header("h", Some("1"))).insert(header("h", Some("2")));
    let headers = headers.insert(header("n", None::<&str>));
    let record = BaseRecord::<(), str>::to(&topic).payload("{\"id\":1}").headers(headers).timestamp(1_750_000_000_123);
    producer.send(record).map_err(|(e, _)| e).expect("room");
    producer.flush(Duration::from_secs(10)).expect("stored");
    let keys =
        ["topic", "partition", "offset", "timestamp", "timestamp-type", "leader-epoch", "headers", "header-list"];
    let rows = read_all(&with_metadata(table(kafka.bootstrap(), &topic, &[BOUNDED]), &keys)).await.expect("it reads");
    let expected = format!(
        "+I[1, null, {topic}, 0, 0, 2025-06-15T15:06:40.123Z, CreateTime, 0, {{h=[50], n=null}}, \
         [+I[h, [49]], +I[h, [50]], +I[n, null]]]"
    );
    assert_eq!(rows, [expected]);
}

async fn blanks_and_tombstones_are_no_rows_but_counted(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = kafka.new_topic("blank", 1);
    kafka.send(&topic, 0, &[Some("{\"id\":1}"), Some(""), None, Some("{\"id\":2}")]);
    let mut reading = Reading::start(&table(kafka.bootstrap(), &topic, &[BOUNDED])).await.expect("it opens");
    assert_eq!(reading.read_to_end().await.expect("it reads"), ["+I[1, null]", "+I[2, null]"]);
    assert_eq!((reading.metric("numBlankRecords"), reading.metric("numTombstones")), (1, 1));
}

async fn a_bad_record_fails_after_the_rows_before_it_and_says_where(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = kafka.new_topic("bad", 1);
    kafka.send(&topic, 0, &[Some("{\"id\":1}"), Some("{\"id\":\"x\"}"), Some("{\"id\":3}")]);
    let mut reading = Reading::start(&table(kafka.bootstrap(), &topic, &[BOUNDED])).await.expect("it opens");
    let text = error_of(reading.read_to_end().await);
    assert_eq!(reading.texts(), ["+I[1, null]"]);
    assert!(text.contains(&format!("topic {topic}, partition 0, offset 1")) && text.contains("'id'"), "{text}");
}

async fn keys_are_read_beside_values(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = kafka.new_topic("keys", 1);
    let producer: BaseProducer = kafka.client().create().expect("a producer");
    for (key, value) in
        [(Some("{\"id\":1}"), "{\"name\":\"a\"}"), (None, "{\"name\":\"b\"}"), (Some("{\"id\":3}"), "{\"name\":\"c\"}")]
    {
        let mut record = BaseRecord::<str, str>::to(&topic).payload(value);
        record.key = key;
        producer.send(record).map_err(|(e, _)| e).expect("room");
    }
    producer.flush(Duration::from_secs(10)).expect("stored");
    let options = [("key.format", "json"), ("key.fields", "id"), ("value.fields-include", "EXCEPT_KEY"), BOUNDED];
    let mut reading = Reading::start(&table(kafka.bootstrap(), &topic, &options)).await.expect("it opens");
    // As in Flink, a JSON key that is missing gives no row; here it is counted.
    assert_eq!(reading.read_to_end().await.expect("it reads"), ["+I[1, a]", "+I[3, c]"]);
    assert_eq!(reading.metric("numTombstones"), 1);
}

async fn aborted_and_control_records_do_not_show_and_do_not_block(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = kafka.new_topic("transactions", 1);
    let id = format!("tx-{topic}");
    let producer: BaseProducer = kafka.client().set("transactional.id", &id).create().expect("a producer");
    producer.init_transactions(Duration::from_secs(20)).expect("ready");
    for (id, commit) in [(1, true), (2, false), (3, true), (4, false)] {
        producer.begin_transaction().expect("begun");
        let text = format!("{{\"id\":{id}}}");
        producer.send(BaseRecord::<(), str>::to(&topic).payload(&text)).map_err(|(e, _)| e).expect("room");
        producer.flush(Duration::from_secs(10)).expect("stored");
        let limit = Duration::from_secs(20);
        if commit { producer.commit_transaction(limit) } else { producer.abort_transaction(limit) }.expect("ended");
    }
    let rows = read_all(&table(kafka.bootstrap(), &topic, &[BOUNDED])).await.expect("it ends behind control records");
    assert_eq!(rows, ["+I[1, null]", "+I[3, null]"]);
    // An open transaction: "latest" is before it, so the read ends without waiting for its outcome.
    producer.begin_transaction().expect("begun");
    producer.send(BaseRecord::<(), str>::to(&topic).payload("{\"id\":5}")).map_err(|(e, _)| e).expect("room");
    producer.flush(Duration::from_secs(10)).expect("stored");
    let rows = read_all(&table(kafka.bootstrap(), &topic, &[BOUNDED])).await.expect("it ends");
    assert_eq!(rows, ["+I[1, null]", "+I[3, null]"]);
    producer.abort_transaction(Duration::from_secs(20)).expect("ended");
}

async fn a_missing_topic_is_named(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let text = error_of(Reading::start(&table(kafka.bootstrap(), "no-such-topic", &[])).await);
    assert!(text.contains("Topic 'no-such-topic' does not exist") && text.contains(kafka.bootstrap()), "{text}");
}

#[tokio::test]
async fn an_unreachable_broker_is_named_in_time() {
    let options = [("properties.default.api.timeout.ms", "1500")];
    let work = Reading::start(&table("127.0.0.1:1", "t", &options)).await;
    let text = error_of(work);
    assert!(text.contains("Cannot reach Kafka at '127.0.0.1:1'") && text.contains("refused"), "{text}");
}

async fn a_lost_broker_is_not_silence_and_reading_goes_on_when_it_is_back(kind: Kind) {
    if kafka::shared(kind).is_none() {
        return;
    }
    let mut kafka = Kafka::start(kind, Settings::default()).expect("the shared one started too");
    let topic = filled(&kafka, "lost", 1, 1);
    let mut reading = Reading::start(&table(kafka.bootstrap(), &topic, &[])).await.expect("it opens");
    reading.until_quiet().await.expect("it is quiet");
    kafka.interrupt();
    // The client needs a moment to notice; then a partition that cannot be asked is not quiet.
    let pause = Duration::from_millis(500);
    let stopped = async { while tokio::time::timeout(pause, reading.step()).await.is_ok() {} };
    tokio::time::timeout(support::LIMIT, stopped).await.expect("quiet reports end");
    kafka.resume().expect("it comes back");
    kafka.send(&topic, 0, &[Some("{\"id\":9}")]);
    assert_eq!(reading.take(2).await.expect("it reads on"), ["+I[0, r0]", "+I[9, null]"]);
}

#[test]
fn impossible_security_settings_are_refused_at_planning() {
    use tidegate_api::config::Configuration;
    use tidegate_api::connector::ConnectorFactory;
    use tidegate_connectors::kafka::KafkaFactory;
    let table = table("h:1", "t", &[("properties.security.protocol", "SSL")]);
    let text = error_of(KafkaFactory.source(&table, &Configuration::default()).map(|_| ()));
    assert!(text.contains("properties.security.protocol") && text.contains("TLS"), "{text}");
    let jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"u\" password=\"p\";";
    let options = [
        ("properties.security.protocol", "SASL_PLAINTEXT"),
        ("properties.sasl.mechanism", "PLAIN"),
        ("properties.sasl.jaas.config", jaas),
    ];
    let mut table = support::table("h:1", "t", &options);
    assert!(KafkaFactory.source(&table, &Configuration::default()).is_ok());
    table.options.remove("properties.sasl.mechanism");
    let text = error_of(KafkaFactory.source(&table, &Configuration::default()).map(|_| ()));
    assert!(text.contains("'GSSAPI'"), "{text}");
}
