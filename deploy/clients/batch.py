#!/usr/bin/env python3
"""`./hydrant batch IN.jsonl OUT.jsonl`: many requests, some at a time, in OpenAI's batch format.

A line of IN is {"custom_id": "…", "method": "POST", "url": "/v1/chat/completions", "body": {…}}, one of OUT what came of it:
{"id", "custom_id", "response": {"status_code", "request_id", "body"}, "error"}, in the order in which answers come. A server that
is busy, or gave up while it answered, is asked again. Run it again to go on: what OUT has answers to is not asked for again.
The exit status is 0 when every request has its answer, 1 when some have none, 2 when IN is none that could be sent or OUT is a
file of something else.
Python's standard library only."""

import argparse
import concurrent.futures
import http.client
import json
import os
import pathlib
import sys
import threading
import time

import openai_server
from openai_server import Failure, Server

BUSY = (429, 503, 529)  # come again later, also where the answer does not say when
WAIT_MAX_S = 60


def read_requests(path):
    """The requests of the file. A Failure names the first line that is none."""
    requests, seen = [], {}
    try:
        lines = pathlib.Path(path).read_text(encoding="utf-8").split("\n")  # JSON may have U+2028 and its like as they are
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            request = checked(line, f"{path}:{number}")
            first = seen.setdefault(request["custom_id"], number)
            if first != number:
                raise Failure(f"{path}:{number}: 'custom_id' is that of line {first}.")
            requests.append(request)
    if not requests:
        raise Failure(f"{path} has no requests.")
    return requests


def checked(line, where):
    try:
        request = json.loads(line)
    except ValueError as error:
        raise Failure(f"{where}: no JSON: {error}") from error
    if not isinstance(request, dict):
        raise Failure(f"{where}: a request is an object.")
    if not isinstance(request.get("custom_id"), str) or not request["custom_id"]:
        raise Failure(f"{where}: 'custom_id' must be a string.")
    if request.get("method", "POST") != "POST":
        raise Failure(f"{where}: 'method' must be POST.")
    if not isinstance(request.get("url"), str) or not request["url"].startswith("/v1/"):
        raise Failure(f"{where}: 'url' must be a path like /v1/chat/completions.")
    if not isinstance(request.get("body"), dict):
        raise Failure(f"{where}: 'body' must be an object.")
    if request["body"].get("stream"):
        raise Failure(f"{where}: 'body.stream': a batch has no streams.")
    return request


def lines_of(path):
    return path.read_text(encoding="utf-8", errors="replace").split("\n") if path.exists() else []


def draft_of(path):
    return path.with_name(path.name + ".partial")


def check_output(path, requests_path):
    """A Failure where answers would take the place of something else. The last line may have been cut short, no other."""
    for written in (path, draft_of(path)):
        if written.exists() and written.samefile(requests_path):
            raise Failure(f"{written} has the requests; the answers need a file of their own.")
    for number, line in enumerate(lines_of(path)[:-1], 1):
        if line.strip() and not is_result(line):
            raise Failure(f"{path}:{number}: no result of a batch; the file is left as it is.")


def is_result(line):
    try:
        result = json.loads(line)
    except ValueError:
        return False
    return isinstance(result, dict) and {"custom_id", "response"} <= result.keys()


def keep_answers(path):
    """The custom_ids that the file has answers to; what has none, a line cut short too, is gone from it."""
    kept = {}
    for line in lines_of(path):
        try:
            result = json.loads(line)
            if is_answer(result["response"]):
                kept[result["custom_id"]] = line
        except (ValueError, KeyError, TypeError, AttributeError):
            pass  # it is asked for again
    draft = draft_of(path)
    draft.write_text("".join(line + "\n" for line in kept.values()), encoding="utf-8")
    os.replace(draft, path)
    return set(kept)


def is_answer(response):
    """Whether the model has ended it, or its longest length has; not what the server stopped, as when it was shut down."""
    body = response["body"]
    if response["status_code"] != 200 or not isinstance(body, dict):
        return False
    if any(choice.get("finish_reason") in ("abort", "error") for choice in body.get("choices") or []):
        return False
    if body.get("status") == "incomplete":  # of /v1/responses
        return (body.get("incomplete_details") or {}).get("reason") in ("max_output_tokens", "content_filter")
    return body.get("status") not in ("failed", "cancelled")


def is_busy(response):
    return response.status in BUSY or response.status >= 500 and response.getheader("Retry-After") is not None


def ask(server, request, tries, stop):
    """The line for a request: its answer, or why there is none. Busy servers and lost connections are tried again."""
    result = {"id": None, "custom_id": request["custom_id"], "response": None, "error": None}
    for attempt in range(tries):
        last = attempt + 1 == tries
        wait = 2.0**attempt
        try:
            response = server.request("POST", request["url"], request["body"])
            text = response.read()
        except (Failure, OSError, http.client.HTTPException) as error:
            result["error"] = {"code": "connection", "message": str(error)}
        else:
            identifier = response.getheader("x-request-id")
            try:
                body = json.loads(text)
            except ValueError:
                body = {"error": {"message": text[:200].decode("utf-8", "replace")}}
            result["id"] = f"batch_req_{identifier}"
            result["response"] = {"status_code": response.status, "request_id": identifier, "body": body}
            stopped = response.status == 200 and not is_answer(result["response"])
            result["error"] = {"code": "stopped", "message": "The server stopped before the answer ended."} if stopped else None
            if not stopped and not is_busy(response):
                break
            after = response.getheader("Retry-After", "")
            wait = float(after) if after.isascii() and after.isdigit() else wait
        if last or stop.wait(min(wait, WAIT_MAX_S)):
            break
    return result


class Progress:
    """What became of the requests so far, on one line of a terminal, or now and then in a log."""

    def __init__(self, total, kept):
        self.total, self.done, self.failed, self.tokens = total, kept, 0, 0
        self.kept, self.began, self.shown = kept, time.monotonic(), 0.0
        self.terminal = sys.stderr.isatty()

    def add(self, result):
        response = result["response"]
        answered = response is not None and is_answer(response)
        self.done += answered
        self.failed += not answered
        usage = response["body"].get("usage") if answered else None
        self.tokens += (usage or {}).get("completion_tokens") or (usage or {}).get("output_tokens") or 0
        self.show()

    def text(self):
        seconds = max(time.monotonic() - self.began, 1e-6)
        parts = [f"{self.done:,} of {self.total:,} answered"]
        if self.kept:
            parts.append(f"{self.kept:,} of them before")
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        parts.append(f"{self.tokens / seconds:,.0f} tokens/s")
        asked = self.done - self.kept + self.failed
        if asked and self.done + self.failed < self.total:
            parts.append(f"{seconds / asked * (self.total - self.done - self.failed):,.0f} s left")
        return ", ".join(parts)

    def show(self, last=False):
        now = time.monotonic()
        if not last and now - self.shown < (0.2 if self.terminal else 10):
            return
        self.shown = now
        start, end = ("\r\033[K", "\n" if last else "") if self.terminal else ("", "\n")
        sys.stderr.write(start + self.text() + end)
        sys.stderr.flush()


def run(server, requests, path, concurrency, tries):
    """Whether every request has its answer now."""
    kept = keep_answers(path)
    left = [request for request in requests if request["custom_id"] not in kept]
    progress, stop = Progress(len(requests), len(requests) - len(left)), threading.Event()
    with path.open("a") as out, concurrent.futures.ThreadPoolExecutor(concurrency) as pool:
        asked = [pool.submit(ask, server, request, tries, stop) for request in left]
        try:
            for future in concurrent.futures.as_completed(asked):
                result = future.result()
                out.write(json.dumps(result) + "\n")
                out.flush()
                progress.add(result)
        except KeyboardInterrupt:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            progress.show(last=True)
            sys.stderr.write("Stopped. The same command goes on.\n")
            os._exit(130)  # answers that are under way are not waited for
    progress.show(last=True)
    return progress.done == len(requests)


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def main(argv):
    parser = argparse.ArgumentParser(prog=f"{openai_server.DOOR} batch", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", metavar="IN.jsonl")
    parser.add_argument("output", metavar="OUT.jsonl", type=pathlib.Path)
    openai_server.add_flags(parser)
    parser.add_argument("--concurrency", type=positive, default=16, metavar="N", help="requests at a time (default: %(default)s)")
    parser.add_argument("--tries", type=positive, default=8, metavar="N", help="of a request, if the server is busy or away (default: %(default)s)")
    arguments = parser.parse_args(argv)
    try:
        server, requests = Server(arguments.url, arguments.api_key), read_requests(arguments.input)
        check_output(arguments.output, arguments.input)
        server.model(None)
        return 0 if run(server, requests, arguments.output, arguments.concurrency, arguments.tries) else 1
    except Failure as error:
        sys.stderr.write(f"hydrant: {error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"hydrant: {arguments.output} cannot be written: {error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
