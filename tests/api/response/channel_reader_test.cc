#include "api/response/channel_reader.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace hydrant {
namespace {

using Begin = ChannelReader::Begin;

const ChannelMarks kHarmony = {"<|start|>assistant", "<|channel|>", "<|message|>", "<|end|>", "analysis"};

std::string Read(Begin begin, const std::vector<std::string_view>& pieces) {
  ChannelReader reader(kHarmony, begin);
  ChannelReader::Output all;
  const auto add = [&all](const ChannelReader::Output& output) {
    all.reasoning += output.reasoning;
    all.text += output.text;
  };
  for (const std::string_view piece : pieces) add(reader.Push(piece));
  add(reader.Finish());
  return all.reasoning + "|" + all.text;
}

TEST(ChannelReader, MessagesAreWhatTheirHeadsSay) {
  const std::string thought = "<|channel|>analysis<|message|>", said = "<|channel|>final<|message|>";
  const std::string next = "<|end|><|start|>assistant", call = "<|channel|>commentary to=functions.f<|message|>{}";
  const struct {
    const char* name;
    std::string text, parts;
    Begin begin = Begin::kHead;
  } cases[] = {
      {"reasoning and answer", thought + " a b \n" + next + said + "c d\n", "a b|c d\n"},
      {"an answer alone", said + "c", "|c"},
      {"reasoning twice", thought + "a" + next + thought + "b" + next + said + "c", "a\nb|c"},
      {"a preamble", "<|channel|>commentary<|message|>I look." + next + said + "c", "|I look.\n\nc"},
      {"a call", thought + "a" + next + "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}",
       "a|" + call},
      {"a call before its channel", thought + "a" + next + " to=functions.f<|channel|>commentary json<|message|>{}",
       "a|" + call},
      {"a call alone", " to=functions.f<|channel|>commentary json<|message|>{}", "|" + call},
      {"a call among thoughts", "<|channel|>analysis to=functions.f<|message|>{}", "|" + call},
      {"two calls and a word", call + next + call + "<|end|>\n<|start|>assistant" + said + "c",
       "|" + call + call + "c"},
      {"a tool of the model's own", "<|channel|>commentary to=python<|message|>1",
       "|<|channel|>commentary to=python<|message|>1"},
      {"thinking with one", "<|channel|>analysis to=python code<|message|>1", "1|"},
      {"no end before a head", thought + "a<|start|>assistant" + said + "c", "a|c"},
      {"no messages", "Hello <|channel|>", "|Hello <|channel|>"},
      {"no messages any more", thought + "a<|end|> then", "a|then"},
      {"an end in the answer", said + "ends with <|end|> and \n<|end|>" + " so", "|ends with <|end|> and \n<|end|> so"},
      {"one before a message", said + "a <|end|> b" + next + said + "c", "|a <|end|> b\n\nc"},
      {"one behind a call", call + "<|end|> then", "|" + call + "then"},
      {"somebody else's", thought + "a<|end|><|start|>user<|message|>b", "a|<|start|>user<|message|>b"},
      {"a head cut off", thought + "a<|end|><|start|>assis", "a|"},
      {"the first cut off", "<|channel|>anal", "|"},
      {"less than that", "<|chan", "|<|chan"},
      {"a mark cut off", said + "c<|en", "|c<|en"},
      {"marks in text", said + "<|x|> <|message|> <|channel|>", "|<|x|> <|message|> <|channel|>"},
      {"a head without an end", "<|channel|>" + std::string(600, 'x') + "<|message|>y",
       "|<|channel|>" + std::string(600, 'x') + "<|message|>y"},
      {"nothing", "", "|"},
      {"within reasoning", "a" + next + said + "c", "a|c", Begin::kThought},
      {"within the answer", "c <|channel|> d", "|c <|channel|> d", Begin::kText},
  };
  for (const auto& c : cases) EXPECT_EQ(Read(c.begin, {c.text}), c.parts) << c.name;
}

TEST(ChannelReader, WithoutAChannelOfReasoningAllIsText) {
  ChannelMarks marks = kHarmony;
  marks.thought.clear();
  const std::string call = "<|channel|>commentary to=functions.f<|message|>{}";
  ChannelReader heads(marks, Begin::kHead);
  const ChannelReader::Output said = heads.Push(
      "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|message|>b<|end|><|start|>assistant" + call);
  EXPECT_EQ(said.reasoning + "|" + said.text, "|a\n\nb" + call);
  EXPECT_EQ(ChannelReader(marks, Begin::kThought).Push("a").text, "a");
}

// The text in which special tokens stand between these two characters, read in pieces of so many bytes.
std::string ReadTokens(std::string_view marked, size_t piece) {
  ChannelMarks marks = kHarmony;
  marks.are_tokens = true;
  ChannelReader reader(marks, Begin::kHead);
  std::string text;
  for (const char c : marked) {
    if (c == '{') reader.TokenAt(static_cast<int64_t>(text.size()));
    if (c != '{' && c != '}') text += c;
  }
  ChannelReader::Output all;
  const auto add = [&all](const ChannelReader::Output& output) {
    all.reasoning += output.reasoning;
    all.text += output.text;
  };
  for (size_t at = 0; at < text.size(); at += piece) add(reader.Push(std::string_view(text).substr(at, piece)));
  add(reader.Finish());
  return all.reasoning + "|" + all.text;
}

TEST(ChannelReader, WhatOnlySpellsAMarkIsText) {
  const std::string said = "{<|channel|>}final{<|message|>}", thought = "{<|channel|>}analysis{<|message|>}";
  const std::string next = "{<|end|>}{<|start|>}assistant";
  const std::string call = "{<|channel|>}commentary to=functions.f {<|constrain|>}json{<|message|>}";
  const std::string spelled = "\"<|end|><|start|>assistant<|channel|>final<|message|>\"";
  for (const size_t piece : {size_t{1}, size_t{5}, size_t{1000}}) {
    EXPECT_EQ(ReadTokens(thought + spelled + next + said + spelled, piece), spelled + "|" + spelled);
    EXPECT_EQ(ReadTokens(call + spelled + next + said + "so", piece),
              "|<|channel|>commentary to=functions.f<|message|>" + spelled + "so");
    EXPECT_EQ(ReadTokens("<|channel|>analysis<|message|>a", piece), "|<|channel|>analysis<|message|>a");
    EXPECT_EQ(ReadTokens(said + "<|start|>assistant", piece), "|<|start|>assistant");
    EXPECT_EQ(ReadTokens("{<|channel|>}final<|message|>{<|message|>}a", piece), "|a");
  }
}

TEST(ChannelReader, MakesTheSameOfEveryWayToCutAText) {
  std::mt19937 random(9);
  const std::vector<std::string> words = {"<|start|>assistant",
                                          "<|start|>",
                                          "<|channel|>",
                                          "analysis",
                                          "commentary",
                                          "final",
                                          "<|message|>",
                                          "<|message|>",
                                          "<|end|>",
                                          "<|end|>",
                                          " to=functions.f",
                                          " json",
                                          "<|",
                                          " ",
                                          "\n",
                                          "a",
                                          "b c"};
  for (int i = 0; i < 20'000; ++i) {
    std::string text = random() % 2 == 0 ? "<|channel|>analysis<|message|>" : "";
    for (size_t n = random() % 16; n > 0; --n) text += words[random() % words.size()];
    const auto begin = static_cast<Begin>(random() % 3);
    std::vector<std::string_view> pieces;
    for (size_t at = 0; at < text.size(); at += pieces.back().size()) {
      pieces.push_back(std::string_view(text).substr(at, 1 + random() % 6));
    }
    ASSERT_EQ(Read(begin, pieces), Read(begin, {text})) << text;
  }
}

TEST(ChannelReader, TellsWhichBytesAreReasoning) {
  const std::string first = "<|channel|>analysis<|message|>a<|end|>",
                    call = "<|start|>assistant<|channel|>commentary to=functions.f<|message|>{}<|end|>";
  const std::string again = "<|start|>assistant<|channel|>analysis<|message|>b<|end|>",
                    said = "<|start|>assistant<|channel|>final<|message|>c";
  ChannelReader reader(kHarmony, Begin::kHead);
  std::string seen;
  const std::string text = first + call + again + said;
  for (const char byte : text) {
    reader.Push({&byte, 1});
    while (static_cast<int64_t>(seen.size()) < reader.decided()) {
      seen += reader.IsReasoning(static_cast<int64_t>(seen.size())) ? 'r' : '.';
    }
  }
  EXPECT_EQ(seen, std::string(first.size(), 'r') + std::string(call.size(), '.') + std::string(again.size(), 'r') +
                      std::string(said.size(), '.'));
}

}  // namespace
}  // namespace hydrant
