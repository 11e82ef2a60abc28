#!/usr/bin/env python3
"""/metrics of the real server against the table of series.py, and what the series say about a few requests whose effect is known. Exit
77: skipped."""

import re
import unittest

import series
import serving

TENANTS = {"a": {"weight": 2}, "b": {"rpm": 3, "sessions_max": 4}}
BLOCKS = 128
PROMPT = [100 + 7 * i for i in range(96)]
H2O = {"policy": "h2o", "budget": 32}


class Scrape:
    """Prometheus text 0.0.4, read strictly: (name, frozenset of labels) -> value."""

    LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")

    def __init__(self, text):
        self.types, self.samples = {}, {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                assert self.types.setdefault(name, kind) == kind, f"{name} has two types"
            elif not line.startswith("#"):
                name, labels, value = self.LINE.fullmatch(line).groups()
                key = name, frozenset(re.findall(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"', labels or ""))
                assert key not in self.samples, f"twice: {line}"
                self.samples[key] = float(value)

    def get(self, name, **labels):
        """The sum of the samples with these labels."""
        found = [value for (other, have), value in self.samples.items() if other == name and labels.items() <= dict(have).items()]
        assert found, f"no {name}{labels}"
        return sum(found)


class Contract(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        flags = ("--num-gpu-blocks-override", BLOCKS, "--served-model-name", "the model")
        cls.server = serving.TenantServer(serving.folder("metrics"), TENANTS, flags)
        cls.addClassCleanup(cls.server.stop)

    def scrape(self):
        return Scrape(self.server.metrics_text())

    def rises(self, act, *names_and_labels):
        """How much these series rise while `act` runs."""
        before = self.scrape()
        self.result = act()
        after = self.scrape()
        return [after.get(name, **labels) - before.get(name, **labels) for name, labels in names_and_labels]

    def test_a_first_scrape_has_every_series_at_zero_and_no_other(self):
        scrape = self.scrape()
        wanted = series.table(serving.CONTEXT, TENANTS)
        self.assertEqual(scrape.types, {name: kind for name, (kind, _, _) in wanted.items()})
        expected = set()
        for name, (kind, labels, buckets) in wanted.items():
            for own in labels:
                own = own | ({"model_name": "the model"} if name.startswith("vllm:") and name != "vllm:cache_config_info" else {})
                if kind != "histogram":
                    expected.add((name, frozenset(own.items())))
                    continue
                expected |= {(f"{name}_{part}", frozenset(own.items())) for part in ("sum", "count")}
                bounds = [float(dict(have)["le"]) for (other, have) in scrape.samples
                          if other == name + "_bucket" and own.items() <= dict(have).items()]  # fmt: skip
                self.assertEqual(sorted(bounds), buckets + [float("inf")], name)
        info = {key for key in scrape.samples if key[0] == "vllm:cache_config_info"}
        given = {key for key in scrape.samples if not key[0].endswith("_bucket")}
        self.assertEqual(given - info, {key for key in expected if key[0] != "vllm:cache_config_info"})
        for (name, labels), value in scrape.samples.items():
            if name == "hydrant_weight_bytes":
                self.assertGreater(value, 0)
            elif not name.startswith("process_") and (name, labels) not in info and dict(labels).get("state") != "free":
                self.assertEqual(value, 0, (name, labels))
        labels = dict(next(iter(info))[1])
        self.assertEqual((labels["block_size"], labels["num_gpu_blocks"], labels["engine"]), ("16", str(BLOCKS), "0"))
        self.assertEqual(scrape.get("hydrant_kv_blocks", state="free"), BLOCKS)

    def test_a_tenant_costs_at_most_40_named_series(self):
        named = [labels for _, rows, _ in series.table(serving.CONTEXT, ["a"]).values() for labels in rows if labels.get("tenant")]
        self.assertLessEqual(len(named), 40)

    def test_two_samples_of_a_prompt_are_two_sequences_and_one_request(self):
        ask = lambda: self.server.complete("a", prompt=PROMPT, n=2, max_tokens=5, ignore_eos=True)
        rises = self.rises(
            ask,
            ("vllm:request_success_total", {"finished_reason": "length"}), ("vllm:generation_tokens_total", {}),
            ("vllm:request_prompt_tokens_sum", {}), ("vllm:request_generation_tokens_sum", {}),
            ("vllm:request_params_n_count", {}), ("vllm:request_params_n_sum", {}), ("vllm:request_max_num_generation_tokens_sum", {}),
            ("vllm:time_to_first_token_seconds_count", {}), ("vllm:inter_token_latency_seconds_count", {}),
            ("hydrant_requests_total", {"tenant": "a"}), ("hydrant_generation_tokens_total", {"tenant": "a"}),
            ("hydrant_requests_total", {"tenant": "b"}), ("hydrant_freed_blocks_total", {"cause": "finish"}),
        )  # fmt: skip
        # Each holds the 96 tokens and 4 of its own (the last is never computed): 7 blocks, of which the second has 5 from the
        # first. The sixth ends with the prompt, and a prompt's last token is always computed.
        self.assertEqual(rises, [2, 10, 192, 10, 1, 2, 5, 2, 8, 1, 10, 0, 14 - 5])

    def test_prompt_tokens_are_those_of_all_sources_and_steps_see_those_that_are_computed(self):
        prompt = [9000 + i for i in range(100)]
        sources = [("vllm:prompt_tokens_by_source_total", {"source": source}) for source in ("local_compute", "local_cache_hit", "external_kv_transfer")]
        others = [("vllm:prompt_tokens_total", {}), ("vllm:prompt_tokens_cached_total", {}), ("vllm:prefix_cache_queries_total", {}),
                  ("vllm:prefix_cache_hits_total", {}), ("vllm:iteration_tokens_total_sum", {}), ("hydrant_batch_tokens_sum", {}),
                  ("vllm:request_prefill_kv_computed_tokens_sum", {}), ("hydrant_service_total", {"tenant": "a"})]  # fmt: skip
        ask = lambda: self.server.complete("a", prompt=prompt, max_tokens=3, ignore_eos=True)
        # A step computes the prompt, two more a token each. Service counts outputs twice, divided by the weight.
        self.assertEqual(self.rises(ask, *sources, *others), [100, 0, 0, 100, 0, 100, 0, 102, 102, 100, (100 + 2 * 3) / 2])
        # Six full blocks are found again.
        self.assertEqual(self.rises(ask, *sources, *others), [4, 96, 0, 100, 96, 100, 96, 6, 6, 4, (4 + 2 * 3) / 2])
        self.assertEqual(self.result["usage"]["prompt_tokens_details"]["cached_tokens"], 96)

    def test_evicted_tokens_count_once_per_sequence_and_blocks_by_cause(self):
        prompt = [20000 + i for i in range(96)]
        ask = lambda kv: lambda: self.server.complete("a", prompt=prompt, max_tokens=20, ignore_eos=True, kv=kv, kv_report=True)
        freed = [("hydrant_freed_blocks_total", {"cause": cause}) for cause in ("prefill", "periodic", "finish", "cancel")]
        rises = self.rises(ask(H2O), ("hydrant_evicted_tokens_total", {"policy": "h2o"}), ("hydrant_evicted_tokens_total", {}), *freed)
        evicted = self.result["kv"]["evicted"]
        self.assertEqual(evicted, 96 + 19 - 33)
        # 96 tokens in 6 blocks are cut to 32 in 2; the 33rd slot takes a third.
        self.assertEqual(rises, [evicted, evicted, 4, 0, 3, 0])
        rises = self.rises(ask(H2O | {"cadence": {"periodic": 32}}), ("hydrant_evicted_tokens_total", {"policy": "h2o"}), *freed)
        self.assertEqual(rises[0], self.result["kv"]["evicted"])

    def test_live_slots_and_logical_tokens_of_a_sequence_under_way(self):
        prompt = [30000 + i for i in range(96)]
        # More than a fast machine generates before the scrape.
        body = {"prompt": prompt, "max_tokens": 1_000_000, "ignore_eos": True, "temperature": 0, "stream": True,
                "kv": H2O | {"position": "rolling"}}  # fmt: skip
        before = self.scrape()
        with self.server.ask("a", body) as response:
            for _ in range(20):
                response.readline()
            now = self.scrape()
            self.assertEqual(now.get("hydrant_running", tenant="a"), 1)
            self.assertEqual(now.get("hydrant_live_slots", tenant="a"), 33)
            self.assertGreater(now.get("hydrant_logical_tokens", tenant="a"), 96)
            self.assertEqual(now.get("hydrant_blocks", tenant="a"), 3)
            self.assertEqual(now.get("hydrant_reserved_blocks", tenant="a"), 3)
            self.assertEqual(now.get("hydrant_live_slots", tenant="b"), 0)
            self.assertEqual(now.get("hydrant_waiting", tenant="a"), 0)
        while (after := self.scrape()).get("vllm:num_requests_running"):
            pass
        rose = lambda name, **labels: after.get(name, **labels) - before.get(name, **labels)
        self.assertEqual(rose("vllm:request_success_total", finished_reason="abort"), 1)
        self.assertEqual(rose("hydrant_freed_blocks_total", cause="cancel"), 3)
        for gauge in ("live_slots", "logical_tokens", "blocks", "reserved_blocks", "running", "waiting"):
            self.assertEqual(after.get(f"hydrant_{gauge}"), 0, gauge)
        self.assertEqual(after.get("vllm:kv_cache_usage_perc"), 0, "what is cached is not in use")
        self.assertGreater(after.get("hydrant_kv_blocks", state="cached"), 0)

    def test_what_is_refused_is_counted_by_reason_and_is_no_sequence(self):
        rejected = lambda reason, tenant: ("hydrant_rejected_total", {"reason": reason, "tenant": tenant})

        def act():
            self.assertEqual(self.server.refused("a", prompt="x", max_tokens=-1), 400)
            for _ in range(3):
                self.server.complete("b", prompt="x", max_tokens=1)
            self.assertEqual(self.server.refused("b", prompt="x", max_tokens=1), 429)
            self.assertEqual(self.server.refused("a", key="wrong", prompt="x"), 401)

        rises = self.rises(
            act, rejected("invalid", "a"), rejected("rpm", "b"), ("hydrant_rejected_total", {}), ("hydrant_auth_failures_total", {}),
            ("hydrant_requests_total", {"tenant": "b"}), ("vllm:request_success_total", {}), ("vllm:e2e_request_latency_seconds_count", {}),
        )  # fmt: skip
        self.assertEqual(rises, [1, 1, 2, 1, 4, 3, 3])

    def test_sessions_are_counted_by_state_and_their_tokens_by_source(self):
        first = lambda: self.server.complete("a", session_id="s", prompt="Tell me about lighthouses.", max_tokens=8, ignore_eos=True)
        self.assertEqual(self.rises(first, ("hydrant_parks_total", {}), ("hydrant_restores_total", {})), [1, 0])
        scrape = self.scrape()
        self.assertEqual(scrape.get("hydrant_sessions", state="parked"), 1)
        self.assertEqual(scrape.get("hydrant_sessions", state="busy"), 0)
        self.assertGreaterEqual(scrape.get("hydrant_parked_blocks"), 1)
        second = lambda: self.server.complete("a", session_id="s", session_append=True, prompt=" And who lives there?", max_tokens=4)
        restored = self.rises(second, ("hydrant_restores_total", {}), ("vllm:prompt_tokens_by_source_total", {"source": "external_kv_transfer"}))
        self.assertEqual(restored[0], 1)
        self.assertEqual(restored[1], self.result["usage"]["prompt_tokens_details"]["cached_tokens"])

    def test_a_scrape_is_the_text_format(self):
        text = self.server.metrics_text()
        self.assertTrue(text.endswith("\n"))
        for line in text.splitlines():
            self.assertRegex(line, r"^(# (HELP|TYPE) .*|[a-zA-Z_:][a-zA-Z0-9_:]*(\{[^}]*\})? \S+)$")


if __name__ == "__main__":
    serving.folder("metrics")
    unittest.main(verbosity=2)
