"""A headless Chromium for the tests. It keeps what a page must not do: write to the console, fail, or ask another host."""

import re
from urllib.parse import urlsplit

from playwright.sync_api import expect, sync_playwright

WAIT_MS = 30_000  # beside four busy loops; on an idle machine an update is there within 3 s


class Browser:
    def __init__(self, chromium, artefacts):
        self.artefacts = artefacts
        artefacts.mkdir(parents=True, exist_ok=True)
        self.playwright = sync_playwright().start()
        self.chromium = self.playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        expect.set_options(timeout=WAIT_MS)
        self.contexts = []

    def close(self):
        self.chromium.close()
        self.playwright.stop()

    def new_page(self, host):
        context = self.chromium.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
        context.set_default_timeout(WAIT_MS)
        self.contexts.append(context)
        page = context.new_page()
        page.on(
            "console",
            lambda message: message.type in ("error", "warning") and self.said.append(f"console: {message.text}"),
        )
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (self.said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on(
            "request",
            lambda request: urlsplit(request.url).netloc != host and self.said.append(f"request: {request.url}"),
        )
        return page

    def page(self, link):
        """Return a page that is logged in by the link."""
        self.said, self.expected = [], []
        self.link = link
        self.base = link.partition("?")[0]
        self.current = self.new_page(urlsplit(link).netloc)
        self.current.goto(link)
        return self.current

    def stranger(self, link, logged_in=False):
        """Return a page of another browser, without or with the token."""
        page = self.new_page(urlsplit(link).netloc)
        page.goto(link if logged_in else link.partition("?")[0])
        return page

    def close_page(self):
        for context in self.contexts:
            context.close()
        self.contexts = []

    def expect_problem(self, text):
        """Chromium itself writes failed requests to the console: allow those that contain `text`."""
        self.expected.append(text)

    def problems(self):
        return [said for said in self.said if not any(text in said for text in self.expected)]

    def open(self, fragment):
        self.current.goto(self.base + fragment)

    def shot(self, name):
        self.current.screenshot(path=self.artefacts / f"{name}.png", full_page=True)

    def shots(self, page, name):
        """Keep pictures in both themes, wide and narrow; return whether the page scrolls sideways in none."""
        fits = True
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            for width in (1280, 400):
                page.set_viewport_size({"width": width, "height": 860})
                page.screenshot(path=self.artefacts / f"{name}-{width}-{theme}.png", full_page=True)
                fits = fits and page.evaluate("document.documentElement.scrollWidth") <= width
        return fits

    # What the page must show within WAIT_MS.

    def see(self, locator, text):
        expect(locator).to_contain_text(text)

    def see_text(self, locator):
        expect(locator).not_to_be_empty()

    def see_no(self, locator, text):
        expect(locator).not_to_contain_text(text)

    def see_other(self, locator, text):
        expect(locator).not_to_have_text(text)

    def see_count(self, locator, number):
        expect(locator).to_have_count(number)

    def see_hidden(self, locator):
        expect(locator).to_be_hidden()

    def see_attribute(self, locator, name, value):
        expect(locator).to_have_attribute(name, value)

    def see_other_attribute(self, locator, name, value):
        expect(locator).not_to_have_attribute(name, value)

    def see_url(self, end):
        expect(self.current).to_have_url(re.compile(re.escape(end) + "$"))
