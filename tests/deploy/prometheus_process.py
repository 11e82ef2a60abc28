"""Prometheus, Debian's package, as a process of the test: on a free loopback port, with its data in a folder of the test."""

import json
import pathlib
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from server_process import end_with_parent, free_port

READY_TIMEOUT_S = 60


def installed():
    return shutil.which("prometheus") and shutil.which("promtool")


class PrometheusProcess:
    def __init__(self, folder, target, key, rules, interval="1s"):
        """Scrapes `target` (host:port) with `key` under the job name that the rules know, and itself: a target that is not ours."""
        own = f"127.0.0.1:{free_port()}"
        config = {  # JSON is YAML
            "global": {"scrape_interval": interval, "evaluation_interval": interval},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [
                {"job_name": "hydrant", "authorization": {"credentials": key}, "static_configs": [{"targets": [target]}]},
                {"job_name": "prometheus", "static_configs": [{"targets": [own]}]},
            ],
        }
        path = folder / "prometheus.json"
        path.write_text(json.dumps(config), encoding="utf-8")
        data = folder / "prometheus-data"
        shutil.rmtree(data, ignore_errors=True)
        self.base = f"http://{own}"
        self._log = (folder / "prometheus.log").open("w", encoding="utf-8")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={path}", f"--storage.tsdb.path={data}", f"--web.listen-address={own}"],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, preexec_fn=end_with_parent,
        )  # fmt: skip
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            try:
                urllib.request.urlopen(self.base + "/-/ready", timeout=5).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    raise RuntimeError("prometheus did not become ready:\n" + (folder / "prometheus.log").read_text()) from None
                time.sleep(0.05)

    def api(self, path, **parameters):
        url = f"{self.base}/api/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None

    def range(self, expr, begin, end, step=1):
        """The points of an expression, one list of (time, value) per series."""
        result = self.api("query_range", query=expr, start=begin, end=end, step=step)["result"]
        return [[(float(at), float(value)) for at, value in one["values"]] for one in result]

    def value(self, expr):
        """An instant query's first value, or None."""
        result = self.api("query", query=expr)["result"]
        return float(result[0]["value"][1]) if result else None

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(30)
        self._log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
