"""Asks a broker for everything that a program on librdkafka expects of Kafka.

    broker_checks.py HOST:PORT               all checks
    broker_checks.py HOST:PORT NAME...       only these
    broker_checks.py --list                  their names

One line per check, then one line of JSON: {"passed": [...], "failed": {name: reason}}. Ends with 0 if all
passed. Every check makes its own topics, so a broker can be asked any number of times.

A fresh broker must be set to make topics on demand, to look for expired records, and to compact, every
second or so: otherwise the checks of `cleaning` wait for too long and fail.
"""

import json
import sys
import time
import traceback

from checks import cleaning, groups, records, topics, transactions
from checks.client import Broker

CHECKS = [check for module in (topics, records, groups, transactions, cleaning) for check in module.CHECKS]


def run(broker, check):
    """The reason why a check fails, or None."""
    started = time.monotonic()
    try:
        check(broker)
        reason = None
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{type(error).__name__}: {error} ({where.name}: {where.line})"
    verdict = "ok" if reason is None else "FAILED"
    print(f"{check.__name__:45} {verdict:6} {time.monotonic() - started:5.1f} s  {reason or ''}", flush=True)
    return reason


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(check.__name__ for check in CHECKS))
        return
    bootstrap, wanted = sys.argv[1], set(sys.argv[2:])
    unknown = wanted - {check.__name__ for check in CHECKS}
    if unknown:
        sys.exit(f"no such check: {', '.join(sorted(unknown))}")
    broker = Broker(bootstrap)
    results = {c.__name__: run(broker, c) for c in CHECKS if not wanted or c.__name__ in wanted}
    failed = {name: reason for name, reason in results.items() if reason is not None}
    print(json.dumps({"passed": [name for name in results if name not in failed], "failed": failed}))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
