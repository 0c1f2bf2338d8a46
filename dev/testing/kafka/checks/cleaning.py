"""What may vanish from a log, and what may not: retention, compaction, deletion of records."""

import time

from confluent_kafka import TopicPartition

from .client import Deliveries, eventually, require

LIMIT_S = 40


def records_are_deleted_up_to_an_offset(broker):
    topic = broker.topic("cut")
    broker.send(topic, [(0, None, str(i)) for i in range(10)])
    place = TopicPartition(topic, 0, 4)
    deleted = broker.admin.delete_records([place])[place].result(15)
    require(deleted.low_watermark == 4, deleted.low_watermark)
    require(broker.watermarks(topic) == (4, 10), broker.watermarks(topic))
    require(broker.values(topic) == [str(i).encode() for i in range(4, 10)])


def send_at(broker, topic, first_ms, count):
    """Records of 1 kB, one millisecond apart from a time on."""
    producer, deliveries = broker.producer(batch_num_messages=100), Deliveries()
    for i in range(count):
        producer.produce(topic, b"%01000d" % i, timestamp=first_ms + i, on_delivery=deliveries)
    require(producer.flush(30) == 0 and not deliveries.errors, deliveries.errors[:2])


def old_records_go_and_young_ones_stay(broker):
    """Time-based retention looks at record times, and takes whole segments."""
    topic = broker.topic("retention", 1, retention_ms=600_000, segment_bytes=1 << 20)
    now_ms = int(time.time() * 1000)
    send_at(broker, topic, now_ms - 3_600_000, 2500)
    send_at(broker, topic, now_ms - 1000, 1500)
    require(eventually(lambda: broker.watermarks(topic)[0] > 1000, LIMIT_S), broker.watermarks(topic))
    left = [m.offset() for m in broker.read(topic)]
    # A segment may hold the end of the old records beside the first young ones; it stays.
    require(1000 < left[0] <= 2500 and left == list(range(left[0], 4000)), left[:1], len(left))


def a_log_is_cut_to_its_size(broker):
    topic = broker.topic("size", 1, retention_bytes=2 << 20, segment_bytes=1 << 20)
    send_at(broker, topic, int(time.time() * 1000), 6000)
    # What is left is at least what was asked for, and less than one segment more.
    left = range(2000, 3500)
    require(eventually(lambda: 6000 - broker.watermarks(topic)[0] in left, LIMIT_S), broker.watermarks(topic))


def compaction_keeps_the_last_value_of_each_key(broker):
    configs = {"cleanup_policy": "compact", "segment_ms": 50, "min_cleanable_dirty_ratio": "0.01"}
    topic = broker.topic("compact", 1, **configs)
    expected = {f"k{key}".encode(): f"v{key}-29".encode() for key in range(10)}
    for turn in range(30):
        broker.send(topic, [(0, f"k{key}", f"v{key}-{turn}") for key in range(10)])
    broker.send(topic, [(0, "k3", None)])
    del expected[b"k3"]

    def compacted():
        # Segments close when a record comes; the last one is never compacted.
        broker.send(topic, [(0, "tick", "tock")])
        messages = broker.read(topic)
        table = {}
        for message in messages:
            table[message.key()] = message.value()
        table = {key: value for key, value in table.items() if key != b"tick" and value is not None}
        require(table == expected, table)
        offsets = [m.offset() for m in messages]
        require(offsets == sorted(set(offsets)), offsets)
        return sum(m.key() != b"tick" for m in messages) <= len(expected) + 1

    require(eventually(compacted, LIMIT_S), "compaction does not take place")


CHECKS = [
    records_are_deleted_up_to_an_offset,
    old_records_go_and_young_ones_stay,
    a_log_is_cut_to_its_size,
    compaction_keeps_the_last_value_of_each_key,
]
