#!/usr/bin/env python3
"""In place of torchft's lighthouse: listens where it is told, and writes down how it was started.

usage: fake_lighthouse.py NOTES [fail] --min_replicas N --bind HOST:PORT
"""
import os
import socket
import sys

notes, *rest = sys.argv[1:]
with open(notes, "a", encoding="utf-8") as file:
    file.write(" ".join(rest) + f" pid {os.getpid()}\n")
if rest[0] == "fail":
    print("nobody can bind this", file=sys.stderr)
    sys.exit(3)
host, port = rest[rest.index("--bind") + 1].rsplit(":", 1)
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind((host, int(port)))
server.listen()
while True:
    server.accept()[0].close()
