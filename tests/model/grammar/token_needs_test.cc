// Masks of answers that have to end in time, held to Advance and BytesToEnd token by token, and answers drawn from them.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "model/grammar/token_masks.h"
#include "tests/model/grammar/grammar_checks.h"

namespace hydrant::grammar {
namespace {

std::vector<std::string> NeedTokens() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* piece : {"\"a\"",
                            "\",\"",
                            "\":",
                            "\": \"",
                            "{\"",
                            "\"}",
                            "},{",
                            "[]",
                            "{}",
                            "null",
                            "12",
                            "1,",
                            "abc",
                            "kk",
                            "k\":1",
                            "k\":1,\"k",
                            "\\n",
                            "\xc3\xa9",
                            "\xf0\x9f",
                            "  ",
                            "[[",
                            "[[[[",
                            "\",\"long\":\"",
                            "some plain text"}) {
    tokens.emplace_back(piece);
  }
  return tokens;
}

const std::vector<const char*> kNeedSchemas = {
    "{}",
    R"({"type":"object","properties":{"k":{"type":"integer"},"long":{"type":"string","minLength":30}},"required":["k"],"additionalProperties":false})",
    R"({"type":"array","items":{"anyOf":[{"const":"ab"},{"type":"string","minLength":20}]},"minItems":1})",
    R"({"type":"object","additionalProperties":{"type":"array","minItems":3},"minProperties":1})",
    R"({"type":"string","pattern":"^(a|b[a-z ]{25})*$"})",
    R"({"$defs":{"t":{"type":"object","properties":{"abc":{"anyOf":[{"$ref":"#/$defs/t"},{"type":"null"}]}},"required":["abc"],"additionalProperties":false}},"$ref":"#/$defs/t"})",
};

TEST(TokenNeeds, AreWhatBytesToEndSays) {
  const std::vector<std::string> tokens = NeedTokens();
  const auto trie = std::make_shared<const TokenTrie>(tokens);
  std::mt19937 random(3);
  for (const char* schema : kNeedSchemas) {
    const auto grammar = MustCompile(schema);
    TokenMasks masks(grammar, trie);
    std::vector<uint32_t> mask(trie->words()), within(trie->words());
    for (int answer = 0; answer < 4; ++answer) {
      GrammarState state = grammar->Begin();
      for (int step = 0; step < 12; ++step) {
        ASSERT_EQ(masks.Mask(state, mask), Grammar::Verdict::kAllowed);
        const int64_t here = grammar->BytesToEnd(state).value_or(40);
        for (const int64_t bytes : {int64_t{0}, here - 1, here, here + 2, here + 3, here + 20, int64_t{500}}) {
          if (bytes < 0) continue;
          ASSERT_EQ(masks.MaskWithin(state, bytes, within), Grammar::Verdict::kAllowed);
          for (size_t id = 0; id < tokens.size(); ++id) {
            GrammarState copy = state;
            bool may = (mask[id / 32] >> (id % 32) & 1) != 0;
            if (may) {
              ASSERT_EQ(grammar->Advance(copy, tokens[id]), Grammar::Verdict::kAllowed);
              const std::optional<int64_t> left = grammar->BytesToEnd(copy);
              may = left.has_value() && *left <= bytes;
            }
            ASSERT_EQ((within[id / 32] >> (id % 32) & 1) != 0, may)
                << schema << " step " << step << " within " << bytes << " token '" << tokens[id] << "'";
          }
        }
        std::vector<size_t> allowed;
        for (size_t id = 0; id < tokens.size(); ++id) {
          if ((mask[id / 32] >> (id % 32) & 1) != 0) allowed.push_back(id);
        }
        if (allowed.empty()) break;
        ASSERT_EQ(grammar->Advance(state, tokens[allowed[random() % allowed.size()]]), Grammar::Verdict::kAllowed);
      }
    }
  }
}

// Whatever the limit is from the shortest answer on, an answer drawn from these masks is whole.
TEST(TokenNeeds, AnAnswerOfAnyLengthEnds) {
  const std::vector<std::string> tokens = NeedTokens();
  const auto trie = std::make_shared<const TokenTrie>(tokens);
  std::mt19937 random(4);
  for (const char* schema : kNeedSchemas) {
    const auto grammar = MustCompile(schema);
    TokenMasks masks(grammar, trie);
    std::vector<uint32_t> mask(trie->words());
    GrammarState begin = grammar->Begin();
    const std::optional<int64_t> least = grammar->BytesToEnd(begin);
    ASSERT_TRUE(least.has_value()) << schema;
    for (int64_t most = *least; most < *least + 60; ++most) {
      GrammarState state = grammar->Begin();
      std::string text;
      int64_t left = most;
      for (; left > 0; --left) {
        ASSERT_EQ(masks.MaskWithin(state, left - 1, mask), Grammar::Verdict::kAllowed);
        std::vector<size_t> allowed;
        for (size_t id = 0; id < tokens.size(); ++id) {
          if ((mask[id / 32] >> (id % 32) & 1) != 0) allowed.push_back(id);
        }
        if (allowed.empty()) break;  // only the end can follow
        const size_t id = allowed[random() % allowed.size()];
        text += tokens[id];
        ASSERT_EQ(grammar->Advance(state, tokens[id]), Grammar::Verdict::kAllowed);
      }
      ASSERT_TRUE(grammar->Accepts(state)) << schema << ": " << text << " of " << most;
    }
  }
}

}  // namespace
}  // namespace hydrant::grammar
