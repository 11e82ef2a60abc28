#!/usr/bin/env python3
"""deploy/ray_serve under the real Ray Serve: affinity, streams, a replica killed, replicas upgraded, fewer of them, autoscaling.

    HYDRANT_RAY_VENV=~/ray tests/deploy/ray_serve/ray_serve_test.py [NAME …]

~/ray: a virtual environment with deploy/ray_serve/requirements.txt. It takes eight minutes, and prints what it measured."""

import http.client
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from cluster import BINARY, MODEL, Chat, Cluster, serve_program, wait_for


def expect(condition, what, *found):
    if not condition:
        raise AssertionError(f"{what}: {found}")


def turns_of(cluster, count, turns, first=0, **options):
    """`count` chats of so many turns, four at a time."""
    chats = [Chat(cluster, first + i, **options) for i in range(count)]
    places = threading.Semaphore(4)

    def take(chat):
        for _ in range(turns):
            with places:
                chat.take_turn()

    threads = [threading.Thread(target=take, args=(chat,)) for chat in chats]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return chats


def homes(cluster):
    """{session: the slots that know it}."""
    found = {}
    for slot in cluster.daemons():
        for session in cluster.sessions_of(slot):
            found.setdefault(session, []).append(slot)
    return found


def check_affinity(cluster):
    chats = turns_of(cluster, 60, 4) + turns_of(cluster, 20, 4, first=60, by_body=True)
    expect(not any(chat.failed for chat in chats), "every turn is answered", [chat.failed for chat in chats if chat.failed][:2])
    known = homes(cluster)
    expect(all(len(known[chat.session]) == 1 for chat in chats), "one replica knows a session", known)
    later = [resumed for chat in chats for _, resumed in chat.turns[1:]]
    misses = [(chat.session, chat.turns) for chat in chats if not all(resumed for _, resumed in chat.turns[1:])]
    expect(not misses, "every later turn has its KV", sum(later), len(later), misses)
    slots = [known[chat.session][0] for chat in chats]
    spread = {slot: slots.count(slot) for slot in sorted(set(slots))}
    expect(len(spread) == 3, "all have some", spread)
    print(f"affinity: {sum(later)} of {len(later)} later turns resumed; sessions by slot {spread}")
    # By how they begin, without a session: the second request finds the first one's prefix.
    for text in range(8):
        prompt = [5000 + text] * 200
        for _ in range(3):
            status, head, body = cluster.ask("/v1/completions", {"prompt": prompt, "max_tokens": 1, "kv": {"policy": "full"}})
            expect(status == 200, "a prompt", body)
        expect(json.loads(body)["usage"]["prompt_tokens_details"]["cached_tokens"] > 0, "a prefix is found again", text)


def check_streams(cluster):
    """Bytes come as the engine has them: the first event long before the last."""
    connection = http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=60)
    body = {"prompt": "Once", "max_tokens": 300, "temperature": 0, "ignore_eos": True, "stream": True}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    times, last = [], b""
    for line in response:
        if line.startswith(b"data: "):
            times.append(time.monotonic())
            last = line
    expect(last.strip() == b"data: [DONE]", "a whole stream", last)
    spread = [sum(began <= time_ < began + (times[-1] - times[0]) / 4 for time_ in times) for began in
              (times[0] + part * (times[-1] - times[0]) / 4 for part in range(4))]  # fmt: skip
    expect(all(count > 3 for count in spread), "in pieces, as they are made", spread)
    for path, status in (("/v1/nothing", 404), ("/metrics", 200), ("/health", 200)):
        expect(cluster.ask(path)[0] == status, path)
    status, _, text = cluster.ask("/v1/completions", {"prompt": 3.5})
    expect(status == 400 and json.loads(text)["error"]["param"] == "prompt", "an error is hydrantd's own", text)


class Load:
    """Chats that go on, and requests without a session."""

    def __init__(self, cluster, chats=12, first=200):
        self.chats = [Chat(cluster, first + i) for i in range(chats)]
        for chat in self.chats:
            chat.start()
        wait_for("every chat has two turns", lambda: all(len(chat.turns) > 1 for chat in self.chats))

    def stop(self):
        for chat in self.chats:
            chat.stop()
        return sum(len(chat.turns) + len(chat.failed) for chat in self.chats), [failure for chat in self.chats for failure in chat.failed]


def check_kill(cluster):
    """kill -9 of an engine under load: its streams end with an error, what was not begun is answered by another, sessions go on."""
    load = Load(cluster)
    ends = {}

    def stream(session):
        connection = http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=120)
        body = {"prompt": "Once", "max_tokens": 3000, "temperature": 0, "ignore_eos": True, "stream": True}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json", "X-Session-ID": session})
        response = connection.getresponse()
        lines = [line for line in response if line.startswith(b"data: ")]
        ends[session] = response.getheader("x-hydrant-replica"), lines[-1].strip()

    streams = [threading.Thread(target=stream, args=(f"stream-{i}",)) for i in range(9)]
    for thread in streams:
        thread.start()
    time.sleep(1.0)
    slot, pid = next(iter(cluster.daemons().items()))
    os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    wait_for("another hydrantd", lambda: cluster.daemons().get(slot, pid) != pid and cluster.admin(slot, "/metrics"))
    back = time.monotonic() - began
    for thread in streams:
        thread.join()
    cut = [last for replica, last in ends.values() if replica == f"slot-{slot}"]
    whole = [last for replica, last in ends.values() if replica != f"slot-{slot}"]
    expect(cut and all(json.loads(last[6:])["error"]["code"] == "replica_lost" for last in cut), "cut streams say so", cut)
    expect(all(last == b"data: [DONE]" for last in whole), "the others are whole", whole)
    time.sleep(3.0)
    asked, failed = load.stop()
    expect(not failed, "no request without a stream fails", len(failed), asked, failed[:3])
    back_home = [chat for chat in load.chats if chat.turns[-1][0] == f"slot-{slot}"]
    expect(back_home, "its sessions are where they were", [chat.turns[-1] for chat in load.chats])
    print(f"killed: {len(cut)} streams cut, {len(whole)} whole; 0 of {asked} requests failed; hydrantd back after {back:.1f} s")


def take_turns(chats, what):
    """A further turn of each, none of which may fail."""
    for chat in chats:
        chat.take_turn()
    expect(not any(chat.failed for chat in chats), what, [chat.failed for chat in chats if chat.failed][:2])


def check_upgrade(cluster):
    """A rolling upgrade of all three, under load."""
    load = Load(cluster, first=300)
    idle = turns_of(cluster, 60, 2, first=400)
    before = cluster.daemons()
    cluster.deploy(new_version=True)
    wait_for("three new daemons", lambda: len(new := cluster.daemons()) == 3 and not set(new.values()) & set(before.values())
             and all(cluster.admin(slot, "/metrics") for slot in new))  # fmt: skip
    time.sleep(3.0)
    asked, failed = load.stop()
    expect(not failed, "no request fails", len(failed), asked, failed[:3])
    take_turns(idle, "idle sessions go on")
    kept = sum(chat.turns[-1][1] for chat in idle)
    expect(kept >= 0.95 * len(idle), "sessions keep their KV", kept, len(idle))
    moved = [chat for chat in idle if chat.turns[-1][0] != chat.turns[0][0]]
    expect(not moved, "and their slot", len(moved))
    print(f"upgraded: 0 of {asked} requests failed; {kept} of {len(idle)} sessions that were idle kept their KV")


def check_fewer(cluster):
    """One of three leaves: its sessions alone are elsewhere, and go on; where what is new alone is sent, once they are adopted."""
    chats = turns_of(cluster, 90, 2, first=500)
    appended = turns_of(cluster, 24, 2, first=600, append=True)
    said = len(cluster.log())
    cluster.deploy(replicas=2)
    cluster.wait_for_replicas(2)
    time.sleep(1.0)
    take_turns(chats, "sessions go on")
    moved = [chat for chat in chats if chat.turns[-1][0] != chat.turns[0][0]]
    gone = {chat.turns[0][0] for chat in moved}
    left = [chat for chat in chats if chat.turns[0][0] in gone]
    # As these names are hashed: 30, 32 and 28 of 90.
    expect(len(gone) == 1 and moved == left and len(moved) <= 32, "one replica's sessions move", gone, len(moved), len(left))
    stayed = [chat for chat in chats if chat not in moved]
    expect(all(chat.turns[-1][1] for chat in stayed), "the others keep their KV")
    wait_for("its sessions are adopted", lambda: "adopted the sessions of slot-" in cluster.log()[said:])
    take_turns(appended, "what is adopted goes on")
    orphans = sum(chat.turns[0][0] in gone for chat in appended)
    expect(orphans > 0, "some were there")
    print(f"one of three left: {len(moved)} of {len(chats)} sessions moved; {orphans} of {orphans} went on from what had been said there")
    # And when it comes again they are fetched from where they went on, with what was said there.
    cluster.deploy(replicas=3)
    cluster.wait_for_replicas(3)
    time.sleep(2.0)
    take_turns(chats + appended, "they come back")
    home = [chat for chat in chats + appended if chat.turns[-1][0] == chat.turns[0][0]]
    expect(len(home) == len(chats + appended), "to their slots", len(home))


def check_overhead(cluster):
    """What Serve and the proxy add, to a request of one token and to the first event of a stream; in turns, for the machine is shared."""
    slot = cluster.ask("/v1/models", X_Session_ID="overhead")[1]["x-hydrant-replica"]
    direct = next((port for port in own_ports(cluster) if replica_at(port) == slot), None)
    expect(direct is not None, "the slot's own port is known", slot)
    connections = {port: http.client.HTTPConnection("127.0.0.1", port, timeout=60) for port in (direct, cluster.port)}
    times = {port: [] for port in connections}
    body = {"prompt": "Once", "max_tokens": 1, "stream": True}
    for _ in range(300):
        for port, connection in connections.items():
            began = time.perf_counter()
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json", "X-Session-ID": "overhead"})
            response = connection.getresponse()
            response.readline()
            times[port].append(1000 * (time.perf_counter() - began))
            response.read()
    middle = {port: statistics.median(values) for port, values in times.items()}
    print(f"overhead: p50 to the first event {middle[direct]:.1f} ms directly, {middle[cluster.port]:.1f} ms through Serve: "
          f"+{middle[cluster.port] - middle[direct]:.1f} ms")  # fmt: skip


def check_openai(cluster):
    """The package that most clients are built on, where a test has installed it."""
    for python in BINARY.parent.glob("tests/c*/*/bin/python"):
        if subprocess.run([python, "-c", "import openai"], capture_output=True).returncode == 0:
            script = pathlib.Path(__file__).with_name("openai_client.py")
            done = subprocess.run([python, "-B", script, f"http://127.0.0.1:{cluster.port}"], capture_output=True, text=True, timeout=300)
            expect(done.returncode == 0, "openai is answered", done.stdout, done.stderr[-3000:])
            return print(done.stdout.strip())
    print("openai: not tried; `ctest -R conformance` installs it")


def load(port, chats, *flags):
    """hydrant-loadgen's report of so many chats of two turns, 8 at a time."""
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "result.json"
        command = [BINARY.with_name("hydrant-loadgen"), "--base-url", f"http://127.0.0.1:{port}", "--backend", "openai-chat", "--dataset-name",
                   "multi_turn", "--num-turns", 2, "--session-ids", "--max-concurrency", 8, "--num-prompts", chats, "--input-len", 32,
                   "--output-len", 96, "--ignore-eos", "--result-filename", result, *flags]  # fmt: skip
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=900)
        expect(done.returncode == 0, "hydrant-loadgen is served", done.stdout[-2000:], done.stderr[-2000:])
        said = json.loads(result.read_text())
    for server in said.get("servers", [said]):
        expect((server["failed"], server["completed"]) == (0, 2 * chats), "every turn", server["failed"], server["completed"])
    return said


def check_loadgen(cluster):
    said = load(cluster.port, 24)
    print(f"hydrant-loadgen: {said['completed']} turns, {said['output_throughput']:.0f} tok/s")


def check_throughput(program):
    """What Serve costs of the tokens per second of one replica of the default model."""
    cluster = Cluster(program, model=MODEL, replicas=1)
    try:
        (direct,) = own_ports(cluster)
        found = load(direct, 144, "--compare-url", f"http://127.0.0.1:{cluster.port}")["comparison"]["output tok/s"]
        print(f"throughput: through Serve {found['ratio']:.3f} of directly ({found['low']:.3f} to {found['high']:.3f}), on {os.cpu_count()} "
              "processors that the client, Serve and the engine share")  # fmt: skip
    finally:
        cluster.end()


def own_ports(cluster):
    """Where the daemons listen that have been started."""
    return {int(port) for port in re.findall(r"listening on http://127\.0\.0\.1:(\d+)", cluster.log())}


def replica_at(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/v1/models")
        return connection.getresponse().getheader("x-hydrant-replica")
    except OSError:
        return None
    finally:
        connection.close()


def check_autoscaling(program):
    autoscaling = {"min_replicas": 1, "max_replicas": 3, "metrics_interval_s": 1, "look_back_period_s": 2, "upscale_delay_s": 0,
                   "downscale_delay_s": 0, "policy": {"policy_function": "hydrant_ray.scaling:decide"}}  # fmt: skip
    cluster = Cluster(program, settings={"max_num_seqs": 4}, autoscaling=autoscaling)
    try:
        began = time.monotonic()
        stop = threading.Event()

        def ask():
            while not stop.is_set():
                cluster.ask("/v1/completions", {"prompt": "Once", "max_tokens": 400, "ignore_eos": True}, timeout=300)

        clients = [threading.Thread(target=ask) for _ in range(40)]
        for client in clients:
            client.start()
        wait_for("three replicas", lambda: len(cluster.daemons()) == 3)
        up = time.monotonic() - began
        stop.set()
        for client in clients:
            client.join()
        began = time.monotonic()
        wait_for("one replica", lambda: len(cluster.daemons()) == 1)
        print(f"autoscaled: from 1 to 3 in {up:.0f} s of load, back to 1 {time.monotonic() - began:.0f} s after it")
    finally:
        cluster.end()


SHARED = {"overhead": check_overhead, "openai": check_openai, "loadgen": check_loadgen, "affinity": check_affinity, "streams": check_streams, "kill": check_kill, "upgrade": check_upgrade, "fewer": check_fewer}

ALONE = {"throughput": check_throughput, "autoscaling": check_autoscaling}


def main():
    program = serve_program()
    names = sys.argv[1:] or [*SHARED, *ALONE]
    if any(name in SHARED for name in names):
        cluster = Cluster(program)
        try:
            for name in names:
                if name in SHARED:
                    began = time.monotonic()
                    SHARED[name](cluster)
                    print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
        except BaseException:
            print(cluster.log()[-6000:])
            raise
        finally:
            cluster.end()
    for name in names:
        if name in ALONE:
            ALONE[name](program)


if __name__ == "__main__":
    main()
