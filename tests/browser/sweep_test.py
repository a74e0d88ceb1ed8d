"""sweep_test.py BUILD [-k NAME]: the pages of sweeps in a headless Chromium, against a finished and a live sweep."""

import os
import re
import shutil
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import results
from browser import Browser
from world import World

CHROMIUM = shutil.which("chromium")
BUILD = None
TRIALS = 24
SEARCH = {
    "metric": "loss",
    "time_attribute": "epoch",
    "num_trials": TRIALS,
    "max_concurrent_trials": 4,
    "parameters": {
        "lr": {"log_uniform": [1e-4, 1.0]},
        "layers": {"int": [1, 8]},
        "optimizer": {"choice": ["adam", "sgd", "<b>lion</b>"]},
        "augment": {"choice": ["none", {"flip": True, "crop": [4, 4]}, None]},
        "epochs": 27,
    },
    "scheduler": {"asha": {"max_time": 27, "divisor": 3, "mode": "aggressive"}},
}


@unittest.skipUnless(CHROMIUM, "chromium is not installed: packaging/deps/install.sh test installs it")
class Sweeps(unittest.TestCase):
    """One world for all cases: a sweep that has ended, with stopped and failed trials, and a live one."""

    @classmethod
    def setUpClass(cls):
        cls.world = World(BUILD)
        cls.addClassCleanup(cls.world.close)
        cls.end = cls.world.path / "end"
        over = cls.world.sweep("search", SEARCH, {"bad_layers": 7})
        live = {**SEARCH, "num_trials": 5, "max_concurrent_trials": 2, "scheduler": "none"}
        code = over.wait(timeout=120)
        if code != 0:
            raise AssertionError(f"the sweep ended with {code}: {cls.world.output('search')}")
        cls.live = cls.world.sweep("live", live, {"hold_file": str(cls.end)})
        cls.dashboard = cls.world.dashboard()
        cls.artefacts = Path(BUILD) / "tests/browser_screenshots"
        cls.browser = Browser(CHROMIUM, cls.artefacts)
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.page = self.browser.page(self.dashboard.link)
        self.addCleanup(self.finish)

    def finish(self):
        problems = self.browser.problems()
        self.browser.close_page()
        self.assertEqual(problems, [])

    def open_sweep(self, name):
        self.browser.open("#/sweeps")
        self.page.get_by_role("link", name=name, exact=True).click()
        self.browser.see(self.page.get_by_role("heading", level=1), name)

    @property
    def rows(self):
        return self.page.get_by_role("table", name="Trials").locator("tbody tr")

    def test_sweeps_are_listed_beside_runs_and_their_trials_are_no_runs(self):
        self.browser.open("#/runs")
        self.browser.see(self.page.locator("main"), "No runs here yet.")
        self.page.get_by_label("Trials of sweeps").check()
        self.browser.see(self.page.locator("tbody"), "search/3")
        self.browser.see_url("trials=true")
        self.page.get_by_role("navigation", name="Lists").get_by_role("link", name="Sweeps").click()
        self.browser.see_count(self.page.locator("tbody tr"), 2)
        row = self.page.locator("tbody tr").filter(has=self.page.get_by_role("link", name="search", exact=True))
        for text in ("finished", f"{TRIALS} of {TRIALS}", "loss", "random, asha"):
            self.browser.see(row, text)
        live = self.page.locator("tbody tr").filter(has=self.page.get_by_role("link", name="live", exact=True))
        self.browser.see(live, "running")
        self.browser.see(live, "0 of 5")
        self.assertTrue(self.browser.shots(self.page, "sweeps"))

    def test_a_finished_sweep_shows_trials_parameters_and_curves(self):
        self.open_sweep("search")
        main = self.page.locator("main")
        for text in ("stopped early", "smaller", f"{TRIALS} of {TRIALS}", "best trial"):
            self.browser.see(main, text)
        self.browser.see_count(self.rows, TRIALS)
        self.browser.see(self.rows.first, "best")
        self.browser.see(self.rows.filter(has_text="failed").first, "no memory for so many layers")
        self.browser.see_count(self.page.locator(".parallel-axes .axis"), 5)
        self.browser.see(self.page.locator(".parallel-axes"), "<b>lion</b>")
        self.browser.see(self.rows.filter(has_text="crop").first, '{"flip":true,"crop":[4,4]}')
        chart = self.page.locator("figure.chart")
        self.browser.see(chart, "best: trial")
        self.browser.see_count(chart.locator("canvas").locator("visible=true").first, 1)
        self.assertEqual(self.page.locator("main b:has-text('lion')").count(), 0)
        self.assertTrue(self.browser.shots(self.page, "sweep"))

    def test_a_table_of_trials_sorts_and_leads_to_the_trials_run(self):
        self.open_sweep("search")
        head = self.page.get_by_role("columnheader", name="Trial", exact=True)
        head.get_by_role("button").click()
        self.browser.see(self.rows.first, "Trial 0")
        self.browser.see_attribute(head, "aria-sort", "ascending")
        head.get_by_role("button").click()
        self.browser.see(self.rows.first, f"Trial {TRIALS - 1}")
        self.rows.filter(has_text="finished").or_(self.rows.filter(has_text="stopped")).first.get_by_role(
            "link"
        ).click()
        self.browser.see(self.page.get_by_role("heading", level=1), "Trial ")
        self.browser.see(self.page.get_by_role("navigation", name="Where you are"), "search")
        self.page.keyboard.press("u")
        self.browser.see(self.page.get_by_role("heading", level=1), "search")

    def test_ranges_on_the_axes_leave_trials_out_by_keys_and_by_mouse(self):
        self.open_sweep("search")
        self.browser.see_count(self.rows, TRIALS)
        handle = self.page.get_by_role("slider", name="loss: lower end of the range")
        handle.focus()
        for _ in range(8):
            self.page.keyboard.press("PageUp")
        said = self.page.locator(".parallel-said")
        self.browser.see(said, "pass the ranges")
        left = int(re.match(r"\d+", said.inner_text())[0])
        self.assertGreater(left, 0)
        self.assertLess(left, TRIALS)
        self.browser.see_count(self.rows, left)
        self.browser.see(self.page.get_by_role("region", name="Trials", exact=True).first, f"{left} of {TRIALS} trials")
        self.browser.shot("sweep-brushed")
        # For another width, all axes are drawn anew. The handle keeps the focus.
        axes = self.page.locator(".parallel-axes")
        width = axes.get_attribute("width")
        self.page.set_viewport_size({"width": 1100, "height": 900})
        self.browser.see_other_attribute(axes, "width", width)
        self.page.keyboard.press("Escape")
        self.browser.see_count(self.rows, TRIALS)

        axis = self.page.locator('[data-axis="optimizer"] .axis-hit')
        box = axis.bounding_box()
        x, top = box["x"] + box["width"] / 2, box["y"] + 8
        self.page.mouse.move(x, top)
        self.page.mouse.down()
        self.page.mouse.move(x, top + 30)
        self.page.mouse.move(x, top + 60)
        self.page.mouse.up()
        self.browser.see(said, "pass the ranges")
        self.browser.see(self.rows.first, "adam")
        self.browser.see_count(self.rows.filter(has_text="sgd"), 0)
        self.page.get_by_role("button", name="All trials").click()
        self.browser.see_count(self.rows, TRIALS)

    def test_a_trial_that_is_pointed_at_is_named(self):
        self.open_sweep("search")
        self.rows.nth(2).hover()
        name = self.rows.nth(2).get_by_role("link").inner_text()
        self.browser.see(self.page.locator(".parallel-said"), name)
        self.browser.see(self.page.locator("figure.chart"), name.lower())
        self.browser.shot("sweep-pointed")

    def test_z_a_live_sweep_changes_by_itself_until_it_ends(self):
        self.open_sweep("live")
        self.browser.see(self.page.locator(".head .state"), "running")
        running = self.rows.filter(has_text="running")
        self.browser.see_count(running, 2)
        cell = self.rows.filter(has_text="Trial 0").locator("[data-label=Epoch]")
        self.browser.see(cell, re.compile(r"\d"))
        before = cell.inner_text()
        self.browser.see_other(cell, before)
        self.browser.see(self.page.locator("figure.chart"), "best: trial")
        self.assertTrue(self.browser.shots(self.page, "sweep-live"))
        self.end.touch()
        self.browser.see(self.page.locator(".head .state"), "finished")
        self.browser.see_count(self.rows.filter(has_text="finished"), 5)
        self.assertEqual(self.live.wait(timeout=60), 0)


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv[1])
    sys.exit(results.main(Sweeps))
