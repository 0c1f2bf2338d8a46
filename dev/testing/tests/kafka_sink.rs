//! The Kafka sink against each kind of broker.

mod support;

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray, TimestampMillisecondArray};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message, OwnedMessage, Timestamp};
use rdkafka::{Offset, TopicPartitionList};
use tidegate_api::config::Configuration;
use tidegate_api::connector::{ConnectorFactory, TableDescriptor};
use tidegate_api::{Batch, Field, LogicalType, Schema, TypeKind};
use tidegate_connectors::kafka::KafkaFactory;
use tidegate_testing::each_broker;
use tidegate_testing::kafka::{self, Kafka, Kind};

use support::{LIMIT, error_of, read_all, table, with_metadata, writer};

each_broker! {
    async
    what_is_written_can_be_read_back,
    more_than_the_send_queue_holds_waits_and_arrives,
    keys_choose_partitions_as_javas_client_does,
    the_fixed_partitioner_gives_each_subtask_one_partition,
    a_null_rowtime_gives_no_record_time_and_not_the_one_before,
    written_metadata_routes_and_describes_records,
    a_record_that_is_not_stored_fails_the_flush,
}

fn batch(table: &TableDescriptor, columns: Vec<ArrayRef>) -> Batch {
    let mut schema = table.physical.clone();
    let written = table.metadata.iter().filter(|m| !m.is_virtual);
    schema.fields.extend(written.map(|m| Field::new(&m.name, m.ty.clone())));
    Batch::inserts(RecordBatch::try_new(schema.to_arrow(), columns).expect("columns of the schema"))
}

fn ids(ids: &[i32]) -> ArrayRef {
    Arc::new(Int32Array::from(ids.to_vec()))
}

fn names(names: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(names.to_vec()))
}

/// All records of a topic, by partition and offset.
fn records(kafka: &Kafka, topic: &str, count: usize) -> Vec<OwnedMessage> {
    let consumer: BaseConsumer = kafka.client().set("group.id", "check").create().expect("a consumer");
    let metadata = consumer.fetch_metadata(Some(topic), Duration::from_secs(10)).expect("the topic");
    let mut list = TopicPartitionList::new();
    for partition in metadata.topics()[0].partitions() {
        list.add_partition_offset(topic, partition.id(), Offset::Beginning).expect("a place");
    }
    consumer.assign(&list).expect("assigned");
    let mut found = Vec::new();
    while found.len() < count {
        let message = consumer.poll(LIMIT).expect("a record in time");
        found.push(message.expect("a record").detach());
    }
    found.sort_by_key(|m| (m.partition(), m.offset()));
    found
}

fn text(bytes: Option<&[u8]>) -> &str {
    std::str::from_utf8(bytes.expect("some bytes")).expect("text")
}

async fn what_is_written_can_be_read_back(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = kafka.new_topic("round-trip", 1);
    let table = table(kafka.bootstrap(), &topic, &[("scan.bounded.mode", "latest-offset")]);
    let mut writer = writer(&table, 0, None).expect("it opens");
    writer.write(batch(&table, vec![ids(&[1, 2]), names(&["a", "b"])])).await.expect("written");
    writer.flush().await.expect("stored");
    // A flush has waited for the broker: the rows are there though the writer lives on.
    assert_eq!(read_all(&table).await.expect("it reads"), ["+I[1, a]", "+I[2, b]"]);
    writer.write(batch(&table, vec![ids(&[3]), names(&["c"])])).await.expect("written");
    writer.finish().await.expect("stored");
    assert_eq!(read_all(&table).await.expect("it reads").len(), 3);
}

async fn more_than_the_send_queue_holds_waits_and_arrives(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = kafka.new_topic("flood", 1);
    let options = [("properties.queue.buffering.max.messages", "50"), ("scan.bounded.mode", "latest-offset")];
    let table = table(kafka.bootstrap(), &topic, &options);
    let mut writer = writer(&table, 0, None).expect("it opens");
    let many: Vec<i32> = (0..2000).collect();
    let columns = vec![ids(&many), names(&vec!["x"; 2000])];
    writer.write(batch(&table, columns)).await.expect("written");
    writer.finish().await.expect("stored");
    let rows = read_all(&table).await.expect("it reads");
    let expected: Vec<String> = many.iter().map(|i| format!("+I[{i}, x]")).collect();
    assert_eq!(rows, expected, "in order");
}

async fn keys_choose_partitions_as_javas_client_does(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = kafka.new_topic("sink-keys", 4);
    let options = [("key.format", "json"), ("key.fields", "name"), ("value.fields-include", "EXCEPT_KEY")];
    let table = table(kafka.bootstrap(), &topic, &options);
    let mut writer = writer(&table, 0, None).expect("it opens");
    writer.write(batch(&table, vec![ids(&[1, 2, 3, 4]), names(&["a", "b", "a", "c"])])).await.expect("written");
    writer.finish().await.expect("stored");
    let found = records(kafka, &topic, 4);
    for (key, value) in [("a", 1), ("b", 2), ("a", 3), ("c", 4)] {
        let key = format!("{{\"name\":\"{key}\"}}");
        let of_key: Vec<&OwnedMessage> = found.iter().filter(|m| text(m.key()) == key).collect();
        assert!(of_key.iter().any(|m| text(m.payload()) == format!("{{\"id\":{value}}}")));
        let partition = i32::try_from((murmur2(key.as_bytes()) & 0x7FFF_FFFF) % 4).expect("small");
        assert!(of_key.iter().all(|m| m.partition() == partition), "{key}");
    }
}

/// Java's `Utils.murmur2`.
fn murmur2(data: &[u8]) -> u32 {
    let mut h = 0x9747_b28c_u32 ^ data.len() as u32;
    let chunks = data.chunks_exact(4);
    let rest = chunks.remainder();
    for chunk in chunks {
        let mut k = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]).wrapping_mul(0x5bd1_e995);
        k ^= k >> 24;
        h = h.wrapping_mul(0x5bd1_e995) ^ k.wrapping_mul(0x5bd1_e995);
    }
    if !rest.is_empty() {
        for (i, byte) in rest.iter().enumerate() {
            h ^= u32::from(*byte) << (8 * i);
        }
        h = h.wrapping_mul(0x5bd1_e995);
    }
    h ^= h >> 13;
    h = h.wrapping_mul(0x5bd1_e995);
    h ^ (h >> 15)
}

async fn the_fixed_partitioner_gives_each_subtask_one_partition(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = kafka.new_topic("fixed", 3);
    let table = table(kafka.bootstrap(), &topic, &[("sink.partitioner", "fixed")]);
    for subtask in 0..4 {
        let mut writer = writer(&table, subtask, None).expect("it opens");
        let id = i32::try_from(subtask).expect("small");
        writer.write(batch(&table, vec![ids(&[id, id]), names(&["x", "y"])])).await.expect("written");
        writer.finish().await.expect("stored");
    }
    for record in records(kafka, &topic, 8) {
        let id: i32 = text(record.payload())[6..7].parse().expect("an id");
        assert_eq!(record.partition(), id % 3);
    }
}

async fn a_null_rowtime_gives_no_record_time_and_not_the_one_before(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let topic = kafka.new_topic("rowtime", 1);
    let mut table = table(kafka.bootstrap(), &topic, &[]);
    table.physical = Schema::new(vec![
        Field::new("id", LogicalType::new(TypeKind::Int)),
        Field::new("ts", LogicalType::new(TypeKind::Timestamp(3))),
    ]);
    let mut writer = writer(&table, 0, Some(1)).expect("it opens");
    let times = TimestampMillisecondArray::from(vec![Some(1000), None, Some(2000)]);
    writer.write(batch(&table, vec![ids(&[1, 2, 3]), Arc::new(times)])).await.expect("written");
    writer.finish().await.expect("stored");
    let found = records(kafka, &topic, 3);
    assert_eq!(found[0].timestamp(), Timestamp::CreateTime(1000));
    let now = found[1].timestamp().to_millis().expect("the client's clock");
    assert!(now > 1_700_000_000_000, "{now}");
    assert_eq!(found[2].timestamp(), Timestamp::CreateTime(2000));
}

async fn written_metadata_routes_and_describes_records(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let (one, two) = (kafka.new_topic("route", 1), kafka.new_topic("route", 1));
    let topics = format!("{one};{two}");
    let mut table = with_metadata(table(kafka.bootstrap(), &topics, &[]), &["topic", "timestamp"]);
    table.metadata.iter_mut().for_each(|m| m.is_virtual = false);
    let mut writer = writer(&table, 0, None).expect("it opens");
    let times = || Arc::new(TimestampMillisecondArray::from(vec![5000, 6000]));
    let columns = vec![ids(&[1, 2]), names(&["a", "b"]), names(&[&two, &one]), times()];
    writer.write(batch(&table, columns)).await.expect("written");
    writer.finish().await.expect("stored");
    let found = &records(kafka, &two, 1)[0];
    assert_eq!((text(found.payload()), found.timestamp()), ("{\"id\":1,\"name\":\"a\"}", Timestamp::CreateTime(5000)));
    assert!(found.headers().is_none_or(|h| h.count() == 0));
    let columns = vec![ids(&[1, 2]), names(&["a", "b"]), names(&["elsewhere", &one]), times()];
    let text = error_of(writer.write(batch(&table, columns)).await);
    assert!(text.contains("'elsewhere'"), "{text}");
}

async fn a_record_that_is_not_stored_fails_the_flush(kind: Kind) {
    let Some(kafka) = kafka::shared(kind) else { return };
    let options = [("properties.topic.metadata.propagation.max.ms", "100"), ("properties.delivery.timeout.ms", "2000")];
    let table = table(kafka.bootstrap(), "sink-without-topic", &options);
    let mut writer = writer(&table, 0, None).expect("it opens");
    let written = writer.write(batch(&table, vec![ids(&[1]), names(&["a"])])).await;
    let text = error_of(match written {
        Ok(()) => writer.flush().await,
        Err(error) => Err(error),
    });
    assert!(text.contains("sink-without-topic"), "{text}");
}

#[test]
fn what_is_not_supported_is_refused_at_planning() {
    let refused = |options: &[(&str, &str)]| {
        let table = table("h:1", "t", options);
        error_of(KafkaFactory.sink(&table, &Configuration::default()).map(|_| ()))
    };
    let text = refused(&[("sink.delivery-guarantee", "exactly-once")]);
    assert!(text.contains("sink.transactional-id-prefix must be specified"), "{text}");
    assert!(refused(&[("topic", "a;b")]).contains("single topic"));
    assert!(refused(&[("sink.speed", "high")]).contains("sink.speed"));
    assert!(refused(&[("properties.no.such", "1")]).contains("properties.no.such"));
    let mut keyed = table("h:1", "t", &[]);
    keyed.primary_key = vec![0];
    let text = error_of(KafkaFactory.sink(&keyed, &Configuration::default()).map(|_| ()));
    assert!(text.contains("doesn't support defining PRIMARY KEY"), "{text}");
    let table = with_metadata(table("h:1", "t", &[]), &["offset"]);
    let mut written = table.clone();
    written.metadata[0].is_virtual = false;
    let text = error_of(KafkaFactory.sink(&written, &Configuration::default()).map(|_| ()));
    assert!(text.contains("cannot be written"), "{text}");
    assert!(KafkaFactory.sink(&table, &Configuration::default()).is_ok());
}
