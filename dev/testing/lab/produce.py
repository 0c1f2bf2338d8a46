"""Sends the lab's clicks to one partition of a Kafka topic.

The file holds one second of 10:00 per line; line n becomes
{"user_id":"u2","ts":"2026-10-01 10:00:03.000","seq":7} with seq = n and user u1, u2, u3 by n % 3.

    produce.py --bootstrap localhost:9092 --topic clicks1 --partition 0 events.txt
    produce.py ... --interval 0.05     another pause between two messages (default 0.3 s)
    produce.py ... --all-at-once       no pause
    produce.py ... --step              one message for each line read from standard input
"""

import argparse
import json
import sys
import time
from collections import Counter

from confluent_kafka import Producer


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", help="one second per line")
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="clicks1")
    parser.add_argument("--partition", type=int, default=0)
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument("--interval", type=float, default=0.3, help="seconds between two messages")
    pace.add_argument("--all-at-once", action="store_true")
    pace.add_argument("--step", action="store_true", help="wait for a line of stdin before each message")
    return parser.parse_args()


def expected(seconds):
    windows = Counter(second // 10 * 10 for second in seconds)
    return ", ".join(f"[{start:02}~{start + 10:02}) {n}" for start, n in sorted(windows.items()))


def message(seq, second):
    click = {"user_id": f"u{seq % 3 + 1}", "ts": f"2026-10-01 10:00:{second:02}.000", "seq": seq}
    return json.dumps(click, separators=(",", ":"))


class Delivery:
    """Counts acknowledged messages; the first failure is the program's."""

    def __init__(self):
        self.failed = None

    def __call__(self, error, _message):
        if error is not None and self.failed is None:
            self.failed = error


def main():
    args = arguments()
    with open(args.file) as lines:
        seconds = [int(line) for line in lines if line.strip()]
    print(f"expected: {expected(seconds)}", flush=True)
    producer = Producer({"bootstrap.servers": args.bootstrap, "linger.ms": 0, "message.timeout.ms": 20000})
    delivery = Delivery()
    largest = None
    for seq, second in enumerate(seconds, start=1):
        if args.step and not sys.stdin.readline():
            break
        producer.produce(args.topic, message(seq, second), partition=args.partition, on_delivery=delivery)
        if not args.all_at_once:
            producer.flush()
        late = f" <- {largest - second} s late" if largest is not None and second < largest else ""
        largest = second if largest is None else max(largest, second)
        print(f"sent #{seq:02} 10:00:{second:02}{late}", flush=True)
        if not (args.step or args.all_at_once) and seq < len(seconds):
            time.sleep(args.interval)
    producer.flush()
    if delivery.failed is not None:
        sys.exit(f"not delivered: {delivery.failed}")


if __name__ == "__main__":
    main()
