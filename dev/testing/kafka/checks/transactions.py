"""Transactions: seen whole or not at all, fenced, timed out; offsets that belong to them."""

import json

from confluent_kafka import TopicPartition

from .client import TIMEOUT_S, error_name, eventually, require
from .wire import end_transaction


def a_transaction_is_seen_when_it_is_committed(broker):
    topic = broker.topic("committed", 2)
    producer = broker.transactional(broker.name("tx"))
    producer.begin_transaction()
    for i in range(20):
        producer.produce(topic, f"c{i}", partition=i % 2)
    require(producer.flush(TIMEOUT_S) == 0)
    require(broker.values(topic, 2) == [], "records of an open transaction")
    require(len(broker.values(topic, 2, "read_uncommitted")) == 20)
    producer.commit_transaction(TIMEOUT_S)
    require(len(broker.values(topic, 2)) == 20)


def an_aborted_transaction_is_never_seen(broker):
    topic = broker.topic("aborted", 2)
    producer = broker.transactional(broker.name("tx"))
    producer.begin_transaction()
    for i in range(20):
        producer.produce(topic, f"a{i}", partition=i % 2)
    producer.flush(TIMEOUT_S)
    producer.abort_transaction(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, "z", partition=0)
    producer.commit_transaction(TIMEOUT_S)
    require(broker.values(topic, 2) == [b"z"], broker.values(topic, 2))
    require(len(broker.values(topic, 2, "read_uncommitted")) == 21)


def a_zombie_cannot_commit(broker):
    topic, name = broker.topic("fenced"), broker.name("tx")
    zombie = broker.transactional(name)
    zombie.begin_transaction()
    zombie.produce(topic, "zombie")
    zombie.flush(TIMEOUT_S)
    living = broker.transactional(name)
    require(error_name(lambda: zombie.commit_transaction(TIMEOUT_S)) == "_FENCED")
    living.begin_transaction()
    living.produce(topic, "living")
    living.commit_transaction(TIMEOUT_S)
    require(broker.values(topic) == [b"living"], broker.values(topic))


def offsets_are_committed_with_their_transaction(broker):
    topic, group = broker.topic("offsets"), broker.name("group")
    place = [TopicPartition(topic, 0)]
    consumer = broker.consumer(group)
    # This one does not wait for the outcome of open transactions.
    hasty = broker.consumer(group, "read_uncommitted")
    producer = broker.transactional(broker.name("tx"))

    def begin(offset):
        producer.begin_transaction()
        producer.produce(topic, "x")
        sent = [TopicPartition(topic, 0, offset, metadata=f"m{offset}")]
        producer.send_offsets_to_transaction(sent, consumer.consumer_group_metadata(), TIMEOUT_S)

    begin(7)
    require(hasty.committed(place, timeout=10)[0].offset == -1001, "offsets of an open transaction")
    producer.commit_transaction(TIMEOUT_S)
    found = consumer.committed(place, timeout=10)[0]
    require((found.offset, found.metadata) == (7, "m7"), found)
    begin(9)
    producer.abort_transaction(TIMEOUT_S)
    found = consumer.committed(place, timeout=10)[0]
    require(found.offset == 7, found)
    consumer.close()
    hasty.close()


def pending_offsets_are_unstable(broker):
    """A reader that wants stable offsets is told to wait while a transaction holds others."""
    topic, group = broker.topic("unstable"), broker.name("group")
    consumer = broker.consumer(group)
    producer = broker.transactional(broker.name("tx"))
    producer.begin_transaction()
    sent = [TopicPartition(topic, 0, 3)]
    producer.send_offsets_to_transaction(sent, consumer.consumer_group_metadata(), TIMEOUT_S)
    place = [TopicPartition(topic, 0)]
    outcome = error_name(lambda: consumer.committed(place, timeout=1))
    require(outcome in ("_TIMED_OUT", "UNSTABLE_OFFSET_COMMIT"), outcome)
    producer.commit_transaction(TIMEOUT_S)
    found = consumer.committed(place, timeout=10)[0]
    require(found.offset == 3, found)
    consumer.close()


def a_transaction_that_takes_too_long_is_aborted(broker):
    topic = broker.topic("slow")
    limits = {"transaction_timeout_ms": 2000, "message_timeout_ms": 1900, "socket_timeout_ms": 1800}
    producer = broker.transactional(broker.name("tx"), **limits)
    producer.begin_transaction()
    producer.produce(topic, "slow")
    producer.flush(5)
    broker.send(topic, [(0, None, "plain")])
    require(broker.values(topic) == [], "the open transaction hides what comes after it")
    require(eventually(lambda: broker.values(topic) == [b"plain"], 25), broker.values(topic))
    require(error_name(lambda: producer.commit_transaction(10)) == "_FENCED")
    require(broker.values(topic) == [b"plain"], broker.values(topic))


def ending_by_hand_ends_what_is_open_now(broker):
    """Why a checkpoint may not keep producer and epoch of a transaction to commit it after a restart.

    Clients of transaction version 1 keep their epoch from one transaction to the next, so the name of a
    finished transaction is also that of the next one. To repeat a commit is harmless; after the next one
    has begun, it commits that one, half written.
    """
    topic, name, identity = broker.topic("reused"), broker.name("tx"), {}

    def remember(statistics):
        identity.update(json.loads(statistics).get("eos", {}))

    producer = broker.transactional(name, statistics_interval_ms=50, stats_cb=remember)
    producer.begin_transaction()
    producer.produce(topic, "first")
    producer.flush(TIMEOUT_S)
    require(eventually(lambda: producer.poll(0.05) is not None and identity.get("producer_id", -1) >= 0), identity)

    def commit_by_hand():
        return end_transaction(broker.bootstrap, name, identity["producer_id"], identity["producer_epoch"], True)

    producer.commit_transaction(TIMEOUT_S)
    require(eventually(lambda: commit_by_hand() == 0), "repeating a commit is harmless")
    require(broker.values(topic) == [b"first"])
    producer.begin_transaction()
    producer.produce(topic, "half")
    producer.flush(TIMEOUT_S)
    require(eventually(lambda: commit_by_hand() == 0), commit_by_hand())
    require(eventually(lambda: broker.values(topic) == [b"first", b"half"]), broker.values(topic))


CHECKS = [
    a_transaction_is_seen_when_it_is_committed,
    an_aborted_transaction_is_never_seen,
    a_zombie_cannot_commit,
    offsets_are_committed_with_their_transaction,
    pending_offsets_are_unstable,
    a_transaction_that_takes_too_long_is_aborted,
    ending_by_hand_ends_what_is_open_now,
]
