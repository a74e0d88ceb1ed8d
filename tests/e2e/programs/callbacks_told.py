"""Callbacks of run_config.callbacks: they add what they are told to the file $TOLD, a line each. $DIE_AT: a line with which the
program kills itself, once it has been noted."""
import json
import os
import signal

import trainrun


def say(line):
    with open(os.environ["TOLD"], "a") as file:
        file.write(line + "\n")
    if line == os.environ.get("DIE_AT"):
        os.kill(os.getpid(), signal.SIGKILL)


class Told(trainrun.Callback):
    def start_training(self, logdir):
        say("start " + os.path.basename(logdir))

    def handle_result(self, round):
        say(f"handle {round.attempt}.{round.number}{' redone' if round.redone else ''} " + " ".join(str(one["epoch"]) for one in round.reports))

    def after_report(self, round, checkpoint):
        say(f"after {round.attempt}.{round.number} " + (json.dumps(checkpoint.to_value()) if checkpoint else "none"))

    def after_exception(self, failure):
        say(f"exception {failure.attempt} of ranks {sorted(failure.ranks)}")

    def finish_training(self, error):
        say(f"finish {type(error).__name__ if error else 'None'}")


class Throws(trainrun.Callback):
    def handle_result(self, round):
        raise RuntimeError("I give up")


class Broken(trainrun.Callback):
    def __init__(self):
        raise OSError("no server")
