"""Chats whose first message holds four facts, which are asked for turns later, and what the server says to them. Python's
standard library only."""

import dataclasses
import itertools
import json
import random
import urllib.request

import perplexity
from kv_sentences import FACTS, FORMS, judged
from perplexity import complete, encode
from server_process import ROOT

ASKED = (2, 5, 10)
TASK = "Remember the facts in this text.\n\n"
TAKEN = "I have read the text."
# Of other talk: what is said at most, and how much of the answer.
SAID_TOKENS, ANSWER_TOKENS = 48, 8


@dataclasses.dataclass(frozen=True)
class Template:
    """The model's chat template around its first message, before an answer, and between an answer and the next message."""

    head: str
    before_answer: str
    after_answer: str


def template(server):
    marks = ("AAA", "BBB", "CCC")
    messages = [{"role": role, "content": mark} for role, mark in zip(("user", "assistant", "user"), marks)]
    ids = server.post("/tokenize", {"messages": messages, "add_generation_prompt": True})["tokens"]
    text = server.post("/detokenize", {"tokens": ids})["prompt"]
    head, rest = text.split(marks[0])
    before, rest = rest.split(marks[1])
    return Template(head, before, rest.split(marks[2])[0])


@dataclasses.dataclass(frozen=True)
class Turn:
    said: list  # token ids, with the template around them
    answer: list  # token ids
    fact: int = -1  # the one that is asked for


def plain(text):
    """What a text says of special tokens would be one."""
    return text.replace("<|", "< |")


def fillers(server, length, count):
    """`count` texts of `length` token ids: these pages, and what is said in chats, in turns."""
    pages = (plain(path.read_text()) for path in sorted(ROOT.glob("docs/**/*.md")))
    chats = (plain("\n".join(turn["value"] for turn in talk) + "\n") for talk in conversations(turns_min=12))
    found = zip(pieces(server, pages, length), pieces(server, chats, length))
    return list(itertools.islice(itertools.chain.from_iterable(found), count))


def pieces(server, texts, length):
    """perplexity.pieces, as far as they are asked for."""
    piece = []
    for text in texts:
        piece = piece + encode(server, text)
        if len(piece) >= length:
            yield piece[:length]
            piece = []


def conversations(turns_min):
    """Of ../shared/data/bench, one of each that begins alike."""
    seen = set()
    for conversation in json.loads((perplexity.DATA / "sharegpt_like.json").read_text()):
        turns = conversation["conversations"]
        if len(turns) >= turns_min and turns[0]["from"] == "human" and turns[0]["value"] not in seen:
            seen.add(turns[0]["value"])
            yield turns


def talk(server, generator):
    """Pairs of what is said and the beginning of its answer, as texts; without numbers, which are what is asked for."""
    found = []
    for turns in conversations(turns_min=2):
        for said, answer in zip(turns[0::2], turns[1::2]):
            pair = plain(said["value"]), plain(answer["value"])
            if 20 <= len(pair[0]) <= 160 and len(pair[1]) >= 80 and not any(c.isdigit() for c in pair[0] + pair[1][:80]):
                found.append(pair)
    generator.shuffle(found)
    return found


def facts(form, generator):
    """[(name, value)], one for each fact of a context."""
    return [(name, str(generator.randrange(1000, 10000))) for name in generator.sample(FORMS[form][0], FACTS)]


def planted(filler, sentences, room, places):
    """`room` ids of the filler with a sentence, a list of ids, at each of the places, which are ascending shares of it."""
    ids, begin = [], 0
    for sentence, place in zip(sentences, places):
        ids, begin = ids + filler[begin : int(place * room)] + sentence, int(place * room)
    return ids + filler[begin:room]


def chats(server, shape, form, length, number, filler, count):
    """`count` chats of one context: the same first message of `length` tokens, the same talk, and in the turns ASKED of each
    another fact."""
    generator = random.Random(f"late {form} {length} {number}")
    known = facts(form, generator)
    _, fact, question, answer = FORMS[form]
    places = [(quarter + generator.random()) / FACTS for quarter in range(FACTS)]
    head, tail = encode(server, shape.head + TASK), encode(server, "\n" + shape.before_answer)
    sentences = [encode(server, fact.format(k=name, v=value)) for name, value in known]
    room = length - len(head) - len(tail) - sum(map(len, sentences))
    first = Turn(head + planted(filler, sentences, room, places) + tail, encode(server, TAKEN))
    others = []
    for said, answered in talk(server, generator)[: ASKED[-1]]:
        said = encode(server, said)[:SAID_TOKENS]
        said = encode(server, shape.after_answer) + said + encode(server, shape.before_answer)
        others.append(Turn(said, encode(server, answered)[:ANSWER_TOKENS]))
    asking = []
    for index, (name, value) in enumerate(known):
        said = shape.after_answer + question.format(k=name) + shape.before_answer + answer.format(k=name)
        asking.append(Turn(encode(server, said), encode(server, f" {value}.")[:-1], index))
    return [scheduled(first, others, asking, which) for which in range(count)]


def scheduled(first, others, asking, which):
    """The turns of chat `which`: the one at place i of ASKED asks for fact which + i."""
    turns = [first]
    for turn in range(2, ASKED[-1] + 1):
        if turn in ASKED:
            turns.append(asking[(which + ASKED.index(turn)) % len(asking)])
        else:
            turns.append(others[turn])
    return turns


def delete_session(server, name):
    with urllib.request.urlopen(urllib.request.Request(f"{server.base}/v1/sessions/{name}", method="DELETE"), timeout=600):
        pass


def play(server, turns, kv, name):
    """Has the chat in a session of its own, every answer forced: [[turn, fact, exact, log p, tokens of the chat so far]] of
    those that ask. What is forced is what would have been said exactly where every token of it is the likeliest."""
    found, tokens = [], 0
    for number, turn in enumerate(turns, 1):
        session = {"session_id": name, "kv": kv, "forced_token_ids": turn.answer}
        if number > 1:
            session["session_append"] = True
        choice = complete(server, turn.said, len(turn.answer), **session)
        tokens += len(turn.said) + len(turn.answer)
        if turn.fact >= 0:
            found.append([number, turn.fact, *judged(choice["logprobs"]), tokens])
    delete_session(server, name)
    return found
