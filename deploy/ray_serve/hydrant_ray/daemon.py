"""One hydrantd: started on a free port, asked about itself, drained and ended."""

import asyncio
import ctypes
import pathlib
import re
import signal

import aiohttp

LISTENING = re.compile(r"\blistening on (http://\S+)")
START_TIMEOUT_S = 600  # a large model takes minutes to load
METRIC = re.compile(r"^(vllm:num_requests_waiting|vllm:num_requests_running|vllm:kv_cache_usage_perc)(?:\{[^}]*\})? (\S+)$", re.M)
PR_SET_PDEATHSIG = 1


def _end_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def flags_of(settings):
    """{"max_num_seqs": 8, "enforce_eager": true} as arguments, the names of a file of --config."""
    arguments = []
    for name, value in settings.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            arguments.append(flag)
        elif value is False:
            arguments.append("--no-" + flag[2:])
        elif isinstance(value, (list, tuple)):
            arguments.append(f"{flag}={','.join(map(str, value))}")
        else:
            arguments.append(f"{flag}={value}")
    return arguments


class Daemon:
    def __init__(self, binary, model, host, directory, settings, name):
        self.directory = pathlib.Path(directory)
        self.url = ""
        self._command = [
            str(binary), "serve", str(model), *flags_of(settings), "--host", host, "--port", "0", "--replica-id", name,
            "--session-dir", str(self.directory / "sessions"), "--admin-socket", str(self.directory / "admin.sock"),
        ]  # fmt: skip
        self._process = None
        self._lines = []
        self._reader = None
        self._client = None  # of the clients' port
        self._admin = None

    async def start(self):
        """Until it is ready. RuntimeError with its last lines where it ends before."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE, preexec_fn=_end_with_parent, limit=1 << 20,
        )  # fmt: skip
        listening = asyncio.get_running_loop().create_future()
        self._reader = asyncio.create_task(self._read(listening))
        self.url = await asyncio.wait_for(listening, START_TIMEOUT_S)
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=4)
        self._client = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False)
        self._admin = aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(self.directory / "admin.sock")))
        while not await self.ready():
            if not self.alive():
                raise RuntimeError(self._last_words())
            await asyncio.sleep(0.05)

    @property
    def client(self):
        return self._client

    @property
    def pid(self):
        return self._process.pid

    def alive(self):
        return self._process is not None and self._process.returncode is None

    async def ready(self):
        try:
            async with self._client.get(self.url + "/ready", timeout=aiohttp.ClientTimeout(total=5)) as answer:
                return answer.status == 200
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError):
            return False

    async def load(self):
        """{"waiting", "running", "kv"} of its own metrics."""
        async with self._admin.get("http://localhost/metrics", timeout=aiohttp.ClientTimeout(total=5)) as answer:
            text = await answer.text()
        values = {name.rsplit(":", 1)[1]: float(value) for name, value in METRIC.findall(text)}
        return {
            "waiting": values["num_requests_waiting"],
            "running": values["num_requests_running"],
            "kv": values["kv_cache_usage_perc"],
        }

    async def stop(self, patience_s):
        """Drains it: running requests end, sessions' KV goes to their directory. Killed where that takes longer."""
        if self.alive():
            try:
                async with self._admin.post("http://localhost/admin/drain", timeout=aiohttp.ClientTimeout(total=5)):
                    pass
            except (aiohttp.ClientError, asyncio.TimeoutError, OSError):
                pass
            self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), patience_s)
            except asyncio.TimeoutError:
                self._process.kill()
                await self._process.wait()
        for session in (self._client, self._admin):
            if session is not None:
                await session.close()

    async def _read(self, listening):
        """Its log goes to the replica's own, and the last lines are kept for who asks why it ended."""
        while line := await self._process.stderr.readline():
            text = line.decode(errors="replace").rstrip()
            print(text, flush=True)
            self._lines = [*self._lines[-20:], text]
            if not listening.done() and (found := LISTENING.search(text)):
                listening.set_result(found[1])
        await self._process.wait()
        if not listening.done():
            listening.set_exception(RuntimeError(self._last_words()))

    def _last_words(self):
        return f"hydrantd ended with {self._process.returncode}:\n" + "\n".join(self._lines)
