"""Real runs and a real dashboard for the tests: a folder of runs, train-run, and train-run dashboard, all in a temporary folder."""

import json
import os
import re
import selectors
import signal
import subprocess
import tempfile
import time
from pathlib import Path

WAIT_S = 30  # for a condition, beside four busy loops


class World:
    """Start runs and dashboards; close() ends what it started, and nothing else."""

    def __init__(self, build):
        self.build = Path(build)
        self.folder = tempfile.TemporaryDirectory(prefix="trainrun-browser-")
        self.path = Path(self.folder.name)
        self.runs = self.path / "runs"
        self.runs.mkdir()
        self.processes = []
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("TRAINRUN_")}
        self.environment.update(
            XDG_RUNTIME_DIR=self.folder.name, TMPDIR=self.folder.name, BROWSER_TEST_TOKEN="hf_of_the_browser_test"
        )

    def start(self, name, *arguments, stdout=None):
        """Start train-run; its output goes to a log of this name, what it prints to `stdout` if that is given."""
        return self.start_program(name, "train-run", *arguments, stdout=stdout)

    def start_program(self, name, program, *arguments, stdout=None):
        log = open(self.path / f"{name}.log", "wb")
        process = subprocess.Popen(
            [self.build / "bin" / program, *arguments],
            stdout=stdout or log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env=self.environment,
            start_new_session=True,
            cwd=self.path,
        )
        log.close()
        self.processes.append(process)
        return process

    def output(self, name):
        return (self.path / f"{name}.log").read_text(errors="replace")

    def traind(self, name):
        """Start the traind of a node; return its process, with its address and its runtime folder."""
        token = self.path / "token"
        if not token.exists():
            subprocess.run([self.build / "bin/traind", "token", token], check=True, env=self.environment)
        runtime = self.path / f"{name}-runtime"
        process = self.start_program(
            name,
            "traind",
            *("--listen", "127.0.0.1:0", "--token-file", token, "--node-name", name, "--allow-root"),
            *("--runtime-dir", runtime, "--spool-dir", self.path / f"{name}-spool"),
        )
        until = time.monotonic() + WAIT_S
        while not (address := re.search(r"on=(127\.0\.0\.1:\d+)", self.output(name))):
            if time.monotonic() > until or process.poll() is not None:
                raise AssertionError(f"traind did not listen: {self.output(name)}")
            time.sleep(0.01)
        process.address, process.runtime, process.token = address[1], runtime, token
        return process

    def drain(self, traind):
        """Drain a node, and wait until its traind has left."""
        command = [self.build / "bin/traind", "drain", "--runtime-dir", traind.runtime]
        subprocess.run(command, check=True, env=self.environment, timeout=WAIT_S, capture_output=True)

    def run(self, name, workers=2, config=None, failures=0, place=None, nodes=(), program="live_worker", datasets=None):
        """Start a run of a test program, named `name`, below the folder `place`; return its process."""
        spec = {
            "command": [str(self.build / "tests/programs" / program)],
            "train_loop_config": config or {},
            "scaling_config": {"num_workers": workers, "resources_per_worker": {"CPU": 0}},
            "run_config": {
                "name": name,
                "storage_path": str(place or self.runs),
                "failure_config": {"max_failures": failures, "backoff": {"initial": "10ms", "max": "10ms"}},
                "checkpoint_config": {
                    "num_to_keep": 2,
                    "checkpoint_score_attribute": "accuracy",
                    "checkpoint_score_order": "max",
                },
            },
            "env": {"BATCH": "64", "MODEL_ACCESS": "env:BROWSER_TEST_TOKEN"},
        }
        if datasets:
            spec["datasets"] = datasets
        if nodes:
            spec["cluster"] = {"nodes": [node.address for node in nodes], "token_file": str(nodes[0].token)}
        job = self.path / f"{name}.yaml"
        job.write_text(json.dumps(spec))
        return self.start(name, job)

    def sweep(self, name, sweep, config=None, place=None):
        """Start a sweep of sweep_worker, named `name`, below the folder `place`; return its process."""
        spec = {
            "command": [str(self.build / "tests/programs/sweep_worker")],
            "train_loop_config": config or {},
            "scaling_config": {"resources_per_worker": {"CPU": 0}},
            "run_config": {"name": name, "storage_path": str(place or self.runs)},
            "sweep": sweep,
        }
        job = self.path / f"{name}.yaml"
        job.write_text(json.dumps(spec))
        return self.start(name, "sweep", job)

    def dashboard(self, *arguments, name="dashboard", place=None):
        """Start a dashboard of the runs below `place`; return it, with the link that it prints."""
        arguments = ("dashboard", place or self.runs, "--listen", "127.0.0.1:0", *arguments)
        process = self.start(name, *arguments, stdout=subprocess.PIPE)
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            printed = process.stdout.readline().decode() if selector.select(WAIT_S) else ""
        link = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", printed)
        if not link:
            raise AssertionError(f"the dashboard printed no link, but {printed!r}; {self.output(name)}")
        process.link = link[0]
        return process

    @staticmethod
    def end(process, with_signal=signal.SIGTERM):
        if process.poll() is None:
            process.send_signal(with_signal)
        process.wait(timeout=WAIT_S)
        if process.stdout:
            process.stdout.close()

    def close(self):
        for process in reversed(self.processes):
            try:
                self.end(process)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.folder.cleanup()
