"""pages.py BUILD [--runs N] [--charts N] [--points N] [--loads N]: what the dashboard's pages take in a headless Chromium.

One real run is copied: N times, finished, for the list of runs; and once with a report log of N metrics and N reports.
Between the loads of the list, the same browser loads two files that no program makes: a page of one word, and the list
as it stands then, without a script. What the browser itself takes on this machine is in both.
Prints a table, and as its last line everything as JSON. Run it with the Python of the browser tests:

    ~/.cache/trainrun/deps/browser-venv-1/bin/python benchmarks/programs/pages.py build
"""

import argparse
import json
import math
import os
import shutil
import statistics
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/browser"))
from playwright.sync_api import sync_playwright
from world import World

SCROLL_PX = 12  # a frame
LIMIT_MS = 120_000

# When the rows of the list are there, in ms after the start of the load.
WATCH_ROWS = """
  window.rowsAt = {};
  new MutationObserver(() => {
    const rows = document.querySelectorAll('tbody tr').length;
    if (rows > 0) window.rowsAt.first ??= performance.now();
    if (rows >= window.wantedRows) window.rowsAt.all ??= performance.now();
  }).observe(document, {subtree: true, childList: true});
"""

# Scroll from end to end, and return what each frame took, and how many charts there are.
SCROLL = """(px) => new Promise((done) => {
  const frames = [];
  let last = performance.now();
  scrollTo(0, 0);
  const frame = (now) => {
    frames.push(now - last);
    last = now;
    const before = scrollY;
    scrollBy({top: px, behavior: 'instant'});
    if (scrollY > before) return requestAnimationFrame(frame);
    done({frames: frames.slice(1), charts: document.querySelectorAll('figure.chart canvas').length});
  };
  requestAnimationFrame(frame);
})"""


def copy_runs(world, count):
    """Copy the finished run, without its checkpoints, until there are `count`."""
    first = world.runs / "finished"
    shutil.rmtree(first / "checkpoints", ignore_errors=True)
    for number in range(1, count):
        shutil.copytree(first, world.runs / f"finished-{number:04}", symlinks=True)


def write_reports(path, charts, points):
    """Write a report log of rank 0: `charts` metrics in each of `points` reports."""
    with open(path, "w", encoding="ascii") as file:
        for number in range(1, points + 1):
            at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(1_795_000_000 + number))
            metrics = {
                f"layer_{chart:03}.norm": round(math.exp(-number / points) + math.sin(number * (chart + 1) / 500) / 9, 6)
                for chart in range(charts)
            }
            line = {"rank": 0, "attempt": 0, "report_seq": number, "time": f"{at}.000000Z", "checkpoint": False}
            file.write(json.dumps({**line, "metrics": metrics}, separators=(",", ":")) + "\n")


class Files:
    """Serves texts on loopback."""

    def __init__(self):
        self.texts = texts = {"/word": "<!doctype html><title>word</title><p>word"}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                text = texts.get(self.path, "").encode()
                self.send_response(200 if text else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


# The page as it is, with its styles and without its scripts.
AS_FILE = """async () => {
  const page = document.documentElement.cloneNode(true);
  for (const node of page.querySelectorAll('script, link')) node.remove();
  for (const sheet of document.querySelectorAll('link[rel=stylesheet]')) {
    const style = document.createElement('style');
    style.textContent = await (await fetch(sheet.href)).text();
    page.querySelector('head').append(style);
  }
  return '<!doctype html>' + page.outerHTML;
}"""


class Pages:
    def __init__(self, playwright, link):
        self.chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        self.link = link
        self.base = link.partition("?")[0]
        self.context = self.chromium.new_context(viewport={"width": 1280, "height": 900})
        self.context.set_default_timeout(LIMIT_MS)
        page = self.context.new_page()
        page.goto(link)
        page.locator("tbody tr").first.wait_for()
        page.close()
        self.files = Files()

    def load_file(self, path, rows):
        """Load a file in a new tab; return ms after the start of the load."""
        page = self.context.new_page()
        page.add_init_script(f"window.wantedRows = {rows};" + WATCH_ROWS)
        page.goto(self.files.base + path)
        page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length > 0")
        times = page.evaluate(
            """() => ({paint: performance.getEntriesByName('first-contentful-paint')[0].startTime,
                       all: window.rowsAt.all ?? 0})"""
        )
        page.close()
        return times

    def load_runs(self, runs):
        """Load the list in a new tab of the same browser; return ms after the start of the load."""
        page = self.context.new_page()
        page.add_init_script(f"window.wantedRows = {runs};" + WATCH_ROWS)
        page.goto(f"{self.base}#/runs")
        page.locator("tbody tr").nth(runs - 1).wait_for(state="attached")
        times = page.evaluate(
            """() => ({paint: performance.getEntriesByName('first-contentful-paint')[0]?.startTime,
                       first: window.rowsAt.first, all: window.rowsAt.all})"""
        )
        answer = page.evaluate(
            """async () => { const from = performance.now(); await (await fetch('/api/v1/runs?limit=1000')).text();
                            return performance.now() - from; }"""
        )
        if "/list" not in self.files.texts:
            self.files.texts["/list"] = page.evaluate(AS_FILE)
        page.close()
        word, listed = self.load_file("/word", 0), self.load_file("/list", runs)
        return {
            **times,
            "answer": answer,
            "word_paint": word["paint"],
            "list_paint": listed["paint"],
            "list_all": listed["all"],
        }

    def scroll_charts(self, charts):
        """Scroll the metrics of the run with many twice: charts are made, then they are there."""
        page = self.context.new_page()
        page.goto(f"{self.base}#/runs?q=many")
        page.get_by_role("link", name="many", exact=True).click()
        page.get_by_role("navigation", name="Parts of the run").get_by_role("link", name="Metrics").click()
        page.locator("figure.chart canvas").first.wait_for()
        page.locator(".chart-slot").nth(charts - 1).wait_for(state="attached")
        made = page.evaluate(SCROLL, SCROLL_PX)
        there = page.evaluate(SCROLL, SCROLL_PX)
        page.close()
        return made, there


def of_frames(name, scrolled):
    frames = sorted(scrolled["frames"])
    mean = statistics.fmean(frames)
    return {
        "what": name,
        "frames": len(frames),
        "charts_at_the_end": scrolled["charts"],
        "mean_ms": mean,
        "frames_per_s": 1000 / mean,
        "p95_ms": frames[int(len(frames) * 0.95)],
        "max_ms": frames[-1],
    }


def spread(values):
    return {"min": min(values), "median": statistics.median(values), "max": max(values), "loads": len(values)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--charts", type=int, default=100)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--loads", type=int, default=20)
    wanted = parser.parse_args()
    world = World(wanted.build)
    try:
        for name in ("finished", "many"):
            run = world.run(name, workers=1, config={"reports": 5, "report_ms": 1}, place=world.path / name / "runs")
            if run.wait(timeout=120) != 0:
                raise SystemExit(f"the run failed: {world.output(name)}")
            shutil.move(world.path / name / "runs" / name, world.runs / name)
        copy_runs(world, wanted.runs - 1)
        write_reports(world.runs / "many/metrics.jsonl", wanted.charts, wanted.points)
        started = time.monotonic()
        link = world.dashboard().link
        found = {"link_printed_ms": (time.monotonic() - started) * 1000, "load": os.getloadavg()[0]}
        with sync_playwright() as playwright:
            pages = Pages(playwright, link)
            loads = [pages.load_runs(wanted.runs) for _ in range(wanted.loads)]
            for key in ("paint", "word_paint", "first", "all", "list_paint", "list_all", "answer"):
                found[key] = spread([load[key] for load in loads])
            made, there = pages.scroll_charts(wanted.charts)
            found["charts_made"] = of_frames("made while scrolled to", made)
            found["charts_there"] = of_frames("there", there)
            found["chromium"] = pages.chromium.version
            pages.chromium.close()
    finally:
        world.close()
    for key, text in (
        ("paint", "first paint"),
        ("word_paint", "first paint of a page of one word"),
        ("first", f"first rows of {wanted.runs} runs"),
        ("all", f"all {wanted.runs} rows"),
        ("list_paint", "first paint of the list as a file"),
        ("list_all", "all its rows"),
        ("answer", "GET /runs alone"),
    ):
        one = found[key]
        print(f"{text}: {one['min']:.0f}-{one['max']:.0f} ms, median {one['median']:.0f} ({one['loads']} loads)")
    for key in ("charts_made", "charts_there"):
        one = found[key]
        print(
            f"{wanted.charts} charts, {one['what']}: {one['mean_ms']:.1f} ms a frame ({one['frames_per_s']:.0f} a second, "
            f"{one['frames']} frames), 95 % below {one['p95_ms']:.0f} ms, at most {one['max_ms']:.0f} ms"
        )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
