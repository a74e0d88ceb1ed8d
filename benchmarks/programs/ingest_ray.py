"""Ray Data over Parquet files of 3,072-byte images: ingest_ray.py FOLDER CONSUMERS.

Prints what benchmarks/programs/ingest_worker.cc prints. One consumer iterates over the dataset itself; several share it by
streaming_split(equal=True), each in an actor. Batches are Arrow tables of 512 rows, which is what costs Ray Data least. The
memory is the sum of the proportional sizes of all processes of the session, which shares the object store among them.
"""

from __future__ import annotations

import os
import sys
import threading
import time

import ray
import ray.data

BATCH = 512


def consume(iterator) -> tuple[int, float, float]:
    """Return the rows, when the first batch came, and when the last one had come."""
    rows, first = 0, 0.0
    for batch in iterator.iter_batches(batch_size=BATCH, batch_format="pyarrow", prefetch_batches=2):
        if rows == 0:
            first = time.monotonic()
        rows += batch.num_rows
    return rows, first, time.monotonic()


@ray.remote(num_cpus=0)
class Consumer:
    def consume(self, iterator) -> tuple[int, float, float]:
        return consume(iterator)


def session_usage() -> tuple[float, float]:
    """Return the MiB of memory and the seconds on a processor of every process below this one."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(entry))
    kib, ticks, todo = 0, 0, [os.getpid()]
    while todo:
        pid = todo.pop()
        todo.extend(parents.get(pid, []))
        try:
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
                kib += next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        except (OSError, StopIteration):
            continue
    return kib / 1024, ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    folder, consumers = sys.argv[1], int(sys.argv[2])
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False)  # with 2, a split hangs without a word
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    peak, over = [0.0], threading.Event()

    def watch() -> None:
        while not over.wait(0.2):
            peak[0] = max(peak[0], session_usage()[0])

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    cpu_before = session_usage()[1]
    began = time.monotonic()
    dataset = ray.data.read_parquet(folder)
    if consumers == 1:
        results = [consume(dataset)]
    else:
        actors = [Consumer.remote() for _ in range(consumers)]
        parts = dataset.streaming_split(consumers, equal=True)
        results = ray.get([actor.consume.remote(part) for actor, part in zip(actors, parts)])
    rows = sum(each[0] for each in results)
    took = max(each[2] for each in results) - began
    first = max(each[1] for each in results) - began
    cpu = session_usage()[1] - cpu_before
    over.set()
    watching.join()
    ray.shutdown()  # the line below is the last one
    print(rows, took, max(cpu, 0.01), first * 1000, round(peak[0]))


main()
