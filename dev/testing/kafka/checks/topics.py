"""Topics: made, made on demand, grown, described, deleted."""

from confluent_kafka.admin import ConfigResource, NewPartitions

from .client import TIMEOUT_S, Deliveries, eventually, require


def a_topic_is_made_with_its_partitions(broker):
    require(broker.partitions(broker.topic("made", 3)) == 3)


def a_topic_is_made_on_demand(broker):
    topic, deliveries = broker.name("demanded"), Deliveries()
    producer = broker.producer()
    producer.produce(topic, "x", on_delivery=deliveries)
    require(producer.flush(TIMEOUT_S) == 0 and not deliveries.errors, deliveries.errors)
    require(broker.partitions(topic) == 1, broker.partitions(topic))


def a_deleted_topic_is_gone_with_its_records(broker):
    topic = broker.topic("deleted", 2)
    broker.send(topic, [(0, None, "old")])
    broker.admin.delete_topics([topic], operation_timeout=10)[topic].result(TIMEOUT_S)
    require(eventually(lambda: broker.partitions(topic) == 0), "it is still listed")
    broker.make_topic(topic, 2)
    require(broker.values(topic, 2) == [], "records of the deleted topic")


def partitions_are_added(broker):
    topic = broker.topic("grows", 2)
    broker.admin.create_partitions([NewPartitions(topic, 4)])[topic].result(TIMEOUT_S)
    require(eventually(lambda: broker.partitions(topic) == 4), broker.partitions(topic))
    broker.send(topic, [(3, None, "x")])
    require(broker.values(topic, 4) == [b"x"])


def configs_are_described(broker):
    topic = broker.topic("described", 1, retention_ms=1234567)
    resource = ConfigResource("topic", topic)
    entries = broker.admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    require(entries["retention.ms"].value == "1234567", entries["retention.ms"].value)
    wanted = {"cleanup.policy", "compression.type", "max.message.bytes", "message.timestamp.type", "segment.bytes"}
    require(wanted <= entries.keys(), wanted - entries.keys())


CHECKS = [
    a_topic_is_made_with_its_partitions,
    a_topic_is_made_on_demand,
    a_deleted_topic_is_gone_with_its_records,
    partitions_are_added,
    configs_are_described,
]
