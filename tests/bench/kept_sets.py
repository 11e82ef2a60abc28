"""Which tokens two runs of the same forced texts kept, from the server's --debug-kv-dump. Python's standard library only."""

import json
import statistics


def records(path, prompts):
    """The dump's sequences that have one of these prompts, by it: (kept, recent). kept[layer][head] is the set of positions
    that the sequence held in the end; the newest `recent` of them are kept whatever their score."""
    found = {}
    with open(path) as lines:
        for record in map(json.loads, lines):
            if (prompt := tuple(record["prompt_ids"])) in prompts:
                found[prompt] = (final(record), record["policy"]["recent"])
    return found


def final(record):
    begin, victims = len(record["prompt_ids"]), record["victims"]
    kept = [[set(head) for head in layer] for layer in record["kept_after_prefill"]]
    for step, of_step in enumerate(victims):
        for layer, of_layer in enumerate(kept):
            for head, positions in enumerate(of_layer):
                positions.add(begin + step)
                if of_step is not None:
                    positions.discard(of_step[layer][head])
    return kept


def overlap(one, other):
    """(share of the kept tokens that both kept, the same among those that are older than the recent ones), mean over layer
    heads."""
    (kept, recent), (theirs, _) = one, other
    shares, older = [], []
    for of_layer, of_their_layer in zip(kept, theirs):
        for mine, yours in zip(of_layer, of_their_layer):
            shares.append(len(mine & yours) / len(mine))
            newest = set(sorted(mine)[-recent:])
            older.append(len((mine & yours) - newest) / max(1, len(mine - newest)))
    return statistics.mean(shares), statistics.mean(older)


def overlaps(mine, theirs):
    """The same, mean over the sequences; both dumps have the same ones."""
    assert mine.keys() == theirs.keys() and mine
    found = [overlap(mine[prompt], theirs[prompt]) for prompt in mine]
    return tuple(statistics.mean(values) for values in zip(*found))
