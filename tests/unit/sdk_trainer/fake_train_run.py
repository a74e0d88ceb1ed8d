#!/usr/bin/env python3
"""Plays train-run for a WarmTrainer: one "worker", a process that sleeps, which stays after a run and is taken by the next one.

The run's train_loop_config says how it goes: {"end": "failed" or "refused"}, {"hold": true} (until it is stopped), {"lose": true} (it
dies without a word). $FAKE_LOG gets a line of JSON for each run, and for each command of the driver."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys


def words_of(argv):
    """Return the values of --set by their paths, and the other options."""
    values, options = {}, {}
    words = iter(argv)
    for word in words:
        if word == "--":
            break
        if word == "--set":
            path, _, value = next(words).partition("=")
            values = {key: old for key, old in values.items() if not key.startswith(path + ".")}
            values[path] = json.loads(value)
            if isinstance(values[path], dict) and path == "run_config":
                values.update({f"run_config.{key}": one for key, one in values.pop(path).items()})
        elif word in ("--driver-fd", "--pace", "--workers-of"):
            options[word] = next(words)
        else:
            options[word] = True
    return values, options


def print_config(values):
    """Print a spec as train-run does."""
    if values.get("wrong"):
        print('job.yaml:1:1: error: "wrong" is not a key of the spec', file=sys.stderr)
        sys.exit(78)
    given = "run_config.name" in values
    print(f"name: {json.dumps(values['run_config.name']) + '  # --set' if given else 'job-20261130-101500  # default'}")
    print(f"scaling_config:\n  num_workers: {values.get('scaling_config.num_workers', 1)}  # --set\n  use_gpu: false  # default")
    print(f"run_config:\n  name: none\n  storage_path: {json.dumps(values['run_config.storage_path'])}  # --set")


def log(**entry):
    with open(os.environ["FAKE_LOG"], "a") as file:
        print(json.dumps(entry), file=file)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def take_worker(run):
    """Return the worker that has stayed after a run; None if there is none any more."""
    try:
        with open(f"{run}/worker") as file:
            pid = int(file.read())
    except OSError:
        return None
    if not is_alive(pid):
        return None
    open(f"{run}/taken", "w").close()
    return pid


def main(argv):
    values, options = words_of(argv[2:])
    if "--print-config" in options:
        return print_config(values)
    config = values.get("train_loop_config") or {}
    driver = socket.socket(fileno=int(options["--driver-fd"]))

    def tell(event, **members):
        with contextlib.suppress(OSError):  # it is gone
            driver.sendall(json.dumps({"event": event, **members}).encode() + b"\n")

    if config.get("end") == "refused":
        print("job.yaml:1:1: error: this is wrong", file=sys.stderr)
        sys.exit(78)
    folder = f"{values['run_config.storage_path']}/{values['run_config.name']}"
    os.makedirs(folder)
    taken = take_worker(options.get("--workers-of"))
    pid = taken or subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid
    log(run=values["run_config.name"], config=config, loop=values.get("env.TRAINRUN_LOOP"), worker=pid, taken=taken is not None,
        keep="--keep-workers" in options, workers_of=os.path.basename(options.get("--workers-of", "")),
        resume=values.get("resume_from_checkpoint"), program=values.get("command"))
    tell("run", protocol=1, folder=folder, logged=0)
    if config.get("lose"):
        os.kill(pid, signal.SIGKILL)
        os._exit(9)
    tell("attempt", attempt=0, world_size=1, from_standby=int(taken is not None))
    report = json.dumps({"rank": 0, "attempt": 0, "report_seq": 1, "checkpoint": False, "metrics": config}, separators=(",", ":")) + "\n"
    with open(f"{folder}/metrics.jsonl", "w") as file:
        file.write(report)
    tell("logged", bytes=len(report))
    if config.get("hold"):
        log(command=json.loads(driver.makefile().readline() or "null"))
    failed = config.get("end") == "failed"
    end = {"run": values["run_config.name"], "outcome": "failed" if failed else "succeeded", "code": int(failed), "metrics": config}
    with open(f"{folder}/exit.json", "w") as file:
        json.dump(end, file)
    with open(f"{folder}/worker", "w") as file:
        file.write(str(pid))
    stay = "--keep-workers" in options and not failed
    tell("end", **end, **({"workers_stay": True} if stay else {}))
    if stay:
        hold(driver, folder)
    if not os.path.exists(f"{folder}/taken"):
        os.kill(pid, signal.SIGKILL)
    os._exit(int(failed))


def hold(driver, folder):
    """Hold the worker until somebody takes it, or it is to end."""
    while not os.path.exists(f"{folder}/taken"):
        if select.select([driver], [], [], 0.01)[0]:
            line = driver.makefile().readline()
            log(command=json.loads(line) if line else None)
            return


if __name__ == "__main__":
    main(sys.argv)
