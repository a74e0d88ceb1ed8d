"""google_tokens.py FOLDER: give out Google's access tokens. Prints its address once it listens.

Writes account.json (a service account, whose signature it verifies), stranger.json (signed by another key) and user.json. While
FOLDER/short exists, tokens last 299 s, a second less than the 5 minutes before their end at which clients renew them. Writes a
line per request to FOLDER/requests.
"""
import base64
import json
import pathlib
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

folder = pathlib.Path(sys.argv[1])
key, other = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def who_signed(assertion, audience):
    head, claims, signature = assertion.split(".")
    key.public_key().verify(decoded(signature), f"{head}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256())
    assert json.loads(decoded(head)) == {"alg": "RS256", "typ": "JWT", "kid": "the-key"}
    said = json.loads(decoded(claims))
    assert said["aud"] == audience and said["scope"] == "https://www.googleapis.com/auth/devstorage.read_write"
    assert said["iat"] - 60 < time.time() < said["exp"] <= said["iat"] + 3600
    return said["iss"]


class Tokens(BaseHTTPRequestHandler):
    def answer(self, status, entries):
        with open(folder / "requests", "a", encoding="utf-8") as log:  # before anybody hears of it
            log.write(f"{self.command} {self.path} {status}\n")
        body = json.dumps(entries).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def token(self, name):
        self.answer(200, {"access_token": f"token of {name}", "expires_in": 299 if (folder / "short").exists() else 3599})

    def do_POST(self):
        form = {name: values[0] for name, values in
                parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode()).items()}
        try:
            if form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer":
                return self.token(who_signed(form["assertion"], url))
            assert form == {"grant_type": "refresh_token", "client_id": "id", "client_secret": "a&b", "refresh_token": "1//x"}
            self.token("a user")
        except (InvalidSignature, AssertionError):
            self.answer(401, {"error": "invalid_grant"})

    def do_GET(self):
        assert self.headers["Metadata-Flavor"] == "Google"
        self.token("this machine")

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Tokens)
server.daemon_threads = True
url = f"http://127.0.0.1:{server.server_port}/token"
for name, private in (("account", key), ("stranger", other)):
    pem = private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / f"{name}.json").write_text(json.dumps({
        "type": "service_account", "client_email": "robot@project", "private_key_id": "the-key", "private_key": pem.decode(),
        "token_uri": url}))
(folder / "user.json").write_text(json.dumps({
    "type": "authorized_user", "client_id": "id", "client_secret": "a&b", "refresh_token": "1//x", "token_uri": url}))
print(f"127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
