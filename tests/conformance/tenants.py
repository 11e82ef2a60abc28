"""A tenants file, the server it belongs to, and the operator's side of it."""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import tempfile

import raw_http
from hydrant_server import API_KEY, SLOW, Server, wait_for

# Every key starts with the mark the log may never hold.
ADMIN_KEY = f"{API_KEY}-admin"


def key_of(name):
    return f"{API_KEY}-{name}"


def digest(key):
    return hashlib.sha256(key.encode()).hexdigest()


class TenantsFile:
    """Tenants by name; `default_tenant` and the members of each as in the file."""

    def __init__(self, **tenants):
        self.directory = tempfile.mkdtemp(prefix="hydrant-tenants-")
        self.path = pathlib.Path(self.directory) / "tenants.json"
        self.write(**tenants)

    def write(self, **tenants):
        entries = []
        for name, members in tenants.items():
            keys = members.pop("keys", [key_of(name)])
            entries.append({"name": name, "api_keys_sha256": [digest(key) for key in keys]} | members)
        self.write_text(json.dumps({"tenants": entries}, indent=1))

    def write_text(self, text, mode=0o600):
        """Replaced whole, as an operator's tool does."""
        draft = self.path.with_suffix(".new")
        draft.write_text(text, encoding="utf-8")
        os.chmod(draft, mode)
        os.replace(draft, self.path)


class TenantServer(Server):
    """A server with tenants and an admin listener. Requests are made as one of the tenants, or as the operator."""

    def __init__(self, file, *flags, **kwargs):
        self.file = file
        super().__init__(
            "--tenants", file.path, "--admin-port", 0, "--admin-api-key", ADMIN_KEY,
            "--num-gpu-blocks-override", 512, "--max-model-len", 4096, *flags, **kwargs,
        )  # fmt: skip
        host, port = re.search(r"admin listener on http://([0-9.]+):([0-9]+)", self.log()).groups()
        self.admin_address = (host, int(port))

    def remove_log(self):
        super().remove_log()
        with contextlib.suppress(OSError):
            shutil.rmtree(self.file.directory)

    def _auth(self, fields):
        # A field given by the test wins: it decides who asks.
        if any(name.lower() == "authorization" for name, _ in fields):
            return list(fields)
        return super()._auth(fields)

    def as_tenant(self, name):
        return [("Authorization", f"Bearer {key_of(name)}")]

    def ask(self, tenant, fields=(), /, **body):
        """POST /v1/completions as `tenant` (None: without a key)."""
        auth = self.as_tenant(tenant) if tenant else []
        return self.post("/v1/completions", body, auth + list(fields))

    def open(self, tenant, /, **body):
        """A streamed completion under way."""
        connection = self.connect()
        connection.send(
            raw_http.post("/v1/completions", body | {"stream": True}, self.as_tenant(tenant), host=self.host())
        )
        return connection

    def admin(self, method, path, body=None, key=ADMIN_KEY):
        with raw_http.Connection(self.admin_address, 30 * SLOW) as connection:
            fields = [("Connection", "close")] + ([("Authorization", f"Bearer {key}")] if key else [])
            if body is not None:
                connection.send(raw_http.post(path, body, fields))
            else:
                connection.send(raw_http.head(method, path, fields))
            return connection.read_response(method=method)

    def metrics(self):
        response = self.admin("GET", "/metrics")
        assert response.status == 200
        return parse_metrics(response.body.decode("utf-8"))

    def tenant(self, name):
        """What GET /admin/tenants says of one."""
        shown = self.admin("GET", "/admin/tenants").json()
        return next(tenant for tenant in shown["tenants"] if tenant["name"] == name)

    def reload(self):
        response = self.admin("POST", "/admin/reload")
        assert response.status == 200, response.body

    def wait_tenant(self, name, **values):
        wait_for(lambda: all(self.tenant(name)[key] == value for key, value in values.items()), lambda: self.tenant(name))


def parse_metrics(text):
    values = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            series, value = line.rsplit(" ", 1)
            values[series] = float(value)
    return values
