#!/usr/bin/env python3
"""Tells what lies in Kafka topics, through a client that is not ours.

usage: judge.py --bootstrap HOST:PORT read TOPIC...      records up to the last stable offset, as a read_committed reader sees them
       judge.py --bootstrap HOST:PORT ends TOPIC...      per partition high watermark and last stable offset
       judge.py --bootstrap HOST:PORT settle TOPIC...    the same, once no transaction is open in them
       judge.py --bootstrap HOST:PORT create TOPIC [--partitions N]
       judge.py --bootstrap HOST:PORT delete TOPIC
       judge.py --bootstrap HOST:PORT serve              takes these as JSON lists, one a line, and ends each answer with {"end": null}

Each answer is JSON, one line a record or partition.
"""

import argparse
import base64
import json
import sys
import time

from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

ANSWER_SECONDS_MAX = 30
ATTEMPT_SECONDS_MAX = 1
SETTLE_SECONDS_MAX = 30
SETTLE_PAUSE_SECONDS = 0.02
# Lost connections are what tests are about.
LOG_LEVEL = 0


class Judge:
    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": LOG_LEVEL})

    def partitions(self, topic):
        found = self.admin.list_topics(topic, timeout=ANSWER_SECONDS_MAX).topics[topic]
        if found.error is not None:
            raise KafkaException(found.error)
        return sorted(found.partitions)

    def offsets(self, topic, spec, isolation):
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while True:
            wanted = {TopicPartition(topic, p): spec for p in self.partitions(topic)}
            answers = self.admin.list_offsets(wanted, isolation_level=isolation, request_timeout=ATTEMPT_SECONDS_MAX)
            try:
                found = {place.partition: answer.result().offset for place, answer in answers.items()}
            except KafkaException as wrong:
                found = {"not asked": str(wrong)}
            # A partition whose leader has just died is answered with a negative number instead of an error.
            if all(isinstance(offset, int) and offset >= 0 for offset in found.values()):
                return found
            if time.monotonic() > deadline:
                raise RuntimeError(f"the offsets of {topic} are not known: {found}")

    def ends(self, topic):
        # The stable offset first: what lies below it when asked stays below the high watermark.
        stable = self.offsets(topic, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
        high = self.offsets(topic, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
        return [
            {"topic": topic, "partition": p, "high_watermark": high[p], "last_stable_offset": stable[p]} for p in sorted(high)
        ]

    def settle(self, topic):
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        while True:
            ends = self.ends(topic)
            if all(e["high_watermark"] == e["last_stable_offset"] for e in ends):
                return ends
            if time.monotonic() > deadline:
                raise RuntimeError(f"a transaction is still open: {ends}")
            time.sleep(SETTLE_PAUSE_SECONDS)

    def read(self, topic):
        begins = self.offsets(topic, OffsetSpec.earliest(), IsolationLevel.READ_COMMITTED)
        ends = self.offsets(topic, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
        settings = {
            "bootstrap.servers": self.bootstrap,
            "log_level": LOG_LEVEL,
            "group.id": "judge",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
        }
        consumer = Consumer(settings)
        records = []
        try:
            for partition in (p for p in sorted(ends) if ends[p] > begins[p]):
                records += read_partition(consumer, topic, partition, begins[partition], ends[partition])
        finally:
            consumer.close()
        return records

    def delete(self, topic):
        for answer in self.admin.delete_topics([topic]).values():
            answer.result()
        return []

    def create(self, topic, partitions):
        for answer in self.admin.create_topics([NewTopic(topic, num_partitions=partitions)]).values():
            answer.result(ANSWER_SECONDS_MAX)
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while True:
            found = self.admin.list_topics(topic, timeout=ANSWER_SECONDS_MAX).topics[topic]
            if found.error is None and len(found.partitions) == partitions and all(p.leader >= 0 for p in found.partitions.values()):
                return []
            if time.monotonic() > deadline:
                raise RuntimeError(f"{topic} has no leaders")
            time.sleep(SETTLE_PAUSE_SECONDS)


def read_partition(consumer, topic, partition, begin, end):
    """Reads until the position is the end: the last records may be markers, which no reader sees."""
    place = TopicPartition(topic, partition, begin)
    consumer.assign([place])
    records = []
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    while consumer.position([place])[0].offset < end:
        message = consumer.poll(0.05)
        if message is None:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{topic}/{partition} cannot be read to {end}, only to {consumer.position([place])[0].offset}")
            continue
        if message.error() is not None:
            raise KafkaException(message.error())
        if message.offset() >= end:
            break
        records.append(as_json(message))
    return records


def as_json(message):
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "key": as_text(message.key()),
        "value": as_text(message.value()),
        "headers": [[name, as_text(value)] for name, value in message.headers() or []],
        "timestamp_ms": message.timestamp()[1],
    }


def as_text(value):
    if value is None:
        return None
    try:
        return {"text": value.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def parser():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = options.add_subparsers(dest="command", required=True)
    for name in ("read", "ends", "settle"):
        commands.add_parser(name).add_argument("topics", nargs="+")
    delete = commands.add_parser("delete")
    delete.add_argument("topic")
    create = commands.add_parser("create")
    create.add_argument("topic")
    create.add_argument("--partitions", type=int, default=1)
    commands.add_parser("serve")
    return options


def answer(judge, asked):
    if asked.command == "delete":
        return judge.delete(asked.topic)
    if asked.command == "create":
        return judge.create(asked.topic, asked.partitions)
    ask = {"read": judge.read, "ends": judge.ends, "settle": judge.settle}[asked.command]
    return [found for topic in asked.topics for found in ask(topic)]


def say(value):
    print(json.dumps(value), flush=True)


def main():
    options = parser()
    options.add_argument("--bootstrap", required=True)
    asked = options.parse_args()
    judge = Judge(asked.bootstrap)
    if asked.command != "serve":
        for found in answer(judge, asked):
            say(found)
        return
    for line in sys.stdin:
        try:
            for found in answer(judge, parser().parse_args(json.loads(line))):
                say(found)
            say({"end": None})
        except Exception as wrong:  # whatever it is, whoever asked must hear it
            say({"end": f"{type(wrong).__name__}: {wrong}"})


if __name__ == "__main__":
    main()
