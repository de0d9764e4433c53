#!/usr/bin/env python3
"""Measures ours, Flink and plain loops in turn, over some passes in one run on one machine, and prints the ratios.

Absolute figures of a shared machine mean little; what is compared is what ran minutes apart. Each engine prints lines
`RESULT name=... engine=... parallelism=... backend=... checkpoint=... events_per_s=... cores=...`; all are kept in the
results file, from which the table can be printed again.

    bench/compare.py                                  all rows, three passes (make bench-flink sets everything up first)
    bench/compare.py --rows q0read,count-100k --passes 1 --engines loop,staunch
    bench/compare.py --table results.txt              only print the table of an earlier run

Needs FLINKBENCH_WORK (a folder where bench/flink/setup_flink.sh has run) for Flink, and CARGO_TARGET_DIR with release builds of
staunch-bench and bench/limit.
"""
import argparse
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ENGINES = ("loop", "staunch", "flink")
# How Flink's memory is split when state is on the heap; its default split is for RocksDB.
HEAP = "-Dtaskmanager.memory.managed.fraction=0.1"
BIG_HEAP = "-Dtaskmanager.memory.process.size=10240m -Dtaskmanager.memory.managed.fraction=0.05"
SECOND = {"checkpoint": 1000}
JSON_RECORDS = 4_000_000
LATENCIES = ("p50_ms", "p99_ms", "p999_ms")


class Row:
    """One line of the table: a workload with its options, which Flink and ours are given by the same names.

    `loop` is the name of the plain loop that does the same work, or None.
    """

    def __init__(self, name, workload, parallelism, loop=None, memory=HEAP, **options):
        self.name, self.workload, self.parallelism, self.loop, self.memory = name, workload, parallelism, loop, memory
        self.options = {"name": name, "parallelism": parallelism, **options}

    def arguments(self, timing):
        pairs = {**self.options, **timing}
        return [word for key, value in pairs.items() for word in (f"--{key}", str(value))]

    def key(self):
        checkpoint = self.options.get("checkpoint", 0)
        return (self.name, str(self.parallelism), f"{checkpoint}ms" if checkpoint else "off")


def rows():
    million = 1_000_000
    for p in (1, 2):
        yield Row("q0read", "q0read", p, loop="q0read", **SECOND)
        yield Row("mapfilter", "mapfilter", p, loop="mapfilter", **SECOND)
        yield Row("count-100k", "count", p, loop="count-100k-whole-record", **SECOND)
        yield Row("countproj-100k", "countproj", p, loop="count-100k", **SECOND)
        yield Row("count-10M", "count", p, loop="count-10M", keys=10 * million, populate=10 * million, **SECOND)
        yield Row("tumble", "tumble", p, loop="tumble", **SECOND)
        yield Row("hop", "hop", p, loop="hop-slices", **SECOND)
        yield Row("filesink-csv", "filesink", p, loop="filesink", **SECOND)
        yield Row("json-lines", "files", p, **SECOND)
        yield Row("latency", "latency", p, rate=100_000, **SECOND)
        yield Row("latency-buffers-0", "latency", p, rate=100_000, bufferTimeout=0, **SECOND)
    for checkpoint in (0, 1000):
        big = {"memory": BIG_HEAP, "keys": 10 * million, "populate": 10 * million, "checkpoint": checkpoint}
        yield Row("bigstate-10M", "bigstate", 2, **big)
        yield Row("bigstate-10M-at-1M", "bigstate", 2, rate=million, **big)


def program(name):
    path = pathlib.Path(os.environ["CARGO_TARGET_DIR"], "release", name)
    if not path.exists():
        sys.exit(f"{name} is not built; `make bench-flink` builds it, or choose other --engines")
    return path


def json_lines(work):
    """The input of the row json-lines: a directory of files that all read, and its records."""
    data = work / "data" / "json"
    if not data.exists():
        made = data.with_suffix(".making")
        shutil.rmtree(made, ignore_errors=True)
        words = ["make-files", "--format", "json", "--outDir", made, "--maxRecords", JSON_RECORDS]
        subprocess.run([program("staunch-bench"), *map(str, words)], check=True)
        made.rename(data)
    return data


def command(engine, row, timing, work):
    if engine == "loop":
        return [program("limit"), row.loop] if row.loop else None
    if row.workload == "files":
        words = ["--format", "json", "--input", str(json_lines(work)), *row.arguments({})]
        if engine == "staunch":
            return [program("staunch-bench"), row.workload, *words]
        return [HERE / "flink" / "one.sh", row.memory, "SqlBench", "--workload", "q0", "--inputRecords", str(JSON_RECORDS), *words]
    out = ["--outDir", f"{work}/out"] if row.workload == "filesink" else []
    if engine == "staunch":
        return [program("staunch-bench"), row.workload, *row.arguments(timing), *out]
    return [HERE / "flink" / "one.sh", row.memory, "DataStreamBench", "--workload", row.workload, *row.arguments(timing), *out]


def measure(engine, row, timing, work, results):
    """Runs one engine on one row; RESULT lines go to the results file, anything that went wrong to the screen."""
    arguments = command(engine, row, timing, work)
    if arguments is None:
        return
    environment = {**os.environ, "RESULTS": "/dev/null", "LIMIT_DIR": str(work), "JOB_TIMEOUT": "500"}
    began = time.monotonic()
    done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, env=environment, cwd=work)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    for line in lines:
        if engine == "loop":  # The loop has no parallelism and no checkpoints: it stands beside every row of its workload.
            line = f"{line} row={row.name}"
        print(line, file=results, flush=True)
    if not lines:
        tail = (done.stdout + done.stderr).strip().splitlines()[-3:]
        print(f"  {engine} gave no result (exit code {done.returncode}): {' | '.join(tail)}", flush=True)
    print(f"  {engine:8} {row.name} parallelism={row.parallelism} took {time.monotonic() - began:.0f} s", flush=True)


def parse(path):
    """(row key or row name for the loop, engine) -> list of (events_per_s, cores)"""
    found = {}
    for line in pathlib.Path(path).read_text().splitlines():
        if not line.startswith("RESULT "):
            continue
        fields = dict(part.split("=", 1) for part in line.split()[1:] if "=" in part)
        if "events_per_s" not in fields or LATENCIES[0] in fields:
            continue
        engine = {"rust-loop": "loop"}.get(fields["engine"], fields["engine"])
        key = fields["row"] if engine == "loop" else (fields["name"], fields["parallelism"], fields["checkpoint"])
        cores = float(fields.get("cores", 1 if engine == "loop" else "nan"))
        found.setdefault((key, engine), []).append((float(fields["events_per_s"]), cores))
    return found


def latencies(path):
    """Prints the latency rows, if there are any: medians over the passes."""
    found = {}
    for line in pathlib.Path(path).read_text().splitlines():
        fields = dict(part.split("=", 1) for part in line.split()[1:] if "=" in part)
        if line.startswith("RESULT ") and LATENCIES[0] in fields:
            key = (fields["name"], fields["parallelism"], fields["engine"])
            found.setdefault(key, []).append([float(fields[name]) for name in LATENCIES])
    for (name, parallelism, engine), runs in sorted(found.items()):
        figures = ", ".join(f"{label} {statistics.median(run[at] for run in runs):.3f}" for at, label in enumerate(LATENCIES))
        print(f"{name} parallelism={parallelism} {engine}: {figures} ({len(runs)} runs)")


def table(path):
    found = parse(path)

    def median(key, engine, part):
        values = [value[part] for value in found.get((key, engine), [])]
        return statistics.median(values) if values else float("nan")

    head = ("workload", "p", "checkpoint", "loop M/s", "flink M/s", "cores", "staunch M/s", "cores", "/loop", "/flink", "/flink per core", "runs")
    lines = [head]
    for row in rows():
        key = row.key()
        loop, flink, ours = median(row.name, "loop", 0), median(key, "flink", 0), median(key, "staunch", 0)
        flink_cores, our_cores = median(key, "flink", 1), median(key, "staunch", 1)
        counts = [len(found.get((row.name if engine == "loop" else key, engine), [])) for engine in ENGINES]
        alone = row.parallelism == 1 and counts[0]
        if not any(counts[1:]) and not alone:
            continue
        figures = (loop / 1e6, flink / 1e6, flink_cores, ours / 1e6, our_cores, ours / loop, ours / flink)
        per_core = (ours / our_cores) / (flink / flink_cores)
        lines.append((*key, *(number(figure) for figure in (*figures, per_core)), "/".join(map(str, counts))))
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    for line in lines:
        print("  ".join(cell.ljust(width) if at == 0 else cell.rjust(width) for at, (cell, width) in enumerate(zip(line, widths))))
    print("\nMedians over the passes; runs are loop/staunch/flink. The loop has one thread and no checkpoints. Flink reuses objects,")
    print("which is its better setting; its cores are those of the TaskManager process alone.\n")
    latencies(path)


def number(value):
    if value != value:
        return "-"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def machine():
    model = "unknown processor"
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0] if names else model
    return f"{os.cpu_count()} cores, {model}, {platform.system()} {platform.release()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--rows", help="names, separated by commas; all by default")
    parser.add_argument("--parallelism", help="only rows of this parallelism")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--warmup", type=float, default=6, help="seconds")
    parser.add_argument("--windows", type=int, default=3, help="measured windows per run")
    parser.add_argument("--window", type=float, default=3, help="seconds per window")
    parser.add_argument("--results", help="file the RESULT lines go to; a new one in FLINKBENCH_WORK by default")
    parser.add_argument("--table", metavar="FILE", help="only print the table of an earlier run")
    options = parser.parse_args()
    if options.table:
        return table(options.table)
    engines = options.engines.split(",")
    if unknown := set(engines) - set(ENGINES):
        sys.exit(f"unknown engine: {', '.join(sorted(unknown))}; there are {', '.join(ENGINES)}")
    names = options.rows.split(",") if options.rows else sorted({row.name for row in rows()})
    if unknown := set(names) - {row.name for row in rows()}:
        sys.exit(f"unknown row: {', '.join(sorted(unknown))}; there are {', '.join(sorted({row.name for row in rows()}))}")
    chosen = [row for row in rows() if row.name in names and options.parallelism in (None, str(row.parallelism))]
    work = pathlib.Path(os.environ["FLINKBENCH_WORK"])
    work.mkdir(parents=True, exist_ok=True)
    path = options.results or work / time.strftime("compare-%Y%m%d-%H%M%S.txt")
    timing = {"warmup": options.warmup, "windows": options.windows, "window": options.window}
    print(f"{machine()}\n{len(chosen)} rows, {options.passes} passes, results in {path}", flush=True)
    with open(path, "a") as results:
        for turn in range(options.passes):
            print(f"pass {turn + 1}", flush=True)
            for row in chosen:
                for engine in (engines if turn % 2 == 0 else engines[::-1]):
                    measure(engine, row, timing, work, results)
    print()
    table(path)


main()
