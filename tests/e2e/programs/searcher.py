"""searcher.py LOG MODE: a searcher of a sweep (docs/sweep.md). Trial n gets x = n + 1. LOG gets what it is told.

Modes: plain; done: two trials are enough; leaves: the same by its end; prunes: it stops trials at their second epoch; dies: by
SIGKILL, the first time that it is asked for trial 1; useless: each time; text, far, other: wrong answers for trial 1; shut: it
closes its input at the first report, and stays; deaf: it says nothing, and does not leave at the end of its input."""

import json
import os
import signal
import socket
import sys
import time

log, mode = sys.argv[1:]


def answer(value):
    print(json.dumps(value), flush=True)


def told():
    return open(log).read() if os.path.exists(log) else ""


print("I search", file=sys.stderr, flush=True)
if mode == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(60)
for line in sys.stdin:
    before = told()
    with open(log, "a") as all_told:
        all_told.write(line)
    message = json.loads(line)
    if "ask" in message:
        trial = message["ask"]
        if trial == 1 and (mode == "useless" or mode == "dies" and line not in before):
            os.kill(os.getpid(), signal.SIGKILL)
        if trial == 2 and mode == "done":
            answer({"done": True})
        elif trial == 2 and mode == "leaves":
            sys.exit(0)
        elif trial == 1 and mode == "text":
            print("trial one", flush=True)
        elif trial == 1 and mode == "far":
            answer({"trial": 1, "parameters": {"x": 1000}})
        elif trial == 1 and mode == "other":
            answer({"trial": 7, "parameters": {"x": 1}})
        else:
            answer({"trial": trial, "parameters": {"x": trial + 1}})
    elif "report" in message and mode == "prunes" and message["report"]["time"] >= 2:
        answer({"stop": message["report"]["trial"]})
    elif "report" in message and mode == "shut" and '"report"' not in before:
        socket.socket(fileno=0).shutdown(socket.SHUT_RD)
        time.sleep(1000)
