"""dashboard_test.py BUILD [-k NAME]: the pages of `train-run dashboard` in a headless Chromium, against real runs."""

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
HOSTILE = (
    "a<img src=x onerror=alert(1)>b"  # train-run refuses such a name, but whoever can write the folder can make one
)
SHORT_S = 5  # an update is there within 2 to 3 s on an idle machine


@unittest.skipUnless(CHROMIUM, "chromium is not installed: packaging/deps/install.sh test installs it")
class Dashboard(unittest.TestCase):
    """One world for all cases: a live run, one that restarted, one that failed and one that finished."""

    @classmethod
    def setUpClass(cls):
        cls.world = World(BUILD)
        cls.addClassCleanup(cls.world.close)
        world = cls.world
        cls.crash = world.path / "crash"
        cls.end = world.path / "end"
        cls.live = world.run(
            "live",
            workers=3,
            failures=2,
            config={"crash_file": str(cls.crash), "end_file": str(cls.end), "report_ms": 50},
        )
        over = [
            world.run("finished", config={"reports": 60, "report_ms": 5}),
            world.run("hostile", workers=1, config={"reports": 20, "report_ms": 5}),
            world.run("failed", config={"crash_file": "/", "report_ms": 20}),
        ]
        for process in over:
            process.wait(timeout=60)
        (world.runs / "hostile").rename(world.runs / HOSTILE)
        cls.dashboard = world.dashboard("--allow-actions")
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

    def open_run(self, name, tab=""):
        self.browser.open("#/runs")
        self.page.get_by_role("link", name=name, exact=True).click()
        if tab:
            self.page.get_by_role("navigation", name="Parts of the run").get_by_role("link", name=tab).click()
        self.browser.see(self.page.get_by_role("heading", level=1), name)

    # Runs

    def test_the_list_shows_every_run_with_its_state_and_why_it_ended(self):
        self.browser.open("#/runs")
        rows = self.page.locator("tbody tr")
        self.browser.see_count(rows, 4)
        row = {
            name: rows.filter(has=self.page.get_by_role("link", name=name, exact=True))
            for name in ("live", "finished", "failed")
        }
        self.browser.see(row["live"], "running")
        self.browser.see(row["finished"], "finished")
        self.browser.see(row["failed"], "failed")
        self.browser.see(row["failed"], "SIGKILL")
        self.browser.see(row["finished"], "loss")
        self.browser.see(row["finished"], "2 on 1")
        self.browser.shot("runs")

    def test_search_and_state_narrow_the_list_and_stay_in_the_address(self):
        self.browser.open("#/runs")
        self.browser.see_count(self.page.locator("tbody tr"), 4)
        self.page.keyboard.press("/")
        self.page.keyboard.type("finish")
        self.browser.see_count(self.page.locator("tbody tr"), 1)
        self.browser.see(self.page.get_by_role("heading", name="Runs").locator(".."), "1 of 4 runs")
        self.browser.see_url("#/runs?q=finish")
        self.page.reload()
        self.browser.see_count(self.page.locator("tbody tr"), 1)
        self.page.get_by_label("Search runs").fill("")
        self.browser.see_count(self.page.locator("tbody tr"), 4)
        self.page.get_by_label("State").select_option("errored")
        self.browser.see_count(self.page.locator("tbody tr"), 1)
        self.browser.see(self.page.locator("tbody tr"), "failed")
        self.page.get_by_label("Search runs").fill("no such run")
        self.browser.see(self.page.locator("main"), "No run matches.")

    def test_a_column_sorts_by_its_head(self):
        self.browser.open("#/runs")
        head = self.page.get_by_role("columnheader", name="Run", exact=True)
        head.get_by_role("button").click()
        self.browser.see(self.page.locator("tbody tr").first, HOSTILE)
        self.browser.see_attribute(head, "aria-sort", "ascending")
        head.get_by_role("button").click()
        self.browser.see(self.page.locator("tbody tr").first, "live")

    # One run

    def test_a_finished_run_shows_figures_metrics_checkpoints_and_results(self):
        self.open_run("finished")
        main = self.page.locator("main")
        for text in (
            "finished",
            "no restart",
            "Attempts",
            "checkpoint_000006",
            "best",
            "2 kept of 6, scored by accuracy",
            "Exit code",
            "0 (",
            '"reports": 60',
        ):
            self.browser.see(main, text)
        self.browser.see_count(self.page.locator(".chart-plot canvas").locator("visible=true").first, 1)
        self.browser.shot("finished")

    def test_a_failed_run_says_who_failed_first_and_how(self):
        self.open_run("failed")
        self.browser.see(self.page.locator(".notice").first, "rank 1")
        self.browser.see(self.page.locator(".notice").first, "SIGKILL")
        self.browser.see(self.page.get_by_role("region", name="Attempts"), "failed after")
        self.browser.see(self.page.get_by_role("region", name="About this run"), "First to fail")
        self.browser.shot("failed")

    def test_a_live_run_changes_by_itself(self):
        self.open_run("live")
        self.browser.see(self.page.get_by_role("status").filter(has_text="Live"), "Live")
        reports = self.page.locator(".tile").filter(has_text="Reports").locator("dd")
        before = reports.inner_text()
        self.browser.see_other(reports, before)
        self.browser.shot("live")

    def test_metrics_can_be_filtered_smoothed_zoomed_and_read_by_keys(self):
        self.open_run("finished", "Metrics")
        self.page.get_by_label("Filter metrics").fill("loss")
        self.browser.see_count(self.page.locator(".chart-slot"), 1)
        chart = self.page.locator("figure.chart")
        self.browser.see(chart, "3 NaN or infinite")
        self.page.get_by_label("Smoothing").fill("0.9")
        self.page.get_by_role("button", name="log y").click()
        self.browser.see_attribute(self.page.get_by_role("button", name="log y"), "aria-pressed", "true")
        chart.focus()
        self.page.keyboard.press("Home")
        self.browser.see(chart, "report 1")
        self.page.keyboard.press("ArrowRight")
        self.browser.see(chart, "report 2")
        self.page.keyboard.press("+")
        self.browser.see(self.page.locator("main"), "Whole range")
        self.page.keyboard.press("0")
        self.browser.see_hidden(self.page.get_by_role("button", name="Whole range"))
        self.page.get_by_label("x", exact=True).select_option("epoch")
        chart = self.page.locator("figure.chart[data-x=epoch]")
        chart.focus()
        self.page.keyboard.press("End")
        self.browser.see(chart, "epoch 5")
        self.browser.shot("metrics")

    def test_names_and_texts_of_programs_stay_texts(self):
        self.open_run("finished", "Metrics")
        self.browser.see(self.page.locator(".chart-title").filter(has_text="bold").first, "<b>bold</b>")
        self.browser.see(self.page.get_by_role("region", name="Texts and switches"), "<img src=x onerror=alert(1)>")
        self.open_run(HOSTILE, "Logs")
        self.browser.see(self.page.get_by_role("log"), "<script>document.title = 'taken over'</script>")
        self.assertIn(HOSTILE, self.page.title())
        self.assertEqual(self.page.locator("main script, main img, main b:has-text('bold')").count(), 0)
        self.browser.shot("hostile")

    # What the workers' time was used for

    def test_goodput_of_a_run_and_of_each_attempt_says_what_the_time_was_used_for(self):
        self.open_run("finished")
        goodput = self.page.get_by_role("region", name="Goodput")
        self.browser.see(goodput.get_by_role("listitem").filter(has_text="start"), "%")
        self.browser.see(goodput.get_by_role("listitem").filter(has_text="steps"), "%")
        bar = goodput.get_by_role("img")
        self.assertRegex(bar.get_attribute("aria-label"), r"^steps [0-9.]+ %, .*start [0-9.]+ %")
        self.browser.see(self.page.locator(".tile").filter(has_text="Goodput"), "%")
        attempts = self.page.get_by_role("region", name="Attempts")
        self.browser.see(attempts.locator(".goodput-line"), "%")
        self.browser.open("#/runs")
        row = self.page.locator("tbody tr").filter(has=self.page.get_by_role("link", name="finished", exact=True))
        self.browser.see(row.locator("[data-label=Goodput]"), "%")

    def test_stragglers_of_a_live_run_appear_on_the_overview_and_among_the_workers(self):
        place = self.world.path / "slow"
        run = self.world.run(
            "slow", workers=6, config={"report_ms": 10, "slow_rank": 2, "slow_ms": 50}, place=place
        )
        self.addCleanup(self.world.end, run)
        other = self.world.dashboard(name="of slow", place=place)
        self.addCleanup(self.world.end, other)
        page = self.browser.stranger(other.link, logged_in=True)
        page.get_by_role("link", name="slow", exact=True).click()
        notice = page.get_by_role("region", name="Stragglers")
        self.browser.see(notice, "1 rank slower than the others")
        self.browser.see(notice, "% behind the median in step")
        self.browser.see_count(notice.get_by_role("link", name="rank 2", exact=True), 1)
        page.screenshot(path=self.artefacts / "stragglers.png", full_page=True)
        page.get_by_role("link", name="Workers").click()
        self.browser.see(page.locator("tbody tr.marked"), "straggler +")
        self.browser.see_count(page.locator("tbody tr.marked"), 1)
        self.browser.see(page.get_by_role("status").filter(has_text="ranks"), "1 in trouble")
        page.screenshot(path=self.artefacts / "workers-straggler.png", full_page=True)
        notice.get_by_role("link", name="rank 2", exact=True).click()
        self.browser.see(page.get_by_role("heading", level=1), "Rank 2")
        self.browser.see(page.locator(".head .tag"), "straggler")

    # Workers

    def test_a_profile_of_a_worker_is_taken_and_opens_as_a_flame_graph(self):
        self.open_run("live", "Workers")
        self.page.get_by_role("link", name="0", exact=True).click()
        inspection = self.page.get_by_role("region", name="Stacks and profiles")
        button = inspection.get_by_role("button", name="Wall profile")
        button.click()
        self.browser.see(inspection.get_by_role("status"), "Sampling rank 0 for 5 s")
        self.browser.see_attribute(button, "aria-busy", "true")
        self.browser.see(inspection.locator(".flame-said"), "all: ")
        self.browser.see(inspection.locator(".files"), "Wall profile")
        self.browser.see(inspection.locator(".files"), ".folded")
        graph = inspection.locator("canvas")
        graph.focus()
        self.page.keyboard.press("ArrowDown")
        self.browser.see_no(inspection.locator(".flame-said"), "all: ")
        self.browser.see(inspection.get_by_label("About the profile"), "wall profile of rank")
        self.browser.shot("profile")

    def test_a_profile_of_memory_is_in_bytes(self):
        self.open_run("live", "Workers")
        self.page.get_by_role("link", name="1", exact=True).click()
        inspection = self.page.get_by_role("region", name="Stacks and profiles")
        inspection.get_by_role("button", name="Memory profile").click()
        self.browser.see(inspection.get_by_label("About the profile"), "memory profile of rank 1")
        self.browser.see(inspection.locator(".files"), "Memory profile")
        self.browser.see(inspection.locator(".flame-said"), "iB")
        self.browser.shot("memory_profile")

    def test_workers_have_a_row_each_and_lead_to_their_page(self):
        self.open_run("live", "Workers")
        rows = self.page.locator("tbody tr")
        self.browser.see_count(rows, 3)
        self.browser.see(rows.nth(1), "1")
        self.browser.shot("workers")
        self.page.get_by_role("link", name="2", exact=True).click()
        self.browser.see(self.page.get_by_role("heading", level=1), "Rank 2")
        self.browser.see(self.page.get_by_role("log"), "rank 2 at report")
        environment = self.page.get_by_role("region", name="Environment")
        self.browser.see(environment, "what the process began with")
        self.browser.see(environment, "BATCH")
        self.browser.see(environment, "TORCHELASTIC_RUN_ID")
        self.browser.see(environment, "<redacted:MODEL_ACCESS>")
        self.assertNotIn("hf_of_the_browser_test", self.page.content())
        self.browser.shot("worker")

    def test_the_map_of_ranks_is_operated_by_keys(self):
        self.open_run("live", "Workers")
        self.page.get_by_role("button", name="Map", exact=True).click()
        canvas = self.page.get_by_label("Map of ranks: the arrow keys")
        canvas.focus()
        self.page.keyboard.press("ArrowRight")
        self.browser.see(self.page.locator(".heat-said"), "rank 1")
        self.browser.shot("map")
        self.page.keyboard.press("Enter")
        self.browser.see(self.page.get_by_role("heading", level=1), "Rank 1")

    # Logs

    def test_output_is_live_and_searched_by_a_regular_expression(self):
        self.open_run("live", "Logs")
        log = self.page.get_by_role("log")
        self.browser.see(log, "rank 0 at report")
        before = log.locator("li").last.inner_text()
        self.browser.see_other(log.locator("li").last, before)
        self.page.get_by_label("Search lines").fill("warning [0-9]+ of rank 1")
        self.browser.see(log, "of rank 1")
        self.browser.see_no(log, "rank 0 at report")
        self.page.get_by_label("Search lines").fill("(")
        self.browser.see(self.page.locator(".log-problem"), "(")
        self.browser.expect_problem("400")
        self.page.get_by_label("Search lines").fill("")
        self.page.get_by_label("Of", exact=True).select_option("launcher")
        self.browser.see_no(log, "rank 0 at report")
        self.browser.shot("logs")

    # The other parts

    def test_nodes_data_events_and_spec_show_what_the_run_has(self):
        self.open_run("finished", "Nodes")
        self.browser.see(self.page.locator(".node"), "not in use")
        self.browser.shot("nodes")
        self.open_run("finished", "Data")
        self.browser.see(self.page.locator("main"), "This job names no dataset.")
        self.browser.shot("data")
        self.open_run("finished", "Events")
        self.browser.see(self.page.get_by_role("region", name="Events"), "running")
        self.page.get_by_label("Search events").fill("checkpoint")
        self.browser.see(self.page.locator(".tools"), "of")
        self.browser.shot("events")
        self.open_run("finished", "Spec")
        self.browser.see(self.page.locator("pre.lines"), "num_workers")
        self.page.get_by_role("button", name="As given").click()
        self.browser.see(self.page.locator("pre.lines"), "live_worker")
        self.browser.shot("spec")

    def test_the_data_page_says_which_operator_holds_up_which_rank(self):
        place, end = self.world.path / "reading", self.world.path / "reading-end"
        rows = self.world.path / "rows.jsonl"
        rows.write_text("".join(f'{{"x": {row}}}\n' for row in range(900)))
        maps = [{"cast": {"column": "x", "type": "float32"}}, {"stretch": {"slow_rank": 1, "slow_ms": 20}}]
        datasets = {"train": {"path": str(rows), "map": maps}, "val": {"path": str(rows), "format": "json"}}
        run = self.world.run(
            "reading", 3, {"end_file": str(end)}, place=place, program="slow_data_worker", datasets=datasets
        )
        self.addCleanup(self.world.end, run)
        other = self.world.dashboard(name="of reading", place=place)
        self.addCleanup(self.world.end, other)
        page = self.browser.stranger(other.link, logged_in=True)
        page.get_by_role("link", name="reading", exact=True).click()
        page.get_by_role("link", name="Data", exact=True).click()
        notice = page.get_by_role("region", name="Training waits for data")
        held_up = re.compile(r"data-bound \d+ %: map stretch, [\d.]+ (k )?rows/s on rank 1")
        self.browser.see(notice, held_up)
        train = page.get_by_role("region", name="Dataset train", exact=True)
        operators = train.get_by_role("table", name="Operators of train").locator("tbody tr")
        self.browser.see_count(operators, 7)
        self.browser.see(train.locator("tr.marked").first, "map stretch")
        self.browser.see(train.locator(".starving"), "rank 1")
        hungry = train.get_by_role("table", name="Ranks of train").locator("tbody tr").first
        self.browser.see(hungry, "map stretch")
        self.browser.see_count(train.locator("figure.chart canvas").locator("visible=true").first, 1)
        self.browser.see(page.get_by_role("region", name="Dataset val", exact=True), "Epoch")
        self.assertTrue(self.browser.shots(page, "data-live"))

        end.write_text("")
        run.wait(timeout=60)
        self.browser.see(notice, "In the whole run")
        self.browser.see(notice, held_up)
        self.browser.see_count(operators, 7)
        page.reload()
        self.browser.see(notice, held_up)
        self.browser.see_count(train.locator("figure.chart canvas").locator("visible=true").first, 1)
        self.assertTrue(self.browser.shots(page, "data-finished"))

    def test_a_drained_node_says_so_and_why(self):
        place = self.world.path / "drained"
        nodes = [self.world.traind(name) for name in ("n1", "n2")]
        run = self.world.run("spare", workers=1, config={"report_ms": 50}, place=place, nodes=nodes)
        self.addCleanup(self.world.end, run)
        other = self.world.dashboard(name="of drained", place=place)
        self.addCleanup(self.world.end, other)
        page = self.browser.stranger(other.link, logged_in=True)
        page.get_by_role("link", name="spare", exact=True).click()
        page.get_by_role("link", name="Nodes").click()
        used = page.get_by_role("region", name=re.compile("Node n[12]")).first
        self.browser.see(used, "ranks 0")
        spare = "n2" if "n1" in used.inner_text() else "n1"
        self.world.drain(nodes[int(spare[1]) - 1])
        node = page.get_by_role("region", name=f"Node {spare}")
        self.browser.see(node.locator(".state"), "drained")
        self.browser.see(node.locator(".node-reason"), "drain")
        self.browser.see(used.locator(".state"), "up")
        page.screenshot(path=self.artefacts / "nodes-drained.png", full_page=True)

    def test_ticked_runs_are_compared(self):
        self.browser.open("#/runs")
        self.page.get_by_label("Compare finished").check()
        self.page.get_by_label("Compare failed").check()
        self.page.get_by_role("button", name="Compare 2 runs").click()
        self.browser.see(self.page.get_by_role("heading", level=1), "2 runs compared")
        self.browser.see(
            self.page.get_by_role("region", name="Differences of their specs").first, "train_loop_config.reports"
        )
        self.browser.see(self.page.locator("figure.chart").first, "finished")
        self.browser.see(self.page.locator("figure.chart").first, "failed")
        self.browser.shot("compare")

    # Looks and keys

    def test_no_page_scrolls_sideways_at_400_px_in_either_theme(self):
        self.page.set_viewport_size({"width": 400, "height": 860})
        for theme in ("light", "dark"):
            self.page.emulate_media(color_scheme=theme)
            self.browser.open("#/runs")
            self.browser.see_count(self.page.locator("tbody tr"), 4)
            self.narrow(f"runs-400-{theme}")
            self.open_run("finished")
            self.narrow(f"overview-400-{theme}")
            for tab in ("Metrics", "Workers", "Data", "Nodes", "Logs", "Events", "Spec"):
                parts = self.page.get_by_role("navigation", name="Parts of the run")
                link = parts.get_by_role("link", name=tab)
                link.click()
                self.browser.see_attribute(link, "aria-current", "page")
                self.browser.see_text(self.page.locator(".tab-body"))
                self.narrow(f"{tab.lower()}-400-{theme}")

    def narrow(self, name):
        self.browser.shot(name)
        self.assertLessEqual(self.page.evaluate("document.documentElement.scrollWidth"), 400, name)

    def test_the_theme_follows_the_system_until_one_is_chosen(self):
        self.page.emulate_media(color_scheme="dark")
        self.browser.open("#/runs")
        root = self.page.locator("html")
        self.browser.see_attribute(root, "data-theme", "dark")
        self.page.emulate_media(color_scheme="light")
        self.browser.see_attribute(root, "data-theme", "light")
        self.page.get_by_role("button", name="Dark theme").click()
        self.browser.see_attribute(root, "data-theme", "dark")
        self.page.reload()
        self.browser.see_attribute(root, "data-theme", "dark")
        self.browser.shot("dark")

    def test_everything_can_be_reached_by_keys(self):
        self.page.reload()
        self.browser.see_count(self.page.locator("tbody tr"), 4)
        self.page.keyboard.press("Tab")
        self.browser.see(self.page.locator(":focus"), "Skip to the content")
        self.page.keyboard.press("Enter")
        self.browser.see_attribute(self.page.locator(":focus"), "id", "main")
        for _ in range(40):
            self.page.keyboard.press("Tab")
            if self.page.evaluate("document.activeElement.className") == "run-name":
                break
        self.assertNotEqual(self.page.evaluate("getComputedStyle(document.activeElement).outlineStyle"), "none")
        self.page.keyboard.press("Enter")
        self.browser.see(self.page.get_by_role("navigation", name="Parts of the run"), "Overview")
        self.page.keyboard.press("3")
        self.browser.see_url("/workers")
        self.page.keyboard.press("?")
        self.browser.see(self.page.get_by_role("dialog"), "One level up")
        self.page.keyboard.press("Escape")
        self.browser.see_count(self.page.get_by_role("dialog"), 0)

    # Access

    def test_without_the_token_there_is_only_the_login(self):
        page = self.browser.stranger(self.dashboard.link)
        self.browser.see(page.get_by_role("heading", level=1), "Log in")
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        self.browser.see(page.get_by_role("alert"), "token")
        page.get_by_label("Token").fill(self.dashboard.link.partition("token=")[2])
        page.get_by_role("button", name="Log in").click()
        self.browser.see(page.get_by_role("heading", level=1), "Runs")
        self.assertNotIn("token", page.url)
        self.browser.expect_problem("401")

    def test_a_run_that_does_not_exist_is_named(self):
        self.browser.open("#/runs/nothing")
        self.browser.see(self.page.get_by_role("alert"), "nothing")
        self.browser.expect_problem("404")

    def test_a_dashboard_that_has_ended_does_not_look_alive(self):
        other = self.world.dashboard(name="other")
        page = self.browser.stranger(other.link, logged_in=True)
        self.browser.see(page.locator("#link-state"), "Live")
        self.world.end(other)
        self.browser.see(page.locator("#link-state"), "does not answer")
        self.browser.see(page.locator("#link-state"), "As of")
        self.browser.expect_problem("ERR_")

    def test_a_dashboard_without_actions_shows_no_buttons(self):
        other = self.world.dashboard(name="reading")
        page = self.browser.stranger(other.link, logged_in=True)
        page.get_by_role("link", name="live", exact=True).click()
        self.browser.see(page.get_by_role("heading", level=1), "live")
        self.browser.see_count(page.get_by_role("button", name="Stop"), 0)

    # These change the live run: unittest sorts by name.

    def test_x_a_restart_appears_by_itself(self):
        self.open_run("live")
        attempts = self.page.get_by_role("region", name="Attempts")
        self.browser.see(attempts, "1 attempt")
        self.crash.touch()
        self.browser.see(attempts, "2 attempts")
        self.browser.see(attempts, "rank 1")
        self.browser.see(self.page.locator(".tile").filter(has_text="Attempts"), "1 restart")
        self.browser.shot("restarted")

    def test_xx_checkpoint_now_makes_one_and_the_run_goes_on(self):
        self.open_run("live")
        self.page.get_by_role("button", name="Checkpoint now").click()
        self.browser.see(self.page.get_by_text("is kept."), "checkpoint_")
        self.browser.shot("checkpoint_now")
        self.browser.see(self.page.locator(".head .state"), "running")
        self.assertIsNone(self.live.poll())

    def test_y_stop_asks_first_and_then_stops_the_run(self):
        self.open_run("live")
        self.page.get_by_role("button", name="Stop", exact=True).click()
        dialog = self.page.get_by_role("dialog")
        self.browser.see(dialog, "Stop live?")
        self.browser.shot("stop")
        self.page.keyboard.press("Escape")
        self.browser.see_count(dialog, 0)
        self.assertIsNone(self.live.poll())
        self.page.get_by_role("button", name="Stop", exact=True).click()
        self.page.get_by_role("button", name="Stop the run").click()
        self.browser.see(self.page.locator(".head .state"), "stopped")
        self.assertEqual(self.live.wait(timeout=30), 130)
        self.browser.see_count(self.page.get_by_role("button", name="Stop", exact=True), 0)


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv[1])
    sys.exit(results.main(Dashboard))
