#include "loadgen/load/words.h"

#include <algorithm>
#include <array>

namespace hydrant {
namespace {

constexpr std::array<std::string_view, 160> kWords = {
    "time",    "people",  "way",     "water",  "day",   "man",    "work",     "part",    "place",  "year",     "live",
    "back",    "house",   "world",   "school", "state", "point",  "home",     "hand",    "number", "light",    "story",
    "young",   "city",    "under",   "right",  "high",  "left",   "night",    "move",    "play",   "small",    "end",
    "put",     "read",    "large",   "add",    "land",  "here",   "must",     "big",     "such",   "follow",   "act",
    "why",     "ask",     "men",     "change", "went",  "kind",   "off",      "need",    "try",    "us",       "again",
    "animal",  "near",    "build",   "self",   "earth", "father", "head",     "stand",   "own",    "page",     "should",
    "country", "found",   "answer",  "grow",   "study", "still",  "learn",    "plant",   "cover",  "food",     "sun",
    "four",    "between", "keep",    "eye",    "never", "last",   "let",      "thought", "cross",  "farm",     "hard",
    "start",   "might",   "saw",     "far",    "sea",   "draw",   "late",     "run",     "while",  "press",    "close",
    "real",    "life",    "few",     "north",  "open",  "seem",   "together", "next",    "white",  "children", "begin",
    "got",     "walk",    "example", "ease",   "paper", "group",  "always",   "music",   "those",  "both",     "mark",
    "often",   "letter",  "until",   "mile",   "river", "car",    "feet",     "care",    "second", "book",     "carry",
    "took",    "science", "room",    "friend", "idea",  "fish",   "mountain", "stop",    "once",   "base",     "hear",
    "horse",   "cut",     "sure",    "watch",  "color", "face",   "wood",     "main",    "enough", "plain",    "girl",
    "usual",   "ready",   "above",   "ever",   "red",   "list"};

}  // namespace

void AppendWords(Random* random, int32_t count, std::string* out) {
  for (int32_t i = 0; i < count; ++i) {
    out->push_back(' ');
    out->append(kWords[static_cast<size_t>(random->Integer(0, std::ssize(kWords) - 1))]);
  }
}

int32_t GuessTokens(std::string_view text) { return std::max<int32_t>(1, static_cast<int32_t>(text.size() / 4)); }

}  // namespace hydrant
