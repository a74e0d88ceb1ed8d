#!/usr/bin/env python3
"""Measure trainrun, torchrun and Ray Train, alternately in one run: `make bench`.

    benchmarks/run.py                       everything (about an hour), into benchmarks/RESULTS.md
    benchmarks/run.py --quick               everything, with fewer samples
    benchmarks/run.py launch --workers 2 --repeat 5 --only torchrun      one measure, one subject: only printed

It needs build/bin (make build) and the peers (packaging/deps/install.sh bench). It reports a missing subject, and does not
skip it silently. Exit code: 0 if all that was asked for was measured and no sample of ours failed, else 1.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from pathlib import Path

from harness.cases import CaseResult, run_case, say
from harness.lab import ROOT, Lab, default_deps
from harness.options import Options
from harness.ray_cluster import RayCluster
from harness.results import machine, write_raw, write_results
from harness.tables import case_table

MEASURES = {
    "launch": "Launch to the first line of user code",
    "reports": "Reports",
    "ddp_step": "A step of data parallel training",
    "sweep": "Searches over parameters",
    "restart": "After a SIGKILL",
    "faults": "The same faults",
    "checkpoint": "Checkpoints",
    "restore": "Restoring a checkpoint",
    "object_store": "Checkpoints in an object store",
    "ingest": "Reading a dataset",
    "memory": "Memory of the idle system",
    "controller": "The launcher of a large cluster",
}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=f"of {', '.join(MEASURES)}; default: all")
    parser.add_argument("--quick", action="store_true", help="fewer samples")
    parser.add_argument("--only", action="append", default=[], metavar="SUBJECT",
                        help="as the tables name them: ours, 'ours, python', torchrun, 'torchrun, C++', ray, …; repeatable")
    parser.add_argument("--case", action="append", default=[], metavar="CASE", help="as printed; repeatable")
    parser.add_argument("--workers", action="append", default=[], type=int, metavar="N", help="world sizes of launch")
    parser.add_argument("--repeat", type=int, metavar="N", help="samples of each subject")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the build folder (default: build)")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "RESULTS.md",
                        help="where tables are kept; a run narrowed by --only, --case, --workers or --repeat writes none")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.measures) - set(MEASURES))
    if unknown:
        parser.error(f"unknown measure {', '.join(unknown)}: choose from {', '.join(MEASURES)}")
    return arguments


def measure(name: str, lab: Lab, options: Options) -> list[CaseResult]:
    """Take all samples of one measure, with a separate Ray cluster if it needs one."""
    module = importlib.import_module(f"measures.{name}")
    if hasattr(module, "results"):  # it has its own runner
        return module.results(lab, options)
    ray = RayCluster(lab)
    try:
        cases = module.cases(lab, options, ray)
        return [run_case(case) for case in options.choose(cases)]
    finally:
        ray.stop()


def unknown_names(measures: list[str], lab: Lab, options: Options) -> list[str]:
    """Return the names of --case and --only that are in none of these measures, or not in the chosen cases."""
    offered: dict[str, frozenset[str]] = {}
    for name in measures:
        module = importlib.import_module(f"measures.{name}")
        offered |= module.offered() if hasattr(module, "offered") else {
            case.name: frozenset(subject.name for subject in case.subjects)
            for case in module.cases(lab, options, RayCluster(lab))}
    chosen = [names for case, names in offered.items() if not options.cases or case in options.cases]
    subjects = frozenset().union(*chosen)
    return sorted(options.cases - offered.keys()) + sorted(options.only - subjects)


def complete(result: CaseResult) -> bool:
    """Return whether every subject was there and ours never failed."""
    return all(one.missing is None and not (name.startswith("ours") and one.failures)
               for name, one in result.samples.items())


def main() -> int:
    arguments = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # closes the scopes
    lab = Lab(arguments.build.resolve(), default_deps(), arguments.quick)
    options = Options(frozenset(arguments.only), frozenset(arguments.case), frozenset(arguments.workers), arguments.repeat)
    measures = arguments.measures or list(MEASURES)
    unknown = unknown_names(measures, lab, options)
    if unknown:
        say(f"nothing to measure has the name {', '.join(map(repr, unknown))}")
        return 1
    narrowed = options != Options()
    whole = True
    print(f"{'Quick' if arguments.quick else 'Full'} run on {machine()}\n")
    for name in measures:
        say(f"== {name}")
        results = measure(name, lab, options)
        if not results:
            continue
        print(f"## {MEASURES[name]}\n")
        print("\n".join(case_table(result) for result in results), flush=True)
        say(f"raw samples: {write_raw(lab.build / 'bench', name, results)}")
        if not narrowed:
            write_results(arguments.results, "Quick" if arguments.quick else "Full", MEASURES[name], results)
        whole = whole and all(complete(result) for result in results)
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
