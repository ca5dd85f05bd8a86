"""The smallest command that breaks the same invariant."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from fuzzing.cases import BENCH, Case


def shrink(case: Case, still_fails: Callable[[Case], bool], seconds: float) -> Case:
    """Takes the first smaller command that fails the same way, until none does."""
    end = time.monotonic() + seconds
    progress = True
    while progress:
        progress = False
        for smaller in candidates(case):
            if time.monotonic() > end:
                return case
            if still_fails(smaller):
                case = smaller
                progress = True
                break
    return case


def candidates(case: Case) -> Iterator[Case]:
    """Smaller commands, the much smaller ones first."""
    args = case.args if case.program == BENCH else ()
    for length in (8, 4, 2, 1):
        for i in range(len(args) - length + 1):
            if b"--kernel" not in args[i : i + length]:  # without, all rungs run
                yield replace(case, args=args[:i] + args[i + length :])
    for name in case.environment:
        yield replace(case, environment={k: v for k, v in case.environment.items() if k != name})
    for name, data in case.files.items():
        for shorter in (
            *without_chunks(data, b"\n"),
            *without_chunks(data),
            *smaller_numbers(data),
        ):
            yield replace(case, files={**case.files, name: shorter})
    for i, arg in enumerate(args):
        simpler = [*without_chunks(arg, b","), *smaller_numbers(arg)]
        if not arg.startswith(b"-") and len(arg) > 4:
            simpler += without_chunks(arg)
        for word in simpler:
            yield replace(case, args=(*args[:i], word, *args[i + 1 :]))


def without_chunks(data: bytes, separator: bytes = b"") -> Iterator[bytes]:
    """Halves, quarters, ... left out, of the parts or of the bytes."""
    parts = data.split(separator) if separator else [data[i : i + 1] for i in range(len(data))]
    if separator and len(parts) == 1:
        return
    length = max(1, len(parts) // 2)
    # Only large chunks leave a long text: it becomes shorter, and then smaller ones have their turn.
    while length >= 1 and length * 64 >= len(parts):
        for i in range(0, len(parts), length):
            yield separator.join(parts[:i] + parts[i + length :])
        length //= 2


def smaller_numbers(data: bytes) -> Iterator[bytes]:
    if len(data) > 2000:
        return
    for found in re.finditer(rb"-?\d+(?:\.\d+)?(?:e-?\d+)?", data):
        before = data[: found.start()][-1:]
        if before.isalpha() and before != b"x":  # v13 is a name, 4x5x6 is none
            continue
        text = found[0]
        values = [b"0", b"1"]
        if text.isdigit() and len(text) < 20:
            n = int(text)
            values += [b"%d" % v for v in (n // 2, n - n // 4, n - 1) if v > 1]
        for value in values:
            if len(value) < len(text) or (len(value) == len(text) and value < text):
                yield data[: found.start()] + value + data[found.end() :]
