"""gcs_server.py RULES: run gcp-storage-emulator with injected faults. Prints its URL once it listens.

It adds what Google's service does and the emulator lacks: it answers the precondition ifGenerationMatch=0 with 412 if the object
exists, and says of an upload without any bytes yet that it has none.
"""
import io
import json
import logging
import re
import socket
import sys
import threading
from contextlib import nullcontext
from functools import partial
from http.server import ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from gcp_storage_emulator import server as emulator
from gcp_storage_emulator.exceptions import NotFound
from gcp_storage_emulator.handlers import buckets, objects
from gcp_storage_emulator.storage import Storage

from store_faults import Faults

faults = Faults(sys.argv[1])
logging.disable(logging.CRITICAL)
changes = threading.Lock()


def incomplete(response, storage, upload_id, fallback_end=0):
    response.status = objects.GoogleHTTPStatus.RESUME_INCOMPLETE
    received = storage.get_resumable_byte_count(upload_id)
    if received > 0:
        response["Range"] = f"bytes=0-{received - 1}"


objects._resumable_incomplete = incomplete


class halved:
    """Lets a handler's answer end in the middle: its bytes are collected, and half of the body is sent."""

    def __init__(self, handler, action):
        self.handler, self.action = handler, action

    def __enter__(self):
        self.wfile, self.handler.wfile = self.handler.wfile, io.BytesIO()

    def __exit__(self, *_):
        head, _, body = self.handler.wfile.getvalue().partition(b"\r\n\r\n")
        self.handler.wfile = self.wfile
        if self.action == "short":
            head = re.sub(rb"(?i)(content-length: )\d+", lambda m: m[1] + str(len(body) // 2).encode(), head)
        self.handler.wfile.write(head + b"\r\n\r\n" + body[: len(body) // 2])
        self.handler.wfile.flush()


class Front(emulator.RequestHandler):
    def taken(self):
        query = parse_qs(urlsplit(self.path).query)
        if self.command != "POST" or query.get("ifGenerationMatch") != ["0"]:
            return False
        bucket = unquote(urlsplit(self.path).path.split("/b/")[1].split("/")[0])
        try:
            self.storage.get_file_obj(bucket, query["name"][0])
            return True
        except NotFound:
            return False

    def refuse(self, status, message):
        body = json.dumps({"error": {"code": status, "message": message}}).encode()
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def hang_up(self):
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def front(self, method):
        text = f"{method} {self.path}"
        action = faults.action(text)
        if action == "503":
            self.refuse(503, "Please reduce your request rate.")
        elif action == "reset":
            faults.note(f"{text} reset")
            self.hang_up()
        elif action in ("cut", "short"):
            with halved(self, action):
                emulator.Router(self).handle(method)
            if action == "cut":
                self.hang_up()
        else:
            with nullcontext() if method == "GET" else changes:  # a reader may take its time
                if self.taken():
                    self.refuse(412, "At least one of the pre-conditions you specified did not hold.")
                    return
                if action == "lost":
                    self.wfile = open("/dev/null", "wb")
                emulator.Router(self).handle(method)
            if action == "lost":
                self.hang_up()

    def log_request(self, code="-", size="-"):
        faults.note(f"{self.command} {self.path} {int(code)}")

    def do_GET(self):
        self.front("GET")

    def do_POST(self):
        self.front("POST")

    def do_PUT(self):
        self.front("PUT")

    def do_DELETE(self):
        self.front("DELETE")


storage = Storage(use_memory_fs=True)
buckets.create_bucket("bucket", storage)
server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Front, storage))
server.daemon_threads = True
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
