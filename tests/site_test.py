#!/usr/bin/env python3
"""The site in a real browser: pages, search, the plot, the microscope. No page may write an error to the console.

With SITE_SCREENSHOTS=FOLDER it keeps pictures, light and dark, 1280 and 400 pixels wide, for a person to look at.
Where the site's tools are not installed (scripts/setup.sh --site) it is skipped.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import unittest
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HTML = ROOT / "site" / "build" / "html"
BENCH = os.environ.get("GEMM_BENCH", str(ROOT / "gemm_bench"))
PLANTED = os.environ.get("PLANTED_BENCH", str(ROOT / "build" / "tests" / "planted_bench"))
BROWSERS = ("chromium", "google-chrome", "chromium-browser")
CHROMIUM = next((path for path in map(shutil.which, BROWSERS) if path), None)
SKIPPED = 77
SITE_PYTHON = ROOT / ".venv-site" / "bin" / "python"
if SITE_PYTHON.exists() and Path(sys.prefix) != SITE_PYTHON.parent.parent:
    os.execv(SITE_PYTHON, [str(SITE_PYTHON), *sys.argv])

try:
    from playwright.sync_api import Browser, Page, sync_playwright
except ImportError:
    print("Skipped\nno Playwright: scripts/setup.sh --site installs what the site needs")
    sys.exit(SKIPPED)
if CHROMIUM is None:
    print("Skipped\nno Chromium: scripts/setup.sh --site installs what the site needs")
    sys.exit(SKIPPED)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


class Site(unittest.TestCase):
    browser: Browser
    server: ThreadingHTTPServer
    playwright: Any
    address: str

    @classmethod
    def setUpClass(cls) -> None:
        subprocess.run([".venv/bin/python", "scripts/build_site.py"], cwd=ROOT, check=True)
        handler = functools.partial(Quiet, directory=str(HTML))
        cls.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.address = f"http://127.0.0.1:{cls.server.server_address[1]}/"
        cls.playwright = sync_playwright().start()
        cls.browser = cls.playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"]
        )

    @classmethod
    def tearDownClass(cls) -> None:
        cls.browser.close()
        cls.playwright.stop()
        cls.server.shutdown()

    def setUp(self) -> None:
        self.errors: list[str] = []
        self.outside: list[str] = []

    def tearDown(self) -> None:
        self.assertEqual(self.errors, [], "the console has errors")
        self.assertEqual(self.outside, [], "the page asks the network")

    def open(self, url: str, width: int = 1280, theme: Any = "light") -> Page:
        context = self.browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme
        )
        self.addCleanup(context.close)
        page = context.new_page()
        page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: self.errors.append(str(e)))
        allowed = (self.address, "file:", "data:", "blob:")
        page.on(
            "request",
            lambda r: None if r.url.startswith(allowed) else self.outside.append(r.url),
        )
        page.goto(url if "://" in url else self.address + url)
        return page

    def pictures(self, name: str, url: str) -> None:
        for width in (1280, 400):
            for theme in ("light", "dark"):
                page = self.open(url, width, theme)
                page.wait_for_timeout(200)
                wide = page.evaluate("document.documentElement.scrollWidth")
                self.assertLessEqual(wide, width, f"{name} is wider than the window at {width}")
                folder = os.environ.get("SITE_SCREENSHOTS")
                if folder:
                    page.screenshot(path=f"{folder}/{name}-{width}-{theme}.png")

    def test_the_first_page_is_small(self) -> None:
        scripts: list[int] = []
        context = self.browser.new_context()
        self.addCleanup(context.close)
        page = context.new_page()
        page.on(
            "response",
            lambda r: (
                scripts.append(len(r.body())) if r.url.split("?")[0].endswith(".js") else None
            ),
        )
        page.goto(self.address + "index.html", wait_until="networkidle")
        self.assertTrue(scripts)
        self.assertLess(sum(scripts), 300_000)
        total = sum(f.stat().st_size for f in HTML.rglob("*") if f.is_file())
        self.assertLess(total, 40_000_000)

    def test_index_and_chapter(self) -> None:
        page = self.open("index.html")
        self.assertIn("GEMM ladder", page.title())
        page = self.open("kernels/v06_bank_conflicts.html")
        links = page.locator(".rung a")
        names = links.all_text_contents()
        for name in ("Code", "Microscope", "Results", "Exercise ex11"):
            self.assertIn(name, names)
        self.assertEqual(page.locator("details.diff[open]").count(), 0)
        self.assertGreater(page.locator("details.diff").count(), 0)
        self.assertGreater(page.locator("abbr[title]").count(), 0)
        self.assertIn("v7", page.locator(".md-footer__link--next").inner_text())
        page.locator(".rung a", has_text="Code").click()
        page.wait_for_url("**/code/kernels/v06_bank_conflicts.cu.html")
        self.assertIn("tile_row", page.locator("main").inner_text())
        for name in ("index", "kernels/v06_bank_conflicts", "code/kernels/v06_bank_conflicts.cu"):
            self.pictures(name.replace("/", "_"), name + ".html")

    def test_search_finds_bank_conflicts(self) -> None:
        page = self.open("index.html")
        page.keyboard.press("/")
        page.keyboard.type("bank conflict", delay=20)
        page.wait_for_selector(".md-search-result__link", timeout=20_000)
        found = page.locator(".md-search-result__link").first
        self.assertIn("bank conflict", page.locator(".md-search-result__list").inner_text().lower())
        found.click()
        page.wait_for_load_state()
        self.assertIn("bank", page.locator("main").inner_text().lower())

    def test_plot(self) -> None:
        page = self.open("plot.html?rungs=v23,v24&dtype=f16")
        lines = "PLOT.data.datasets.map((d) => d.label)"
        self.assertEqual(page.evaluate(lines), ["v23", "v24", "cuBLAS"])
        page.locator("#plot-rungs input[value^=v27_]").check()
        self.assertIn("v27", page.evaluate(lines))
        page.locator("#plot-rungs input[value^=v23_]").uncheck()
        self.assertNotIn("v23", page.evaluate(lines))
        page.select_option("#plot-unit", "tflops")
        self.assertGreater(
            page.evaluate("Math.max(...PLOT.data.datasets[0].data.map((p) => p.y))"), 400
        )
        own = {
            "context": {"gpu": "Mine"},
            "benchmarks": [
                {"name": "v24_pingpong/f16/nn/512x512x512", "m": 512, "n": 512, "k": 512}
                | {"TFLOPS": 99.0, "ratio": 0.9, "baseline_TFLOPS": 110.0}
            ],
        }
        file = {"name": "own.json", "mimeType": "application/json"}
        page.set_input_files("#plot-file", {**file, "buffer": json.dumps(own).encode()})
        page.wait_for_function("PLOT.data.datasets.some((d) => d.label.includes('Mine'))")
        page.set_input_files("#plot-file", {**file, "buffer": b"{}"})
        page.wait_for_function(
            "document.getElementById('plot-told').textContent.includes('cannot')"
        )
        self.pictures("plot", "plot.html?rungs=v23,v24,v27&dtype=f16")

    def test_microscope_of_v6(self) -> None:
        page = self.open("microscope/v06_bank_conflicts.html")
        before = page.locator(".detail").inner_html()
        self.assertIn("load sA", before)
        page.keyboard.press("k")
        self.assertNotEqual(page.locator(".detail").inner_html(), before)
        store = page.locator("li.hot", has_text="s[col + e][row] = v[e]")
        store.click()
        self.assertIn("store sA", page.locator(".detail").inner_text())
        self.assertGreater(page.locator(".picture rect.cell").count(), 30)
        self.pictures("v6", "microscope/v06_bank_conflicts.html")

    def test_microscope_of_v24(self) -> None:
        began = time.monotonic()
        page = self.open("microscope/v24_pingpong.html")
        page.wait_for_selector(".timeline canvas")
        self.assertLess(time.monotonic() - began, 2)
        self.assertLess((HTML / "microscope" / "v24_pingpong.html").stat().st_size, 5_000_000)
        now = page.locator(".now-table")
        self.assertIn("producer", now.inner_text())
        before = now.inner_text(), page.locator("canvas").screenshot()
        page.keyboard.press("]")
        page.keyboard.press("]")
        self.assertNotEqual(now.inner_text(), before[0])
        self.assertNotEqual(page.locator("canvas").screenshot(), before[1])
        page.locator("li.hot", has_text="multiply_k_tiles<1>(s.full").click()
        self.assertIn("waits for full[", page.locator(".detail").inner_text())
        page.locator("input[type=range]").fill("100")
        self.assertIn("step 100 ", page.locator(".where").inner_text())
        self.pictures("v24", "microscope/v24_pingpong.html")

    def test_two_rungs_side_by_side(self) -> None:
        file = HTML.parent / "two.html"
        command = [BENCH, "--inspect", "--kernel", "v5,v6", "--dtype", "f32", "--size", "128"]
        subprocess.run([*command, "--html", str(file)], check=True, stdout=subprocess.DEVNULL)
        page = self.open(file.as_uri())
        self.assertEqual(page.locator(".pane").count(), 2)
        page.select_option("#second", "")
        self.assertEqual(page.locator(".pane").count(), 1)
        self.pictures("two", file.as_uri())

    def test_a_race_is_shown_with_both_parties(self) -> None:
        file = HTML.parent / "race.html"
        command = [PLANTED, "--inspect", "--kernel", "v900", "--size", "64", "--html", str(file)]
        self.assertEqual(subprocess.run(command, stdout=subprocess.DEVNULL).returncode, 1)
        page = self.open(file.as_uri())
        self.assertIn("race", page.locator(".finding").first.inner_text())
        detail = page.locator(".detail").inner_text()
        self.assertIn("this access: planted.cu:", detail)
        self.assertIn("the other party: planted.cu:", detail)
        self.assertGreater(page.locator("li.wrong").count(), 1)
        self.pictures("race", file.as_uri())

    def test_every_rung_has_its_pages(self) -> None:
        for chapter in sorted((ROOT / "kernels").glob("v*.md")):
            with self.subTest(chapter.stem):
                self.assertTrue((HTML / "results" / f"{chapter.stem}.html").exists())
                self.assertTrue((HTML / "code" / "kernels" / f"{chapter.stem}.cu.html").exists())
                traced = not chapter.stem.endswith("_cublas")
                page = HTML / "microscope" / f"{chapter.stem}.html"
                self.assertEqual(page.exists(), traced)


if __name__ == "__main__":
    unittest.main()
