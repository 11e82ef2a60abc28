"""A Llama forward pass with H2O eviction in plain PyTorch, in any dtype: the independent implementation our goldens and
the check of the default model are made with. Written from the definition of H2O (one score per layer, KV head and kept
token), not from our kernels: caches are kept in chronological order and re-sorted, nothing is done in place.

Runs with the versions in requirements.txt.
"""

import dataclasses
import json
import math
import pathlib

import torch


@dataclasses.dataclass(frozen=True)
class Policy:
    """The fields of kernels/eviction_policy.h."""

    preset: str
    heavy: int
    recent: int
    gqa_reduce: str = "sum"  # sum | mean | first
    score_source: str = "attention"  # attention | none
    square: bool = False
    decay: float = 1.0
    score_rows: int = 0  # 0: all prompt rows
    pool_width: int = 1
    store_pooled: bool = True
    rolling: bool = False  # keys and queries stand at their ranks among the kept tokens
    evicts: bool = True

    @property
    def keep(self):
        return self.heavy + self.recent


def make_policy(preset, budget, recent=None):
    """A preset at a budget, as the table of the presets has it."""
    half = budget // 2 if recent is None else recent
    if preset == "full":
        return Policy(preset, 0, 1, evicts=False)
    if preset == "window":
        return Policy(preset, 0, budget, score_source="none")
    if preset == "sinks":
        return Policy(preset, 4, budget - 4, score_source="none")
    if preset in ("h2o", "h2o-real"):
        return Policy(preset, budget - half, half)
    if preset == "h2o-streaming":
        recent = max(1, budget - 48) if recent is None else recent
        return Policy(preset, budget - recent, recent, rolling=True)
    if preset == "h2o-llama3":
        return Policy(preset, budget - half, half, gqa_reduce="first")
    if preset == "h2o-decay":
        return Policy(preset, budget - half, half, decay=1 - 1 / 128)
    if preset == "snapkv":
        return Policy(preset, budget - half, half, gqa_reduce="mean", score_rows=32, pool_width=7, store_pooled=False)
    if preset == "h2o-plus":
        third = max(1, budget // 3) if recent is None else recent
        return Policy(preset, budget - third, third, square=True, decay=15 / 16, score_rows=64, pool_width=15)
    raise ValueError(preset)


def inverse_frequencies(config, head_dim):
    """[head_dim / 2] in fp64, with the `llama3` scaling when the config asks for it."""
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    theta = config.get("rope_theta") or scaling.get("rope_theta") or 10000.0
    frequencies = theta ** -(torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return frequencies
    if kind != "llama3":
        raise ValueError(f"rope scaling {kind}")
    factor, low, high = scaling["factor"], scaling["low_freq_factor"], scaling["high_freq_factor"]
    original = scaling["original_max_position_embeddings"]
    wavelength = 2 * math.pi / frequencies
    smooth = ((original / wavelength - low) / (high - low)).clamp(0, 1)
    return frequencies * ((1 - smooth) / factor + smooth)


class Llama:
    def __init__(self, config, tensors, dtype):
        """`tensors`: Hugging Face names to tensors of any dtype."""
        self.dtype = dtype
        self.tensors = {name: tensor.to(dtype) for name, tensor in tensors.items()}
        self.layers = config["num_hidden_layers"]
        self.query_heads = config["num_attention_heads"]
        self.kv_heads = config.get("num_key_value_heads") or self.query_heads
        self.head_dim = config.get("head_dim") or config["hidden_size"] // self.query_heads
        self.group = self.query_heads // self.kv_heads
        self.eps = config["rms_norm_eps"]
        self.frequencies = inverse_frequencies(config, self.head_dim)
        self.windows = [math.inf] * self.layers  # positions that a token of the layer sees, itself included
        self.softcap = None
        self.head = self.tensors.get("lm_head.weight", self.tensors["model.embed_tokens.weight"])

    @staticmethod
    def load(directory, dtype):
        from safetensors.torch import load_file

        directory = pathlib.Path(directory)
        tensors = {}
        for shard in sorted(directory.glob("*.safetensors")):
            tensors.update(load_file(shard))
        return Llama(json.loads((directory / "config.json").read_text()), tensors, dtype)

    def norm(self, x, weight):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.eps) * weight

    def rotate(self, x, positions):
        """x [heads, n, head_dim]; NeoX halves, angles in fp64."""
        angles = positions.to(torch.float64)[:, None] * self.frequencies[None]
        cos, sin = angles.cos().to(self.dtype), angles.sin().to(self.dtype)
        first, second = x.chunk(2, -1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)

    def qkv(self, layer, x):
        prefix = f"model.layers.{layer}.self_attn."
        return (
            (x @ self.tensors[prefix + name + "_proj.weight"].T).view(len(x), heads, self.head_dim).transpose(0, 1)
            for name, heads in (("q", self.query_heads), ("k", self.kv_heads), ("v", self.kv_heads))
        )

    def layer(self, layer, x, attend):
        """One block; attend(q, k, v) [heads, n, head_dim], not rotated yet, returns the attention output [query_heads, n,
        head_dim]."""
        prefix = f"model.layers.{layer}."
        h = self.norm(x, self.tensors[prefix + "input_layernorm.weight"])
        out = attend(*self.qkv(layer, h))
        x = x + out.transpose(0, 1).reshape(len(x), -1) @ self.tensors[prefix + "self_attn.o_proj.weight"].T
        h = self.norm(x, self.tensors[prefix + "post_attention_layernorm.weight"])
        gate = torch.nn.functional.silu(h @ self.tensors[prefix + "mlp.gate_proj.weight"].T)
        up = h @ self.tensors[prefix + "mlp.up_proj.weight"].T
        return x + (gate * up) @ self.tensors[prefix + "mlp.down_proj.weight"].T

    def softmax(self, logits):
        """logits [query_heads, n, live] of one layer."""
        return torch.softmax(logits, -1)

    def logits(self, x):
        return self.norm(x, self.tensors["model.norm.weight"]) @ self.head.T


def flush_to_zero(score):
    """A score below the smallest normal fp32 number is 0, in every dtype: what decays long enough becomes a tie."""
    return torch.where(score < 2.0**-126, torch.zeros_like(score), score)


class LayerCache:
    """K (not rotated), V, scores and positions of one layer, per KV head in chronological order."""

    def __init__(self):
        self.k = self.v = self.score = self.position = None

    def keep(self, indices):
        """indices [kv_heads, m], ascending."""
        wide = indices[:, :, None].expand(-1, -1, self.k.shape[-1])
        self.k, self.v = self.k.gather(1, wide), self.v.gather(1, wide)
        self.score, self.position = self.score.gather(1, indices), self.position.gather(1, indices)


class H2oSession:
    """One sequence under a policy. Prefill, then Step per token; both return the logits of their last token.

    `imposed`, when given, overrules the session's own choices (teacher forcing): {"kept": [layer][kv_head][position…],
    "victims": [step][layer][kv_head]}. Every decision is recorded either way, with the candidates' scores, so that a
    caller can judge it.
    """

    def __init__(self, model, policy, imposed=None, keep_decisions=False):
        self.model, self.policy, self.imposed = model, policy, imposed
        self.caches = [LayerCache() for _ in range(model.layers)]
        self.kept_after_prefill = None
        self.victims = []  # per step: None or [layer][kv_head]
        self.margins = []  # relative gap between the last kept and the first dropped score, exact ties aside
        self.other_victims = self.all_victims = 0  # victims that are not the token leaving the recent window
        self.decisions = [] if keep_decisions else None
        self.length = 0

    def reduce(self, p):
        """p [query_heads, …] -> [kv_heads, …]."""
        p = p.view(self.model.kv_heads, self.model.group, *p.shape[1:])
        if self.policy.square:
            p = p * p
        if self.policy.gqa_reduce == "first":
            return p[:, 0]
        return p.sum(1) if self.policy.gqa_reduce == "sum" else p.mean(1)

    def pool(self, score):
        """Max over a centred window, clipped to `score` [kv_heads, candidates]."""
        half = self.policy.pool_width // 2
        if half == 0:
            return score
        return torch.stack(
            [score[:, max(0, j - half) : j + half + 1].amax(1) for j in range(score.shape[1])], 1
        )

    def order(self, score):
        """Best first; on a tie the lower position. score [candidates], chronological."""
        return torch.sort(score, descending=True, stable=True).indices

    def note_margin(self, score, order, kept):
        if 0 < kept < len(order):
            worst_kept, best_dropped = score[order[kept - 1]].item(), score[order[kept]].item()
            if worst_kept != best_dropped:
                self.margins.append((worst_kept - best_dropped) / abs(worst_kept))

    def see(self, layer, logits, cache):
        """logits [query_heads, n, live] of the newest n tokens; what a token does not see becomes -inf: later tokens, and those
        behind the layer's window."""
        rows, live = logits.shape[1:]
        at = torch.arange(live).expand(self.model.kv_heads, -1) if self.policy.rolling else cache.position
        distance = at[:, live - rows :, None] - at[:, None, :]  # [kv_heads, rows, live]
        hidden = (distance < 0) | (distance >= self.model.windows[layer])
        # The newest token hides what all later ones will.
        self.out_of_sight = hidden[:, -1]
        cap = self.model.softcap
        logits = logits if cap is None else cap * torch.tanh(logits / cap)
        return logits.masked_fill(hidden.repeat_interleave(self.model.group, 0), -math.inf)

    def forget(self, score):
        """What the newest token does not see has the score 0."""
        return score.masked_fill(self.out_of_sight, 0)

    def prefill(self, ids, last_only=False):
        """Full attention; afterwards the cut. Returns the logits of every prompt row [P, vocab], or of the last [1, vocab]."""
        model, policy, length = self.model, self.policy, len(ids)
        positions = torch.arange(length)
        x = model.tensors["model.embed_tokens.weight"][torch.tensor(ids)]
        for index, cache in enumerate(self.caches):

            def attend(q, k, v, index=index, cache=cache):
                # Nothing has left yet: ranks are positions.
                q, wide = model.rotate(q, positions), model.rotate(k, positions).repeat_interleave(model.group, 0)
                cache.k, cache.v = k, v
                cache.position = positions.expand(model.kv_heads, -1)
                p = model.softmax(self.see(index, q @ wide.transpose(1, 2) / math.sqrt(model.head_dim), cache))
                cache.score = self.forget(self.prompt_scores(p))
                return p @ v.repeat_interleave(model.group, 0)

            x = model.layer(index, x, attend)
        self.length = length
        if policy.evicts and length > policy.keep:
            for index, cache in enumerate(self.caches):
                self.cut(index, cache)
        self.kept_after_prefill = [cache.position.tolist() for cache in self.caches]
        return model.logits(x[-1:] if last_only else x)

    def prompt_scores(self, p):
        """p [query_heads, P, live] -> [kv_heads, live]."""
        policy, length = self.policy, p.shape[1]
        if not policy.evicts or policy.score_source == "none":
            return torch.zeros(self.model.kv_heads, p.shape[2], dtype=p.dtype)
        rows = min(policy.score_rows or length, length)
        weights = policy.decay ** torch.arange(rows - 1, -1, -1, dtype=p.dtype)
        return flush_to_zero((self.reduce(p[:, length - rows :]) * weights[None, :, None]).sum(1))

    def cut(self, layer, cache):
        policy, live = self.policy, cache.k.shape[1]
        candidates = live - policy.recent
        pooled = self.pool(cache.score[:, :candidates])
        if policy.store_pooled:
            cache.score = torch.cat((pooled, cache.score[:, candidates:]), 1)
        chosen = []
        for head in range(self.model.kv_heads):
            score = pooled[head]
            order = self.order(score)
            self.note_margin(score, order, policy.heavy)
            if self.decisions is not None:
                self.decisions.append(("cut", layer, head, cache.position[head, :candidates].clone(), score.clone()))
            if self.imposed:
                kept = torch.tensor(self.imposed["kept"][layer][head])  # before the first cut, positions are slots
            else:
                tail = torch.arange(candidates, live)
                kept = torch.cat((order[: policy.heavy].sort().values, tail))
            chosen.append(kept)
        cache.keep(torch.stack(chosen))

    def turn(self, ids):
        """The next turn of a session: `ids` attend to what the cache kept and to each other, their rows are scored as those of a
        prompt, then the cut. What was scored before is `len(ids)` rows older. Returns the logits of the last [vocab]."""
        model, policy, rows = self.model, self.policy, len(ids)
        positions = torch.arange(self.length, self.length + rows)
        x = model.tensors["model.embed_tokens.weight"][torch.tensor(ids)]
        self.length += rows
        for index, cache in enumerate(self.caches):

            def attend(q, k, v, index=index, cache=cache):
                cache.k, cache.v = torch.cat((cache.k, k), 1), torch.cat((cache.v, v), 1)
                cache.position = torch.cat((cache.position, positions.expand(model.kv_heads, -1)), 1)
                q, k = self.stand(q, cache)
                p = model.softmax(self.see(index, q @ k.transpose(1, 2) / math.sqrt(model.head_dim), cache))
                old = torch.cat((cache.score, torch.zeros(model.kv_heads, rows, dtype=model.dtype)), 1)
                cache.score = self.forget(flush_to_zero(policy.decay**rows * old + self.prompt_scores(p)))
                return p @ cache.v.repeat_interleave(model.group, 0)

            x = model.layer(index, x, attend)
        if policy.evicts and self.caches[0].k.shape[1] > policy.keep:
            for index, cache in enumerate(self.caches):
                self.cut(index, cache)
        self.kept_after_prefill = [cache.position.tolist() for cache in self.caches]
        self.victims = []
        return model.logits(x[-1:])[0]

    def step(self, token):
        """Appends `token`, attends, scores, evicts. Returns its logits [vocab]."""
        model, policy = self.model, self.policy
        positions = torch.tensor([self.length])
        x = model.tensors["model.embed_tokens.weight"][token][None]
        for index, cache in enumerate(self.caches):

            def attend(q, k, v, index=index, cache=cache):
                cache.k, cache.v = torch.cat((cache.k, k), 1), torch.cat((cache.v, v), 1)
                cache.position = torch.cat((cache.position, positions.expand(model.kv_heads, 1)), 1)
                cache.score = torch.cat((cache.score, torch.zeros(model.kv_heads, 1, dtype=model.dtype)), 1)
                q, k = self.stand(q, cache)
                p = model.softmax(self.see(index, q @ k.transpose(1, 2) / math.sqrt(model.head_dim), cache))
                if policy.evicts and policy.score_source == "attention":
                    cache.score = self.forget(flush_to_zero(policy.decay * cache.score + self.reduce(p)[:, 0]))
                return p @ cache.v.repeat_interleave(model.group, 0)

            x = model.layer(index, x, attend)
        self.length += 1
        evict = policy.evicts and self.caches[0].k.shape[1] > policy.keep
        self.victims.append([self.evict(index, cache) for index, cache in enumerate(self.caches)] if evict else None)
        return model.logits(x)[0]

    def stand(self, q, cache):
        """q [query_heads, n, head_dim] of the newest tokens and the cache's keys [query_heads, live, head_dim], rotated to where
        they stand."""
        model, live, rows = self.model, cache.k.shape[1], q.shape[1]
        if self.policy.rolling:
            k = model.rotate(cache.k, torch.arange(live))
            q = model.rotate(q, torch.arange(live - rows, live))
        else:
            k = torch.cat([model.rotate(key[None], at) for key, at in zip(cache.k, cache.position)])
            q = model.rotate(q, cache.position[0, live - rows :])
        return q, k.repeat_interleave(model.group, 0)

    def evict(self, layer, cache):
        policy, live = self.policy, cache.k.shape[1]
        victims, kept = [], []
        for head in range(self.model.kv_heads):
            score = cache.score[head, : live - policy.recent]
            order = self.order(score)
            self.note_margin(score, order, len(order) - 1)
            if self.decisions is not None:
                self.decisions.append(
                    ("victim", layer, head, cache.position[head, : live - policy.recent].clone(), score.clone())
                )
            victim = order[-1].item()
            if self.imposed:
                position = self.imposed["victims"][len(self.victims)][layer][head]
                victim = (cache.position[head] == position).nonzero()[0, 0].item()
            position = cache.position[head, victim].item()
            victims.append(position)
            self.all_victims += 1
            self.other_victims += position != self.length - 1 - policy.recent
            kept.append(torch.tensor([slot for slot in range(live) if slot != victim]))
        cache.keep(torch.stack(kept))
        return victims


def greedy(session, prompt_ids, count):
    """`count` greedy tokens (lowest id on a tie), no end of text. Returns (tokens, logits of every sampled row)."""
    tokens, rows = [], []
    logits = session.prefill(prompt_ids)[-1]
    for _ in range(count):
        rows.append(logits)
        tokens.append(int((logits == logits.max()).nonzero()[0, 0]))
        if len(tokens) < count:
            logits = session.step(tokens[-1])
    return tokens, torch.stack(rows)
