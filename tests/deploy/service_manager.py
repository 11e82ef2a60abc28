"""Plays systemd for one hydrantd: NOTIFY_SOCKET, WATCHDOG_USEC and LISTEN_FDS. Linux only, standard library only."""

import ctypes
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time

from replicas import BINARY, Process, wait_for

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207


class Service(Process):
    """hydrantd as the service of a manager that remembers what it was told, and when."""

    def __init__(self, model, *flags, sockets=(), watchdog_s=0.0):
        self._directory = tempfile.TemporaryDirectory(prefix="hydrant-notify-")
        path = os.path.join(self._directory.name, "notify")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(path)
        self._socket.setblocking(False)
        self._told = []  # (seconds, lines)
        environment = dict(os.environ, NOTIFY_SOCKET=path)
        # Only the new process knows its id: a shell writes it down and becomes hydrantd.
        script = 'WATCHDOG_PID=$$ LISTEN_PID=$$ exec "$@"'
        if watchdog_s:
            environment["WATCHDOG_USEC"] = str(int(watchdog_s * 1e6))
        numbers = tuple(range(3, 3 + len(sockets)))
        if sockets:
            environment["LISTEN_FDS"] = str(len(sockets))
            copies = [os.dup(one.fileno()) for one in sockets]  # above the numbers they are to have

            def place():
                for number, copy in zip(numbers, copies):
                    os.dup2(copy, number, inheritable=True)

        command = ["sh", "-c", script, "sh", BINARY, "serve", model, "--threads", 1, *flags]
        super().__init__(command, before_exec=place if sockets else None, env=environment, pass_fds=numbers)

    def told(self):
        """Everything it said so far: (seconds since some start, lines)."""
        while True:
            try:
                self._told.append((time.monotonic(), self._socket.recv(4096).decode().splitlines()))
            except BlockingIOError:
                return self._told

    def has_said(self, line):
        return any(line in lines for _, lines in self.told())

    def wait_until_said(self, line, timeout=30.0):
        wait_for(f"{line!r}, after {self.told()}", lambda: self.process.poll() is not None or self.has_said(line), timeout)
        assert self.has_said(line), f"ended with {self.process.poll()}:\n{self.log()}"

    def times_of(self, line):
        return [seconds for seconds, lines in self.told() if line in lines]

    def port(self):
        return int(self.find(r"\blistening on http://\S+:(\d+)")[1])


class StoppedThread:
    """Stops one thread of a child for a while, as a device that hangs would, while the others go on."""

    def __init__(self, tid):
        self._tid = tid
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

    def __enter__(self):
        for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
            if self._libc.ptrace(request, self._tid, None, None) != 0:
                raise PermissionError(ctypes.get_errno(), "ptrace is not allowed here")
        os.waitpid(self._tid, 0x40000000)  # __WALL: it is a thread
        return self

    def __exit__(self, *_):
        self._libc.ptrace(PTRACE_DETACH, self._tid, None, None)


def thread_named(pid, name):
    """The id of the process's only thread of that name."""
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    (tid,) = [int(task.name) for task in tasks if (task / "comm").read_text().strip() == name]
    return tid


def unit_for_here(unit, folder):
    """A copy of the unit file in `folder` that names the binary of this build."""
    text = re.sub(r"/usr/bin/hydrantd", str(BINARY), unit.read_text())
    (folder / unit.name).write_text(text)
    return folder / unit.name


def systemd_analyze(*arguments):
    return subprocess.run(["systemd-analyze", "--no-pager", *map(str, arguments)], capture_output=True, text=True)
