"""s3_server.py RULES [PORT [CERTIFICATE KEY]]: run moto's S3 server with injected faults. Prints its URL once it listens.

With a certificate it speaks TLS, and records the host and the temporary key's token of each request.
"""
import logging
import socket
import sys

from moto.s3.models import s3_backends
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from store_faults import Faults

faults = Faults(sys.argv[1])
logging.disable(logging.CRITICAL)


class Front:
    def __init__(self, app):
        self.app = app

    def __call__(self, environ, start_response):
        text = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}?{environ.get('QUERY_STRING', '')}"
        if tls:
            text = f"{environ['HTTP_HOST']} token={environ.get('HTTP_X_AMZ_SECURITY_TOKEN', '')} {text}"
        action = faults.action(text)
        if action == "503":
            faults.note(f"{text} 503")
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            body = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
            start_response("503 Slow Down", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
            return [body]
        if action in ("reset", "lost"):
            if action == "lost":
                list(self.app(environ, lambda *_: None))
            faults.note(f"{text} {action}")
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            return [b""]

        if action == "403":
            faults.note(f"{text} 403")
            body = b"<Error><Code>InvalidAccessKeyId</Code><Message>The key does not exist in our records.</Message></Error>"
            start_response("403 Forbidden", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
            return [body]

        def answered(status, headers, *rest):
            faults.note(f"{text} {action or status.split()[0]}")
            if action == "short":
                headers = [(name, str(int(value) // 2) if name.lower() == "content-length" else value) for name, value in headers]
            return start_response(status, headers, *rest)

        if action in ("cut", "short"):
            body = b"".join(self.app(environ, answered))
            return half(body, environ["werkzeug.socket"] if action == "cut" else None)
        return self.app(environ, answered)


def half(body, connection):
    yield body[: len(body) // 2]
    if connection is not None:
        connection.shutdown(socket.SHUT_RDWR)


tls = tuple(sys.argv[3:5])
server = make_server("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0,
                     Front(DomainDispatcherApplication(create_backend_app)), threaded=True, ssl_context=tls or None)
server.daemon_threads = True
s3_backends["123456789012"]["aws"].create_bucket("bucket", "us-east-1")
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
