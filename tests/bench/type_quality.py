"""`kv_quality.py --types`: what int8 keys and values cost at the same budget, and what their bytes buy: at the same bytes a
session keeps more tokens. Writes a table of docs/quality.md. Python's standard library only.

Everything is compared with `full` over an fp32 cache, on the texts, and the questions, of kv_quality.py. A divergence is that
of two distributions over the tokens that both list among their best 20, all others as one: never more than over the whole
vocabulary, and next to it where 20 tokens have most of the probability."""

import concurrent.futures
import dataclasses
import itertools
import math
import pathlib
import re
import statistics
import tempfile

import kept_sets
import perplexity
import recall
from server_process import ServerProcess

POLICIES = ["h2o", "h2o-plus"]
BUDGETS = [64, 128, 256, 512]
REFERENCE, WIDE, NARROW = "float32", "bfloat16", "int8"
BLOCK_SLOTS = 16
LISTED = 20
# Fewer than kv_quality.py has: the answers with twenty candidates a token are long.
IN_FLIGHT = 8
# What is left beside 20 tokens is a difference of nearly equal numbers.
REST_MIN = 1e-7
BEGIN, END = "<!-- types: begin -->", "<!-- types: end -->"


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table."""

    type: str
    policy: str
    budget: int | None = None

    @property
    def kv(self):
        return {"policy": self.policy} | ({"budget": self.budget} if self.budget else {})


def blocks(budget):
    """Those of a session after its prompt: its budget and the token that is written next."""
    return -(-(budget + 1) // BLOCK_SLOTS)


def same_bytes(budget, block_bytes):
    """The largest budget in NARROW whose blocks take no more memory than those of `budget` in WIDE."""
    return blocks(budget) * block_bytes[WIDE] // block_bytes[NARROW] * BLOCK_SLOTS - 1


def rows(policies, budgets, block_bytes, kind):
    """What a server with this type measures. `block_bytes` of WIDE and NARROW are needed for NARROW."""
    yield Row(kind, "full")
    for policy in policies:
        for budget in budgets:
            yield Row(kind, policy, budget)
            if kind == NARROW:
                yield Row(kind, policy, same_bytes(budget, block_bytes))


def distributions(server, ids, kv):
    """[{token: log p of the best LISTED}] and log p of each token after the first PROMPT, each forced."""
    scored = ids[perplexity.PROMPT :]
    choice = perplexity.complete(
        server, ids[: perplexity.PROMPT], len(scored), kv=kv, forced_token_ids=scored, logprobs=LISTED, return_tokens_as_token_ids=True
    )
    assert choice["token_ids"] == scored
    return choice["logprobs"]["top_logprobs"], choice["logprobs"]["token_logprobs"]


def divergence(p, q):
    """KL(p || q) in nats, see above."""
    shared = p.keys() & q.keys()
    rest_p, rest_q = (max(REST_MIN, 1 - sum(math.exp(x[token]) for token in shared)) for x in (p, q))
    return sum(math.exp(p[token]) * (p[token] - q[token]) for token in shared) + rest_p * math.log(rest_p / rest_q)


def best(listed):
    return max(listed, key=listed.get)


def compare(reference, measured):
    """{"kl", "same", "loss"} of one document: means over its tokens."""
    pairs = list(zip(reference[0], measured[0], strict=True))
    return {
        "kl": statistics.mean(divergence(p, q) for p, q in pairs),
        "same": statistics.mean(best(p) == best(q) for p, q in pairs),
        "loss": -statistics.mean(measured[1]),
    }


def measure_row(server, pool, row, texts, asked, reference):
    """{"kl", "same", "loss": [of each document], "recalled": [of each question]}; the first row fills `reference`."""
    measured = list(pool.map(lambda ids: distributions(server, ids, row.kv), texts))
    if not reference:
        reference.extend(measured)
    compared = [compare(theirs, mine) for theirs, mine in zip(reference, measured, strict=True)]
    cell = {name: [of[name] for of in compared] for name in compared[0]}
    return cell | {"recalled": list(pool.map(lambda question: recall.recalled(server, question, row.kv), asked))}


def block_bytes_of(server):
    """Of a block in the pool, as the server says at start."""
    return next(int(found[1]) for found in (re.search(r"KV block (\d+) bytes", line) for line in server.log) if found)


def measure(arguments):
    """{"bytes": {type: of a block}, "rows": [row and what it came to]}; a row with a budget that REFERENCE has, too, says how much
    of what was kept there it kept."""
    block_bytes, reference, kept, found = {}, [], {}, []
    texts = asked = None
    for kind in (REFERENCE, WIDE, NARROW):
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(IN_FLIGHT) as pool:
            dump = pathlib.Path(folder) / "dump.jsonl"
            flags = ["--kv-cache-dtype", kind, "--debug-kv-dump", dump, "--log-level", "debug", *arguments.server_flag]
            with ServerProcess(arguments.binary, arguments.model, flags) as server:
                block_bytes[kind] = block_bytes_of(server)
                if texts is None:
                    texts, asked = recall.texts_and_questions(server, arguments.text, arguments.documents, arguments.questions)
                    prompts = {tuple(ids[: perplexity.PROMPT]) for ids in texts}
                for row in rows(arguments.policies or POLICIES, arguments.budgets or BUDGETS, block_bytes, kind):
                    dump.write_text("")  # the server appends
                    cell = measure_row(server, pool, row, texts, asked, reference)
                    if row.budget and kind == REFERENCE:
                        kept[row.policy, row.budget] = kept_sets.records(dump, prompts)
                    elif (row.policy, row.budget) in kept:
                        cell["kept"] = kept_sets.overlaps(kept[row.policy, row.budget], kept_sets.records(dump, prompts))
                    found.append(dataclasses.asdict(row) | cell)
                    print(row, {name: round(statistics.mean(values), 5) for name, values in cell.items()}, flush=True)
    return {"bytes": block_bytes, "rows": found}


def line(row, cell, base, result):
    """`base`: the losses that the perplexity is relative to."""
    mean, half = perplexity.relative(cell["loss"], base)
    if cell["loss"] == base:
        ratio = "1"
    else:
        ratio = f"{math.exp(mean):.3f} ({math.exp(mean - half):.3f}–{math.exp(mean + half):.3f})"
    memory = f"{blocks(row.budget) * result['bytes'][row.type] / 1e6:.2f}" if row.budget else "–"
    kept = "{:.1f}, {:.1f} %".format(*(100 * share for share in cell["kept"])) if "kept" in cell else "–"
    kl, same, recalled = (statistics.mean(cell[name]) for name in ("kl", "same", "recalled"))
    kind = {REFERENCE: "fp32", WIDE: "bf16"}.get(row.type, row.type)
    return (
        f"| `{row.policy}` | {kind} | {row.budget or 'all'} | {memory} | {kl:.2g} | {100 * same:.1f} % | {ratio} | {recalled:.2f} "
        f"| {kept} |"
    )


def table(result, policies, budgets):
    cells = {Row(of["type"], of["policy"], of["budget"]): of for of in result["rows"]}
    documents, questions = (len(result["rows"][0][name]) for name in ("loss", "recalled"))
    lines = [
        f"{documents} documents and {questions} questions, compared with `full` over an fp32 cache; the perplexity of a budget with",
        "that of its first line, 95 % interval:", "",
        "| policy | keys and values | tokens kept | MB of a session | KL | same top token | perplexity | recall | kept: all, older |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    full = [Row(kind, "full") for kind in (REFERENCE, WIDE, NARROW)]
    lines += [line(row, cells[row], cells[full[0]]["loss"], result) for row in full]
    for policy, budget in itertools.product(policies, budgets):
        base = Row(WIDE, policy, budget)
        for row in (base, Row(NARROW, policy, budget), Row(NARROW, policy, same_bytes(budget, result["bytes"]))):
            lines.append(line(row, cells[row], cells[base]["loss"], result))
    return "\n".join(lines)


def run(arguments, cells):
    """The table; `cells` (a kv_quality.Cells) keeps what it was made of, so that it can be written again."""
    result = cells.get("types")
    if result is None:
        result = measure(arguments)
        cells.put(result, "types")
    return table(result, arguments.policies or POLICIES, arguments.budgets or BUDGETS)
