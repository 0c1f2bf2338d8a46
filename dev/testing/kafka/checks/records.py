"""Records: what was produced is what is consumed, from any place, in pieces of any size."""

import time

from confluent_kafka import TIMESTAMP_CREATE_TIME, TopicPartition

from .client import Deliveries, require

HOUR_MS = 3_600_000


def three_hundred(broker):
    """A topic of three partitions with a hundred records each, one second apart; and its first timestamp."""
    topic, first_ms = broker.topic("records", 3), int(time.time() * 1000) - HOUR_MS
    producer, deliveries = broker.producer(), Deliveries()
    for i in range(300):
        producer.produce(topic, f"v{i}", str(i), partition=i % 3, timestamp=first_ms + i * 1000,
                         headers=[("h", b"x")], on_delivery=deliveries)
    require(producer.flush(15) == 0 and not deliveries.errors, deliveries.errors[:2])
    return topic, first_ms


def records_keep_key_value_time_headers_and_order(broker):
    topic, first_ms = three_hundred(broker)
    messages = broker.read(topic, 3)
    require(len(messages) == 300, len(messages))
    seventh = next(m for m in messages if m.value() == b"v7")
    require(seventh.timestamp() == (TIMESTAMP_CREATE_TIME, first_ms + 7000), seventh.timestamp())
    require(seventh.headers() == [("h", b"x")], seventh.headers())
    require((seventh.key(), seventh.partition(), seventh.offset()) == (b"7", 1, 2))
    for partition in range(3):
        offsets = [m.offset() for m in messages if m.partition() == partition]
        require(offsets == list(range(100)), partition, offsets[:5])


def watermarks_are_first_and_next_offset(broker):
    topic, _ = three_hundred(broker)
    require(broker.watermarks(topic, 1) == (0, 100), broker.watermarks(topic, 1))


def times_are_found(broker):
    topic, first_ms = three_hundred(broker)
    times = [first_ms + 30_000, first_ms + 500, first_ms + 10 * HOUR_MS]
    consumer = broker.consumer()
    found = consumer.offsets_for_times([TopicPartition(topic, p, t) for p, t in enumerate(times)], timeout=10)
    consumer.close()
    # Record 30 is the tenth of partition 0; partition 1 begins a second after the first record.
    require([place.offset for place in found] == [10, 0, -1], found)


def reading_starts_at_any_offset(broker):
    topic, _ = three_hundred(broker)
    consumer = broker.consumer()
    consumer.assign([TopicPartition(topic, 0, 50)])
    message = consumer.poll(10)
    consumer.close()
    require(message is not None and message.error() is None and message.offset() == 50, message)


def compressed(codec):
    def check(broker):
        topic = broker.topic(codec)
        text = "a" * 40
        broker.send(topic, [(0, None, f'{{"x":{i},"y":"{text}"}}') for i in range(500)], compression_type=codec)
        messages = broker.read(topic)
        require([m.offset() for m in messages] == list(range(500)), len(messages))
        require(messages[-1].value() == f'{{"x":499,"y":"{text}"}}'.encode(), messages[-1].value())

    check.__name__ = f"{codec}_batches_are_kept"
    return check


def idempotent_producers_write_each_record_once(broker):
    topic = broker.topic("idempotent", 2)
    broker.send(topic, [(i % 2, None, str(i)) for i in range(1000)], enable_idempotence=True)
    require(sorted(map(int, broker.values(topic, 2))) == list(range(1000)))


def a_log_larger_than_any_answer_is_read_in_pieces(broker):
    """librdkafka refuses answers of more than 100 MB, whatever the broker has to give."""
    topic, count = broker.topic("large"), 120_000
    broker.send(topic, ((0, None, b"%01000d" % i) for i in range(count)), linger_ms=50, batch_size=900_000)
    messages = broker.read(topic, limit_s=60)
    require([int(m.value()) for m in messages] == list(range(count)), len(messages))


def a_record_larger_than_the_wanted_answer_still_comes(broker):
    topic = broker.topic("bites")
    broker.send(topic, [(0, None, b"x" * 20_000)] * 20, batch_num_messages=1)
    small = {"fetch_message_max_bytes": 1000, "fetch_max_bytes": 1_000_000, "message_max_bytes": 1_000_000}
    require(len(broker.read(topic, **small)) == 20)


CHECKS = [
    records_keep_key_value_time_headers_and_order,
    watermarks_are_first_and_next_offset,
    times_are_found,
    reading_starts_at_any_offset,
    *map(compressed, ("gzip", "snappy", "lz4", "zstd")),
    idempotent_producers_write_each_record_once,
    a_log_larger_than_any_answer_is_read_in_pieces,
    a_record_larger_than_the_wanted_answer_still_comes,
]
