"""An OpenAI-style server as seen by the programs in this folder. Python's standard library only."""

import http.client
import json
import os
import urllib.parse

DOOR = os.environ.get("HYDRANT_DOOR", "./hydrant")  # what was typed: the repository's, or the wheel's
DEFAULT_URL = "http://127.0.0.1:8000"
CONNECT_S = 10


class Failure(Exception):
    """Something that the user can mend; its words are shown. `busy`: the turn before has not ended yet."""

    def __init__(self, words, busy=False):
        super().__init__(words)
        self.busy = busy


class Server:
    def __init__(self, url, key):
        wrong = Failure(f"{url} is no address of a server: try {DEFAULT_URL}")
        try:
            parts = urllib.parse.urlsplit(url if "://" in url else "http://" + url)
            port = parts.port
        except ValueError:  # what is no port, or no IPv6 address
            raise wrong from None
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
            raise wrong
        path = parts.path.rstrip("/")
        self.prefix = path[: -len("/v1")] if path.endswith("/v1") else path
        self.scheme, self.host, self.port = parts.scheme, parts.hostname, port
        self.url = f"{parts.scheme}://{parts.netloc}{self.prefix}"
        self.key = key

    def request(self, method, path, body=None, timeout=None):
        """The response, of whatever status, whose body is still to be read; a Failure where none comes."""
        kind = http.client.HTTPSConnection if self.scheme == "https" else http.client.HTTPConnection
        connection = kind(self.host, self.port, timeout=CONNECT_S)
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.connect()
            connection.sock.settimeout(timeout)  # an answer may take its time
            connection.request(method, self.prefix + path, None if body is None else json.dumps(body).encode(), headers)
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise Failure(f"There is no server at {self.url} ({error}). `{DOOR} up` starts one.") from error

    def open(self, method, path, body=None, timeout=None):
        """The same; a Failure for a status other than 200."""
        response = self.request(method, path, body, timeout)
        if response.status != 200:
            raise refusal(response)
        return response

    def model(self, wanted):
        """What /v1/models says of the model called `wanted`, or of the first there is."""
        models = json.loads(self.open("GET", "/v1/models", timeout=CONNECT_S).read()).get("data", [])
        for model in models:
            if wanted in (None, model.get("id")):
                return model
        raise Failure(f"{self.url} serves {', '.join(m['id'] for m in models) or 'nothing'}, not {wanted}.")


def refusal(response):
    """What a server says that does not answer, in one line."""
    text, code = response.read().decode("utf-8", "replace"), None
    try:
        error = json.loads(text)["error"]
        message, code = (error["message"], error.get("code")) if isinstance(error, dict) else (str(error), None)
    except (ValueError, KeyError, TypeError):
        message = text.strip()[:200] or response.reason
    wait = response.getheader("Retry-After")
    return Failure(f"{message} ({response.status})" + (f" Try again in {wait} s." if wait else ""), code == "session_busy")


def events(response):
    """The JSON of each event of a stream."""
    for line in response:
        line = line.strip()
        if line.startswith(b"data:") and line != b"data: [DONE]":
            event = json.loads(line[5:])
            if "error" in event:
                raise Failure(event["error"].get("message", "The answer failed."))
            yield event


def add_flags(parser):
    """--url and --api-key of an argparse parser, with the environment variables of OpenAI's clients as defaults."""
    url = os.environ.get("OPENAI_BASE_URL", DEFAULT_URL)
    parser.add_argument("--url", default=url, help="of the server (default: OPENAI_BASE_URL, or %(default)s)")
    parser.add_argument("--api-key", default=os.environ.get("OPENAI_API_KEY"), help="default: OPENAI_API_KEY")
