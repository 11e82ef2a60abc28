#!/usr/bin/env python3
"""`./hydrant batch` as a user has it: files of requests against the real server, and what becomes of them."""

import json
import re
import signal
import subprocess
import sys
import time
import types
import urllib.request

from serving import BINARY, ROOT, ServerProcess, expect, folder, small_model

BATCH = ROOT / "deploy" / "clients" / "batch.py"
sys.path.insert(0, str(BATCH.parent))

from batch import is_answer, is_busy
from server_process import wait_for


def line(i, tokens=4, **members):
    body = {"messages": [{"role": "user", "content": f"Number {i}."}], "max_tokens": tokens, "temperature": 0}
    return {"custom_id": f"r{i}", "method": "POST", "url": "/v1/chat/completions", "body": body} | members


def write(path, lines):
    path.write_text("".join(text if isinstance(text, str) else json.dumps(text) + "\n" for text in lines))


def batch(base, source, out, *flags):
    run = subprocess.run([sys.executable, "-B", BATCH, source, out, "--url", base, *flags], capture_output=True, text=True, timeout=200)
    return run.returncode, run.stderr


def results(path):
    """By custom_id; every line is whole, and none occurs twice."""
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    by_id = {result["custom_id"]: result for result in lines}
    expect(len(by_id) == len(lines), "no request is answered twice")
    return by_id


def check_answers(server, path):
    source, out = path / "in.jsonl", path / "out.jsonl"
    out.unlink(missing_ok=True)
    bad = line(20)
    bad["body"]["temperature"] = 9
    write(source, [*(line(i) for i in range(20)), "\n", bad, line(21, url="/v1/nothing")])
    code, told = batch(server.base, source, out)
    by_id = results(out)
    expect(code == 1 and "20 of 22 answered, 2 failed" in told, "what failed is told", (code, told))
    good = by_id["r3"]
    expect(good["response"]["status_code"] == 200 and good["error"] is None, "an answer is there", good)
    expect(good["response"]["body"]["usage"]["completion_tokens"] == 4, "whole", good)
    expect(good["id"] == f"batch_req_{good['response']['request_id']}", "with its name", good)
    refused = by_id["r20"]["response"]
    expect(refused["status_code"] == 400 and refused["body"]["error"]["param"] == "temperature", "a refusal says why", refused)
    alone = server.post("/v1/chat/completions", line(3)["body"])
    expect(alone["choices"][0]["message"] == good["response"]["body"]["choices"][0]["message"], "it is the answer of one request")

    # It goes on: what is answered is kept, what failed and a line that was cut short are asked for again.
    kept = out.read_text().splitlines()
    answered = [text for text in kept if json.loads(text)["response"]["status_code"] == 200]
    out.write_text("\n".join(answered[:19]) + "\n" + answered[19][:40])
    write(source, [line(i) for i in range(22)])
    code, told = batch(server.base, source, out)
    expect(code == 0 and "22 of 22 answered, 19 of them before" in told, "the same command goes on", (code, told))
    expect(set(results(out)) == {f"r{i}" for i in range(22)}, "and all are there")


def check_busy(path):
    """One request at a time, no queue: everybody else is told to come again, and does."""
    source, out = path / "busy.jsonl", path / "busy_out.jsonl"
    out.unlink(missing_ok=True)
    write(source, [line(i, tokens=60) for i in range(6)])
    with ServerProcess(BINARY, small_model(path), ("--max-model-len", 512, "--max-num-seqs", 1, "--max-waiting-seqs", 1)) as server:
        code, told = batch(server.base, source, out, "--concurrency", "6")
        expect(code == 0, "a busy server is asked again", told)
        refused = server.metric("hydrant_rejected_total")
        expect(refused > 0, "it was busy", refused)


LONG = {"prompt": "a", "max_tokens": 3000, "ignore_eos": True}
ADMIN = ("--max-model-len", 4096, "--max-num-seqs", 1, "--admin-port", 0, "--admin-api-key", "ADMIN-KEY")


def abort(server):
    """How many requests an operator ended."""
    admin = next(match[1] for text in server.log if (match := re.search(r"admin listener on (http://\S+)", text)))
    request = urllib.request.Request(admin + "/abort_requests", b'{"tenant": "default"}',
                                     {"Content-Type": "application/json", "Authorization": "Bearer ADMIN-KEY"})  # fmt: skip
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)["aborted"]


def check_gave_up(path):
    """What waited too long in the queue (504), and what an operator ended, is asked for again."""
    source, out = path / "gave_up.jsonl", path / "gave_up_out.jsonl"
    with ServerProcess(BINARY, small_model(path), (*ADMIN, "--queue-timeout-s", 0.3)) as server:
        # One has all the server until it is ended, and the other waits for it.
        write(source, [*(line(i, url="/v1/completions", body=LONG) for i in range(2))])
        out.unlink(missing_ok=True)
        process = subprocess.Popen([sys.executable, "-B", BATCH, source, out, "--url", server.base, "--tries", "200"],
                                   stderr=subprocess.PIPE, text=True)  # fmt: skip
        wait_for("one waits too long", lambda: server.metric("hydrant_rejected_total", reason="queue_timeout") > 0)
        wait_for("a request is ended", lambda: abort(server))
        _, told = process.communicate(timeout=600)
        expect(process.returncode == 0, "what the server gave up is asked for again", told)
        found = {result["response"]["body"]["usage"]["completion_tokens"] for result in results(out).values()}
        expect(found == {3000}, "and every answer is whole", found)


def check_last_try(path):
    """What an operator ended has no answer where it was the last try; the next run asks again. Nothing waits too long here."""
    source, out = path / "last_try.jsonl", path / "last_try_out.jsonl"
    with ServerProcess(BINARY, small_model(path), ADMIN) as server:
        write(source, [line(0, url="/v1/completions", body=LONG)])
        out.unlink(missing_ok=True)
        process = subprocess.Popen([sys.executable, "-B", BATCH, source, out, "--url", server.base, "--tries", "1"],
                                   stderr=subprocess.PIPE, text=True)  # fmt: skip
        wait_for("it is written", lambda: server.metric("vllm:num_requests_running") > 0)  # of one in the queue nothing comes
        wait_for("a request is ended", lambda: abort(server))
        _, told = process.communicate(timeout=60)
        result = results(out)["r0"]
        expect(process.returncode == 1 and "1 failed" in told, "half an answer is none", told)
        expect(result["error"]["code"] == "stopped" and result["response"]["status_code"] == 200, "and the file says so", result)
        code, told = batch(server.base, source, out)
        expect(code == 0 and results(out)["r0"]["error"] is None, "the same command goes on", told)


def check_what_is_an_answer():
    done = {"choices": [{"finish_reason": "length"}, {"finish_reason": None}]}
    for status, body, holds in (
        (200, done, True), (200, {"data": [[0.5]]}, True), (503, done, False), (200, [], False),
        (200, {"choices": [{"finish_reason": "stop"}, {"finish_reason": "abort"}]}, False),
        (200, {"status": "completed", "incomplete_details": None}, True), (200, {"status": "failed"}, False),
        (200, {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, True),
        (200, {"status": "incomplete", "incomplete_details": None}, False),
    ):  # fmt: skip
        expect(is_answer({"status_code": status, "body": body}) == holds, f"{status} {body} is {'an' if holds else 'no'} answer")
    for status, header, holds in ((504, "1", True), (504, None, False), (500, "5", True), (503, None, True), (429, None, True), (400, "1", False)):
        response = types.SimpleNamespace(status=status, getheader=lambda name, header=header: header)
        expect(is_busy(response) == holds, f"{status} with Retry-After {header} is {'' if holds else 'not '}asked again")


def check_lines(server, path):
    """Only a line feed ends a line: JSON may have what else Unicode calls an end of one."""
    source, out = path / "lines.jsonl", path / "lines_out.jsonl"
    request = line(1)
    request["custom_id"], request["body"]["messages"][0]["content"] = "a\u2028b", "Hello.\u2028\u2029\x85Well?"
    source.write_text(json.dumps(request, ensure_ascii=False) + "\r\n", encoding="utf-8")
    out.unlink(missing_ok=True)
    code, told = batch(server.base, source, out)
    expect(code == 0, "a line has separators of other kinds", told)
    result = json.loads(out.read_text(encoding="utf-8"))
    out.write_text(json.dumps(result, ensure_ascii=False) + "\n", encoding="utf-8")
    code, told = batch(server.base, source, out)
    expect(code == 0 and "1 of 1 answered, 1 of them before" in told, "in the file of answers, too", told)


def check_stop(server, path):
    source, out = path / "long.jsonl", path / "long_out.jsonl"
    out.unlink(missing_ok=True)
    write(source, [line(i, tokens=300) for i in range(200)])
    process = subprocess.Popen([sys.executable, "-B", BATCH, source, out, "--url", server.base, "--concurrency", "4"],
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    end = time.monotonic() + 60
    while time.monotonic() < end and not (out.exists() and out.read_text().count("\n") > 2):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    expect(process.returncode == 130 and "goes on" in told, "Ctrl-C stops it at once", (process.returncode, told))
    expect(len(results(out)) >= 2, "what was answered is kept")


def check_output(server, path, source):
    """What is there already is written over only where it is results."""
    before, other, link = source.read_text(), path / "other.jsonl", path / "link.jsonl"
    link.unlink(missing_ok=True)
    link.symlink_to(source)
    beside = path / "out.jsonl.partial"
    beside.unlink(missing_ok=True)
    beside.hardlink_to(source)
    for out in (source, link, path / "out.jsonl"):
        code, told = batch(server.base, source, out)
        expect(code == 2 and "the requests" in told, "answers do not go into the file of requests", (out.name, told))
        expect(source.read_text() == before, "which is as it was")
    beside.unlink()
    code, told = batch(server.base, source, path)
    expect(code == 2 and "cannot be written" in told, "a folder is no file of results", told)
    for lines in (["notes\n"], [line(1)], [{"custom_id": "a", "response": None}, {"response": {}}], ["7\n"]):
        write(other, lines)
        before = other.read_text()
        code, told = batch(server.base, source, other)
        expect(code == 2 and f":{len(lines)}: no result" in told, "a file of something else is refused", told)
        expect(other.read_text() == before, "and left alone")


def check_input(server, path):
    source = path / "bad.jsonl"
    for lines, words in (
        ([], "no requests"), (["{"], ":1: no JSON"), (["[]\n"], "an object"), ([line(1), line(1)], ":2: 'custom_id' is that of line 1"),
        ([line(1, custom_id=7)], "'custom_id'"), ([line(1, method="GET")], "'method'"), ([line(1, url="http://x")], "'url'"),
        ([line(1, body=[])], "'body'"), ([line(1, body={"stream": True})], "no streams"),
    ):  # fmt: skip
        write(source, lines)
        code, told = batch(server.base, source, path / "none.jsonl")
        expect(code == 2 and words in told, f"the file is refused: {words}", told)
    expect(not (path / "none.jsonl").exists(), "and nothing is written")
    write(source, [line(1)])
    check_output(server, path, source)
    code, told = batch("http://127.0.0.1:9", source, path / "none.jsonl")
    expect(code == 2 and "./hydrant up" in told, "no server: what to do", told)


def main():
    path = folder("batch")
    check_what_is_an_answer()
    with ServerProcess(BINARY, small_model(path), ("--max-model-len", 1024, "--num-gpu-blocks-override", 512)) as server:
        check_answers(server, path)
        check_lines(server, path)
        check_stop(server, path)
        check_input(server, path)
    check_busy(path)
    check_gave_up(path)
    check_last_try(path)


if __name__ == "__main__":
    main()
