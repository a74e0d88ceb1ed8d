#!/usr/bin/env python3
"""mutants.py MODULE [--sample N] [--seed S] [--from K] [--only K...] [--tests T...] [--jobs J]: do the tests notice small
faults in a module of the product?

universalmutator (packaging/deps/install.sh mutants) makes mutants of the module's .cc files. We keep those that change code (not a
comment, not a text), compile, and give a different object file than the original (an optimizing compiler shows many to mean the same:
"trivial compiler equivalence", Papadakis et al., ICSE 2015). We try a random sample of these, one at a time, in a copy of the tree in
build-mutants/MODULE: the module's tests run until one fails, hangs or crashes. For modules other than cores, the fast end-to-end
programs run, too. We print survivors as diffs. docs/testing.md has past scores. Several modules may be tried concurrently.
"""
import argparse
import collections
import difflib
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The compiler gets the same paths in every module's copy of the tree, so that ccache compiles common sources once.
ENVIRONMENT = os.environ | {"CCACHE_BASEDIR": str(ROOT / "build-mutants"), "CCACHE_NOHASHDIR": "1"}
TESTS = {  # the fastest first
    "launcher/core": ["launcher_core_test", "run_sim_test"],
    "launcher/cluster": ["launcher_cluster_test", "one_node_checkpoints_test", "one_node_reports_test", "one_node_output_test",
                         "one_node_exit_codes_test", "one_node_restart_test", "one_node_resume_test", "one_node_stop_test",
                         "one_node_validation_test"],
    "daemon/core": ["daemon_core_test", "run_sim_test"],
    "daemon/supervisor": ["daemon_core_test", "daemon_supervisor_test", "one_node_checkpoints_test", "one_node_standby_test",
                          "one_node_output_test", "one_node_exit_codes_test", "one_node_restart_test", "one_node_hostile_test",
                          "one_node_stop_test", "one_node_limits_test", "one_node_orphans_test"],
    "lib/net": ["lib_net_test"],
    "lib/storage": ["storage_test", "storage_journal_test", "storage_object_test", "storage_posix_test", "one_node_checkpoints_test",
                    "one_node_resume_test"],
    "lib/data": ["lib_data_plan_test", "lib_data_files_test", "sdk_data_test"],
    "sdk/client": ["sdk_client_parts_test", "sdk_client_meeting_test", "sdk_client_session_test", "sdk_client_program_test",
                   "one_node_reports_test", "one_node_checkpoints_test", "one_node_restart_test"],
}
TEXT_OR_COMMENT = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def code_of(text):
    """Return a text without strings, comments and blanks: equal for two files that do the same."""
    return re.sub(r"\s+", "", TEXT_OR_COMMENT.sub('""', text))


def tool():
    deps = os.environ.get("TRAINRUN_DEPS_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "trainrun/deps")
    found = pathlib.Path(deps) / "mutants-venv-1" / "bin" / "mutate"
    if not found.exists():
        sys.exit(f"mutants: {found} is missing: run packaging/deps/install.sh mutants")
    return found


def copy_tree(source):
    """Copy tracked and new files in their present state, and remove files of an earlier copy that the tree no longer has."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True)
    names = {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}
    for copied in [path for path in source.rglob("*") if path.is_file() and str(path.relative_to(source)) not in names]:
        copied.unlink()
    for name in sorted(names):
        target = source / name
        if target.exists() and target.read_bytes() == (ROOT / name).read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)


def ninja(build, *targets, jobs=1):
    return subprocess.run(["ninja", "-C", build, f"-j{jobs}", *targets], env=ENVIRONMENT, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


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
exec "$@"
"""


def caged(build, command):
    for place in ("/tmp", "/var/tmp", "/run"):
        if build.is_relative_to(place):
            sys.exit(f"mutants: the checkout may not lie below {place}, which its tests have of their own")
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *user, "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", CAGE, "sh", build, *command]


def begin(build, test):
    return subprocess.Popen(caged(build, [build / "tests" / test, "--gtest_brief=1", "--gtest_fail_fast"]), cwd=build,
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def first_to_fail(build, tests, limits, at_once=4):
    """Return the first test that fails, crashes or exceeds its limit, or None. Tests mostly wait, so several run concurrently."""
    waiting, running = list(tests), {}  # test: (process, when its time is over)
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                test = waiting.pop(0)
                running[test] = (begin(build, test), time.monotonic() + limits[test])
            for test, (process, over) in list(running.items()):
                if process.poll() is None:
                    if time.monotonic() > over:
                        return test
                elif process.returncode != 0:
                    return test
                else:
                    del running[test]
            time.sleep(0.05)
        return None
    finally:
        for process, _ in running.values():
            process.kill()
            process.wait()


def mutants_of(files, work):
    """Return (file, text) of all mutants that change code, each once."""
    found = []
    for file in files:
        folder = work / "mutants" / file.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        subprocess.run([tool(), file, "cpp", "--noCheck", "--mutantDir", folder], cwd=work, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        seen = {code_of(file.read_text(encoding="utf-8"))}
        for mutant in sorted(folder.iterdir()):
            text = mutant.read_text(encoding="utf-8")
            code = code_of(text)
            if code not in seen:
                seen.add(code)
                found.append((file, text))
    return found


def objects_of(build, source, file):
    """Return the compiler's output per library: build/launcher/CMakeFiles/….dir/core/run_controller.cc.o, and its bytes."""
    wanted = file.relative_to(source).parent.parts

    def folder_of(path):  # without CMakeFiles/….dir, which may be at any level
        parts = path.relative_to(build).parent.parts
        at = parts.index("CMakeFiles")
        return parts[:at] + parts[at + 2:]
    found = [path for path in build.rglob(file.name + ".o") if folder_of(path) == wanted]
    if not found:
        sys.exit(f"mutants: no object file of {file}")
    return {path: path.read_bytes() for path in found}


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("module", choices=TESTS)
    arguments.add_argument("--sample", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--from", dest="first", type=int, default=0, metavar="K", help="where a call that Ctrl-C ended says it was")
    arguments.add_argument("--only", type=int, nargs="+", metavar="K", help="numbers that an earlier call with this seed printed")
    arguments.add_argument("--tests", nargs="+", metavar="T", help="only these of the module's tests")
    arguments.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = arguments.parse_args()
    tests = [test for test in TESTS[options.module] if not options.tests or test in options.tests]
    if unknown := set(options.tests or []).difference(tests):
        sys.exit(f"mutants: no {', '.join(sorted(unknown))}: "
                 f"{options.module} has only the tests {', '.join(TESTS[options.module])}")
    work = ROOT / "build-mutants" / options.module.replace("/", "-")
    source, build = work / "source", work / "build"
    copy_tree(source)
    files = sorted(path for path in (source / options.module).rglob("*.cc") if path.parent.name != "core" or options.module.endswith("core"))
    for file in files:  # an earlier call may have left a mutant in a library
        file.touch()
    if not (build / "build.ninja").exists():
        subprocess.run(["cmake", "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O1",
                        "-DTRAIN_TORCH=OFF"], check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    if not ninja(build, *tests, jobs=options.jobs):
        sys.exit("mutants: the tests do not build")
    limits = {}
    for test in tests:
        began = time.monotonic()
        if first_to_fail(build, [test], {test: 600}):
            sys.exit(f"mutants: {test} fails before anything was changed")
        limits[test] = 30 + 10 * (time.monotonic() - began)

    noticed_by = collections.Counter()  # how often each test noticed a mutant of each file
    objects = {file: objects_of(build, source, file) for file in files}
    pool = mutants_of(files, work)
    random.Random(options.seed).shuffle(pool)
    killed, survived, stillborn, same = 0, 0, 0, 0
    for number, (file, text) in enumerate(pool):
        if number < options.first or options.only and number not in options.only:
            continue
        if killed + survived == options.sample:
            break
        original = file.read_text(encoding="utf-8")
        try:
            file.write_text(text, encoding="utf-8")
            if not ninja(build, *(path.relative_to(build) for path in objects[file])):
                stillborn += 1
                continue
            if all(path.read_bytes() == content for path, content in objects[file].items()):
                same += 1
                continue
            order = sorted(tests, key=lambda name: -noticed_by[file, name])  # a test that noticed others goes first, alone
            if not ninja(build, *order):
                stillborn += 1
                continue
            failed = first_to_fail(build, order[:1], limits) or first_to_fail(build, order[1:], limits)
            if failed:
                noticed_by[file, failed] += 1
                killed += 1
            else:
                survived += 1
                name = str(file.relative_to(source))
                diff = difflib.unified_diff(original.splitlines(), text.splitlines(), name, name, lineterm="", n=1)
                print(f"mutant {number}:", *diff, sep="\n", flush=True)
        except KeyboardInterrupt:
            print(f"stopped at mutant {number}; --from {number} goes on")
            break
        finally:
            file.write_text(original, encoding="utf-8")  # with a new mtime: otherwise its library would keep the mutant
        print(f"tried {killed + survived}: {killed} noticed, {survived} survived (mutant {number})", file=sys.stderr, flush=True)
    tried = killed + survived
    print(f"{options.module}: {killed} of {tried} mutants noticed ({100 * killed / max(tried, 1):.0f} %), seed {options.seed}; "
          f"{same} more meant the same, {stillborn} did not compile, of {len(pool)} in all")


if __name__ == "__main__":
    main()
