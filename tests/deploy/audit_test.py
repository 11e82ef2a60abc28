#!/usr/bin/env python3
"""--kv-audit on the real server: what 100 turns were found to lose is what a client finds that computes them once more, behind all
of their history, from the log-probabilities of a prompt; and nobody else notices. Exit 77: skipped."""

import random
import unittest

import series
import serving
from replicas import wait_for

TURNS = 100
TENANTS = {"a": {"weight": 2}, "b": {}}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
POLICIES = [("h2o", 32), ("snapkv", 48), ("sinks", 32), ("h2o-plus", 100), ("h2o-streaming", 64)]
# What the answer's tokens are chosen by: none of it is in what is compared.
CHOICES = [
    {"temperature": 0}, {"temperature": 0.9, "seed": 5}, {"temperature": 0, "logit_bias": {"400": 5}},
    {"temperature": 0.8, "frequency_penalty": 0.7}, {"temperature": 0, "guided_json": SCHEMA}, {"temperature": 1, "n": 2},
]  # fmt: skip
USERS = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:request_success_total", "vllm:iteration_tokens_total_count",
         "vllm:prefix_cache_queries_total", "hydrant_service_total", "hydrant_requests_total", "vllm:e2e_request_latency_seconds_count")  # fmt: skip


class Audit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = serving.TenantServer(serving.folder("audit"), TENANTS, ("--kv-audit", 1, "--num-gpu-blocks-override", 400, "--threads", 1))
        cls.addClassCleanup(cls.server.stop)

    def count(self, result):
        return self.server.metric("hydrant_kv_audits_total", result=result)

    def settle(self, audited):
        """Until so many turns are audited."""
        wait_for(f"{audited} turns are audited", lambda: self.count("done") >= audited, timeout=120)
        self.assertEqual(self.count("done"), audited)

    def turns(self):
        """[(tenant, policy, the answer's choice)] of TURNS turns, some of them of sessions."""
        noise, turns = random.Random(1), []
        while len(turns) < TURNS:
            number = len(turns)
            tenant, (policy, budget) = "ab"[number % 2], POLICIES[number % len(POLICIES)]
            body = {"prompt": [noise.randrange(300, 40000) for _ in range(noise.randrange(110, 200))], "max_tokens": noise.randrange(2, 14),
                    "kv": {"policy": policy, "budget": budget}, "logprobs": 1, "return_tokens_as_token_ids": True, "return_token_ids": True,
                    "ignore_eos": True, **CHOICES[number % len(CHOICES)]}  # fmt: skip
            in_session = number % 3 == 0 and "n" not in body
            for turn in range(2 if in_session else 1):
                if in_session:
                    body |= {"session_id": f"s{number}"}
                if turn:
                    body |= {"session_append": True, "prompt": body["prompt"][:20]}
                answer = self.server.complete(tenant, **body)
                turns += [(tenant, policy, budget, choice) for choice in answer["choices"]]
        return turns

    def replayed(self, prompt, answer):
        """The row of every token of the answer behind everything before it: (its log-probability, the best token)."""
        body = {"prompt": prompt + answer, "prompt_logprobs": 1, "max_tokens": 1, "kv": {"policy": "full"}}
        rows = self.server.complete("a", **body)["choices"][0]["prompt_logprobs"]
        for token, row in zip(answer, rows[len(prompt) :], strict=True):
            yield row[str(token)]["logprob"], next(int(other) for other, entry in row.items() if entry["rank"] == 1)

    def test_what_is_found_is_what_a_client_finds(self):
        turns = self.turns()
        answered = {name: self.server.metric(name) for name in USERS}
        cached = self.server.metric("hydrant_kv_blocks", state="cached")
        self.settle(len(turns))
        self.assertEqual({name: self.server.metric(name) for name in USERS}, answered, "an audit is nobody's request")
        self.assertEqual(self.server.metric("hydrant_kv_blocks", state="cached"), cached, "no prefix made room")
        self.assertEqual(self.server.metric("hydrant_kv_audits_waiting"), 0)
        found = {}
        for tenant, policy, budget, choice in turns:
            logprobs = choice["logprobs"]
            kept = [max(top, key=top.get) for top in logprobs["top_logprobs"]]
            label = str(1 << (budget - 1).bit_length())
            sums = found.setdefault((tenant, policy, label), [0, 0, 0.0])
            full = list(self.replayed(choice["prompt_token_ids"], choice["token_ids"]))
            for token, own, (logprob, best) in zip(kept, logprobs["token_logprobs"], full, strict=True):
                sums[0] += 1
                sums[1] += int(token.removeprefix("token_id:")) == best
                sums[2] += logprob - own
        agreements = []
        for (tenant, policy, budget), (tokens, agreed, gap) in found.items():
            labels = {"tenant": tenant, "policy": policy, "budget": budget}
            with self.subTest(**labels):
                self.assertEqual(self.server.metric("hydrant_kv_audited_tokens_total", **labels), tokens)
                agreements.append(self.server.metric("hydrant_kv_agreement", **labels))
                self.assertAlmostEqual(agreements[-1], agreed / tokens, delta=1e-6)
                self.assertAlmostEqual(self.server.metric("hydrant_kv_logprob_gap", **labels), gap / tokens, delta=1e-6)
        print(f"{len(turns)} turns, agreement {min(agreements):.3f} to {max(agreements):.3f}", flush=True)
        self.assertLess(min(agreements), 1, "nothing that could differ was compared")
        text = self.server.metrics_text()
        self.assertEqual(set(series.AUDITED), {name for name in series.AUDITED if f"# TYPE {name} {series.AUDITED[name]}\n" in text})
        for result in series.AUDIT_RESULTS:
            self.assertEqual(self.count(result), len(turns) if result == "done" else 0, result)

    def test_what_was_not_compared_is_counted(self):
        before = {result: self.count(result) for result in series.AUDIT_RESULTS}
        prompt = [1000 + 7 * i for i in range(100)]
        self.server.complete("b", prompt=prompt, max_tokens=4, kv={"policy": "h2o", "budget": 200})
        self.server.complete("b", prompt=prompt, max_tokens=4)
        self.server.complete("b", prompt=prompt * 9, max_tokens=300, ignore_eos=True, kv={"policy": "h2o", "budget": 32, "position": "rolling"})
        after = {result: self.count(result) - before[result] for result in series.AUDIT_RESULTS}
        self.assertEqual({result: count for result, count in after.items() if count}, {"nothing_evicted": 1, "too_long": 1})


if __name__ == "__main__":
    serving.folder("audit")
    unittest.main(verbosity=2)
