#!/usr/bin/env python3
"""Run ddp_step (ours) and ddp_step.py (PyTorch DDP) in turn on this machine, over gloo, with one thread per process.

    run.py --build BUILD [--python VENV/bin/python] [--json FILE] [--case NAME] [--rounds N] [--device cuda]

PyTorch runs in two ways: like ours, with gradients as views of their buckets ("pytorch, bucket view"), and with its
default, which copies them. Prints medians and the ratio to the first of these; --json writes what
benchmarks/measures/ddp_step.py reads. Each value is the median step of one new group. The sides alternate, so that a busy
minute of the machine affects all of them. With --device cuda, each side is one process on one GPU, with the fused AdamW.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TIMEOUT_S = 180
WORLD_SIZE = 2
# name: title, model, optimizer, steps, rounds (at least 5: fewer prove nothing), more flags
CASES = {
    "mlp": ("10M-parameter MLP, batch 32, AdamW", "mlp", "adamw", 40, 5, ()),
    "vit": ("ViT 32x32/4, 12 layers of 384, batch 16, AdamW", "vit", "adamw", 5, 5, ()),
    "zero": ("The MLP with ZeroOptimizer, beside ZeroRedundancyOptimizer", "mlp", "zero", 20, 5, ()),
    "shard": ("The MLP sharded by layers, beside PyTorch's fully_shard", "mlp", "adamw", 20, 5, ("--shard", "yes")),
}
LIKE_FOR_LIKE = "pytorch, bucket view"
UNMARKED = "ours, no marks"  # of progress: shows what these cost


def default_python():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    deps = os.environ.get("TRAINRUN_DEPS_DIR") or os.path.join(cache, "trainrun", "deps")
    return os.path.join(deps, "torch-venv-2.11.0-2", "bin", "python")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def median_step(command, world_size):
    """Start the ranks with torchrun's variables. Return the median step in seconds that rank 0 prints."""
    port = free_port()
    ranks = []
    for rank in range(world_size):
        env = {**os.environ, "OMP_NUM_THREADS": "1", "RANK": str(rank), "LOCAL_RANK": str(rank),
               "WORLD_SIZE": str(world_size), "LOCAL_WORLD_SIZE": str(world_size), "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": str(port)}
        ranks.append(subprocess.Popen(command, env=env, text=True,
                                      stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL))
    try:
        out, _ = ranks[0].communicate(timeout=TIMEOUT_S)
        codes = [rank.wait(timeout=TIMEOUT_S) for rank in ranks]
    except subprocess.TimeoutExpired:
        return None, ["hung", f"no end after {TIMEOUT_S} s"]
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
                rank.wait()
    lines = [line for line in out.splitlines() if '"step_ms"' in line]
    if any(codes) or not lines:
        return None, ["failed", f"exit codes {codes}: {' '.join(command)}"]
    return statistics.median(json.loads(lines[-1])["step_ms"]) / 1000, None


def measure(options, name):
    title, model, optimizer, steps, rounds, more = CASES[name]
    on_gpu = options.device == "cuda"
    if on_gpu:
        optimizer, steps = "fused", 50
    world_size = 1 if on_gpu else WORLD_SIZE
    flags = ["--model", model, "--steps", str(steps), "--optimizer", optimizer, *more]
    ours = [str(pathlib.Path(options.build) / "bin" / "benchmarks" / "ddp_step"), *flags]
    theirs = [options.python, str(HERE / "ddp_step.py"), *flags, "--device", options.device]
    sides = {"ours": (ours, world_size), LIKE_FOR_LIKE: ([*theirs, "--bucket-view"], world_size), "pytorch": (theirs, world_size)}
    if not on_gpu:
        sides["one process"] = (ours, 1)
    if options.side:
        sides[UNMARKED] = ([ours[0] + "_unmarked", *flags], world_size)
        sides = {side: sides[side] for side in options.side}
    seconds = {side: [] for side in sides}
    failures = {side: [] for side in sides}
    for _ in range(options.rounds or rounds):
        for side, (command, world_size) in sides.items():
            step, failure = median_step(command, world_size)
            if failure is None:
                seconds[side].append(step)
            else:
                failures[side].append(failure)
    return {"name": name, "title": title, "seconds": seconds, "failures": failures}


def describe(case):
    shown = [f"{side} {statistics.median(values) * 1000:.1f} ms ({min(values) * 1000:.1f}-{max(values) * 1000:.1f})"
             for side, values in case["seconds"].items() if values]
    failed = [f"{side} {kind}: {why}" for side, found in case["failures"].items() for kind, why in found]
    ours, theirs = case["seconds"].get("ours"), case["seconds"].get(LIKE_FOR_LIKE)
    ratio = f"ratio {statistics.median(ours) / statistics.median(theirs):.2f}" if ours and theirs else "no ratio"
    return f"{case['name']}: " + ", ".join([*shown, ratio, *failed])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--python", default=default_python(), help="one with PyTorch")
    parser.add_argument("--json", help="write the figures into this file")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--side", action="append", help=f"only this one: ours, '{UNMARKED}', pytorch, …")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--case", action="append", choices=sorted(CASES))
    options = parser.parse_args()
    found = []
    for name in options.case or CASES:
        found.append(measure(options, name))
        print(describe(found[-1]), file=sys.stderr, flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"cases": found}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
