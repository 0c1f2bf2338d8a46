"""Clients of the broker under test, and what reading and waiting need."""

import itertools
import time
import uuid

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TIMEOUT_S = 15


def require(fact, *seen):
    """Raises unless the fact holds; what was seen instead goes into the reason."""
    if not fact:
        raise AssertionError(f"saw {', '.join(map(repr, seen))}" if seen else "does not hold")


def eventually(ask, limit_s=TIMEOUT_S):
    """Asks until the answer is true or the time is over; returns the last answer."""
    end = time.monotonic() + limit_s
    while not (answer := ask()) and time.monotonic() < end:
        time.sleep(0.02)
    return answer


def error_name(action):
    """The name of the KafkaException an action ends with; None if it does not."""
    try:
        action()
    except KafkaException as error:
        return error.args[0].name()
    return None


class Deliveries:
    """The outcome of each produced message."""

    def __init__(self):
        self.errors = []
        self.places = []

    def __call__(self, error, message):
        if error is None:
            self.places.append((message.partition(), message.offset()))
        else:
            self.errors.append(error.name())


class Broker:
    """Makes clients of one broker, and names that nothing else uses."""

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.run = uuid.uuid4().hex[:6]
        self.numbers = itertools.count()
        self.settings = {"bootstrap.servers": bootstrap, "socket.timeout.ms": 10_000, "log_level": 0}
        self.admin = AdminClient(dict(self.settings))

    def name(self, stem):
        return f"{stem}-{self.run}-{next(self.numbers)}"

    def topic(self, stem, partitions=1, **configs):
        """Makes a topic; `retention_ms=1` sets `retention.ms`."""
        topic = self.name(stem)
        self.make_topic(topic, partitions, **configs)
        return topic

    def make_topic(self, topic, partitions=1, **configs):
        configs = {key.replace("_", "."): str(value) for key, value in configs.items()}
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=configs)
        self.admin.create_topics([new], operation_timeout=10)[topic].result(TIMEOUT_S)
        require(eventually(lambda: self.partitions(topic) == partitions), self.partitions(topic))

    def partitions(self, topic):
        """How many partitions the broker's metadata shows; 0 if it does not know the topic."""
        found = self.admin.list_topics(timeout=10).topics.get(topic)
        return len(found.partitions) if found is not None else 0

    def producer(self, **settings):
        callbacks = {key: settings.pop(key) for key in ("stats_cb",) if key in settings}
        settings = {key.replace("_", "."): value for key, value in settings.items()} | callbacks
        return Producer({**self.settings, "message.timeout.ms": TIMEOUT_S * 1000, "linger.ms": 5, **settings})

    def consumer(self, group=None, isolation="read_committed", **settings):
        settings = {key.replace("_", "."): value for key, value in settings.items()}
        return Consumer({
            **self.settings,
            "group.id": group or self.name("group"),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "isolation.level": isolation,
            **settings,
        })

    def send(self, topic, messages, **settings):
        """Sends (partition, key, value) and waits until all are stored; returns their places."""
        producer, deliveries = self.producer(**settings), Deliveries()
        for partition, key, value in messages:
            while True:
                try:
                    producer.produce(topic, value, key, partition=partition, on_delivery=deliveries)
                    break
                except BufferError:
                    producer.poll(0.1)
        left = producer.flush(60)
        require(left == 0 and not deliveries.errors, left, deliveries.errors[:2])
        return deliveries.places

    def read(self, topic, partitions=1, isolation="read_committed", limit_s=TIMEOUT_S, **settings):
        """All messages from the beginning to the end of every partition."""
        consumer = self.consumer(isolation=isolation, **settings)
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
        messages, ended, end = [], set(), time.monotonic() + limit_s
        while len(ended) < partitions:
            require(time.monotonic() < end, "no end of the partitions", len(messages))
            for message in consumer.consume(10_000, 0.02):
                if message.error() is None:
                    messages.append(message)
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    raise KafkaException(message.error())
        consumer.close()
        return messages

    def values(self, topic, partitions=1, isolation="read_committed"):
        return [message.value() for message in self.read(topic, partitions, isolation)]

    def watermarks(self, topic, partition=0):
        """(first offset, end) as the broker says now."""
        consumer = self.consumer()
        low_and_high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
        consumer.close()
        return low_and_high

    def transactional(self, transactional_id, **settings):
        producer = self.producer(transactional_id=transactional_id, **settings)
        producer.init_transactions(TIMEOUT_S)
        return producer
