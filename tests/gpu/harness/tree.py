"""Processes that a job started, whatever sessions they made: found by descent while their ancestors live, ended together."""

import ctypes
import os
import signal
import time

PR_SET_CHILD_SUBREAPER = 36


def become_reaper():
    """Orphans among the descendants become this process's children, so that descent goes on leading to them."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def processes():
    """{pid: (parent, start time in clock ticks)} of all that live; zombies left out."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as text:
                fields = text.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if fields[0] not in "ZX":
            found[int(name)] = (int(fields[1]), int(fields[19]))
    return found


class Tree:
    """The descendants of one process, as seen until now; a pid counts only with its start time, since pids come again."""

    roots = set()  # of all trees: children of ours that somebody waits for, whichever tree is being ended

    def __init__(self, pid):
        self.pid, self.seen = pid, {}
        self.roots.add(pid)

    def look(self, table=None):
        """Take in what lives now; returns {pid: start time} of those seen at any time that still live."""
        table = table or processes()
        children = {}
        for pid, (parent, _) in table.items():
            children.setdefault(parent, []).append(pid)
        alive = {p: s for p, s in self.seen.items() if table.get(p, (0, None))[1] == s}
        todo = [self.pid, *alive]
        while todo:
            pid = todo.pop()
            for child in [pid, *children.get(pid, ())]:
                if child in table and child not in alive:
                    alive[child] = table[child][1]
                    todo.append(child)
        self.seen = alive
        return alive

    def signal(self, number):
        for pid in self.look():
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                pass

    def end(self, grace=8.0):
        """The job's own process and its group are asked and have `grace` seconds; then everything is killed."""
        if self.look():
            try:
                os.killpg(self.pid, signal.SIGTERM)
            except (ProcessLookupError, PermissionError):
                pass
            until = time.monotonic() + grace
            while self.pid in self.look() and time.monotonic() < until:
                time.sleep(0.1)
            reap(self.roots)
        # Once at least: on a busy machine a look alone may take seconds.
        until = time.monotonic() + 15
        while self.look():
            self.signal(signal.SIGKILL)
            reap(self.roots)
            if time.monotonic() >= until:
                break
            time.sleep(0.05)


def reap(spare=()):
    """Collect the zombies that came to this process as their reaper; `spare`: children that somebody else waits for."""
    for pid, parent in zombies():
        if parent == os.getpid() and pid not in spare:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass


def zombies():
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as text:
                    fields = text.read().rsplit(")", 1)[1].split()
                if fields[0] == "Z":
                    yield int(name), int(fields[1])
            except OSError:
                continue
