"""Asks a dashboard for every GET route of its openapi.yaml about every run and sweep, and checks each answer against its schema.

check_dashboard.py URL TOKEN: prints each answer that is wrong, then `checked N answers`; exits with 1 if one was wrong.
"""
import json
import sys
import urllib.error
import urllib.parse
import urllib.request

import jsonschema
import yaml

url, token = sys.argv[1:3]
wrong = []


def get(path):
    request = urllib.request.Request(url + path, headers={"Authorization": "Bearer " + token})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read()


api = yaml.safe_load(get("/openapi.yaml")[2])


def schema_of(response):
    if "$ref" in response:
        response = api["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
    return response.get("content", {}).get("application/json", {}).get("schema")


def check(path, route):
    status, content_type, body = get(path)
    if status != 200:
        wrong.append(f"{path}: {status} {body[:200]!r}")
        return None
    schema = schema_of(api["paths"][route]["get"]["responses"]["200"])
    if schema is None:
        return body
    answer = json.loads(body)
    validator = jsonschema.Draft202012Validator({**schema, "components": api["components"]})
    for error in validator.iter_errors(answer):
        wrong.append(f"{path}: {'/'.join(map(str, error.absolute_path))}: {error.message[:300]}")
    return answer


checked = 0
runs = check("/api/v1/runs", "/api/v1/runs")["runs"]
for run in runs:
    here = "/api/v1/runs/" + urllib.parse.quote(run["id"])
    keys = check(here + "/metrics/keys", "/api/v1/runs/{run}/metrics/keys")["keys"]
    files = check(here + "/files", "/api/v1/runs/{run}/files")["files"]
    numbers = [key["key"] for key in keys if key["kind"] == "number"]
    for route, methods in api["paths"].items():
        if "get" not in methods or route in ("/api/v1/stream", "/api/v1/runs/{run}/tasks/{task}") or "{sweep}" in route:
            continue
        path = route.replace("{run}", urllib.parse.quote(run["id"])).replace("{attempt}", "latest").replace("{rank}", "0")
        if "{attempt}" in route and run["attempts"] == 0:
            continue
        if "{id}" in route:
            if not files:
                continue
            path = path.replace("{id}", urllib.parse.quote(files[0]["id"]))
        if route.endswith("/metrics") and "{run}" in route:
            if not numbers:
                continue
            path += "?" + urllib.parse.urlencode([("key", key) for key in numbers[:64]])
        check(path, route)
        checked += 1
    status, _, body = get(here + "/metrics")
    schema = schema_of(api["components"]["responses"]["Problem"])
    jsonschema.Draft202012Validator({**schema, "components": api["components"]}).validate(json.loads(body))
sweeps = check("/api/v1/sweeps", "/api/v1/sweeps")["sweeps"]
for sweep in sweeps:
    for route in ("/api/v1/sweeps/{sweep}", "/api/v1/sweeps/{sweep}/trials", "/api/v1/sweeps/{sweep}/curves"):
        path = route.replace("{sweep}", urllib.parse.quote(sweep["id"]))
        if route.endswith("/curves"):
            path += "?" + urllib.parse.urlencode([("trial", trial) for trial in range(min(sweep["trials"], 100))])
        check(path, route)
        checked += 1
for name, response in api["components"]["responses"].items():
    content = response["content"]["application/json"]
    if "example" in content:  # the examples are answers, too
        jsonschema.Draft202012Validator({**content["schema"], "components": api["components"]}).validate(content["example"])
print("\n".join(wrong))
print(f"checked {checked} answers of {len(runs)} runs and {len(sweeps)} sweeps")
sys.exit(1 if wrong or not runs else 0)
