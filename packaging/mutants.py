#!/usr/bin/env python3
"""mutants.py MODULE [--sample N] [--seed S] [--jobs J]: do the tests notice small faults in a module of the product?

universalmutator (packaging/deps/install.sh mutants) makes mutants of the module's .cc files. A random sample of those that change code
(not a comment, not a text) and compile is tried, one at a time, in a copy of the tree in build-mutants: the module's tests run until
one fails, hangs or crashes. What survives is printed as a diff. docs/testing.md says what the scores were. No end-to-end program runs.
"""
import argparse
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
WORK = ROOT / "build-mutants"
SOURCE, BUILD = WORK / "source", WORK / "build"
TESTS = {  # the fastest first
    "launcher/core": ["launcher_core_test", "run_sim_test"],
    "launcher/cluster": ["launcher_cluster_test"],
    "daemon/core": ["daemon_core_test", "run_sim_test"],
    "daemon/supervisor": ["daemon_core_test", "daemon_supervisor_test"],
    "lib/net": ["lib_net_test"],
    "lib/storage": ["storage_test", "storage_journal_test", "storage_object_test", "storage_posix_test"],
    "lib/data": ["lib_data_plan_test", "lib_data_files_test"],
    "sdk/client": ["sdk_client_parts_test", "sdk_client_meeting_test", "sdk_client_session_test", "sdk_client_program_test"],
}
TEXT_OR_COMMENT = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def code_of(text):
    """Without texts, comments and blanks: what is the same in two files that do the same."""
    return re.sub(r"\s+", "", TEXT_OR_COMMENT.sub('""', text))


def tool():
    deps = os.environ.get("TRAINRUN_DEPS_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "trainrun/deps")
    found = pathlib.Path(deps) / "mutants-venv-1" / "bin" / "mutate"
    if not found.exists():
        sys.exit(f"mutants: {found} is missing: run packaging/deps/install.sh mutants")
    return found


def copy_tree():
    """Tracked files and new ones, as they are now."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in names.stdout.splitlines():
        if not (ROOT / name).is_file():
            continue
        target = SOURCE / name
        if target.exists() and target.read_bytes() == (ROOT / name).read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)


def build(tests, jobs):
    return subprocess.run(["ninja", "-C", BUILD, f"-j{jobs}", *tests], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def passes(test, limit_s):
    try:
        done = subprocess.run([BUILD / "tests" / test, "--gtest_brief=1", "--gtest_fail_fast"], cwd=BUILD, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def mutants_of(files):
    """(file, text) of all mutants that change code, each once."""
    found = []
    for file in files:
        folder = WORK / "mutants" / file.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        subprocess.run([tool(), file, "cpp", "--noCheck", "--mutantDir", folder], cwd=WORK, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        seen = {code_of(file.read_text(encoding="utf-8"))}
        for mutant in sorted(folder.iterdir()):
            text = mutant.read_text(encoding="utf-8")
            code = code_of(text)
            if code not in seen:
                seen.add(code)
                found.append((file, text))
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("module", choices=TESTS)
    arguments.add_argument("--sample", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = arguments.parse_args()
    tests = TESTS[options.module]
    copy_tree()
    if not (BUILD / "build.ninja").exists():
        subprocess.run(["cmake", "-S", SOURCE, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O1",
                        "-DTRAIN_TORCH=OFF"], check=True, stdout=subprocess.DEVNULL)
    if not build(tests, options.jobs):
        sys.exit("mutants: the tests do not build")
    limits = {}
    for test in tests:
        began = time.monotonic()
        if not passes(test, 600):
            sys.exit(f"mutants: {test} fails before anything was changed")
        limits[test] = 10 + 5 * (time.monotonic() - began)

    pool = mutants_of(sorted((SOURCE / options.module).glob("*.cc")))
    random.Random(options.seed).shuffle(pool)
    killed, survivors, stillborn = 0, [], 0
    for file, text in pool:
        if killed + len(survivors) == options.sample:
            break
        original = file.read_text(encoding="utf-8")
        try:
            file.write_text(text, encoding="utf-8")
            if not build(tests, options.jobs):
                stillborn += 1
                continue
            if all(passes(test, limits[test]) for test in tests):
                name = str(file.relative_to(SOURCE))
                diff = difflib.unified_diff(original.splitlines(), text.splitlines(), name, name, lineterm="", n=1)
                survivors.append("\n".join(diff))
                print(survivors[-1], flush=True)
            else:
                killed += 1
        finally:
            file.write_text(original, encoding="utf-8")
    tried = killed + len(survivors)
    print(f"{options.module}: {killed} of {tried} mutants noticed ({100 * killed / max(tried, 1):.0f} %), seed {options.seed}; "
          f"{stillborn} more did not compile, of {len(pool)} in all")


if __name__ == "__main__":
    main()
