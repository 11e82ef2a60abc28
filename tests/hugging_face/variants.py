"""The tokenizers compared: those of ../shared/data/tokenizers as they are, and others made of them so that every part that
Hydrant supports meets every kind of text. Each is a name, a tokenizer.json, and a function that writes what Hydrant reads."""

import json
import pathlib

DATA = pathlib.Path(__file__).resolve().parents[3] / "shared" / "data" / "tokenizers"

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)"
          r"|\s+")


def _load(name):
    return json.loads((DATA / name / "tokenizer.json").read_text())


def _metaspace(scheme, split):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}


def _sequence(key, *parts):
    return {"type": "Sequence", key: list(parts)}


def _write_json(tokenizer, folder):
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


def _gpt2():
    merges = [line for line in (DATA / "gpt2" / "merges.txt").read_text().split("\n") if line and not line.startswith("#version")]
    return {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
        "added_tokens": [{"id": 50256, "content": "<|endoftext|>", "special": True, "normalized": False, "single_word": False,
                          "lstrip": False, "rstrip": False}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": json.loads((DATA / "gpt2" / "vocab.json").read_text()), "merges": merges},
    }


def _write_vocab_and_merges(tokenizer, folder):
    for name in ("vocab.json", "merges.txt"):
        (folder / name).write_bytes((DATA / "gpt2" / name).read_bytes())


def _opt():
    """GPT-2's vocabulary as OPT's checkpoints keep it: two files, and a BOS that tokenizer_config.json asks for."""
    tokenizer = _gpt2()
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "</s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"</s>": {"id": "</s>", "ids": [50257], "tokens": ["</s>"]}},
    }
    tokenizer["added_tokens"].append({"id": 50257, "content": "</s>", "special": True, "normalized": True,
                                      "single_word": False, "lstrip": False, "rstrip": False})
    return tokenizer


def _write_opt(tokenizer, folder):
    _write_vocab_and_merges(tokenizer, folder)
    token = {"__type": "AddedToken", "content": "</s>", "lstrip": False, "normalized": True, "rstrip": False,
             "single_word": False}
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": token, "eos_token": token, "add_bos_token": True}))
    (folder / "added_tokens.json").write_text(json.dumps({"</s>": 50257}))


def _varint(number):
    out = b""
    number &= (1 << 64) - 1
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def _bytes_field(field, value):
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _write_sentencepiece(tokenizer, folder):
    """The vocabulary as a tokenizer.model. The merges are ordered by score, so what they make has falling scores."""
    import struct
    vocab = tokenizer["model"]["vocab"]
    score = {}
    for merge in tokenizer["model"]["merges"]:
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        score.setdefault(left + right, -float(len(score)))
    out = b""
    for piece, number in sorted(vocab.items(), key=lambda item: item[1]):
        is_byte = len(piece) == 6 and piece.startswith("<0x")
        kind = 2 if number == 0 else 3 if number in (1, 2) else 6 if is_byte else 1
        out += _bytes_field(1, _bytes_field(1, piece.encode()) + b"\x15" + struct.pack("<f", score.get(piece, -1e9)) +
                            b"\x18" + _varint(kind))
    out += _bytes_field(2, b"\x18\x02" + _varint(41 << 3) + _varint(1) + _varint(42 << 3) + _varint(2))
    out += _bytes_field(3, _bytes_field(1, b"identity") + b"\x18\x01\x20\x00")
    (folder / "tokenizer.model").write_bytes(out)


def _sentencepiece():
    tokenizer = _load("openllama")
    # The converter of this file took the best merge, whose score is 0, for none; a tokenizer.model makes its piece.
    merges = tokenizer["model"]["merges"]
    merges.insert(0, "\u2581 t" if isinstance(merges[0], str) else ["\u2581", "t"])
    for token in tokenizer["added_tokens"]:
        token["normalized"] = False
    tokenizer["added_tokens"] = [token for token in tokenizer["added_tokens"] if token["id"] <= 2]
    return tokenizer


def _sentencepiece_new():
    tokenizer = _sentencepiece()
    tokenizer["normalizer"] = None
    tokenizer["pre_tokenizer"] = _metaspace("first", False)
    return tokenizer


def _write_sentencepiece_new(tokenizer, folder):
    _write_sentencepiece(tokenizer, folder)
    (folder / "tokenizer_config.json").write_text(json.dumps({"legacy": False, "bos_token": "<s>"}))


def _with(name, **parts):
    tokenizer = _load(name)
    for key, value in parts.items():
        if key.startswith("model_"):
            tokenizer["model"][key[6:]] = value
        else:
            tokenizer[key] = value
    return tokenizer


_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
_PREFIXED = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
_FLAGS = [{"content": content, "special": special, "normalized": normalized, "single_word": single,
           "lstrip": lstrip, "rstrip": rstrip}
          for content, special, normalized, single, lstrip, rstrip in [
              ("<mask>", True, False, False, True, False), ("the", False, True, True, False, False),
              ("<r>", False, False, False, False, True), ("[both]", True, True, False, True, True)]]


def variants():
    """(name, tokenizer.json, writer, texts to compare out of 10,000)"""
    every, some = 10_000, 2_000
    neox = _load("gpt-neox")["added_tokens"]
    # New tokens get the ids behind all others, one after another; those of the vocabulary keep theirs.
    vocab = _load("gpt-neox")["model"]["vocab"]
    new = [token for token in _FLAGS if token["content"] not in vocab]
    flags = [dict(token, id=50277 + new.index(token) if token in new else vocab[token["content"]]) for token in _FLAGS]
    # Runs of spaces that normalisation takes away: Hugging Face would look for the empty string.
    specials = neox[:2]
    return [
        ("gpt2", _gpt2(), _write_vocab_and_merges, every),
        ("gpt-neox", _load("gpt-neox"), _write_json, every),
        ("openllama", _load("openllama"), _write_json, every),
        ("qwen2.5", _load("qwen2.5"), _write_json, every),
        ("opt", _opt(), _write_opt, some),
        ("sentencepiece", _sentencepiece(), _write_sentencepiece, every),
        ("sentencepiece-new", _sentencepiece_new(), _write_sentencepiece_new, some),
        ("metaspace-first", _with("openllama", normalizer=None, pre_tokenizer=_metaspace("first", False),
                                  decoder=_metaspace("first", False)), _write_json, some),
        ("metaspace-always", _with("openllama", normalizer=None, pre_tokenizer=_metaspace("always", True),
                                   decoder=_metaspace("always", True)), _write_json, some),
        ("metaspace-never", _with("openllama", normalizer=None, pre_tokenizer=_metaspace("never", True),
                                  decoder=_sequence("decoders", {"type": "ByteFallback"}, _metaspace("never", True),
                                                    {"type": "Fuse"})), _write_json, some),
        ("no-byte-fallback", _with("openllama", model_byte_fallback=False), _write_json, some),
        ("unknown-not-fused", _with("openllama", model_byte_fallback=False, model_fuse_unk=False), _write_json, some),
        ("llama3-split", _with("qwen2.5", model_ignore_merges=True, pre_tokenizer=_sequence(
            "pretokenizers", {"type": "Split", "pattern": {"Regex": LLAMA3}, "behavior": "Isolated", "invert": False},
            _BYTES)), _write_json, some),
        ("digits", _with("gpt-neox", pre_tokenizer=_sequence(
            "pretokenizers", {"type": "Digits", "individual_digits": True}, _PREFIXED)), _write_json, some),
        ("digit-runs", _with("gpt-neox", pre_tokenizer=_sequence(
            "pretokenizers", {"type": "Punctuation", "behavior": "MergedWithPrevious"},
            {"type": "Digits", "individual_digits": False}, _BYTES)), _write_json, some),
        ("whitespace", _with("gpt-neox", pre_tokenizer=_sequence(
            "pretokenizers", {"type": "Whitespace"}, _BYTES)), _write_json, some),
        ("whitespace-split", _with("gpt-neox", pre_tokenizer=_sequence(
            "pretokenizers", {"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Contiguous"}, _BYTES)),
         _write_json, some),
        ("delimiter", _with("gpt-neox", pre_tokenizer=_sequence(
            "pretokenizers", {"type": "CharDelimiterSplit", "delimiter": "a"},
            {"type": "Split", "pattern": {"String": "th"}, "behavior": "MergedWithNext", "invert": False}, _BYTES)),
         _write_json, some),
        ("nfkc-lower", _with("gpt-neox", added_tokens=specials, normalizer=_sequence(
            "normalizers", {"type": "NFKC"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": True,
                                                                    "strip_right": True})), _write_json, some),
        ("nfd-accents", _with("gpt-neox", added_tokens=specials, normalizer=_sequence(
            "normalizers", {"type": "NFD"}, {"type": "StripAccents"},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})), _write_json, some),
        ("nfkd", _with("gpt-neox", normalizer={"type": "NFKD"}), _write_json, some),
        ("flags", _with("gpt-neox", added_tokens=neox + flags), _write_json, some),
        ("roberta", _with("gpt-neox", post_processor={"type": "RobertaProcessing", "cls": ["<|endoftext|>", 0],
                                                      "sep": ["<|padding|>", 1], "trim_offsets": True,
                                                      "add_prefix_space": True}), _write_json, some),
    ]
