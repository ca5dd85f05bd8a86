#!/usr/bin/env python3
"""notebooks/ladder.ipynb runs from top to bottom, and its last cell shows counters that change.

Skipped where the site's tools are not installed (scripts/setup.sh --site).
"""

from __future__ import annotations

import os
import re
import sys
import unittest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SITE_PYTHON = ROOT / ".venv-site" / "bin" / "python"
if SITE_PYTHON.exists() and Path(sys.prefix) != SITE_PYTHON.parent.parent:
    os.execv(SITE_PYTHON, [str(SITE_PYTHON), *sys.argv])

try:
    import nbformat
    from nbclient import NotebookClient
except ImportError:
    print("Skipped\nno nbclient: scripts/setup.sh --site installs what the site needs")
    sys.exit(77)


def printed(cell: Any) -> str:
    return "".join(output.get("text", "") for output in cell.get("outputs", []))


class TheNotebook(unittest.TestCase):
    def test_it_runs(self) -> None:
        notebook = nbformat.read(ROOT / "notebooks" / "ladder.ipynb", as_version=4)
        for cell in notebook.cells:
            self.assertFalse(cell.get("outputs"), "it is kept without results")
        client = NotebookClient(
            notebook, timeout=300, resources={"metadata": {"path": str(ROOT / "notebooks")}}
        )
        client.execute()
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        build, rungs, page, change = cells
        self.assertIn("gemm_bench", printed(build))
        for rung in ("v1", "v2", "v3"):
            self.assertRegex(printed(rungs), rf"(?m)^\s*{rung}\b")
        shown = [o["data"]["text/html"] for o in page.outputs if "data" in o]
        self.assertEqual(len(shown), 1)
        self.assertIn("iframe srcdoc", shown[0])
        found = re.search(
            r"bank conflicts of loads: ([\d.]+) before, ([\d.]+) after", printed(change)
        )
        assert found is not None
        self.assertEqual(float(found[1]), 1.0)
        self.assertGreater(float(found[2]), 2.0)


if __name__ == "__main__":
    unittest.main()
