"""Recall of planted facts under eviction, measured through the real server: four codes of four digits stand in a prompt of
1,024 tokens that ends with a question about one of them. Python's standard library only."""

import dataclasses
import random
import re

import perplexity
from perplexity import complete, encode

PROMPT = 1024
CODES = 4
# Space, four digits and what may come between.
ANSWER_TOKENS = 8

THINGS = ["Paris", "Boston", "Cairo", "Madrid", "Tokyo", "Vienna", "Lima", "Oslo"]


@dataclasses.dataclass(frozen=True)
class Format:
    fact: str
    head: str
    tail: str  # the question and the beginning of its answer


FORMATS = [
    Format(
        fact="\nThe passcode for {thing} is {code}.\n",
        head="",
        tail="\n\nQuestion: What is the passcode for {thing}?\nAnswer: The passcode for {thing} is",
    ),
    Format(
        fact="\nThe secret number for {thing} is {code}.\n",
        head="<|im_start|>user\nRemember the secret numbers in this text.\n\n",
        tail="\n\nWhat is the secret number for {thing}?<|im_end|>\n<|im_start|>assistant\nThe secret number for {thing} is",
    ),
]


def texts_and_questions(server, paths, documents, count):
    """(documents for perplexity, `count` questions planted in documents of the same texts)."""
    texts = perplexity.documents(server, paths, perplexity.PROMPT + perplexity.SCORED, documents)
    asked = questions(server, texts, count)
    return [ids for ids in texts if perplexity.quoted_share(ids) <= perplexity.QUOTED_MAX], asked


def questions(server, fillers, count):
    """`count` pairs (prompt ids, code), four from each haystack. A haystack is a filler, a list of token ids, with four
    sentences planted at random places of its four quarters; the formats take turns, the fillers come from all over."""
    found, haystacks = [], -(-count // CODES)
    for number in range(haystacks):
        generator = random.Random(number)
        style = FORMATS[number % len(FORMATS)]
        things = generator.sample(THINGS, CODES)
        codes = [str(generator.randrange(1000, 10000)) for _ in things]
        places = [(quarter + generator.random()) / CODES for quarter in range(CODES)]
        filler = fillers[number * len(fillers) // haystacks]
        planted = [(place, style.fact.format(thing=t, code=c)) for place, t, c in zip(places, things, codes)]
        for thing, code in zip(things, codes):
            tail = style.tail.format(thing=thing)
            found.append((prompt(server, style.head, filler, planted, tail), code))
    return found[:count]


def prompt(server, head, filler, planted, tail):
    """PROMPT ids: head, filler with the planted sentences, tail."""
    sentences = [(place, encode(server, sentence)) for place, sentence in planted]
    head, tail = encode(server, head) if head else [], encode(server, tail)
    room = PROMPT - len(head) - len(tail) - sum(len(ids) for _, ids in sentences)
    assert len(filler) >= room
    ids, begin = list(head), 0
    for place, sentence in sentences:
        end = int(place * room)
        ids += filler[begin:end] + sentence
        begin = end
    return ids + filler[begin:room] + tail


def recalled(server, question, kv):
    """True when the first number of the answer is the code."""
    ids, code = question
    text = complete(server, ids, ANSWER_TOKENS, kv=kv)["text"]
    numbers = re.findall(r"\d+", text)
    return bool(numbers) and numbers[0] == code
