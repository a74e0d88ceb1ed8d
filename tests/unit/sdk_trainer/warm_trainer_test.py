#!/usr/bin/env python3
"""trainrun.WarmTrainer with a train-run that the test plays (fake_train_run.py)."""

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock
from pathlib import Path

HERE = Path(__file__).resolve().parent
FAKE = str(HERE / "fake_train_run.py")
sys.path.insert(0, str(HERE.parents[2] / "sdk" / "python"))

import trainrun  # noqa: E402
from trainrun._resolved import SpecValue, value_of  # noqa: E402


def train(config):
    """The loop of a worker."""


def another(config):
    """Another one."""


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


class Told(trainrun.Callback):
    def __init__(self):
        self.ends = []

    def finish_training(self, error):
        self.ends.append(type(error).__name__)


class WarmTrainers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.runs = os.path.join(self.folder, "runs")
        os.environ["FAKE_LOG"] = os.path.join(self.folder, "log")
        self.made = []
        self.addCleanup(lambda: [trainer.shutdown(0) for trainer in self.made])

    def trainer(self, job=None, **arguments):
        overrides = {"run_config.storage_path": self.runs, **arguments.pop("overrides", {})}
        made = trainrun.WarmTrainer(job, overrides=overrides, program=FAKE, show_output=False, **arguments)
        self.made.append(made)
        return made

    def logged(self, kind="run"):
        lines = Path(os.environ["FAKE_LOG"]).read_text().splitlines()
        return [entry for entry in map(json.loads, lines) if kind in entry]

    def assert_ends(self, pid):
        until = time.monotonic() + 20
        while is_alive(pid) and time.monotonic() < until:
            time.sleep(0.01)
        self.assertFalse(is_alive(pid))

    def test_runs_by_the_same_worker(self):
        trainer = self.trainer(train_loop_config={"lr": 1})
        self.assertIsNone(trainer.latest_run_dir)
        results = [trainer.run(), trainer.run({"lr": 2}), trainer.run({})]

        self.assertEqual([result.metrics for result in results], [{"lr": 1}, {"lr": 2}, {}])
        self.assertEqual([result.path for result in results], [f"{trainer.logdir}/run_00{n}" for n in (1, 2, 3)])
        self.assertEqual(trainer.latest_run_dir, results[2].path)
        runs = self.logged()
        self.assertEqual([run["workers_of"] for run in runs], ["", "run_001", "run_002"])
        self.assertEqual([run["taken"] for run in runs], [False, True, True])
        self.assertTrue(all(run["keep"] and run["worker"] == runs[0]["worker"] for run in runs))
        self.assertTrue(is_alive(runs[0]["worker"]))

    def test_the_folder_is_called_after_the_time(self):
        trainer = self.trainer()
        self.assertEqual(os.path.dirname(trainer.logdir), self.runs)
        self.assertRegex(os.path.basename(trainer.logdir), r"^warm_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d$")
        self.assertNotEqual(self.trainer().logdir, trainer.logdir)

    def test_the_folder_is_called_after_the_name(self):
        trainer = self.trainer(run_config={"name": "my job"})
        self.assertEqual(trainer.run().path, f"{self.runs}/my job/run_001")

    def test_numbers_that_are_taken_are_never_used_again(self):
        for name in ("run_002", "_solo-run_006", "run_x", "other"):
            os.makedirs(os.path.join(self.folder, "mine", name))
        trainer = self.trainer(logdir=os.path.join(self.folder, "mine"))
        self.assertEqual(os.path.basename(trainer.run().path), "run_007")
        os.rename(trainer.latest_run_dir, os.path.join(self.folder, "gone"))
        self.assertEqual(os.path.basename(trainer.run().path), "run_008")

    def test_an_object_store_is_refused(self):
        for arguments in ({"logdir": "s3://bucket/runs"}, {"overrides": {"run_config.storage_path": "gs://bucket"}}):
            with self.assertRaisesRegex(trainrun.Failure, "cannot be in an object store"):
                self.trainer(**arguments).run()

    def test_a_wrong_spec_is_quoted(self):
        with self.assertRaisesRegex(trainrun.SpecError, '"wrong" is not a key of the spec'):
            self.trainer(overrides={"wrong": 1}).run()
        with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'fly'"):
            self.trainer(fly=1)

    def test_a_run_that_failed_leaves_no_workers(self):
        trainer = self.trainer()
        trainer.run()
        with self.assertRaises(trainrun.WorkerGroupError):
            trainer.run({"end": "failed"})
        trainer.run()
        self.assertEqual([run["workers_of"] for run in self.logged()], ["", "run_001", ""])
        self.assert_ends(self.logged()[1]["worker"])

    def test_a_train_run_that_dies_costs_the_workers(self):
        trainer = self.trainer()
        with self.assertRaises(trainrun.ControllerError):
            trainer.run({"lose": True})
        trainer.run()
        self.assertEqual([run["taken"] for run in self.logged()], [False, False])

    def test_a_refused_run_costs_no_workers(self):
        trainer = self.trainer()
        trainer.run()
        with self.assertRaisesRegex(trainrun.SpecError, "this is wrong"):
            trainer.run({"end": "refused"})
        self.assertEqual(os.path.basename(trainer.latest_run_dir), "run_001")
        self.assertEqual(os.path.basename(trainer.run().path), "run_003")
        self.assertEqual([run["taken"] for run in self.logged()], [False, True])

    def test_a_worker_that_has_died_is_replaced(self):
        trainer = self.trainer()
        trainer.run()
        os.kill(self.logged()[0]["worker"], 9)
        trainer.run()
        self.assertEqual([run["workers_of"] for run in self.logged()], ["", "run_001"])
        self.assertEqual([run["taken"] for run in self.logged()], [False, False])

    def test_one_run_at_a_time(self):
        trainer = self.trainer()
        first = trainer.next({"hold": True})
        rounds = first.iterate()
        self.assertEqual(next(rounds).reports, [{"hold": True}])
        with self.assertRaisesRegex(trainrun.Failure, "run_001 of this WarmTrainer has not ended"):
            trainer.next()
        self.assertEqual(first.result(force=True).outcome, "succeeded")
        self.assertEqual(trainer.run().path, f"{trainer.logdir}/run_002")
        self.assertEqual([run["taken"] for run in self.logged()], [False, True])

    def test_rounds_without_a_result_are_enough(self):
        told = Told()
        trainer = self.trainer(callbacks=[told])
        for _ in range(2):
            for round in trainer.next().iterate():
                self.assertEqual(round.number, 1)
        trainer.shutdown()
        self.assertEqual(told.ends, ["NoneType", "NoneType"])
        self.assertEqual([run["taken"] for run in self.logged()], [False, True])

    def test_callbacks_of_one_run_are_told_of_it_only(self):
        every, one = Told(), Told()
        trainer = self.trainer(callbacks=[every])
        trainer.run(callbacks=[one])
        trainer.run()
        self.assertEqual((len(every.ends), len(one.ends)), (2, 1))

    def test_another_loop_for_one_run(self):
        trainer = self.trainer(train)
        trainer.run(loop=another)
        trainer.run()
        self.assertEqual([run["loop"] for run in self.logged()], [f"{os.path.abspath(__file__)}:{name}" for name in ("another", "train")])
        with self.assertRaisesRegex(ValueError, "was made without"):
            self.trainer().run(loop=another)

    def test_the_command_stays_the_same_however_a_closure_is_pickled(self):
        pickle = types.ModuleType("cloudpickle")  # in place of the real one, which need not be installed
        pickle.dumps = lambda loop: os.urandom(8)
        with unittest.mock.patch.dict(sys.modules, cloudpickle=pickle):
            trainer = self.trainer(lambda config: None)
            trainer.run()
            trainer.run()
        runs = self.logged()
        self.assertEqual(runs[0]["program"], runs[1]["program"])
        self.assertEqual(runs[0]["loop"], runs[1]["loop"])

    def test_a_checkpoint_to_begin_with(self):
        trainer = self.trainer()
        trainer.run(resume_from_checkpoint=Path("/a/${HOME}"))
        self.assertEqual(self.logged()[0]["resume"], "/a/$${HOME}")

    def test_what_follows_the_program_stays_its_own(self):
        trainer = self.trainer(arguments=["--", "./train", "--set"])
        trainer.run({"lr": 3})
        self.assertEqual(self.logged()[0]["config"], {"lr": 3})

    def test_shutdown_ends_the_workers(self):
        trainer = self.trainer()
        trainer.run()
        trainer.shutdown(2.5)
        trainer.shutdown()
        self.assert_ends(self.logged()[0]["worker"])
        self.assertEqual(self.logged("command"), [{"command": {"command": "release", "patience_ms": 2500}}])
        with self.assertRaisesRegex(trainrun.Failure, "not active: it was shut down"):
            trainer.run()

    def test_shutdown_without_patience_kills(self):
        trainer = self.trainer()
        trainer.run()
        trainer.shutdown(-1)
        self.assertEqual(self.logged("command"), [{"command": {"command": "release", "patience_ms": 0}}])

    def test_shutdown_stops_a_run(self):
        trainer = self.trainer()
        run = trainer.next({"hold": True})
        run.start()
        trainer.shutdown()
        self.assertEqual([entry["command"]["command"] for entry in self.logged("command")], ["stop", "release"])
        self.assert_ends(self.logged()[0]["worker"])
        with self.assertRaisesRegex(trainrun.Failure, "not active"):
            trainer.next()

    def test_a_run_of_a_trainer_that_is_shut_down_does_not_begin(self):
        trainer = self.trainer()
        run = trainer.next()
        trainer.shutdown()
        with self.assertRaisesRegex(trainrun.Failure, "not active"):
            run.fit()

    def test_a_with_block_tells_callbacks_why_it_was_left(self):
        told = Told()
        with self.assertRaises(KeyError), self.trainer(callbacks=[told]) as trainer:
            next(trainer.next({"hold": True}).iterate())
            raise KeyError("a mistake of the driver")
        self.assertEqual(told.ends, ["KeyError"])
        self.assert_ends(self.logged()[0]["worker"])

    def test_a_trainer_that_nobody_has_any_more_ends_its_workers(self):
        self.trainer().run()
        self.made.clear()
        gc.collect()
        self.assert_ends(self.logged()[0]["worker"])

    def test_the_end_of_the_program_ends_the_workers(self):
        program = f"""
import os, sys
sys.path.insert(0, {str(HERE.parents[2] / "sdk" / "python")!r})
import trainrun
trainer = trainrun.WarmTrainer(overrides={{"run_config.storage_path": {self.runs!r}}}, program={FAKE!r}, show_output=False)
trainer.run()
if os.fork() == 0:
    sys.exit()  # a child leaves them alone
os.wait()
print(trainer.run({{"last": True}}).metrics)
"""
        self.assertEqual(subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True).stdout, b"{'last': True}\n")
        self.assertEqual([run["taken"] for run in self.logged()], [False, True])
        self.assert_ends(self.logged()[0]["worker"])

    def test_without_workers_there_are_none_to_keep(self):
        trainer = self.trainer(overrides={"scaling_config.num_workers": 0})
        trainer.run()
        trainer.run()
        self.assertEqual([(run["keep"], run["workers_of"]) for run in self.logged()], [(False, ""), (False, "")])


class Workers(unittest.TestCase):
    """Runs the workers' program with the library played by a test."""

    def run_worker(self, files, *loops):
        """Run a worker whose runs have these loops, and return what it says."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in files.items():
            Path(folder.name, name).write_text(text)
        program = f"""
import ctypes, os, sys
sys.path.insert(0, {str(HERE.parents[2] / "sdk" / "python")!r})
from trainrun import _library, worker
libc, loops = ctypes.CDLL(None), {list(loops)[1:]!r}
os.environ["TRAINRUN_KEEPS_WORKERS"] = "1"
class Played:
    run, values = 0, []
    def trainrun_next_run(self):
        self.run += 1
        os.write(1, f"next {{self.run}} datasets {{len(_datasets._shards)}}\\n".encode())
        if not loops:
            return 0
        loop = loops.pop(0)
        libc.unsetenv(b"TRAINRUN_LOOP") if loop is None else libc.setenv(b"TRAINRUN_LOOP", loop.encode(), 1)
        libc.setenv(b"MASTER_PORT", str(1000 + self.run).encode(), 1)
        return 1
    def trainrun_config_json(self):
        return f'{{{{"run": {{self.run}}}}}}'.encode()
    def trainrun_set_result(self, text):
        os.write(1, b"result " + text + b"\\n")
        return 0
_library._library = type("Loaded", (), {{"loaded": Played()}})
_library._connected = True
from trainrun import _datasets
_datasets._shards["train"] = None
worker.main([{loops[0]!r}])
"""
        ended = subprocess.run([sys.executable, "-c", program], cwd=folder.name, stdout=subprocess.PIPE, check=True)
        return ended.stdout.decode().splitlines()

    def test_a_file_is_loaded_once_and_its_globals_stay(self):
        file = """
import os
print("loaded")
count = 0
def train(config):
    global count
    count += 1
    print("train", config["run"], count, os.environ.get("MASTER_PORT"), os.environ.get("TRAINRUN_LOOP"))
    return count
def other():
    print("other", count)
"""
        said = self.run_worker({"a.py": file, "b.py": "def train(config):\n    print(__name__)\n"}, "a.py:train", None, "a.py:other",
                               "b.py:train", None)
        self.assertEqual(said, [
            "loaded", "train 0 1 None None", "result 1", "next 1 datasets 0",
            "train 1 2 1001 None", "result 2", "next 2 datasets 0",
            "other 2", "next 3 datasets 0",
            "trainrun_loop_2", "next 4 datasets 0",
            "train 4 3 1004 None", "result 3", "next 5 datasets 0",
        ])  # fmt: skip

    def test_the_process_group_ends_with_its_run(self):
        torch = """
import sys, types
distributed = types.ModuleType("torch.distributed")
distributed.is_available = lambda: True
distributed.is_initialized = lambda: True
distributed.destroy_process_group = lambda: print("destroyed")
def train():
    sys.modules["torch.distributed"] = distributed
    print("trained")
"""
        self.assertEqual(self.run_worker({"a.py": torch}, "a.py:train"), ["trained", "destroyed", "next 1 datasets 0"])


class ResolvedSpecs(unittest.TestCase):
    SPEC = (
        "name: job-1  # default\nenv:\n  storage_path: none  # --set\nrun_config:\n  callbacks:  # default\n    - {a: b}\n"
        '  storage_path: "/a # \\"b\\""  # job.yaml:3\n  user: null  # default\n'
    )

    def test_values_are_found_by_section(self):
        self.assertEqual(value_of(self.SPEC, "name"), SpecValue("job-1", False))
        self.assertEqual(value_of(self.SPEC, "storage_path", "run_config"), SpecValue('/a # "b"', True))
        self.assertEqual(value_of(self.SPEC, "user", "run_config"), SpecValue("null", False))
        self.assertEqual(value_of(self.SPEC, "user", "env"), SpecValue())
        self.assertEqual(value_of(self.SPEC, "user"), SpecValue())


if __name__ == "__main__":
    unittest.main()
