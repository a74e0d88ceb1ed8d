#!/usr/bin/env python3
"""mutants.py MODULE [--sample N] [--seed S] [--only K...] [--tests T...] [--jobs J] [--tree DIR]: do the tests notice small faults in
a module of the product?

We put a random sample of the faults that mutant_places.py finds in the module's .cc files into a copy of the tree in
build-mutants/MODULE, and build that once. The environment chooses one fault at run time. First we run each test case alone, and note
which faults it comes to. Then, for each fault, we run the cases that come to it, the fastest program first, until one fails, crashes or
hangs. No case comes to some faults: these survive. We print survivors. docs/testing.md says what faults there are, and has past scores.

--tree DIR: make the copy in DIR, and build in DIR/build, if it is there with what it has.
"""
import argparse
import json
import os
import pathlib
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import time

from mutant_places import find_places, nested, render

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The compiler gets the same paths in every module's copy of the tree, so that ccache compiles common sources once.
ENVIRONMENT = os.environ | {"CCACHE_BASEDIR": str(ROOT / "build-mutants"), "CCACHE_NOHASHDIR": "1"}
TESTS = {  # programs of the labels unit and sim, and fast end-to-end programs for what only these come to; the fastest first
    "launcher/core": ["launcher_core_test", "run_sim_test"],
    "launcher/cluster": ["launcher_cluster_test", "launcher_notify_test", "launcher_mlflow_test", "one_node_exit_codes_test",
                         "one_node_resume_test", "one_node_stop_test", "one_node_checkpoints_test", "one_node_logs_test",
                         "one_node_detach_test"],
    "daemon/core": ["daemon_core_test", "run_sim_test"],
    "daemon/supervisor": ["daemon_core_test", "daemon_supervisor_test"],
    "daemon/supervisor/core": ["daemon_core_test", "run_sim_test"],
    "lib/net": ["lib_net_test"],
    "lib/storage": ["storage_test", "storage_object_test", "storage_journal_test", "storage_posix_test"],
    "lib/data": ["lib_data_plan_test", "lib_data_files_test", "sdk_data_test"],
    "sdk/client": ["sdk_client_parts_test", "sdk_client_meeting_test", "sdk_client_session_test", "sdk_client_program_test"],
}
OWN_MODULES = ("core", "remote")  # folders that are no part of the module above. Only end-to-end tests load lib/storage/remote
START_S = 15.0  # to start a program, and to end it
SPARE = 1.5  # so many times the sample are tried: some do not compile
ERROR = re.compile(r"^(\S+?):(\d+):\d+: +(?:fatal error|error|required from|note)", re.MULTILINE)
REAL_ERROR = re.compile(r"^(\S+?):(\d+):\d+: (?:fatal error|error):", re.MULTILINE)


def copy_tree(source):
    """Copy tracked and new files in their present state, and remove files of an earlier copy that the tree no longer has."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True)
    names = {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}
    for copied in [path for path in source.rglob("*")
                   if path.is_file() and str(path.relative_to(source)) not in names and source / "build" not in path.parents]:
        copied.unlink()
    for name in sorted(names):
        target = source / name
        if target.exists() and target.read_bytes() == (ROOT / name).read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)  # with a new mtime: a fault may have been there
        shutil.copymode(ROOT / name, target)


# A mutant may remove any file and kill any process that its user may: one of lib/storage removed folders of "/". So its tests see
# only their own processes, and may write only to their build folder, their own temporary folders, and control groups.
CAGE = """
set -e
mount --bind "$1" "$1"
while read -r _ _ _ _ place _; do
  case "$place" in
    "$1" | /proc* | /sys* | /dev*) ;;
    *) mount -o remount,bind,ro "$place" ;;
  esac
done < /proc/self/mountinfo
for folder in /tmp /var/tmp /run; do mount -t tmpfs -o mode=1777 none "$folder"; done
cd "$1"
shift
"$@"
exit $?  # a test that were process 1 itself would ignore signals
"""


# Enter control groups ($1: a folder in each hierarchy), and run a command.
IN_GROUPS = """
for folder in $1; do echo 0 >"$folder/cgroup.procs"; done
shift
exec "$@"
"""


class ControlGroups:
    """Control groups (v1) for one run of tests, which make theirs below. Mutants leave limits there, and frozen processes: these do not
    die until they are thawed."""
    def __init__(self):
        self.folders = []
        for line in pathlib.Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("freezer", "memory", "pids", "cpu"):
                folder = pathlib.Path("/sys/fs/cgroup", controllers, path[1:], f"mutants-{os.getpid()}")
                try:
                    folder.mkdir(exist_ok=True)
                except OSError:  # not root: the tests cannot make any either
                    continue
                self.folders.append(folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        deadline = time.monotonic() + 10
        while groups := [pathlib.Path(place) for top in self.folders for place, _, _ in os.walk(top)]:
            for group in groups:
                if (group / "freezer.state").exists():
                    (group / "freezer.state").write_text("THAWED", encoding="ascii")
            for group in reversed(groups):
                try:
                    for pid in (group / "cgroup.procs").read_text(encoding="ascii").split():
                        os.kill(int(pid), signal.SIGKILL)
                    group.rmdir()
                except OSError:  # it lists dying processes for a moment
                    pass
            if time.monotonic() > deadline:
                sys.exit(f"mutants: {groups[0]} still has processes")
            time.sleep(0.01)


def caged(build, command):
    for place in ("/tmp", "/var/tmp", "/run"):
        if build.is_relative_to(place):
            sys.exit(f"mutants: the checkout may not lie below {place}, which its tests have of their own")
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *user, "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", CAGE, "sh", build, *command]


def build_with(build, *targets, jobs):
    """Return what ninja and the compiler said if the build failed, else None."""
    done = subprocess.run(["ninja", "-C", build, f"-j{jobs}", "-k0", *targets], env=ENVIRONMENT, capture_output=True, text=True)
    return None if done.returncode == 0 else done.stdout + done.stderr


def run_cases(build, test, limits_s, fault, seen=None):
    """Run cases of a test program with a fault (0: none), each within its limit: {case: seconds}. Return None if all pass, else the one
    that failed, crashed or hung."""
    environment = os.environ | {"MUTANT": str(fault)} | ({"MUTANTS_SEEN": str(seen)} if seen else {})
    command = [build / "tests" / test, "--gtest_fail_fast", "--gtest_filter=" + ":".join(limits_s)]
    # A session of its own: a mutant may kill its process group, to which processes outside of its namespace belong.
    with ControlGroups() as groups, subprocess.Popen(
            ["sh", "-c", IN_GROUPS, "sh", " ".join(map(str, groups.folders)), *caged(build, command)], cwd=build, env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        said, running, until = b"", "", time.monotonic() + START_S
        while select.select([process.stdout], [], [], max(0, until - time.monotonic()))[0]:
            piece = os.read(process.stdout.fileno(), 1 << 16)
            if not piece:
                break
            *lines, said = (said + piece).split(b"\n")
            for line in lines:  # a case may have printed a part of a line before
                if begun := re.search(rb"\[ RUN      \] (\S+)", line):
                    running = begun[1].decode()
                    until = time.monotonic() + limits_s.get(running, START_S)
                elif b"[----------] Global test environment tear-down" in line:
                    until = time.monotonic() + START_S
        try:
            return None if process.wait(max(0.1, until - time.monotonic())) == 0 else running
        except subprocess.TimeoutExpired:
            process.kill()
            return running


def cases_of(build, test):
    listed = subprocess.run([build / "tests" / test, "--gtest_list_tests"], check=True, capture_output=True, text=True).stdout
    suite, cases = "", []
    for line in listed.splitlines():
        name = line.split("#")[0].rstrip()
        if name.startswith("  "):
            cases.append(suite + name.strip())
        elif name.endswith("."):
            suite = name
    return [case for case in cases if "DISABLED_" not in case]


class Faults:
    """The sample: numbered faults in the files of a copy of the tree"""
    def __init__(self, files, count, seed):
        self.texts = {file: file.read_text(encoding="utf-8") for file in files}
        pool = [(file, place) for file in files for place in find_places(self.texts[file])]
        self.in_all = len(pool)
        random.Random(seed).shuffle(pool)
        self.of = {file: nested({number: place for number, (where, place) in enumerate(pool[:count], 1) if where == file})
                   for file in files}

    def numbers(self):
        return sorted(number for places in self.of.values() for number in places)

    def write(self):
        begin = f'#include "{ROOT / "packaging/mutant.h"}"\n'
        for file, places in self.of.items():
            text = begin + render(self.texts[file], places) if places else self.texts[file]
            if file.read_text(encoding="utf-8") != text:
                file.write_text(text, encoding="utf-8")

    def drop_blamed(self, said, build):
        """Drop the faults in the lines that the compiler, started in `build`, names. Return how many."""
        dropped = 0
        for file, places in self.of.items():
            named = set()
            for pattern in (REAL_ERROR, ERROR):
                # ccache makes paths relative to the build folder.
                lines = {int(line) for path, line in pattern.findall(said) if (build / path).resolve() == file.resolve()}
                text = file.read_text(encoding="utf-8").splitlines()
                for line in lines:  # a fault may end some lines below its number
                    for above in range(line, max(0, line - 12), -1):
                        found = {int(number) for number in re.findall(r"trainrun_mutant\((\d+)\)", text[above - 1])}
                        if found & places.keys():
                            named |= found
                            break
                if named & places.keys():
                    break
            for number in named & places.keys():
                del places[number]
                dropped += 1
        return dropped

    def describe(self, number, source):
        file, place = next((file, places[number]) for file, places in self.of.items() if number in places)
        text = self.texts[file]
        line = text.count("\n", 0, place.begin) + 1
        return (f"mutant {number}: {file.relative_to(source)}:{line}: {place.kind}\n- {text[place.begin:place.end]}\n+ {place.fault}")


def build_faults(faults, build, tests, jobs):
    """Build the tests with all faults that compile. Return how many do not."""
    stillborn = 0
    for _ in range(15):
        faults.write()
        said = build_with(build, *tests, jobs=jobs)
        if said is None:
            return stillborn
        dropped = faults.drop_blamed(said, build)
        if dropped == 0:
            sys.exit("mutants: the tests do not build:\n" + said[-3000:])
        stillborn += dropped
        print(f"{dropped} faults do not compile", file=sys.stderr, flush=True)
    sys.exit("mutants: the tests still do not build")


def reach_of(build, tests, folder, faults):
    """Return {test: {case: (its time, the faults that it comes to)}} of all cases that pass without a fault."""
    reach = {}
    numbers = faults.numbers()
    for test in tests:
        reach[test] = {}
        for case in cases_of(build, test):
            seen = folder / "seen"
            seen.write_bytes(bytes(max(numbers) + 1))
            began = time.monotonic()
            if run_cases(build, test, {case: 300.0}, 0, seen) is not None:
                print(f"mutants: {test} {case} fails alone without a fault: left out", file=sys.stderr)
                continue
            marks = seen.read_bytes()
            reach[test][case] = (time.monotonic() - began, {number for number in numbers if marks[number]})
    return reach


def is_noticed(build, reach, number, first):
    """Return the test that notices a fault, or None. `first`: cases that noticed others, which run before the rest."""
    for test, known in reach.items():
        cases = [case for case, (_, reached) in known.items() if number in reached]
        cases.sort(key=lambda case: (case not in first, known[case][0]))
        while cases:
            part, took = [cases.pop(0)], 0.0
            while cases and len(part) < 200 and took < 5 and (cases[0] in first) == (part[0] in first):  # the fast ones first
                took += known[cases[0]][0]
                part.append(cases.pop(0))
            failed = run_cases(build, test, {case: 10 + 5 * known[case][0] for case in part}, number)
            if failed is not None:
                first.add(failed)
                return test
    return None


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("module", choices=TESTS)
    arguments.add_argument("--sample", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--only", type=int, nargs="+", metavar="K", help="numbers that an earlier call with this seed and sample printed")
    arguments.add_argument("--tests", nargs="+", metavar="T", help="only these of the module's tests")
    arguments.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="of the build; one fault is tried at a time")
    arguments.add_argument("--tree", type=pathlib.Path)
    options = arguments.parse_args()
    tests = [test for test in TESTS[options.module] if not options.tests or test in options.tests]
    if unknown := set(options.tests or []).difference(tests):
        sys.exit(f"mutants: no {', '.join(sorted(unknown))}: "
                 f"{options.module} has only the tests {', '.join(TESTS[options.module])}")
    os.nice(10)
    work = ROOT / "build-mutants" / options.module.replace("/", "-")
    source = options.tree or work / "source"
    build = source / "build"
    copy_tree(source)
    if not (build / "build.ninja").exists():
        subprocess.run(["cmake", "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O1",
                        "-DTRAIN_TORCH=OFF"], check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    module = source / options.module
    files = sorted(path for path in module.rglob("*.cc") if path.parent == module or path.parent.name not in OWN_MODULES)
    faults = Faults(files, int(options.sample * SPARE), options.seed)
    stillborn = build_faults(faults, build, tests, options.jobs)
    folder = build / "mutants"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    reach = reach_of(build, tests, folder, faults)
    (folder / "reach.json").write_text(json.dumps({test: {case: [took, sorted(reached)] for case, (took, reached) in known.items()}
                                                   for test, known in reach.items()}))
    sample = [number for number in faults.numbers()[:options.sample] if not options.only or number in options.only]
    reached = {number for known in reach.values() for _, numbers in known.values() for number in numbers}
    noticed, survived, unreached, first = 0, 0, 0, set()
    try:
        for number in sample:
            if number in reached and is_noticed(build, reach, number, first):
                noticed += 1
            else:
                survived += 1
                unreached += number not in reached
                print(faults.describe(number, source) + ("" if number in reached else "\n(no test comes here)"), flush=True)
            print(f"tried {noticed + survived}: {noticed} noticed, {survived} survived (mutant {number})", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("stopped")
    tried = noticed + survived
    print(f"{options.module}: {noticed} of {tried} mutants noticed ({100 * noticed / max(tried, 1):.0f} %), seed {options.seed}; "
          f"no test came to {unreached} of the others; {stillborn} did not compile, of {faults.in_all} in all")


if __name__ == "__main__":
    main()
