"""python_follow.py FOLDER: tells a callback what two launchers of a run say, one after the other, as python -m trainrun.callbacks would. The
first one is killed before it has committed the checkpoint of a round that it has told of."""
import json
import os
import subprocess
import sys

from trainrun import Callback
from trainrun.callbacks import Follower


class Printer(Callback):
    def handle_result(self, round):
        print("handle", round.number, flush=True)

    def after_report(self, round, checkpoint):
        print("after", round.number, os.path.basename(checkpoint.path) if checkpoint else None, flush=True)


def follow(folder, *events):
    path = os.path.join(folder, "events")
    with open(path, "a") as file:
        for event in events:
            file.write(json.dumps(event) + "\n")
    Follower(path, os.path.join(folder, "state"), [Printer()]).follow()


def main(folder):
    make = "import trainrun; trainrun.report({'loss': 1}, trainrun.Checkpoint.from_value({'epoch': 0}))"
    subprocess.run([sys.executable, "-c", make], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    report = '{"rank":0,"attempt":0,"report_seq":1,"checkpoint":true,"metrics":{"loss":1}}\n'
    with open(os.path.join(folder, "metrics.jsonl"), "w") as file:
        file.write(report)
    run = {"event": "run", "folder": folder, "logged": 0}
    attempt = {"event": "attempt", "attempt": 0, "world_size": 1}
    logged = {"event": "logged", "bytes": len(report)}
    committed = {"event": "checkpoint", "name": "checkpoint_000001", "attempt": 0, "report_seq": 1}
    follow(folder, run, attempt, logged)
    follow(folder, run, {**attempt, "found_running": True}, logged, committed)


main(sys.argv[1])
