"""Random texts that are hard on tokenizers: every Unicode class, runs of white space, emoji sequences, digits, scripts that
run right to left, control characters, special tokens whole and in part."""

import sys
import unicodedata

_CLASSES = {}
for _point in range(sys.maxunicode + 1):
    _char = chr(_point)
    _category = unicodedata.category(_char)
    if _category not in ("Cs", "Cn", "Co"):
        _CLASSES.setdefault(_category, []).append(_char)

_WORDS = ("the of and to in is that it was for on are as with his they I at be this have from or one had by word but not what "
          "all were we when your can said there use an each which she do how their if will up other about out many then them "
          "these so some her would make like him into time has look two more write go see number no way could people my than "
          "first water been call who its now find long down day did get come made may part").split()
_SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\r", "\u00a0", "\u3000", "\u2028", "\u0085", "\v", "\u200b", "▁", " \n", "\n "]
_CONTRACTIONS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'LL", "’s", "'\u017f", "''", "'x"]
_EMOJI = ["😀", "👨\u200d👩\u200d👧", "🏳️\u200d🌈", "👍🏽", "🇩🇪", "☎️", "🤷🏻\u200d♂️", "🚀🚀"]
_SCRIPTS = {
    "cjk": (0x4E00, 0x9FFF), "kana": (0x3041, 0x30FF), "hangul": (0xAC00, 0xD7A3), "jamo": (0x1100, 0x11F9),
    "arabic": (0x0621, 0x064A), "hebrew": (0x05D0, 0x05EA), "cyrillic": (0x0400, 0x045F), "greek": (0x0391, 0x03C9),
    "devanagari": (0x0904, 0x094D), "thai": (0x0E01, 0x0E3A), "tibetan": (0x0F40, 0x0F6C), "latin": (0x00C0, 0x024F),
    "marks": (0x0300, 0x036F), "compatibility": (0xFB00, 0xFB06), "fullwidth": (0xFF01, 0xFF5E),
}


def _piece(random, special):
    kind = random.randrange(13)
    if kind <= 2:
        return random.choice(["", " "]) + random.choice(_WORDS)
    if kind == 3:
        return random.choice(_SPACES) * random.choice([1, 1, 1, 2, 3, 17])
    if kind == 4:
        return "".join(random.choice("0123456789") for _ in range(random.randrange(1, 12)))
    if kind == 5:
        return random.choice(_WORDS) + random.choice(_CONTRACTIONS)
    if kind == 6:
        return random.choice(_EMOJI)
    if kind == 7:
        low, high = random.choice(list(_SCRIPTS.values()))
        chars = (chr(random.randint(low, high)) for _ in range(random.randrange(1, 8)))
        return "".join(c for c in chars if unicodedata.category(c) not in ("Cn", "Co"))
    if kind == 8:
        return random.choice(random.choice(list(_CLASSES.values())))
    if kind == 9:
        return "".join(random.choice("!?.,;:-_()[]{}<>|/\\@#$%^&*+=~`\"'") for _ in range(random.randrange(1, 6)))
    if kind == 10:
        return random.choice(["a", "e", "o", ">", "가", "q"]) + "".join(
            chr(random.randint(0x300, 0x345)) for _ in range(random.randrange(1, 4)))
    if kind == 11 and special:
        token = random.choice(special)
        return token if random.random() < 0.7 else token[:random.randrange(len(token) + 1)]
    return "".join(chr(random.randrange(128)) for _ in range(random.randrange(1, 6)))


def text(random, special):
    """One text; `special` are the texts of the added tokens."""
    if random.random() < 0.01:
        return random.choice(["", " ", "\n", "a", "▁"]) * random.randrange(400)
    return "".join(_piece(random, special) for _ in range(random.randrange(1, 14)))
