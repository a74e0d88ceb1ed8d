"""Faults in front of a store's server.

The rules are in a file, which is read at each request:
  [{"match": "PUT .*/data-", "action": "503" | "reset" | "lost" | "cut" | "short" | "403", "times": 3}]
`match` is a regular expression over "METHOD path?query". The first matching rule with times left applies.
503: overloaded. reset: the connection breaks before anything is done. lost: the request is done, and the answer never comes.
cut: the connection breaks in the middle of the answer. short: the answer has half of its bytes. 403: refused.
The server writes a line per request to the file's name + ".log": "METHOD path?query status".
"""
import json
import re
import threading


class Faults:
    def __init__(self, rules_path):
        self.rules_path = rules_path
        self.used = {}
        self.lock = threading.Lock()

    def action(self, text):
        try:
            with open(self.rules_path, encoding="utf-8") as file:
                rules = json.load(file)
        except (OSError, ValueError):
            return None
        with self.lock:
            for number, rule in enumerate(rules):
                key = (number, rule["match"])
                if re.search(rule["match"], text) and self.used.get(key, 0) < rule.get("times", 1 << 30):
                    self.used[key] = self.used.get(key, 0) + 1
                    return rule["action"]
        return None

    def note(self, text):
        with self.lock, open(self.rules_path + ".log", "a", encoding="utf-8") as log:
            log.write(text + "\n")
