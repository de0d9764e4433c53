#!/usr/bin/env python3
"""Tells what lies in Kafka topics, through a client that is not ours.

usage: judge.py --bootstrap HOST:PORT read TOPIC...      records up to the last stable offset, as a read_committed reader sees them
       judge.py --bootstrap HOST:PORT ends TOPIC...      per partition high watermark and last stable offset
       judge.py --bootstrap HOST:PORT settle TOPIC...    the same, once no transaction is open in them
       judge.py --bootstrap HOST:PORT group GROUP TOPIC    per partition the offset that a consumer group holds, negative for none
       judge.py --bootstrap HOST:PORT create TOPIC [--partitions N]
       judge.py --bootstrap HOST:PORT delete TOPIC
       judge.py --bootstrap HOST:PORT grow TOPIC --partitions N    gives a topic more partitions
       judge.py --bootstrap HOST:PORT feed TOPIC --begin A --end B --accounts K [--bad N]    writes payments: the numbers, one account after the other, and
                                                                                 N texts `bad NUMBER` between them
       judge.py --bootstrap HOST:PORT once TOPIC --end B --accounts K    whether each payment is there once, in order per account
       judge.py --bootstrap HOST:PORT serve              takes these as JSON lists, one a line, and ends each answer with {"end": null}

Each answer is JSON, one line a record or partition. A payment is {"account": K, "cents": NUMBER}, its key is the account. What a job writes
may also have the count of the account's payments up to it as "nth" and their sum as "total"; then these are checked too.
"""

import argparse
import base64
import json
import sys
import time

from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

ANSWER_SECONDS_MAX = 30
ATTEMPT_SECONDS_MAX = 1
SETTLE_SECONDS_MAX = 30
SETTLE_PAUSE_SECONDS = 0.02
FEED_SECONDS_MAX = 120
SHOWN_MAX = 10
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

    def group(self, group, topic):
        settings = {"bootstrap.servers": self.bootstrap, "log_level": LOG_LEVEL, "group.id": group, "enable.auto.commit": False}
        consumer = Consumer(settings)
        try:
            places = [TopicPartition(topic, partition) for partition in self.partitions(topic)]
            found = consumer.committed(places, timeout=ANSWER_SECONDS_MAX)
        finally:
            consumer.close()
        return [{"topic": topic, "partition": place.partition, "offset": place.offset} for place in found]

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
        return [as_json(message) for message in self.messages(topic)]

    def messages(self, topic):
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
        try:
            for partition in (p for p in sorted(ends) if ends[p] > begins[p]):
                yield from read_partition(consumer, topic, partition, begins[partition], ends[partition])
        finally:
            consumer.close()

    def feed(self, topic, begin, end, accounts, bad):
        failures = []

        def delivered(error, _message):
            if error is not None:
                failures.append(str(error))

        settings = {"bootstrap.servers": self.bootstrap, "log_level": LOG_LEVEL, "enable.idempotence": True, "linger.ms": 5}
        producer = Producer(settings | {"partitioner": "murmur2_random"})

        def send(key, value):
            while True:
                try:
                    return producer.produce(topic, key=key, value=value, on_delivery=delivered)
                except BufferError:
                    producer.poll(0.1)

        for number in range(begin, end):
            account = number % accounts
            send(str(account), json.dumps({"account": account, "cents": number}))
            # The bad ones lie between the payments, as evenly as it goes.
            for index in range((number - begin) * bad // (end - begin), (number - begin + 1) * bad // (end - begin)):
                send(f"bad {index}", f"bad {index}")
            if number % 1000 == 0:
                producer.poll(0)
        if producer.flush(FEED_SECONDS_MAX) > 0 or failures:
            raise RuntimeError(f"not everything was taken: {failures[:SHOWN_MAX]}")
        return []

    def once(self, topic, end, accounts):
        times = [0] * end
        last = {}
        strange, disordered, miscounted, records = [], [], [], 0
        for message in self.messages(topic):
            records += 1
            where = f"{topic}/{message.partition()}@{message.offset()}: {message.value()}"
            payment = json.loads(message.value())
            account, number = payment["account"], payment["cents"]
            if not 0 <= number < end or account != number % accounts or message.key() != str(account).encode():
                strange.append(where)
                continue
            times[number] += 1
            before = last.get(account)
            if before is not None and (before["partition"] != message.partition() or before["cents"] >= number):
                disordered.append(where)
            if "nth" in payment:
                nth, total = (before["nth"], before["total"]) if before is not None else (0, 0)
                if payment["nth"] != nth + 1 or payment["total"] != total + number:
                    miscounted.append(where)
            last[account] = payment | {"partition": message.partition()}
        lost = [number for number in range(end) if times[number] == 0]
        doubled = [number for number in range(end) if times[number] > 1]
        found = {"records": records}
        for name, wrong in (
            ("lost", lost),
            ("doubled", doubled),
            ("strange", strange),
            ("disordered", disordered),
            ("miscounted", miscounted),
        ):
            found[name] = len(wrong)
            found[f"{name}_first"] = [str(one) for one in wrong[:SHOWN_MAX]]
        return [found]

    def grow(self, topic, partitions):
        for answer in self.admin.create_partitions([NewPartitions(topic, partitions)]).values():
            answer.result(ANSWER_SECONDS_MAX)
        return self.led(topic, partitions)

    def delete(self, topic):
        for answer in self.admin.delete_topics([topic]).values():
            answer.result()
        return []

    def create(self, topic, partitions):
        for answer in self.admin.create_topics([NewTopic(topic, num_partitions=partitions)]).values():
            answer.result(ANSWER_SECONDS_MAX)
        return self.led(topic, partitions)

    def led(self, topic, partitions):
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
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        yield message


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
    group = commands.add_parser("group")
    group.add_argument("group")
    group.add_argument("topic")
    delete = commands.add_parser("delete")
    delete.add_argument("topic")
    for name in ("create", "grow"):
        made = commands.add_parser(name)
        made.add_argument("topic")
        made.add_argument("--partitions", type=int, default=1)
    for name in ("feed", "once"):
        payments = commands.add_parser(name)
        payments.add_argument("topic")
        payments.add_argument("--begin", type=int, default=0)
        payments.add_argument("--end", type=int, required=True)
        payments.add_argument("--accounts", type=int, required=True)
        payments.add_argument("--bad", type=int, default=0)
    commands.add_parser("serve")
    return options


def answer(judge, asked):
    if asked.command == "group":
        return judge.group(asked.group, asked.topic)
    if asked.command == "delete":
        return judge.delete(asked.topic)
    if asked.command in ("create", "grow"):
        return getattr(judge, asked.command)(asked.topic, asked.partitions)
    if asked.command == "feed":
        return judge.feed(asked.topic, asked.begin, asked.end, asked.accounts, asked.bad)
    if asked.command == "once":
        return judge.once(asked.topic, asked.end, asked.accounts)
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
