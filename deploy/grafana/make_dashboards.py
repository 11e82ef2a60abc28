#!/usr/bin/env python3
"""Writes dashboards/*.json, which are committed: `make_dashboards.py`. With --check nothing is written; exit code 1 says that a
file is not what this program makes. tests/deploy asks every expression of a Prometheus that scrapes a loaded server."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import generated_files
from grafana_json import RED, YELLOW, Panel, dashboard, datasource_variable, query_variable

FOLDER = pathlib.Path(__file__).resolve().parent / "dashboards"
RATE = "[$__rate_interval]"


def of(name, **labels):
    """A selector on the chosen servers; a value that begins with ~ is a regular expression."""
    parts = ['instance=~"$instance"'] + [f'{key}=~"{value[1:]}"' if value.startswith("~") else f'{key}="{value}"' for key, value in labels.items()]
    return f"{name}{{{', '.join(parts)}}}"


def rate(name, **labels):
    return f"rate({of(name, **labels)}{RATE})"


def total_rate(name, by="", **labels):
    return f"sum{f' by ({by}) ' if by else ''}({rate(name, **labels)})"


def parks_lost():
    return f"clamp_min({total_rate('hydrant_parks_lost_total')} - {total_rate('hydrant_parks_moved_total')}, 0)"


def quantile(share, name, by="", **labels):
    return f"histogram_quantile({share}, sum by (le{', ' + by if by else ''}) ({rate(name + '_bucket', **labels)}))"


def mean(name, by=""):
    group = f" by ({by}) " if by else ""
    return f"sum{group}({rate(name + '_sum')}) / sum{group}({rate(name + '_count')})"


def quantiles(name, shares=("0.5", "0.9", "0.99")):
    return [(quantile(share, name), f"p{float(share) * 100:g}") for share in shares]


def graph(title, about, targets, **fields):
    return Panel("timeseries", title, about, targets, **fields)


def stat(title, about, expr, **fields):
    return Panel("stat", title, about, [(expr, "")], **({"width": 4, "height": 4} | fields))


def heatmap(title, about, name, unit="short"):
    return Panel("heatmap", title, about, [(f"sum by (le) (increase({of(name + '_bucket')}{RATE}))", "{{le}}")], unit=unit)


# By a series of ours: vLLM's servers have vLLM's.
SERVERS = query_variable("instance", "Server", "label_values(hydrant_kv_blocks, instance)")
TENANTS = query_variable("tenant", "Tenant", 'label_values(hydrant_requests_total{instance=~"$instance"}, tenant)')
EACH_TENANT = {"tenant": "~$tenant"}

FIRST_TOKEN = graph(
    "Time to first token",
    "From arrival to the first token, all tenants. Look at 'Where the time goes': in the queue means more memory or smaller budgets, "
    "in prefill means long prompts that nothing had cached.",
    quantiles("hydrant_ttft_seconds"), unit="s", steps=[(10, RED)],
)  # fmt: skip
BY_SOURCE = graph(
    "Prompt tokens by source",
    "local_compute was computed, local_cache_hit came from the prefix cache, external_kv_transfer from a session's parked KV. Only the "
    "first costs time; if it grows alone, chats come without a session and prompts without a common beginning.",
    [(total_rate("vllm:prompt_tokens_by_source_total", "source"), "{{source}}")], unit="short", stacked=True,
)  # fmt: skip
WAITING_BY_REASON = graph(
    "Who waits, and for what",
    "capacity: for memory or a row; raise the pool, lower budgets, or let them be elastic. deferred: for the tenant's own blocks_max, or "
    "for the operator's /resume; a larger pool would change nothing.",
    [(f"sum by (reason) ({of('vllm:num_requests_waiting_by_reason')})", "{{reason}}")], stacked=True,
)  # fmt: skip
POOL = graph(
    "Blocks of the pool",
    "used: held by sequences; cached: prefixes kept as long as nobody needs the room; free: never used or given back. Cached blocks are "
    "room, so a full pool is one where used comes near the top.",
    [(f"sum by (state) ({of('hydrant_kv_blocks')})", "{{state}}")], stacked=True,
)  # fmt: skip
PARKED_MOVES = graph(
    "Parks, restores, losses",
    "At the end of a turn a session's KV is parked, at its next turn restored. It may have to make room for other sessions'. moved: it is "
    "in a file. lost: it is not, and the next turn computes its whole past; raise --session-memory-bytes.",
    [
        (total_rate("hydrant_parks_total"), "parked"),
        (total_rate("hydrant_restores_total"), "restored"),
        (total_rate("hydrant_parks_moved_total"), "moved"),
        (parks_lost(), "lost"),
    ],
    unit="ops",
)  # fmt: skip


def overview():
    now = [
        stat("Servers up", "Targets that answer. Fewer than you run: see the alert HydrantDown.", 'sum(up{instance=~"$instance"})', steps=[]),
        stat("Running", "Sequences that get tokens now.", f"sum({of('vllm:num_requests_running')})"),
        stat("Waiting", "Sequences that are not let in yet. Above zero for long: see 'Who waits, and for what'.",
             f"sum({of('vllm:num_requests_waiting')})", steps=[(1, YELLOW), (50, RED)]),
        stat("KV in use", "Of the fullest server. Cached prefixes do not count: they give way.",
             f"max({of('vllm:kv_cache_usage_perc')})", unit="percentunit", steps=[(0.85, YELLOW), (0.97, RED)]),
        stat("First token, p99", "Above what your users accept: see 'Where the time goes'.",
             quantile("0.99", "hydrant_ttft_seconds"), unit="s", steps=[(5, YELLOW), (10, RED)]),
        stat("Between tokens, p99", "Above 0.1 s a reader sees it. See 'A step': it is as long as the longest step.",
             quantile("0.99", "hydrant_itl_seconds"), unit="s", steps=[(0.25, YELLOW), (0.5, RED)]),
    ]  # fmt: skip
    load = [
        graph("Tokens per second", "What the device does: generated, and prompt tokens it had to compute.",
              [(total_rate("vllm:generation_tokens_total"), "generated"),
               (total_rate("vllm:prompt_tokens_by_source_total", source="local_compute"), "prompt, computed")]),
        graph("Running and waiting", "If running stays below what --max-num-seqs allows while sequences wait, memory is what is short.",
              [(f"sum({of('vllm:num_requests_running')})", "running"), (f"sum({of('vllm:num_requests_waiting')})", "waiting")]),
        graph("Ends of sequences", "stop and length are success; abort: the client went away (slow answers?); error: look into the log.",
              [(total_rate("vllm:request_success_total", "finished_reason"), "{{finished_reason}}")], unit="ops"),
        graph("Turned away", "invalid is the clients' mistake, overloaded the server's limit (503); concurrency, rpm, tpm, queue and sessions "
              "are limits of a tenant (429), see the dashboard of tenants; no generation: /tokenize and its like; no key: nobody we know.",
              [(total_rate("hydrant_rejected_total", "reason"), "{{reason}}"), (total_rate("hydrant_work_rejected_total"), "no generation"),
               (total_rate("hydrant_auth_failures_total"), "no key")], unit="ops"),
        WAITING_BY_REASON,
        BY_SOURCE,
    ]  # fmt: skip
    latency = [
        FIRST_TOKEN,
        graph("Between two tokens", "One sample per token after the first. As long as a step, so long prompts beside it make it longer "
              "(0.2 s at most by design, 0.125 s between tenants).", quantiles("hydrant_itl_seconds"), unit="s", steps=[(0.5, RED)]),
        graph("Where the time goes", "Means per sequence. queue: waits for memory, a row or its turn; prefill: its prompt is computed; decode: "
              "its answer is.", [(mean(f"vllm:request_{part}_time_seconds"), part) for part in ("queue", "prefill", "decode")], unit="s"),
        graph("Whole request", "From arrival to the last output, which mostly follows the length of the answer.",
              quantiles("vllm:e2e_request_latency_seconds"), unit="s"),
        heatmap("Prompt lengths", "Sequences by the tokens of their prompt. Prompts that grew are what makes the first token late.",
                "vllm:request_prompt_tokens"),
        heatmap("Answer lengths", "Sequences by the tokens they generated. All in one place at a power of ten: a max_tokens cuts them.",
                "vllm:request_generation_tokens"),
    ]  # fmt: skip
    engine = [
        graph("A step", "Mean seconds by phase. plan and commit are ours and take microseconds; device is the model; move parks and restores sessions. A plan above a "
              "millisecond is a defect worth an issue.", [(mean("hydrant_step_seconds", "phase"), "{{phase}}")], unit="s"),
        graph("Steps, by time", "99th percentile by phase: what a stream stands still for.",
              [(quantile("0.99", "hydrant_step_seconds", "phase"), "{{phase}}")], unit="s"),
        heatmap("Tokens of a step", "Sequences that decode, and the chunk of a prompt. Few tokens per step: the device waits for work.",
                "hydrant_batch_tokens"),
        graph("Stalls, lost steps and preemptions", "The first two should never happen. A stall is a step of over 10 s: see the alert HydrantStalled. For a "
              "lost step there was no memory: its requests got a 503. Sequences are preempted with --swap-space alone, and go on as they were.",
              [(f"sum(increase({of('hydrant_stalls_total')}{RATE}))", "stalls"),
               (f"sum(increase({of('hydrant_steps_lost_total')}{RATE}))", "lost steps"),
               (f"sum(increase({of('vllm:num_preemptions_total')}{RATE}))", "preemptions")]),
        graph("Processors and memory", "Cores in use. At the number of --threads while sequences wait, the machine is the limit.",
              [(f"sum by (instance) ({rate('process_cpu_seconds_total')})", "{{instance}}")]),
        graph("Memory", "Resident bytes: weights, pool and parked sessions. It is touched as it is used, so it rises to what is logged at start.",
              [(of("process_resident_memory_bytes"), "{{instance}}")], unit="bytes"),
        graph("File descriptors", "Share of those allowed; a connection takes one. Near 1: raise the limit of the service.",
              [(f"{of('process_open_fds')} / {of('process_max_fds')}", "{{instance}}")], unit="percentunit", steps=[(0.8, RED)]),
        graph("Scrape", "Seconds a scrape took. Gateways take data older than 0.2 s for a saturated server.",
              [('scrape_duration_seconds{instance=~"$instance"}', "{{instance}}")], unit="s", steps=[(0.2, RED)]),
    ]  # fmt: skip
    return dashboard(
        "hydrant-overview", "Hydrant / Overview", "Is it up, is it fast, what holds it back. Begin here.",
        [datasource_variable(), SERVERS], [("Now", now), ("Load", load), ("Latency", latency), ("Engine and process", engine)],
    )  # fmt: skip


def tenants():
    service = rate("hydrant_service_total", **EACH_TENANT)
    waited = f"{service} and ignoring (reason) min_over_time({of('hydrant_waiting', reason='capacity', **EACH_TENANT)}{RATE}) > 0"
    by_tenant = lambda name, **labels: [(total_rate(name, "tenant", **EACH_TENANT, **labels), "{{tenant}}")]
    gauge = lambda name: [(f"sum by (tenant) ({of(name, **EACH_TENANT)})", "{{tenant}}")]
    p99 = lambda name: [(quantile("0.99", name, "tenant", **EACH_TENANT), "{{tenant}}")]
    fairness = [
        graph("Service, by weight", "What the fair share counts: prompt tokens and twice the generated ones, divided by the weight. Lines of "
              "tenants that wait run side by side; who asks for less is below.",
              [(f"sum by (tenant) ({service})", "{{tenant}}")], width=12),
        graph("Unevenness among those who wait", "The most served over the least served of the tenants that waited all the time: 1 is even. Above "
              "2 for minutes: see the alert HydrantUnfair. Empty when nobody waits.",
              [(f"max by (instance) ({waited}) / min by (instance) ({waited})", "{{instance}}")], width=12, steps=[(2, RED)]),
        graph("Waiting", "Sequences in the tenant's line. One line long, others empty: that tenant asks for more than its share; nothing to do. "
              "deferred: for its own blocks_max.",
              [(f"sum by (tenant, reason) ({of('hydrant_waiting', **EACH_TENANT)}) > 0", "{{tenant}} {{reason}}")], stacked=True),
        graph("Running", "Sequences that get tokens.", gauge("hydrant_running"), stacked=True),
        graph("Tokens generated per second", "Not divided by weight.", by_tenant("hydrant_generation_tokens_total"), stacked=True),
    ]  # fmt: skip
    demand = [
        graph("Requests per second", "For generation, those turned away included.", by_tenant("hydrant_requests_total"), unit="reqps"),
        graph("Prompt tokens computed per second", "What came out of caches is not in it.", by_tenant("hydrant_prompt_tokens_total")),
        graph("Turned away, by tenant and reason", "concurrency, rpm, tpm, queue, sessions: its own limits in the tenants file, raise them if "
              "the tenant is right; overloaded: the server was full for everybody; invalid: its mistake; no generation: /tokenize and its like.",
              [(f"sum by (tenant, reason) ({rate('hydrant_rejected_total', **EACH_TENANT)}) > 0", "{{tenant}} {{reason}}"),
               (total_rate("hydrant_work_rejected_total", "tenant", **EACH_TENANT), "{{tenant}} no generation")], unit="reqps"),
        graph("Share turned away", "Of its requests for generation. A tenant that is steadily above a tenth retries in vain: talk to it, or raise its limit.",
              [(f"{total_rate('hydrant_rejected_total', 'tenant', **EACH_TENANT)} / "
                f"{total_rate('hydrant_requests_total', 'tenant', **EACH_TENANT)}", "{{tenant}}")], unit="percentunit", steps=[(0.1, RED)]),
    ]  # fmt: skip
    feels = [
        graph("In the queue, p99", "From arrival to admission.", p99("hydrant_queue_seconds"), unit="s"),
        graph("First token, p99", "From arrival. A tenant under its share that is slow here beside a busy one is what fairness is to prevent.",
              p99("hydrant_ttft_seconds"), unit="s", steps=[(10, RED)]),
        graph("Between tokens, p99", "Steps that several tenants share are 0.125 s long by design.", p99("hydrant_itl_seconds"), unit="s", steps=[(0.5, RED)]),
    ]  # fmt: skip
    memory = [
        graph("Blocks held", "A tenant at its blocks_max waits for itself (deferred), not for others.", gauge("hydrant_blocks"), stacked=True),
        graph("Blocks held or promised", "What admission counts. Shared prefixes count once per sequence here, so it may exceed the pool.",
              gauge("hydrant_reserved_blocks"), stacked=True),
        graph("Live of logical tokens", "How much of what its running sequences have seen is still held. Near 1 under a budget: texts are "
              "shorter than it.",
              [(f"sum by (tenant) ({of('hydrant_live_slots', **EACH_TENANT)}) / (sum by (tenant) ({of('hydrant_logical_tokens', **EACH_TENANT)}) > 0)",
                "{{tenant}}")], unit="percentunit"),
    ]  # fmt: skip
    return dashboard(
        "hydrant-tenants", "Hydrant / Tenants and fairness", "Who asks for what, who gets what, who is turned away and why.",
        [datasource_variable(), SERVERS, TENANTS],
        [("Fairness", fairness), ("What they ask for", demand), ("What they feel", feels), ("Memory", memory)],
    )  # fmt: skip


def kv():
    live, logical = f"sum({of('hydrant_live_slots')})", f"sum({of('hydrant_logical_tokens')})"
    pool = [
        stat("Pool", "Blocks of 16 slots. Its size is explained term by term in the log (--log-level debug).", f"sum({of('hydrant_kv_blocks')})"),
        stat("In use", "Of the fullest server.", f"max({of('vllm:kv_cache_usage_perc')})", unit="percentunit", steps=[(0.85, YELLOW), (0.97, RED)]),
        stat("Live tokens", "Slots that running sequences occupy.", live),
        stat("Logical tokens", "Tokens they have seen: what they would hold without eviction.", logical),
        stat("Held", "Live of logical tokens. 1: nothing was evicted.", f"{live} / ({logical} > 0)", unit="percentunit"),
        stat("Evicted per second", "Positions dropped, once per sequence.", total_rate("hydrant_evicted_tokens_total")),
        POOL,
        graph("Held and promised", "Admission promises a sequence the most it may still need, so sequences can wait before blocks that are not in "
              "use: lower max_tokens, or give budgets. Shared blocks count once per sequence.",
              [(f"sum({of('hydrant_blocks')})", "held"), (f"sum({of('hydrant_reserved_blocks')})", "held or promised"),
               (f"sum({of('hydrant_kv_blocks')})", "pool")]),
        WAITING_BY_REASON,
    ]  # fmt: skip
    h2o = [
        graph("Live against logical tokens", "The distance is what eviction saves. Both on one line: budgets are larger than the texts.",
              [(live, "live"), (logical, "logical")]),
        graph("Evicted tokens per second, by policy", "Positions dropped, once per sequence. A policy you do not offer: a client asked for it.",
              [(f"{total_rate('hydrant_evicted_tokens_total', 'policy')} > 0", "{{policy}}")]),
        graph("Blocks given back per second, by cause", "prefill: cut after a prompt; periodic: cut on the way; shrink: a budget was lowered; "
              "finish, cancel: the end; shared: a copy took the place of a shared block.",
              [(total_rate("hydrant_freed_blocks_total", "cause"), "{{cause}}")], stacked=True),
        graph("Agreement with the whole history", "With --kv-audit: share of the answers' tokens where full attention has the same best token; of the "
              "last 256 turns of a policy and budget. Falling, or lower than you want: raise that budget, or choose another policy.",
              [(of("hydrant_kv_agreement"), "{{tenant}} {{policy}} {{budget}} recall {{recall}}")], unit="percentunit"),
        graph("Log-probability gap", "With --kv-audit: log-probability of the answers' tokens by the whole history, less that by what was kept; "
              "nats a token. 0: eviction costs nothing; further below: more.",
              [(of("hydrant_kv_logprob_gap"), "{{tenant}} {{policy}} {{budget}} recall {{recall}}")]),
        graph("Audits per second, by result", "Turns of the sample of --kv-audit. crowded_out: the server is hardly ever idle, so lower the share; "
              "no_room: the pool is too small for whole histories.",
              [(f"{total_rate('hydrant_kv_audits_total', 'result')} > 0", "{{result}}")], unit="ops"),
        graph("Budgets lowered per second", "Elastic budgets that gave way to somebody who waited. Steadily above zero: the pool is too small for "
              "the budgets asked for.", [(total_rate("hydrant_shrinks_total"), "shrinks")], unit="ops"),
    ]  # fmt: skip
    prefixes = [
        graph("Prefix cache", "Share of looked-up prompt tokens that were found. It falls when the pool is so full that cached blocks give way.",
              [(f"{total_rate('vllm:prefix_cache_hits_total')} / ({total_rate('vllm:prefix_cache_queries_total')} > 0)", "found")], unit="percentunit"),
        BY_SOURCE,
        graph("Score snapshots", "Let requests that evict use cached prefixes. Falling under load: other sequences need the score blocks.",
              [(f"sum({of('hydrant_prefix_snapshots')})", "snapshots")], width=4),
        graph("Memory of snapshots", "Part of the pool's memory, not beside it.",
              [(f"sum({of('hydrant_prefix_snapshot_bytes')})", "bytes")], unit="bytes", width=4),
    ]  # fmt: skip
    parked = [
        PARKED_MOVES,
        graph("Parked KV", "Blocks' worth of memory outside the pool, up to --session-memory-bytes.",
              [(f"sum({of('hydrant_parked_blocks')})", "blocks")]),
    ]  # fmt: skip
    swapped = [
        graph("Sequences that step aside", "With --swap-space, where the pool runs out. Steadily more out than a tenth of the requests: the pool is too small "
              "for so many at once. No memory: those ended with a 503.",
              [(total_rate("hydrant_swaps_total", "direction"), "{{direction}}"), (total_rate("hydrant_swaps_lost_total"), "no memory")], unit="ops"),
        graph("Standing aside", "Sequences whose stream pauses until there is room.", [(f"sum({of('hydrant_swapped')})", "sequences")]),
        graph("Swapped KV", "Host memory, up to --swap-space.", [(f"sum({of('hydrant_swapped_bytes')})", "bytes")], unit="bytes"),
    ]  # fmt: skip
    return dashboard(
        "hydrant-kv", "Hydrant / KV and H2O", "Where the memory is, what eviction saves, what caches save.",
        [datasource_variable(), SERVERS], [("Pool", pool), ("Eviction", h2o), ("Prefixes", prefixes), ("Parked sessions", parked), ("Swap space", swapped)],
    )  # fmt: skip


def sessions():
    parks, restores = (total_rate(f"hydrant_{name}_total") for name in ("parks", "restores"))
    sources = total_rate("vllm:prompt_tokens_by_source_total")
    state = [
        graph("Sessions", "busy: a turn is in progress; parked: KV waits outside the pool; on_disk: in a file; cold: only tokens are kept, the next turn computes "
              "them. Many cold ones that come back are slow: raise --session-memory-bytes.",
              [(f"sum by (state) ({of('hydrant_sessions')})", "{{state}}")], stacked=True, width=12),
        graph("Parked KV", "Blocks' worth of memory outside the pool, up to --session-memory-bytes; at the top, sessions turn cold.",
              [(f"sum({of('hydrant_parked_blocks')})", "blocks")], width=12),
    ]  # fmt: skip
    turns = [
        PARKED_MOVES,
        graph("Came back to parked KV", "Restores per park. Below 1: chats that ended, were lost, or changed their history.",
              [(f"{restores} / ({parks} > 0)", "restored")], unit="percentunit"),
        graph("Lost", "Share of parked KV that had to make room before its session came back, and is in no file. Above a tenth: see the alert HydrantParkedKvLost.",
              [(f"{parks_lost()} / ({parks} > 0)", "lost")], unit="percentunit", steps=[(0.1, RED)]),
        BY_SOURCE,
        graph("Prompt tokens that sessions save", "Share of prompt tokens whose KV was parked.",
              [(f"{total_rate('vllm:prompt_tokens_by_source_total', source='external_kv_transfer')} / ({sources} > 0)", "restored")], unit="percentunit"),
        FIRST_TOKEN,
        graph("Turned away, too many sessions", "By tenant; its sessions_max are all busy.",
              [(total_rate("hydrant_rejected_total", "tenant", reason="sessions"), "{{tenant}}")], unit="reqps"),
    ]  # fmt: skip
    durable = [
        graph("Until a turn is durable", "From its last token to the disk's answer; its last chunk waits that long. Flat at 0 without --session-dir.",
              quantiles("hydrant_session_commit_seconds"), unit="s"),
        graph("Turns made durable", "And how many syncs that took: turns that end together share one.",
              [(total_rate("hydrant_session_log_records_total"), "turns and ends"), (total_rate("hydrant_session_log_commits_total"), "syncs")]),
        graph("Session log", "Bytes of its segments, and of the records that count. It is written anew when more than half is dead.",
              [(f"sum({of('hydrant_session_log_bytes')})", "segments"), (f"sum({of('hydrant_session_log_live_bytes')})", "live")], unit="bytes"),
        graph("Trouble with the disk", "None should ever happen: see the alerts HydrantSessionsNotDurable and HydrantSessionLogDamaged.",
              [(f"sum(increase({of('hydrant_session_log_errors_total')}{RATE}))", "writes and syncs that failed"),
               (f"sum(increase({of('hydrant_session_log_damaged_total')}{RATE}))", "records that are not what was written"),
               (f"max({of('hydrant_session_log_read_only')})", "nothing is durable")]),
        graph("KV on disk", "Files of sessions' KV, up to --session-disk-bytes; beyond it those used least recently make room.",
              [(f"sum({of('hydrant_session_kv_bytes')})", "bytes")], unit="bytes"),
        graph("KV written and read", "Bytes a second. Written when a session is left alone, has to make room, or was promised it; read when its next turn comes.",
              [(total_rate("hydrant_session_kv_written_bytes_total"), "written"), (total_rate("hydrant_session_kv_read_bytes_total"), "read")], unit="bytes"),
        graph("How long turns wait for KV", "For its file to be read and verified, before the turn stands in line.",
              quantiles("hydrant_session_kv_read_seconds"), unit="s"),
        graph("Until KV is durable", "Where a tenant's turns are promised it they end that late.",
              quantiles("hydrant_session_kv_write_seconds"), unit="s"),
        graph("KV that was not used", "By reason. damaged, short and io are the disk's; the others say that it is of something else.",
              [(total_rate("hydrant_session_kv_rejected_total", "reason"), "{{reason}}")]),
        graph("KV that is not on disk", "Made room for others, was not written for want of room, or could not be.",
              [(total_rate("hydrant_session_kv_evicted_total"), "made room"), (total_rate("hydrant_session_kv_passed_total"), "not written"),
               (total_rate("hydrant_session_kv_errors_total"), "failed")]),
    ]  # fmt: skip
    return dashboard(
        "hydrant-sessions", "Hydrant / Sessions", "Chats whose KV outlives a request: how many, where, and what they save.",
        [datasource_variable(), SERVERS], [("Sessions", state), ("Turns", turns), ("On disk", durable)],
    )  # fmt: skip


def main():
    return generated_files.write({
        FOLDER / f"{made['uid']}.json": json.dumps(made, indent=2) + "\n" for made in (overview(), tenants(), kv(), sessions())
    })  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
