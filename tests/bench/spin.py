"""Whether a machine is quiet enough to time on it: what two processes that spin get together, in units of what one would get alone.
Python's standard library only."""

import multiprocessing
import os
import pathlib
import time

QUIET = 1.8  # less: somebody else computes, and figures of two threads mean little
SPIN_S = 0.4


def _spin(start, pipe):
    """Sends how often this process went round, and the share of the time that it had a processor."""
    start.wait()
    rounds, wall, processor = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - wall < SPIN_S:
        rounds += 1
    pipe.send((rounds, (time.process_time() - processor) / (time.perf_counter() - wall)))


def _together(count):
    context = multiprocessing.get_context("spawn")
    start, ends, spinning = context.Barrier(count), [], []
    for _ in range(count):
        ours, theirs = context.Pipe(duplex=False)
        ends.append(ours)
        spinning.append(context.Process(target=_spin, args=(start, theirs), daemon=True))
        spinning[-1].start()
    results = [end.recv() for end in ends]
    for process in spinning:
        process.join()
    return results


def gain():
    """Two where two processors were free all the time and do not share a core. What one would get alone is what it got, had it
    had its processor all the time: on a busy machine two and one get as little each."""
    ((rounds, share),) = _together(1)
    return sum(rounds for rounds, _ in _together(2)) / (rounds / share)


def busy_s():
    """Processor time that everybody had since the machine started, with what its host took."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()
    user, nice, system, _, _, *others = map(int, fields[1:9])
    return (user + nice + system + sum(others)) / os.sysconf("SC_CLK_TCK")


def wait_for_quiet(patience_s):
    """The gain once it is QUIET, or as it is after so many seconds."""
    end = time.monotonic() + patience_s
    while (found := gain()) < QUIET and time.monotonic() < end:
        time.sleep(1)
    return found
