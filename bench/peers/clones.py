"""Examples that are in no package: a file of a clone, which peers.sh --cutlass or --cutile names."""

import importlib.util
import os
from pathlib import Path
from typing import Any


def example(project: str, file: str) -> Any:
    clone = os.environ.get(f"PEERS_{project.upper()}")
    if not clone:
        raise ImportError(f"want --{project} DIR, a clone that has {file}")
    spec = importlib.util.spec_from_file_location(Path(file).stem, Path(clone, file))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
