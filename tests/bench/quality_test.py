"""The arithmetic of the benches of quality: kept sets, memory and divergences, on cases that are worked out by hand."""

import json
import math
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

import kept_sets
import kv_recall
import late_chats
import ruler
import stored_weights
import type_quality

# Three prompt tokens of five kept; token 5 comes in place of 1 (one head) and 3 (the other), then token 6 in place of none.
RECORD = {
    "prompt_ids": [7, 8, 9, 10, 11], "policy": {"recent": 1}, "kept_after_prefill": [[[1, 3, 4], [0, 3, 4]]],
    "victims": [[[1, 3]], None],
}  # fmt: skip


class KeptSets(unittest.TestCase):
    def test_a_dump_says_what_was_kept_in_the_end(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as dump:
            dump.write(json.dumps(RECORD) + "\n" + json.dumps({**RECORD, "prompt_ids": [1]}) + "\n")
            dump.flush()
            found = kept_sets.records(dump.name, {(7, 8, 9, 10, 11)})
        self.assertEqual(found, {(7, 8, 9, 10, 11): ([[{3, 4, 5, 6}, {0, 4, 5, 6}]], 1)})

    def test_an_overlap_counts_all_tokens_and_the_older_ones(self):
        one, other = ([[{3, 4, 5, 6}, {0, 4, 5, 6}]], 2), ([[{3, 4, 5, 6}, {1, 4, 5, 6}]], 2)
        self.assertEqual(kept_sets.overlaps({(1,): one}, {(1,): other}), (0.875, 0.75))


class Types(unittest.TestCase):
    def test_the_budget_of_the_same_bytes_is_the_largest_one(self):
        block_bytes = {"bfloat16": 403200, "int8": 230400}
        for budget, expected in ((64, 127), (128, 239), (256, 463)):
            found = type_quality.same_bytes(budget, block_bytes)
            self.assertEqual(found, expected)
            available = type_quality.blocks(budget) * block_bytes["bfloat16"]
            self.assertLessEqual(type_quality.blocks(found) * block_bytes["int8"], available)
            self.assertGreater(type_quality.blocks(found + 1) * block_bytes["int8"], available)

    def test_a_divergence_takes_what_both_list_and_the_rest_as_one(self):
        p = {"a": math.log(0.5), "b": math.log(0.25), "c": math.log(0.125)}
        q = {"a": math.log(0.25), "b": math.log(0.25), "d": math.log(0.25)}
        self.assertAlmostEqual(type_quality.divergence(p, q), 0.5 * math.log(2) + 0.25 * math.log(0.5))
        self.assertAlmostEqual(type_quality.divergence(p, p), 0)


class LateQuestions(unittest.TestCase):
    def test_sentences_stand_where_they_were_planted(self):
        found = late_chats.planted(list(range(100)), [[-1, -2], [-3]], 10, [0.25, 0.7])
        self.assertEqual(found, [0, 1, -1, -2, 2, 3, 4, 5, 6, -3, 7, 8, 9])

    def test_every_fact_is_asked_for_in_every_turn_that_asks(self):
        others, asking = [f"talk {i}" for i in range(11)], [f"fact {i}" for i in range(4)]
        chats = [late_chats.scheduled("first", others, asking, which) for which in range(4)]
        for turns in chats:
            self.assertEqual(len(turns), late_chats.ASKED[-1])
            self.assertEqual([i for i, turn in enumerate(turns, 1) if turn.startswith("fact")], list(late_chats.ASKED))
            self.assertEqual(turns[0], "first")
            self.assertEqual(len(set(turns)), len(turns))
        for turn in late_chats.ASKED:
            self.assertEqual({turns[turn - 1] for turns in chats}, set(asking))

    def test_shares_are_of_what_full_answers_and_intervals_cover_contexts(self):
        # [turn, fact, exact, log p]: `full` answers all, recall all of one context, and of the other what turn 2 asks.
        full = [[2, 0, 1, -1.0], [10, 1, 1, -1.0]]
        contexts = [{"full/0": full, "auto/8": full}, {"full/0": full, "auto/8": [[2, 0, 1, -1.0], [10, 1, 0, -9.0]]}]
        self.assertEqual(kv_recall.interval(contexts, kv_recall.of_full("auto/8")), (0.75, 0.5, 1.0))
        self.assertEqual(kv_recall.interval(contexts, kv_recall.lost("auto/8")), (50.0, 0.0, 100.0))
        nothing = [{"full/0": [[2, 0, 0, -3.0]], "auto/8": [[2, 0, 1, -1.0]]}]
        self.assertIsNone(kv_recall.interval(nothing, kv_recall.of_full("auto/8"))[0], "no ratio to no answer")


class Echo:
    """A server to which every text is its own token ids."""

    def post(self, path, body):
        return {"tokens": body["prompt"]}


class Ruler(unittest.TestCase):
    def test_a_later_question_stands_in_a_turn_of_its_own(self):
        shape = late_chats.Template("<head>", "<answer>", "<next>")
        sample = {"input": "Some text.\nMore <|of|> it.\nWhat is it?", "gen_prefix": "It is"}
        asked = "<head>Some text.\nMore < |of|> it.\nWhat is it?<answer>It is"
        self.assertEqual(ruler.prompts(Echo(), shape, "asked", sample), [asked])
        later = ["<head>Some text.\nMore < |of|> it.<answer>", "<next>What is it?<answer>It is"]
        self.assertEqual(ruler.prompts(Echo(), shape, "later", sample), later)

    def test_a_task_makes_as_many_samples_as_are_asked_for_and_its_example_alone(self):
        made = ruler.fewer(lambda name, num_samples=500: (name, num_samples), 8)
        self.assertEqual([made("default"), made("all", num_samples=500), made("one", num_samples=1)], [("default", 8), ("all", 8), ("one", 1)])

    def test_shares_are_of_samples_that_both_were_asked(self):
        chunks = [{"full/0": [1.0, 0.5], "auto/8": [0.5, 0.25]}, {"full/0": [0.0, 0.0]}]
        pairs = ruler.paired(chunks, "auto/8")
        self.assertEqual(pairs, [(0.25, 0.5), (0.125, 0.25)])
        self.assertEqual(ruler.ratio(pairs), 0.5)
        other = ruler.paired([{"full/0": [0.75], "auto/8": [0.0]}], "auto/8")
        self.assertEqual(ruler.ratio(pairs + other), 0.25, "one sample of a task weighs as much as two of another")
        self.assertIsNone(ruler.ratio([(1.0, 0.0)]), "no share of nothing")
        self.assertIsNone(ruler.ratio([]), "nor of nobody")

    def test_a_chunk_of_fewer_samples_is_made_anew(self):
        cells = {"m/asked/vt/1024/0": {"full/0": [1.0] * 4}, "m/asked/vt/1024/8": {"full/0": [1.0] * 8}}
        run = ruler.Run(cells, None, "m", 0)
        for name in ("asked/vt/1024/0", "asked/vt/1024/8", "asked/vt/1024/16"):
            ruler.left_off(run, name, 8)
        self.assertEqual(list(cells), ["m/asked/vt/1024/8"])


class StoredWeights(unittest.TestCase):
    def test_the_lines_of_the_bench_are_read(self):
        said = (
            "16352 positions in contexts of 512: mean KL 6.5e-08, median 3e-08, 99.9 % 1.2e-06, max 3e-05; same top token 99.96 %\n"
            "perplexity 31.5 expanded, 31.5 in the other form: +0.001 %\n"
        )
        found = stored_weights.DISTRIBUTIONS.search(said).groupdict()
        expected = {"positions": "16352", "kl": "6.5e-08", "tail": "1.2e-06", "same": "99.96", "perplexity": "+0.001"}
        self.assertEqual(found, expected)


if __name__ == "__main__":
    unittest.main()
