"""Consumer groups: committed offsets, sharing, going on."""

import time

from confluent_kafka import KafkaError, TopicPartition

from .client import require

LIVELY = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 500}


def committed_offsets_come_back_with_their_metadata(broker):
    topic, group = broker.topic("committed", 3), broker.name("group")
    consumer = broker.consumer(group)
    places = [TopicPartition(topic, 0, 42, metadata="checkpoint=7"), TopicPartition(topic, 1, 5)]
    consumer.commit(offsets=places, asynchronous=False)
    found = consumer.committed([TopicPartition(topic, p) for p in range(3)], timeout=10)
    consumer.close()
    require([place.offset for place in found] == [42, 5, -1001], found)
    require(found[0].metadata == "checkpoint=7", found[0].metadata)


def shared(broker, topic, group):
    """Two consumers read the 400 records of four partitions together to the end, commit and leave."""
    consumers = [broker.consumer(group, **LIVELY) for _ in range(2)]
    for consumer in consumers:
        consumer.subscribe([topic])
    end = time.monotonic() + 25
    while True:
        for consumer in consumers:
            consumer.consume(100, 0.02)
        assignments = [consumer.assignment() for consumer in consumers]
        # Not the count of records: what one has read before the other came is read again.
        places = [place for c, assigned in zip(consumers, assignments) for place in c.position(assigned)]
        if [len(a) for a in assignments] == [2, 2] and [place.offset for place in places] == [100] * 4:
            break
        require(time.monotonic() < end, assignments, places)
    for consumer in consumers:
        consumer.commit(asynchronous=False)
        consumer.close()


def four_hundred(broker):
    topic = broker.topic("shared", 4)
    broker.send(topic, [(i % 4, None, str(i)) for i in range(400)])
    return topic


def two_consumers_of_a_group_share_the_partitions(broker):
    shared(broker, four_hundred(broker), broker.name("group"))


def a_group_goes_on_where_it_was(broker):
    topic, group = four_hundred(broker), broker.name("group")
    shared(broker, topic, group)
    consumer, ended, again = broker.consumer(group, **LIVELY), set(), 0
    consumer.subscribe([topic])
    end = time.monotonic() + 15
    while len(ended) < 4:
        require(time.monotonic() < end, "no end of the partitions", ended)
        message = consumer.poll(0.1)
        if message is None:
            continue
        if message.error() is None:
            again += 1
        elif message.error().code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
    consumer.close()
    require(again == 0, f"{again} records came again")


CHECKS = [
    committed_offsets_come_back_with_their_metadata,
    two_consumers_of_a_group_share_the_partitions,
    a_group_goes_on_where_it_was,
]
