"""A program that runs a job by trainrun.Trainer: trainrun_driver.py MODE [JOB.YAML]. It prints what it is told."""
import glob
import json
import os
import signal
import sys
import time
import types

import trainrun


class Scalar:
    """A number as NumPy and PyTorch have it."""

    def __init__(self, number):
        self._number = number

    def item(self):
        return self._number


def loop(config):
    """The training loop of the modes that have no job."""
    context = trainrun.get_context()
    for epoch in range(config["epochs"]):
        trainrun.report({"epoch": epoch, "rank": context.get_world_rank()}, trainrun.Checkpoint.from_value({"epoch": epoch}))
    if config.get("fail") == context.get_world_rank():
        raise ValueError("the learning rate is 0")
    return {"rank": context.get_world_rank()}


def large_loop():
    return [0.5] * 200_000


def debugged_loop():
    loss = 0.25
    breakpoint()
    trainrun.report({"loss": loss})


def place_loop():
    """Say where the code is, and what is there."""
    trainrun.report({"files": len(os.listdir("."))})
    return {"in": os.path.basename(os.path.dirname(os.getcwd())), "files": sorted(glob.glob("*"))}


def steady_loop(config):
    """Report 40 epochs, as a training would that takes its time. The worse the larger `bias` is."""
    epoch = 0
    trainrun.on_stop(lambda: trainrun.Checkpoint.from_value({"epoch": epoch}))
    for epoch in range(40):
        time.sleep(0.05)
        trainrun.report({"epoch": epoch, "loss": config["bias"] + 1 / (epoch + 1)})


def serving_loop(config):
    """Do only what the driver asks for."""
    total = 0

    @trainrun.serve
    def add(number):
        nonlocal total
        total += number
        trainrun.report({"total": total})
        return {"rank": trainrun.get_context().get_world_rank(), "total": total}

    @trainrun.serve("shape", at_once=True)
    def shape():
        return [2, 3]

    trainrun.serve("fail", lambda: {}["layer"])
    trainrun.report({"total": 0})
    while True:
        trainrun.poll(3600)


def say(*words):
    print(*words, flush=True)


def text_of(round):
    flags = (" redone" if round.redone else "") + (" checkpoint" if round.has_checkpoint else "")
    return f"round {round.attempt}.{round.number} ordinal {round.ordinal}{flags} " + " ".join(str(one.get("epoch", "-")) for one in round.reports)


def say_result(result):
    newest = json.dumps(result.checkpoint.to_value()) if result.checkpoint else "none"
    say(f"result {result.outcome} code {result.exit_code} metrics {json.dumps(result.metrics)} returned {json.dumps(result.return_value)} "
        f"checkpoints {len(result.best_checkpoints)} newest {newest}")


class Printer(trainrun.Callback):
    def __init__(self, throws=False):
        self.throws = throws

    def start_training(self, logdir):
        say("start", os.path.basename(logdir))

    def handle_result(self, round):
        say("handle", text_of(round))

    def after_report(self, round, checkpoint):
        say(f"after {round.attempt}.{round.number}", json.dumps(checkpoint.to_value()) if checkpoint else "none")
        if self.throws:
            raise RuntimeError("I give up")

    def after_exception(self, failure):
        say(f"exception in attempt {failure.attempt}: {failure.cause}")
        for rank in failure.ranks.values():
            say(f"  rank {rank.rank}: {rank.kind} {rank.exit_code} {rank.signal} {rank.type} {rank.what}")

    def finish_training(self, error):
        say("finish", repr(error))


def of_loop(function, scaling=None, **config):
    return trainrun.Trainer(function, train_loop_config={"epochs": 2, **config},
                            scaling_config=scaling or {"num_workers": 2, "resources_per_worker": {"CPU": 0}},
                            run_config={"name": "job", "storage_path": os.environ["RUNS"]})


def drive(mode, job):
    if mode == "loop":
        say_result(of_loop(loop).fit())
    elif mode == "alone":
        trainer = of_loop(loop, scaling={"num_workers": 0})
        for round in trainer.iterate():
            say(text_of(round))
        say_result(trainer.result())
        try:
            of_loop(loop, scaling={"num_workers": 0}, epochs=0, fail=0).fit()
        except trainrun.WorkerGroupError as error:
            say(error.worker_failures[0].type, error.worker_failures[0].what)
        say("large", len(of_loop(large_loop, scaling={"num_workers": 0}).fit().return_value))
    elif mode == "debugged":
        typed, typing = os.pipe()  # in place of a terminal
        os.write(typing, b"loss = 0.5\nc\n")
        os.close(typing)
        os.dup2(typed, 0)
        say_result(of_loop(debugged_loop, scaling={"num_workers": 0}).fit())
    elif mode.startswith("shipped"):
        here, files = os.path.dirname(os.path.abspath(__file__)), [os.path.basename(__file__)]
        how = {"ship": files} if mode == "shipped" else {"overrides": {"ship": files}}
        trainrun.Trainer(place_loop, working_dir=here, run_config={"name": "job", "storage_path": os.environ["RUNS"]}, **how).fit()
    elif mode == "notebook":
        sys.modules["cloudpickle"], sys.modules["cell"] = None, types.ModuleType("cell")  # not installed; without a file
        cell = type("Cell", (), {"__module__": "cell", "train": classmethod(loop)})
        try:
            of_loop(cell.train)
        except trainrun.Failure as failure:
            say(failure)
    elif mode == "taken":
        try:
            trainrun.Trainer(job).fit()
        except trainrun.TrainingFailed as failed:
            say(type(failed).__name__, failed.result.outcome)
    elif mode == "failing":
        trainer = of_loop(loop, fail=1)
        try:
            trainer.fit()
        except trainrun.WorkerGroupError as error:
            say("first", error)
        trainer.result()
    elif mode == "closure":
        say_result(of_loop(lambda: trainrun.report({"epoch": 7})).fit())
    elif mode == "two":
        of_loop(lambda a, b: None)
    elif mode == "arguments":
        for name in ("preprocessor", "torch_config", "fly"):
            try:
                trainrun.Trainer(command=["true"], **{name: 1})
            except TypeError as error:
                say(str(error).partition(" (")[0])
    elif mode == "callbacks":
        say_result(trainrun.Trainer(job, callbacks=[Printer()]).fit())
    elif mode == "throwing":
        say_result(trainrun.Trainer(job, callbacks=[Printer(throws=True)]).fit())
    elif mode == "set":
        say_result(trainrun.Trainer(job, overrides={"train_loop_config.epochs": 1}, show_output=False).fit())
    elif mode == "iterate":
        trainer = trainrun.Trainer(job)
        for round in trainer.iterate():
            say(text_of(round))
        say_result(trainer.result())
        try:
            trainer.fit()
        except trainrun.Failure as failure:
            say(failure.kind, failure)
    elif mode == "pace":
        trainer = trainrun.Trainer(job)
        for round in trainer.iterate(pace=1):
            time.sleep(0.3)
            with open(os.path.join(trainer.folder, "metrics.jsonl")) as log:
                say(f"{text_of(round)}: {len(log.readlines())} reports")
            if round.number == 3:
                trainer.stop()
        say_result(trainer.result())
    elif mode == "stop":
        with trainrun.Trainer(job) as trainer:
            rounds = trainer.iterate()
            for _ in range(3):
                say(text_of(next(rounds)))
            say("no result yet" if trainer.result() is None else "a result")
            say_result(trainer.result(force=True))
    elif mode == "leave-loop":
        with trainrun.Trainer(job, callbacks=[Printer()]) as trainer:
            next(trainer.iterate())
            raise KeyError("a mistake of the driver")
    elif mode == "call":
        trainer = of_loop(serving_loop)
        trainer.start()
        for number in range(3):
            say("add", json.dumps(trainer.call("add", Scalar(number)), sort_keys=True))
        say("shape", trainer.call("shape", ranks=[1]))
        try:
            trainer.call("fail")
        except trainrun.CallFailed as failed:
            say("CallFailed", failed, failed.errors)
        try:
            trainer.call("add", float("nan"))
        except trainrun.Failure as failure:
            say("nan", failure)
        try:
            trainer.call("no name")
        except trainrun.CallFailed as failed:
            say("refused", failed)
        trainer.stop()
        say_result(trainer.fit())
    elif mode == "stall":
        rounds = trainrun.Trainer(job).iterate()
        say(text_of(next(rounds)))
        signal.pause()


if __name__ == "__main__":
    try:
        drive(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
    except trainrun.WorkerGroupError as error:
        say(type(error).__name__, error)
        for rank in error.worker_failures.values():
            say(f"  rank {rank.rank}: {rank.kind} {rank.exit_code} {rank.type} {rank.what}")
        say_result(error.result)
    except (trainrun.TrainingFailed, trainrun.Failure, ValueError) as error:
        say(type(error).__name__, error)
