"""torch.mm."""

from typing import Any

from torch import mm


def torch(a: Any, b: Any, out: Any) -> None:
    mm(a, b, out=out)
