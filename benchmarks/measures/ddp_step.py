"""One step of data parallel training, ours against PyTorch's DDP: two processes over gloo, one thread each.

benchmarks/ddp_step/run.py measures, alternately and with its own workers. It writes its results as JSON, which this
module turns into the common tables:

    benchmarks/ddp_step/run.py --build BUILD --python PYTHON --json FILE [--case NAME]...
    {"cases": [{"name": "mlp", "title": "…", "seconds": {"ours": [0.08, …], "pytorch": [0.08, …], …},
                "failures": {"pytorch": [["hung", "why"]]}}]}

`seconds` are median steps, one for each process group; `failures` may be left out.
"""

from __future__ import annotations

import json
import sys

from harness.cases import OURS, Case, CaseResult, Goal, Metric, Samples, Subject
from harness.lab import ROOT, Lab
from harness.options import Options
from harness.processes import Failed, Scope

RUNNER = ROOT / "benchmarks" / "ddp_step" / "run.py"
PEER = "pytorch, bucket view"  # compares equals: ours also keeps gradients as views of their buckets
CASES = ("mlp", "vit", "zero", "shard")  # of the runner
SUBJECTS = (OURS, PEER, "pytorch", "one process")
LIMIT_S = 900.0
GOAL = Goal(times_better=(PEER, 1.0))


def unmeasured(why: str, failed: bool) -> list[CaseResult]:
    """Return a result without figures, and the reason."""
    samples = Samples(failures=[("failed", why)], taken=1) if failed else Samples(missing=why)
    case = Case("ddp_step", "A step of data parallel training", [Metric("step", "step", goal=GOAL)], [])
    return [CaseResult(case, {OURS: samples})]


def to_result(found: dict, options: Options) -> CaseResult:
    """Convert one case of the runner's JSON."""
    samples = {}
    for name, seconds in found["seconds"].items():
        failures = [(kind, why) for kind, why in found.get("failures", {}).get(name, [])]
        if not options.only or name in options.only:
            samples[name] = Samples(values={"step": seconds} if seconds else {}, failures=failures,
                                    taken=len(seconds) + len(failures))
    return CaseResult(Case(found["name"], found["title"], [Metric("step", "step", goal=GOAL)], list[Subject]()), samples)


def offered() -> dict[str, frozenset[str]]:
    """Return the names of the cases, and of each one's subjects."""
    return {name: frozenset(SUBJECTS) for name in CASES}


def results(lab: Lab, options: Options) -> list[CaseResult]:
    """Run the runner, which alternates the sides itself, unless no case or subject of it was chosen."""
    names = [name for name in CASES if not options.cases or name in options.cases]
    if not names or options.only and options.only.isdisjoint(SUBJECTS):
        return []
    absent = lab.missing(RUNNER, lab.torch_python, lab.program("ddp_step"))
    if absent is not None:
        return unmeasured(absent, failed=False)
    choice = [argument for name in names for argument in ("--case", name)]
    if options.repeat is not None:
        choice += ["--rounds", str(options.repeat)]
    with Scope() as scope:
        found = scope.folder / "found.json"
        child = scope.start([sys.executable, str(RUNNER), "--build", str(lab.build), "--python", str(lab.torch_python),
                             "--json", str(found), *choice])
        try:
            code = child.wait(LIMIT_S)
            if code != 0:
                raise Failed("failed", f"ended with {code}: {child.describe()}")
        except Failed as failure:
            return unmeasured(str(failure), failed=True)
        cases = json.loads(found.read_text(encoding="utf-8"))["cases"]
    return [to_result(case, options) for case in cases]
