"""Every series of /metrics: name -> (type, labels that tell its series apart, buckets). vLLM's names, labels and buckets are
vLLM's; a series that is not in `table` does not exist, and one that is exists from the first scrape, at zero. Those in
AUDITED exist with --kv-audit."""

FIRST_TOKEN = [.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560]  # fmt: skip
TOKEN = [.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80]  # fmt: skip
REQUEST = [.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680]  # fmt: skip
STEP_TOKENS = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]
# A tenant's, in steps of 2 to 2.5: from half a millisecond, because vLLM's lowest are too coarse for a small model.
TENANT = [.0005, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2.5, 5, 10, 30, 160]
STEP = [1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30]  # fmt: skip

KV_REJECTS = "io short damaged version directory session turn model layout tokens policy positions memory busy timeout slower key".split()
COMMIT = [.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, 1]

STORE = [.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .5, 1]

POLICIES = ["full", "h2o", "h2o-real", "h2o-llama3", "h2o-decay", "h2o-plus", "h2o-streaming", "snapkv", "sinks", "window", "auto"]
REASONS = ["invalid", "overloaded", "draining", "concurrency", "rpm", "tpm", "queue", "sessions", "timeout",
           "queue_timeout"]


AUDIT_RESULTS = "done nothing_evicted too_long no_room crowded_out forgotten no_adapter no_memory error".split()
AUDITED = {
    "hydrant_kv_audits_total": "counter", "hydrant_kv_audits_waiting": "gauge", "hydrant_kv_audit_computed_tokens_total": "counter",
    # These when a turn of a tenant, policy and budget was audited.
    "hydrant_kv_agreement": "gauge", "hydrant_kv_logprob_gap": "gauge", "hydrant_kv_audited_tokens_total": "counter",
}  # fmt: skip


def one_two_five(most):
    """1, 2, 5, 10, … up to `most`."""
    return [step * 10**power for power in range(10) for step in (1, 2, 5) if step * 10**power <= most]


def table(context, tenants, formats=("Q8_0",)):
    """For a server with this context, these tenants, and weights in these formats."""
    tokens = one_two_five(context)
    plain, rows = [{}], {}

    def vllm(kind, names, labels=plain, buckets=None):
        for name in names.split():
            rows["vllm:" + name] = (kind, [{"engine": "0"} | one for one in labels], buckets)

    def each(name, values):
        return [{name: value} for value in values]

    vllm("gauge", "num_requests_running num_requests_waiting kv_cache_usage_perc gpu_cache_usage_perc")
    vllm("gauge", "num_requests_waiting_by_reason", each("reason", ["capacity", "deferred"]))
    vllm("gauge", "cache_config_info")
    vllm("counter", "prompt_tokens_total generation_tokens_total prompt_tokens_cached_total num_preemptions_total")
    vllm("counter", "spec_decode_num_drafts_total spec_decode_num_draft_tokens_total spec_decode_num_accepted_tokens_total")
    vllm("counter", "spec_decode_num_accepted_tokens_per_pos_total", each("position", map(str, range(16))))
    vllm("counter", "prefix_cache_queries_total prefix_cache_hits_total gpu_prefix_cache_queries_total gpu_prefix_cache_hits_total")
    vllm("counter", "prompt_tokens_by_source_total", each("source", ["local_compute", "local_cache_hit", "external_kv_transfer"]))
    vllm("counter", "request_success_total", each("finished_reason", ["stop", "length", "abort", "error", "repetition"]))
    vllm("histogram", "time_to_first_token_seconds", plain, FIRST_TOKEN)
    vllm("histogram", "inter_token_latency_seconds time_per_output_token_seconds request_time_per_output_token_seconds", plain, TOKEN)
    vllm("histogram", "e2e_request_latency_seconds request_queue_time_seconds request_inference_time_seconds "
         "request_prefill_time_seconds request_decode_time_seconds", plain, REQUEST)  # fmt: skip
    vllm("histogram", "request_prompt_tokens request_generation_tokens request_max_num_generation_tokens "
         "request_params_max_tokens request_prefill_kv_computed_tokens", plain, tokens)  # fmt: skip
    vllm("histogram", "iteration_tokens_total", plain, STEP_TOKENS)
    vllm("histogram", "request_params_n", plain, [1, 2, 5, 10, 20])

    def ours(kind, names, labels=plain, buckets=None):
        for name in names.split():
            rows["hydrant_" + name] = (kind, labels, buckets)

    by_tenant = each("tenant", tenants)
    ours("counter", "requests_total prompt_tokens_total generation_tokens_total service_total", by_tenant)
    ours("counter", "rejected_total", [one | {"reason": reason} for one in by_tenant for reason in REASONS])
    ours("counter", "work_rejected_total", [one | {"reason": reason} for one in by_tenant for reason in REASONS])
    ours("histogram", "queue_seconds ttft_seconds itl_seconds", by_tenant, TENANT)
    ours("gauge", "running live_slots logical_tokens blocks reserved_blocks", by_tenant)
    ours("gauge", "waiting", [one | {"reason": reason} for one in by_tenant for reason in ("capacity", "deferred")])
    ours("gauge", "kv_blocks", each("state", ["free", "used", "cached"]))
    ours("counter", "evicted_tokens_total", each("policy", POLICIES))
    ours("counter", "freed_blocks_total", each("cause", ["prefill", "shrink", "periodic", "finish", "cancel", "shared", "swap", "draft"]))
    ours("counter", "shrinks_total parks_total parks_lost_total parks_moved_total restores_total auth_failures_total connections_refused_total stalls_total steps_lost_total weights_read_bytes_total weights_wait_seconds_total")
    ours("counter", "reloads_total", each("result", ["applied", "refused"]))
    ours("gauge", "reload_refused loading paused shared_limits_away")
    ours("counter", "shared_limits_asks_total", each("result", ["granted", "refused", "timeout", "error", "away"]))
    ours("histogram", "shared_limits_seconds", plain, STORE)
    ours("gauge", "sessions", each("state", ["busy", "parked", "on_disk", "cold"]))
    ours("counter", "swaps_total", each("direction", ["out", "in"]))
    ours("counter", "swaps_lost_total")
    ours("gauge", "swapped swapped_bytes parked_blocks prefix_snapshots prefix_snapshot_bytes")
    ours("histogram", "step_seconds", each("phase", ["plan", "device", "commit", "move"]), STEP)
    ours("histogram", "session_commit_seconds", plain, COMMIT)
    ours("gauge", "session_log_bytes session_log_live_bytes session_log_read_only session_log_waiting_bytes")
    ours("counter", "session_log_commits_total session_log_records_total session_log_errors_total session_log_damaged_total session_log_passed_total")
    ours("histogram", "session_kv_write_seconds session_kv_read_seconds", plain, COMMIT)
    ours("gauge", "session_kv_files session_kv_bytes")
    ours("counter", "session_kv_written_bytes_total session_kv_read_bytes_total session_kv_evicted_total session_kv_passed_total session_kv_errors_total")
    ours("counter", "session_kv_rejected_total", each("reason", KV_REJECTS))
    ours("counter", "shape_compiles_total", each("result", ["compiled", "refused"]))
    ours("counter", "shape_compile_seconds_total shape_cache_hits_total")
    ours("gauge", "shape_cache_shapes shape_cache_bytes")
    ours("gauge", "weight_bytes", each("format", formats))
    ours("histogram", "batch_tokens", plain, STEP_TOKENS)

    for name in ("open_fds", "max_fds", "resident_memory_bytes", "virtual_memory_bytes", "start_time_seconds"):
        rows["process_" + name] = ("gauge", plain, None)
    rows["process_cpu_seconds_total"] = ("counter", plain, None)
    return rows
