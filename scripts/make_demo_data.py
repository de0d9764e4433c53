#!/usr/bin/env python3
"""Makes the input and the expected output of the demo from the flights case, by a straight-line program.

The slice is every flight that was seen in January 2013 (UTC), in the order in which it was seen. The job: one record after
the other; flights and miles per origin and hour of scheduled departure; a record is late when its window was already closed
by the watermark, which after every record stands at max(sched_ms) - 30 min - 1 ms.

Before it writes anything, the same program is run over the whole year and compared with the expected results of case d, which
were made elsewhere (testdata/flights/README.md).

usage: make_demo_data.py [--check]     --check writes nothing and compares with the files that are there
"""
import collections
import csv
import gzip
import io
import pathlib
import sys

FLIGHTS = pathlib.Path(__file__).resolve().parent.parent / "testdata" / "flights"
DEMO = FLIGHTS / "demo"
HOUR_MS = 3_600_000
ALLOWED_DELAY_MS = 30 * 60_000
FEBRUARY_MS = 1_359_676_800_000  # 2013-02-01T00:00:00Z


def read(path):
    with gzip.open(path, "rt", newline="") as file:
        return list(csv.DictReader(file))


def on_time_and_late(flights):
    """Rows (origin, window_start, window_end, flights, distance), sorted, and late rows (id, sched_ms, origin), in order."""
    windows = collections.defaultdict(lambda: [0, 0])
    late = []
    watermark = -(2**63)
    newest = -(2**63)
    for flight in flights:
        at = int(flight["sched_ms"])
        start = at // HOUR_MS * HOUR_MS
        end = start + HOUR_MS
        if end - 1 <= watermark:
            late.append((flight["id"], at, flight["origin"]))
        else:
            window = windows[flight["origin"], start, end]
            window[0] += 1
            window[1] += int(flight["distance"])
        newest = max(newest, at)
        watermark = newest - ALLOWED_DELAY_MS - 1
    on_time = sorted((*key, count, distance) for key, (count, distance) in windows.items())
    return on_time, late


def expect_equal(what, ours, theirs):
    """Compares as multisets of rows of text."""
    ours, theirs = (collections.Counter(tuple(map(str, row)) for row in rows) for rows in (ours, theirs))
    if ours != theirs:
        missing, surplus = list((theirs - ours).elements()), list((ours - theirs).elements())
        sys.exit(f"{what}: {len(missing)} rows missing, {len(surplus)} too many; first missing={missing[:1]} first surplus={surplus[:1]}")
    print(f"{what}: {sum(ours.values())} rows are as expected")


def validate(flights):
    on_time, late = on_time_and_late(flights)
    rows = read(FLIGHTS / "d_late_30m.on_time.expected.csv.gz")
    expect_equal("case d, on time", [(o, s, n) for o, s, _, n, _ in on_time], [(r["origin"], r["window_start"], r["flights"]) for r in rows])
    rows = read(FLIGHTS / "d_late_30m.late.expected.csv.gz")
    expect_equal("case d, late", late, [(r["id"], r["sched_ms"], r["origin"]) for r in rows])


def as_csv(header, rows):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode()


def put(name, content, check):
    path = DEMO / name
    if check:
        if gzip.decompress(path.read_bytes()) != content:
            sys.exit(f"{path.name} is not what this script makes; run it without --check")
        print(f"{path.name}: is what this script makes")
    else:
        DEMO.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(content, 9, mtime=0))
        print(f"{path.name}: written")


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    flights = read(FLIGHTS / "flights.csv.gz")
    validate(flights)
    january = [flight for flight in flights if int(flight["seen_ms"]) < FEBRUARY_MS]
    on_time, late = on_time_and_late(january)
    if sum(row[3] for row in on_time) + len(late) != len(january):
        sys.exit("the on-time and late records do not add up to the input")
    print(f"january: {len(january)} flights, {len(on_time)} windows, {len(late)} late")
    put("flights-2013-01.csv.gz", as_csv(january[0].keys(), [flight.values() for flight in january]), check)
    put("expected_on_time.csv.gz", as_csv(("origin", "window_start", "window_end", "flights", "distance"), on_time), check)
    put("expected_late.csv.gz", as_csv(("id", "sched_ms", "origin"), late), check)


main()
