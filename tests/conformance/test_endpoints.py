"""The small endpoints, and the metrics that dashboards and gateways read."""

import re
import time

import pytest

from checks import check_error
from hydrant_server import ENDLESS, SLOW, metric, wait_for

GAUGES = ["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"]
COUNTERS = [
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_cached_total",
    "vllm:prefix_cache_queries_total",
    "vllm:prefix_cache_hits_total",
    "vllm:gpu_prefix_cache_queries_total",
    "vllm:gpu_prefix_cache_hits_total",
    "vllm:num_preemptions_total",
]
LATENCY = [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680]
TOKEN = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80]
COUNTS_4096 = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000]
HISTOGRAMS = {
    "vllm:time_to_first_token_seconds": [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5,
                                         7.5, 10, 20, 40, 80, 160, 640, 2560],
    "vllm:inter_token_latency_seconds": TOKEN,
    "vllm:request_time_per_output_token_seconds": TOKEN,
    "vllm:time_per_output_token_seconds": TOKEN,
    "vllm:e2e_request_latency_seconds": LATENCY,
    "vllm:request_queue_time_seconds": LATENCY,
    "vllm:request_inference_time_seconds": LATENCY,
    "vllm:request_prefill_time_seconds": LATENCY,
    "vllm:request_decode_time_seconds": LATENCY,
    "vllm:request_prompt_tokens": COUNTS_4096,
    "vllm:request_generation_tokens": COUNTS_4096,
    "vllm:request_max_num_generation_tokens": COUNTS_4096,
    "vllm:request_params_max_tokens": COUNTS_4096,
    "vllm:request_prefill_kv_computed_tokens": COUNTS_4096,
    "vllm:iteration_tokens_total": [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384],
    "vllm:request_params_n": [1, 2, 5, 10, 20],
}  # fmt: skip


def labels_of(metrics, name):
    return [dict(re.findall(r'([a-zA-Z_]+)="([^"]*)"', series)) for series in metrics if re.match(re.escape(name) + r"[{ ]", series + " ")]


def test_health_is_an_empty_200(server):
    response = server.get("/health")
    assert response.status == 200 and response.body == b""
    assert server.get("/ready").status == 200
    for method in ("GET", "POST"):
        with server.connect() as connection:
            import raw_http

            fields = [("Content-Length", "0")] if method == "POST" else []
            connection.send(raw_http.head(method, "/ping", fields, host=server.host()))
            assert connection.read_response(method=method).status == 200


def test_version(server):
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", server.get("/version").json()["version"])


def test_load_counts_requests_in_flight(server):
    wait_for(lambda: server.get("/load").json() == {"server_load": 0})
    with server.open_stream(prompt="a", **ENDLESS) as connection:
        connection.read_head()
        assert server.get("/load").json() == {"server_load": 1}
    server.wait_idle()


def test_models(server):
    listed = server.get("/v1/models").json()
    assert listed["object"] == "list" and len(listed["data"]) == 1
    card = listed["data"][0]
    openai = {"id", "object", "created", "owned_by", "root", "parent", "max_model_len", "permission"}
    assert set(card) == openai | {"kv_block_bytes", "kv_policies", "kv_recall"}
    assert {"full", "h2o", "auto"} <= set(card["kv_policies"])
    assert card["object"] == "model" and card["max_model_len"] == 4096
    assert card["id"] in server.log() or card["id"]
    assert not card["root"].startswith("/")
    assert server.get(f"/v1/models/{card['id']}").json() == card
    check_error(server.get("/v1/models/gpt-4"), 404, code="model_not_found")
    check_error(server.get("/v1/models/" + "x" * 3000), 404)


def test_the_response_has_exactly_the_documented_members(server):
    answer = server.complete(prompt="a", max_tokens=2, temperature=0)
    assert set(answer) == {"id", "object", "created", "model", "choices", "usage", "system_fingerprint"}
    choice = answer["choices"][0]
    assert set(choice) == {"index", "text", "logprobs", "finish_reason", "stop_reason", "prompt_logprobs", "prompt_token_ids", "token_ids"}
    assert answer["id"].startswith("cmpl-") and answer["object"] == "text_completion"
    assert set(answer["usage"]) == {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details"}
    named = server.post("/v1/completions", {"prompt": "a", "max_tokens": 1}, [("X-Request-Id", "my-id")])
    assert named.field("x-request-id") == "my-id" and named.json()["id"] == "cmpl-my-id"


def test_metrics_are_complete_and_zero_from_the_start(start_server):
    server = start_server("--max-model-len", 4096, "--num-gpu-blocks-override", 512)
    response = server.get("/metrics")
    assert response.field("content-type").startswith("text/plain; version=0.0.4")
    metrics = server.metrics()
    model = server.get("/v1/models").json()["data"][0]["id"]
    for name in GAUGES + COUNTERS:
        assert metric(metrics, name) == 0
        assert labels_of(metrics, name) == [{"model_name": model, "engine": "0"}], name
    for reason in ("stop", "length", "abort", "error", "repetition"):
        assert metric(metrics, "vllm:request_success_total", finished_reason=reason) == 0
    for reason in ("capacity", "deferred"):
        assert metric(metrics, "vllm:num_requests_waiting_by_reason", reason=reason) == 0
    for source in ("local_compute", "local_cache_hit", "external_kv_transfer"):
        assert metric(metrics, "vllm:prompt_tokens_by_source_total", source=source) == 0
    assert metric(metrics, "vllm:cache_config_info", num_gpu_blocks="512", block_size="16") == 1
    assert metric(metrics, "hydrant_kv_blocks", state="free") == 512
    assert metric(metrics, "hydrant_kv_blocks", state="used") == 0
    assert metric(metrics, "hydrant_kv_blocks", state="cached") == 0
    for cause in ("prefill", "shrink", "periodic", "finish", "cancel", "shared"):
        assert metric(metrics, "hydrant_freed_blocks_total", cause=cause) == 0
    for policy in ("h2o", "h2o-plus", "h2o-decay", "snapkv", "window", "sinks"):
        assert metric(metrics, "hydrant_evicted_tokens_total", policy=policy) == 0


def test_histograms_have_vllms_buckets(server):
    metrics = server.metrics()
    for name, bounds in HISTOGRAMS.items():
        have = [labels["le"] for labels in labels_of(metrics, f"{name}_bucket")]
        assert [float(le) for le in have] == bounds + [float("inf")], name
        assert have[-1] == "+Inf"


def test_counters_count_what_was_done(server):
    before = server.metrics()
    usage = server.complete(prompt=list(range(100, 140)), max_tokens=7, ignore_eos=True, n=2)["usage"]
    server.wait_idle()
    after = server.metrics()

    def grown(name, **labels):
        return metric(after, name, **labels) - metric(before, name, **labels)

    assert usage["prompt_tokens"] == 40 and usage["completion_tokens"] == 14
    assert grown("vllm:generation_tokens_total") == 14
    assert grown("vllm:prompt_tokens_total") in (40, 80)  # the prompt of each sample is computed unless it is shared
    assert grown("vllm:request_success_total", finished_reason="length") in (1, 2)
    assert grown("vllm:e2e_request_latency_seconds_count") in (1, 2)
    assert grown("hydrant_freed_blocks_total", cause="finish") == 2 * 3 - 2  # 40 + 7 slots are 3 blocks; both answers have the 2 that the prompt fills


def test_evictions_are_counted_once_per_position(server):
    before = server.metrics()
    server.complete(prompt=list(range(1000, 1100)), max_tokens=11, ignore_eos=True, kv={"policy": "h2o", "budget": 32})
    server.wait_idle()
    after = server.metrics()
    evicted = metric(after, "hydrant_evicted_tokens_total", policy="h2o") - metric(before, "hydrant_evicted_tokens_total", policy="h2o")
    assert 68 <= evicted <= 68 + 11  # 100 - 32 after prefill, then one per step


def test_metrics_are_answered_under_load(server):
    """That they are answered while the engine does nothing at all is held by generation_service_test.cc."""
    streams = [server.open_stream(prompt=f"Story {i}", stream_interval=100, **ENDLESS) for i in range(8)]
    for stream in streams:
        stream.read_head()
    wait_for(lambda: metric(server.metrics(), "vllm:num_requests_running") == 8, server.gauges)
    for _ in range(20):
        assert metric(server.metrics(), "vllm:num_requests_running") == 8
    for stream in streams:
        stream.close()
    server.wait_idle()


@pytest.mark.machine
@pytest.mark.timing
def test_metrics_cost_little(server):
    server.wait_idle()
    before = server.cpu_s()
    for _ in range(20):
        server.metrics()
    assert server.cpu_s() - before < 20 * 0.05


def test_an_idle_server_uses_no_cpu(server):
    server.wait_idle()
    time.sleep(0.2)
    before = server.cpu_s()
    time.sleep(1.0)
    assert server.cpu_s() - before <= 0.05 * SLOW
