#!/usr/bin/env python3
"""count_tests.py ENTRIES RUN CTEST_CODE: summarize a run of ctest, in test cases.

ENTRIES is the output of `ctest --show-only=json-v1`, RUN the file of `ctest --output-junit`. A GoogleTest program writes its
cases to the file in its entry's GTEST_OUTPUT (train_test()); any other program is one case. An entry that should run and has
no result has failed. Before the last line, `N passed, N failed, N skipped`, we print the reasons for skips, each failed case
of a GoogleTest program with its first message, and what did not run.
Exit code: 0 if nothing failed and something passed.
"""
import collections
import json
import sys
import xml.etree.ElementTree as xml

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


def first_of(failure):
    """Return the first message of a failed case, place and text, as one line for a log."""
    return " ".join((failure.get("message") or "no reason is given").split())[:400]


def cases_of_program(path):
    """Return (outcome, why) for each case in a GoogleTest program's results."""
    for case in xml.parse(path).getroot().iter("testcase"):
        skip = case.find("skipped")
        if (failure := case.find("failure")) is not None:
            yield FAILED, f"{case.get('classname')}.{case.get('name')}: {first_of(failure)}"
        elif skip is not None:  # its message is the place, then the reason on the next line
            reason = " ".join((skip.get("message") or "").partition("\n")[2].split())
            yield SKIPPED, reason.removeprefix("SKIPPED: ") or "no reason is given"
        elif case.get("status") == "notrun":
            yield SKIPPED, "disabled"
        else:
            yield PASSED, ""


def cases_of(entry, ran):
    """Return (outcome, why) for each case of a ctest entry; `ran` is its result in RUN."""
    status = ran.get("status") if ran is not None else "nothing"
    skip = ran.find("skipped") if ran is not None else None
    said = skip.get("message") if skip is not None else status
    if status == "disabled":
        return [(SKIPPED, "disabled")]
    if status == "notrun" and said.startswith("SKIP_"):
        return [(SKIPPED, reason_of(entry, ran))]
    if status not in ("run", "fail"):
        return [(FAILED, f"did not run: {said}")]
    results = results_of(entry)
    if results is None:
        return [(PASSED if status == "run" else FAILED, "")]
    try:
        cases = list(cases_of_program(results))
    except (OSError, xml.ParseError):
        return [(FAILED, "ended before its last test case")]
    if status != "run" and FAILED not in (outcome for outcome, _ in cases):
        cases.append((FAILED, "failed outside its test cases"))
    return cases or [(FAILED, "ran no test case")]


def reason_of(entry, ran):
    """Return why a script skipped itself: its last line is `NAME: skipped: REASON`."""
    lines = (ran.findtext("system-out") or "").strip().splitlines()
    _, skipped, reason = lines[-1].partition(": skipped: ") if lines else ("", "", "")
    return reason if skipped else f"{entry['name']} said so"


def results_of(entry):
    for prop in entry.get("properties", []):
        if prop["name"] != "ENVIRONMENT":
            continue
        for variable in prop["value"]:
            if variable.startswith("GTEST_OUTPUT=xml:"):
                return variable.partition(":")[2]
    return None


def main(entries_path, run_path, ctest_code):
    with open(entries_path, encoding="utf-8") as file:
        entries = json.load(file)["tests"]
    try:
        ran = {case.get("name"): case for case in xml.parse(run_path).getroot().iter("testcase")}
    except (OSError, xml.ParseError):
        ran = {}
    counts = collections.Counter()
    reasons = collections.Counter()
    for entry in entries:
        for outcome, why in cases_of(entry, ran.get(entry["name"])):
            counts[outcome] += 1
            if outcome == SKIPPED:
                reasons[why] += 1
            elif why:
                print(f"failed: {entry['name']} {why}")
    if ctest_code != 0 and counts[FAILED] == 0:
        counts[FAILED] += 1
        print(f"failed: ctest itself, with {ctest_code}")
    if counts[PASSED] == 0 and counts[FAILED] == 0:
        counts[FAILED] += 1
        print("failed: no test passed")
    for reason, count in reasons.most_common():
        print(f"skipped: {count} x {reason}")
    print(f"{counts[PASSED]} passed, {counts[FAILED]} failed, {counts[SKIPPED]} skipped")
    return 0 if counts[FAILED] == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
