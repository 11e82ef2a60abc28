"""A hydrantd with tenants and an admin listener, on a tiny random network with the default model's tokenizer. Standard library only."""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

from server_process import DEFAULT_BINARY, DEFAULT_MODEL, ServerProcess

SKIPPED = 77  # ctest's SKIP_RETURN_CODE
BINARY = pathlib.Path(os.environ.get("HYDRANTD", DEFAULT_BINARY))
BUILD = pathlib.Path(os.environ.get("HYDRANT_BUILD_DIR", DEFAULT_BINARY.parent))
ADMIN_KEY = "admin-key-of-the-test"
CONTEXT = 1024


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def expect(holds, fact, found=None):
    """Says whether `fact` holds, and ends the test with what was found instead where it does not."""
    print(("ok    " if holds else "FAIL  ") + fact + ("" if holds else f": {found!r}"), flush=True)
    if not holds:
        sys.exit(1)


def folder(name):
    """A folder in the build directory for what a test writes; skips the test where it has nothing to run."""
    if not BINARY.exists():
        skip(f"there is no hydrantd at {BINARY}")
    if not DEFAULT_MODEL.exists():
        skip(f"there is no model at {DEFAULT_MODEL} (./hydrant up fetches it)")
    path = BUILD / "tests" / "deploy" / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def small_model(folder):
    """The path of the network, made once per folder."""
    maker = ROOT / "tests" / "conformance" / "small_model.py"
    path = folder / "small.gguf"
    if not path.exists() or path.stat().st_mtime < max(maker.stat().st_mtime, DEFAULT_MODEL.stat().st_mtime):
        draft = folder / f"small.{os.getpid()}.gguf"
        subprocess.run([sys.executable, "-B", maker, DEFAULT_MODEL, draft], check=True)
        draft.replace(path)
    return path


class TenantServer(ServerProcess):
    """`tenants`: members of the tenants file by name; a tenant's key is its name with `-key`."""

    def __init__(self, folder, tenants, flags=()):
        entries = [
            {"name": name, "api_keys_sha256": [hashlib.sha256(f"{name}-key".encode()).hexdigest()]} | members
            for name, members in tenants.items()
        ]
        path = folder / "tenants.json"
        path.write_text(json.dumps({"tenants": entries}), encoding="utf-8")
        path.chmod(0o600)
        flags = ("--tenants", path, "--admin-port", 0, "--admin-api-key", ADMIN_KEY, "--max-model-len", CONTEXT, *flags)
        super().__init__(BINARY, small_model(folder), flags)
        self.admin = next(match[1] for line in self.log if (match := re.search(r"admin listener on (http://\S+)", line)))

    def metrics_text(self):
        request = urllib.request.Request(self.admin + "/metrics", headers={"Authorization": f"Bearer {ADMIN_KEY}"})
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.read().decode()

    def ask(self, tenant, body, key=None):
        """The response of a completion as this tenant; urllib.error.HTTPError when it is refused."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key or tenant + '-key'}"}
        request = urllib.request.Request(self.base + "/v1/completions", json.dumps(body).encode(), headers)
        return urllib.request.urlopen(request, timeout=120)

    def complete(self, tenant, **body):
        with self.ask(tenant, {"temperature": 0, **body}) as response:
            return json.load(response)

    def refused(self, tenant, key=None, **body):
        """The status of a request that must be refused."""
        try:
            with self.ask(tenant, body, key):
                raise AssertionError(f"accepted: {body}")
        except urllib.error.HTTPError as error:
            error.read()
            return error.code
