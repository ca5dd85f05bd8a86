#!/usr/bin/env python3
"""Runs one grader and says what became of the attempt in it, in one line.

supervise.py [--limit SECONDS] [--memory GIB] build/exercises/grade_ex03 work ex03_transposed

Passed is only what the grader's own main declares passed, on a channel that begins with a random
token (verdict.h): an attempt can print, exit, crash, loop or fork as it likes. Nothing that it
started is left running. Exit status 0: passed, 1: not passed, 2: usage, 3: it cannot be started.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import ctypes
import io
import os
import re
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

POLL = 0.05  # seconds between two looks at the attempt's processes and memory
OUTPUT = 1 << 20  # bytes of an attempt's output that are shown
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # <sys/prctl.h>

CRASHES: dict[int, str] = {
    signal.SIGSEGV: "segmentation fault (SIGSEGV), memory that is not its own or a stack overflow",
    signal.SIGBUS: "bus error (SIGBUS), memory that is not there",
    signal.SIGFPE: "arithmetic error (SIGFPE), such as an integer divided by zero",
    signal.SIGILL: "illegal instruction (SIGILL)",
    signal.SIGSYS: "it tried to start another process (SIGSYS), which is not allowed",
    signal.SIGABRT: "aborted (SIGABRT), by abort(), an assert or an exception that nobody caught",
}


def children_of(pid: int) -> set[int]:
    found: set[int] = set()
    with contextlib.suppress(OSError):  # it is gone
        for task in Path(f"/proc/{pid}/task").iterdir():
            found.update(int(child) for child in (task / "children").read_text().split())
    return found


class Family:
    """All processes below this one, whatever session or group they moved to.

    The grader forbids itself to start any (verdict.cpp), where the system lets it. For the rest,
    this process is their subreaper: one that loses its parent becomes its child.
    """

    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def die_with_parent(self) -> None:
        """For the child: even if this process is killed, the attempt does not outlive it."""
        self.libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    def members(self) -> set[int]:
        found: set[int] = set()
        level = {os.getpid()}
        while level:
            level = set().union(*(children_of(pid) for pid in level)) - found
            found |= level
        return found

    def kill(self) -> None:
        end = time.monotonic() + 8  # for one of another user, which this one may not kill
        while time.monotonic() < end:
            for pid in self.members():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            try:
                while os.waitpid(-1, os.WNOHANG)[0] != 0:
                    pass
            except ChildProcessError:
                return


class Output:
    """Passes text on: no byte that is not text, and not more than anyone would read."""

    def __init__(self) -> None:
        self.decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self.left = OUTPUT
        self.at_line_start = True

    def write(self, data: bytes) -> None:
        if self.left == 0:
            return
        text = self.decoder.decode(data[: self.left])
        self.left -= len(data[: self.left])
        text = re.sub(r"[^\n\t\x20-\x7e\xa0-\U0010ffff]", lambda m: f"\\x{ord(m[0]):02x}", text)
        if text:
            self.at_line_start = text.endswith("\n")
        sys.stdout.write(text)
        if self.left == 0:
            self.say(f"output after the first {OUTPUT >> 20} MiB is left out")
        sys.stdout.flush()

    def say(self, line: str) -> None:
        sys.stdout.write(("" if self.at_line_start else "\n") + f"== {line}\n")
        sys.stdout.flush()
        self.at_line_start = True


class Channel:
    """What main says: lines of the token, a word and its text. Lines without the token are noise."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        self.token = secrets.token_hex(16).encode()  # 32 characters, as in verdict.cpp
        self.ours.sendall(self.token)
        self.step = "before main() began"
        self.verdict = ("", "")  # a word of "graded" and "refused", and its text
        self.pending = b""

    def write(self, data: bytes) -> None:
        *lines, self.pending = (self.pending + data).split(b"\n")
        self.pending = self.pending[-OUTPUT:]
        for line in lines:
            if line.startswith(self.token):
                said = line.removeprefix(self.token).decode(errors="replace")
                word, _, text = said.partition(" ")
                if word == "at":
                    self.step = text
                else:
                    self.verdict = (word, text)


def memory_of(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def supervise(command: list[str], limit: float, memory: float, output: Output) -> tuple[bool, str]:
    """Whether the attempt passed, and a sentence about it."""
    family, channel = Family(), Channel()
    end = time.monotonic() + limit
    stopped = ""  # why this process ended it
    status: int | None = None
    left_behind = False
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "GRADER_CHANNEL": str(channel.theirs.fileno())},
            pass_fds=[channel.theirs.fileno()],
            start_new_session=True,
            preexec_fn=family.die_with_parent,
        )
        channel.theirs.close()
        assert child.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ, output.write)
            selector.register(channel.ours, selectors.EVENT_READ, channel.write)

            def read(timeout: float) -> bool:
                """Takes what there is; whether there was anything."""
                ready = selector.select(timeout)
                for key, _ in ready:
                    try:
                        data = os.read(key.fd, 1 << 16)
                    except ConnectionError:
                        data = b""
                    if data:
                        key.data(data)
                    else:
                        selector.unregister(key.fileobj)
                return bool(ready)

            looked = 0.0
            while status is None and not stopped:
                read(POLL)
                now = time.monotonic()
                if now > end:
                    stopped = f"after {limit:g} seconds: it did not end"
                elif now > looked + POLL:
                    looked = now
                    if len(family.members()) > 1:
                        stopped = "because it started another process"
                    elif memory_of(child.pid) > memory * 2**30:
                        stopped = f"because it used more than {memory:g} GiB of memory"
                pid, wait_status = os.waitpid(child.pid, os.WNOHANG)
                if pid != 0:
                    status = os.waitstatus_to_exitcode(wait_status)
            left_behind = status is not None and bool(family.members())
            family.kill()
            while read(0):  # what was on its way
                pass
    finally:
        family.kill()
    if stopped:
        return False, f"The program was stopped {channel.step}, {stopped}."
    assert status is not None
    if left_behind:
        return False, "The program started another process, and left it behind."
    return judge(channel, status)


def judge(channel: Channel, status: int) -> tuple[bool, str]:
    """What the end of a process means that ended by itself."""
    word, text = channel.verdict
    if status < 0:
        crash = CRASHES.get(-status, f"signal {-status} ({signal.strsignal(-status)})")
        return False, f"The program crashed {channel.step}: {crash}."
    if word == "refused":
        return False, text
    if word != "graded":
        ended = f"ended by itself (exit {status}) {channel.step}"
        return False, f"The program {ended}; it was not graded."
    checks, failed = (int(number) for number in text.split())
    if failed > 0:
        return False, f"{failed} of {checks} checks failed."
    if checks == 0 or status != 0:
        return False, f"The program declared {checks} checks passed, and exit {status}."
    return True, f"passed, {checks} of {checks} checks."


def positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
    return value


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--limit", type=positive, default=120, help="seconds (120)")
    parser.add_argument("--memory", type=positive, default=4, help="GiB (4); most use 0.1")
    parser.add_argument("grader", help="the executable")
    parser.add_argument("kind", choices=("start", "work", "solution"))
    parser.add_argument("exercise", help="its folder's name")
    args = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    if isinstance(sys.stdout, io.TextIOWrapper):  # text that the terminal cannot show is no error
        sys.stdout.reconfigure(errors="backslashreplace")
    output = Output()
    try:
        command = [args.grader, args.kind, args.exercise]
        passed, sentence = supervise(command, args.limit, args.memory, output)
        if not passed:
            sentence = f"not passed. {sentence} A hint: exercises/{args.exercise}/hint.md"
        output.say(f"{args.exercise}: {sentence}")
    except BrokenPipeError:  # nobody reads; Python would complain when it flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    except OSError as e:
        print(f"{args.grader}: {e.strerror}", file=sys.stderr)
        return 3
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
