"""A worker in plain Python, without any import of trainrun. Its argument says what its ranks do."""
import ctypes
import os
import sys
import threading
import time

rank = int(os.environ["RANK"])


def wait_for_peers():
    print("waits", flush=True)
    while True:
        time.sleep(3600)


def load():
    """Read what nobody writes."""
    print("waits", flush=True)
    reader, _ = os.pipe()
    os.read(reader, 1)


def hold_the_lock():
    """Call C without releasing the interpreter's lock, for ever."""
    print("waits", flush=True)
    ctypes.PyDLL(None).pause()


def square(number):
    return number * number


def burn():
    print("burns", flush=True)
    while True:
        for number in range(1000):
            square(number)


def main():
    how = sys.argv[1]
    if rank != 1:
        wait_for_peers()
    elif how == "read":
        load()
    elif how == "lock":
        threading.Thread(target=hold_the_lock, name="native-call", daemon=True).start()
        while True:
            time.sleep(0.01)
    elif how == "burn":
        burn()


main()
