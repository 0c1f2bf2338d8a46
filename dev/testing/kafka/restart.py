"""What a broker has acknowledged is there after its sudden death.

    restart.py HOST:PORT write     a committed transaction, a group's offset, an open transaction; then exits
    restart.py HOST:PORT read      finds all of that, on the broker's next life

Prints what it wrote or found; `read` ends with 1 if that is not right.
"""

import os
import sys

from confluent_kafka import TopicPartition

from checks.client import TIMEOUT_S, Broker, require

TOPIC, GROUP, TRANSACTION = "restart", "restart-group", "restart-transaction"


def write(broker):
    broker.make_topic(TOPIC, 2)
    producer = broker.transactional(TRANSACTION, transaction_timeout_ms=60_000)
    producer.begin_transaction()
    for i in range(100):
        producer.produce(TOPIC, str(i), partition=i % 2)
    producer.commit_transaction(TIMEOUT_S)
    consumer = broker.consumer(GROUP)
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, 33)], asynchronous=False)
    consumer.close()
    producer.begin_transaction()
    producer.produce(TOPIC, "pending", partition=0)
    require(producer.flush(TIMEOUT_S) == 0)
    print("100 records committed, offset 33 committed, one transaction left open", flush=True)
    # Without the end of the transaction that an orderly exit brings.
    os._exit(0)


def read(broker):
    consumer = broker.consumer(GROUP)
    committed = consumer.committed([TopicPartition(TOPIC, 0)], timeout=TIMEOUT_S)[0].offset
    consumer.close()
    require(committed == 33, committed)
    values = broker.values(TOPIC, 2)
    require(sorted(values) == sorted(str(i).encode() for i in range(100)), len(values))
    everything = broker.values(TOPIC, 2, "read_uncommitted")
    require(len(everything) == 101 and b"pending" in everything, len(everything))
    # The same producer comes back: its transaction is aborted, and the next one is seen.
    producer = broker.transactional(TRANSACTION)
    producer.begin_transaction()
    producer.produce(TOPIC, "next life", partition=0)
    producer.commit_transaction(TIMEOUT_S)
    values = broker.values(TOPIC, 2)
    require(len(values) == 101 and b"next life" in values and b"pending" not in values, len(values))
    print("all there; the open transaction was aborted by the producer's next life", flush=True)


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[2]](Broker(sys.argv[1]))
