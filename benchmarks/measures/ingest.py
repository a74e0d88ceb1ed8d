"""Reading a dataset: images of 3,072 bytes and a label in 16 Parquet files of four row groups each.

The limit is Arrow, which reads row group after row group on one thread and makes no batches; it runs right before and right
after each of our samples, so that their ratio holds on a busy machine, too. Ours is a worker that calls
iter_torch_batches(512) and does nothing with the batches. DataLoader has two worker processes, which cut batches by hand.
Ray Data gives batches of Arrow, to one consumer or split to two.
"""

from __future__ import annotations

import atexit
import json
from pathlib import Path

from harness.cases import Case, Goal, Metric, Subject
from harness.lab import Lab
from harness.options import Options
from harness.processes import Failed, Scope
from harness.ray_cluster import RayCluster, new_token, ray_environment

FILES, GROUPS = 16, 4
LIMIT_S = 300.0

made: dict[str, Scope] = {}


def rows_per_group(lab: Lab) -> int:
    return lab.count(1363, 10900)


def dataset(lab: Lab, codec: str) -> Path:
    """Return the folder of the files, which the first call makes; they go with this process."""
    if codec not in made:
        scope = Scope()
        atexit.register(scope.close)
        folder = scope.folder / "data"
        folder.mkdir()
        run(scope, [str(lab.program("ingest_worker")), "make", str(folder), str(FILES), str(GROUPS), str(rows_per_group(lab)),
                    codec])
        made[codec] = scope
    return made[codec].folder / "data"


def run(scope: Scope, command: list[str], env: dict[str, str] | None = None) -> str:
    child = scope.start(command, env or {})
    code = child.wait(LIMIT_S)
    if code != 0:
        raise Failed("failed", f"ended with {code}: {child.describe()}")
    return child.output.read_text(encoding="utf-8").strip().splitlines()[-1] if child.output.stat().st_size else ""


def sample(lines: list[str]) -> dict[str, float]:
    """Join what readers that ran together printed."""
    rows, seconds, cpu, first, rss = zip(*([float(word) for word in line.split()] for line in lines))
    return {"rate": sum(rows) / max(seconds), "cpu_rate": sum(rows) / sum(cpu), "first": max(first) / 1000,
            "memory": max(rss)}


def limit(lab: Lab, codec: str) -> dict[str, float]:
    with Scope() as scope:
        return sample([run(scope, [str(lab.program("ingest_worker")), "limit", str(dataset(lab, codec))])])


def read(lab: Lab, codec: str, workers: int, keys: dict[str, object], ingest_workers: int = 0) -> dict[str, float]:
    """Return what workers print that read the dataset, with these keys."""
    with Scope() as scope:
        spec: dict[str, object] = {
            "name": "ingest", "command": [str(lab.program("ingest_worker"))],
            "train_loop_config": {"out": str(scope.folder)},
            "datasets": {"train": {"path": str(dataset(lab, codec)), **keys}},
            "scaling_config": {"num_workers": workers, "resources_per_worker": {"CPU": 0}},
            "run_config": {"storage_path": str(scope.folder / "runs")}}
        if ingest_workers > 0:
            spec["dataset_config"] = {"train": {"ingest_workers": ingest_workers, "ingest": {"resources_per_worker": {"CPU": 0}}}}
        path = scope.folder / "ingest.yaml"
        path.write_text(json.dumps(spec), encoding="utf-8")
        run(scope, [str(lab.train_run), str(path)])
        return sample([(scope.folder / f"ingest-{rank}.txt").read_text(encoding="ascii") for rank in range(workers)])


def ours(lab: Lab, codec: str, workers: int, shuffle: bool, ingest_workers: int = 0) -> dict[str, float]:
    before = limit(lab, codec)
    result = read(lab, codec, workers, {"shuffle": shuffle}, ingest_workers)
    after = limit(lab, codec)
    result["ratio"] = 2 * result["rate"] / (before["rate"] + after["rate"])
    result["cpu_ratio"] = 2 * result["cpu_rate"] / (before["cpu_rate"] + after["cpu_rate"])
    return result


def hand_over(lab: Lab, how: str) -> dict[str, float]:
    """Hand rows in memory from one process to another."""
    with Scope() as scope:
        gib, seconds, cpu = [float(word) for word in run(scope, [str(lab.program("ingest_handover")),
                                                                 str(lab.count(1, 8)), how]).split()]
    return {"cpu": cpu / gib, "gib_rate": gib / seconds}


def stall(lab: Lab, how: str) -> dict[str, float]:
    """Kill five of six ingest workers, one after the other."""
    with Scope() as scope:
        words = run(scope, [str(lab.program("ingest_handover")), "stall", how]).split()
    return {"stall": max(float(word) for word in words) / 1000}


def scaling(lab: Lab) -> dict[str, float]:
    """Read with a map that takes 20 us a row, in one ingest worker and in two."""
    keys = {"map": ["spin"], "shuffle": True, "limit": lab.count(20_000, 200_000)}
    one = read(lab, "snappy", 1, keys, 1)
    two = read(lab, "snappy", 1, keys, 2)
    return {"one": one["rate"], "two": two["rate"], "scale": two["rate"] / one["rate"]}


def data_loader(lab: Lab, codec: str) -> dict[str, float]:
    data = dataset(lab, codec)
    with Scope() as scope:
        program = lab.programs / "ingest_torch.py"
        return sample([run(scope, [str(lab.torch_python), str(program), str(data)], {"PYTHONPATH": str(lab.pyarrow)})])


def ray_data(lab: Lab, codec: str, consumers: int) -> dict[str, float]:
    data = dataset(lab, codec)
    with Scope() as scope:
        program = lab.programs / "ingest_ray.py"
        return sample([run(scope, [str(lab.ray_python), str(program), str(data), str(consumers)], ray_environment(new_token()))])


def cases(lab: Lab, options: Options, ray: RayCluster) -> list[Case]:
    """Return a case for each compression."""
    del options, ray
    missing = lab.missing(lab.train_run, lab.program("ingest_worker"))
    no_peer = lab.missing(lab.torch_python, lab.pyarrow) or missing
    no_ray = lab.missing(lab.ray_python) or missing
    rows = FILES * GROUPS * rows_per_group(lab)

    def case(codec: str) -> Case:
        def subject(name: str, workers: int, shuffle: bool) -> Subject:
            return Subject(name, lambda: ours(lab, codec, workers, shuffle), lab.count(3, 5), missing)

        return Case(codec, f"Read {rows:,} images of 3,072 bytes, {codec}",
                    [Metric("rate", "rows a second", "count"), Metric("ratio", "of the limit", "count", goal=Goal(at_least=0.8)),
                     Metric("cpu_rate", "rows a second of processor time", "count"),
                     Metric("cpu_ratio", "of the limit's", "count"),
                     Metric("first", "first batch", goal=Goal(at_most=0.05)),
                     Metric("memory", "peak memory, MiB", "count", goal=Goal(at_most=256))],
                    [subject("ours", 1, False), subject("ours, shuffled", 1, True),
                     subject("ours, 2 workers", 2, False), subject("ours, 2 workers, shuffled", 2, True),
                     Subject("the limit", lambda: limit(lab, codec), lab.count(3, 5), missing),
                     Subject("DataLoader", lambda: data_loader(lab, codec), lab.count(3, 5), no_peer),
                     Subject("Ray Data", lambda: ray_data(lab, codec, 1), lab.count(1, 3), no_ray),
                     Subject("Ray Data, split to 2", lambda: ray_data(lab, codec, 2), lab.count(1, 3), no_ray)])

    def ingest_case(codec: str) -> Case:
        def subject(name: str, count: int, shuffle: bool) -> Subject:
            return Subject(name, lambda: ours(lab, codec, 1, shuffle, count), lab.count(3, 5), missing)

        return Case(f"ingest workers, {codec}", f"Read {rows:,} images of 3,072 bytes, {codec}, by ingest workers",
                    [Metric("rate", "rows a second", "count"), Metric("ratio", "of the limit", "count", goal=Goal(at_least=0.5)),
                     Metric("first", "first batch"), Metric("memory", "peak memory of the rank, MiB", "count")],
                    [subject("ours", 1, False), subject("ours, shuffled", 1, True),
                     subject("ours, 2 ingest workers, shuffled", 2, True)])

    no_handover = lab.missing(lab.program("ingest_handover"))
    over = Case("hand over", "Hand rows from an ingest worker to a rank on its node",
                [Metric("cpu", "seconds of processor time a GiB, of both", "count", goal=Goal(at_most=0.25)),
                 Metric("gib_rate", "GiB a second", "count")],
                [Subject("ours", lambda: hand_over(lab, "memory"), lab.count(3, 5), no_handover)])
    flights = [Case(f"hand over by {how}", f"The same over Flight on loopback{note}",
                    [Metric("cpu", "seconds of processor time a GiB, of both", "count"),
                     Metric("gib_rate", "GiB a second", "count")],
                    [Subject("ours", lambda how=how: hand_over(lab, how), lab.count(3, 5), no_handover)])
               for how, note in (("flight", ", not encrypted"), ("tls", ", encrypted as between nodes"))]
    stalls = [Case(f"stall by {how}", "Five of six ingest workers are killed, one after the other, while a rank reads",
                   [Metric("stall", "the longest time that a batch took", goal=Goal(at_most=0.1))],
                   [Subject("ours", lambda how=how: stall(lab, how), 1, no_handover)])
              for how in ("memory", "tls")]
    scale = Case("scaling", "A map that takes 20 us a row, in ingest workers",
                 [Metric("one", "rows a second, 1 ingest worker", "count"),
                  Metric("two", "rows a second, 2 ingest workers", "count"),
                  Metric("scale", "times as fast", "count", goal=Goal(at_least=1.8))],
                 [Subject("ours", lambda: scaling(lab), lab.count(3, 5), missing)])
    return [case("snappy"), case("zstd"), ingest_case("snappy"), over, *flights, *stalls, scale]
