"""moto's S3 server, with faults in front of it.

Prints its URL once it listens. Faults are rules in a file (argv[1]), read at each request:
  [{"match": "PUT .*/data-", "action": "503" | "reset" | "lost", "times": 3}]
`match` is a regular expression over "METHOD path?query"; the first rule that matches and has times left is taken.
Each request is a line in argv[1] + ".log": "METHOD path?query status".
"""
import json
import logging
import re
import socket
import sys
import threading

from moto.s3.models import s3_backends
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

rules_path = sys.argv[1]
used = {}
lock = threading.Lock()
logging.disable(logging.CRITICAL)


def rule_for(text):
    try:
        with open(rules_path, encoding="utf-8") as file:
            rules = json.load(file)
    except (OSError, ValueError):
        return None
    with lock:
        for number, rule in enumerate(rules):
            key = (number, rule["match"])
            if re.search(rule["match"], text) and used.get(key, 0) < rule.get("times", 1 << 30):
                used[key] = used.get(key, 0) + 1
                return rule
    return None


def note(text):
    with lock, open(rules_path + ".log", "a", encoding="utf-8") as log:
        log.write(text + "\n")


class Faults:
    def __init__(self, app):
        self.app = app

    def __call__(self, environ, start_response):
        text = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}?{environ.get('QUERY_STRING', '')}"
        rule = rule_for(text)
        if rule and rule["action"] == "503":
            note(f"{text} 503")
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            body = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
            start_response("503 Slow Down", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
            return [body]
        elif rule and rule["action"] == "reset":
            note(f"{text} reset")
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            return [b""]

        def answered(status, headers, *rest):
            note(f"{text} {status.split()[0]}")
            return start_response(status, headers, *rest)

        if rule and rule["action"] == "lost":  # done, but the answer never comes
            list(self.app(environ, lambda *_: None))
            note(f"{text} lost")
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            return [b""]
        return self.app(environ, answered)


server = make_server("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0,
                     Faults(DomainDispatcherApplication(create_backend_app)), threaded=True)
server.daemon_threads = True
s3_backends["123456789012"]["aws"].create_bucket("bucket", "us-east-1")
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
