"""Becomes train-run, and follows it from a child process, as a driver that has asked for a pace: driver.py FILE PACE TRAIN-RUN COMMAND ARGUMENT...

The driver acknowledges a round when every rank has reported it, now and then late, and then makes FILE. It ends with train-run."""

import json
import os
import random
import socket
import sys
import time


def follow(connection):
    reports, attempt, log, read_to, acknowledged = {}, -1, None, 0, 0
    pending = b""  # of a line of metrics.jsonl
    for line in connection.makefile("rb"):
        event = json.loads(line)
        if event["event"] == "run":
            log = open(os.path.join(event["folder"], "metrics.jsonl"), "rb")
            continue
        if event["event"] == "attempt" and event["attempt"] != attempt:
            attempt, acknowledged, reports = event["attempt"], 0, dict.fromkeys(range(event["world_size"]), 0)
            read_to, pending = 0, b""  # its first reports may have been logged already
            log.seek(0)
        elif event["event"] != "logged" or attempt < 0:
            continue
        data = log.read(max(0, event.get("bytes", read_to) - read_to))
        read_to += len(data)
        *lines, pending = (pending + data).split(b"\n")
        for one in map(json.loads, lines):
            if one["attempt"] == attempt:
                reports[one["rank"]] = one["report_seq"]
        if min(reports.values()) > acknowledged:
            acknowledged = min(reports.values())
            if random.random() < 0.02:
                time.sleep(random.uniform(0, 0.5))
            command = {"command": "acknowledge", "attempt": attempt, "round": acknowledged}
            connection.sendall(json.dumps(command).encode() + b"\n")
            with open(sys.argv[1], "w") as told:
                told.write("it acknowledges")


def main():
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        theirs.close()
        try:
            follow(ours)
        except OSError:  # train-run is gone
            pass
        os._exit(0)
    os.set_inheritable(theirs.fileno(), True)
    words = ["--driver-fd", str(theirs.fileno()), "--on-driver-exit", "leave", "--pace", sys.argv[2]]
    os.execv(sys.argv[3], sys.argv[3:5] + words + sys.argv[5:])


main()
