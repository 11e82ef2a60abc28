#include "model/vocabulary/directory_tokenizer.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/model/checkpoint/gguf_builder.h"
#include "tests/model/checkpoint/tiny_directory.h"
#include "tests/model/vocabulary/sentencepiece_builder.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

constexpr int32_t kRows = 300;

class DirectoryTokenizer : public testing::Test {
 protected:
  absl::StatusOr<std::shared_ptr<const Tokenizer>> Read(int32_t rows = kRows) {
    const auto directory = WeightDirectory::Open(files_.path());
    EXPECT_THAT(directory, IsOk());
    return ReadDirectoryTokenizer(*directory, rows, control_ids_, warnings_);
  }
  // Must be readable.
  const Tokenizer& Sound() {
    auto read = Read();
    EXPECT_THAT(read, IsOk());
    kept_ = *std::move(read);
    return *kept_;
  }
  // The bytes, 256 as </s>, 257 as ab.
  void WriteVocabAndMerges() {
    json vocab;
    int32_t id = 0;
    for (const std::string& piece : ByteAlphabet()) vocab[piece] = id++;
    vocab["</s>"] = 256;
    vocab["ab"] = 257;
    files_.Write("vocab.json", vocab.dump());
    files_.Write("merges.txt", "#version: 0.2\na b\n");
  }
  void WriteConfig(const json& config) { files_.Write("tokenizer_config.json", config.dump()); }

  TempDir files_;
  std::vector<int32_t> control_ids_;
  std::vector<std::string> warnings_;
  std::shared_ptr<const Tokenizer> kept_;
};

TEST_F(DirectoryTokenizer, TellsTheTokenizerWhichTokensEndATurn) {
  WriteVocabAndMerges();
  control_ids_ = {257, -1};
  EXPECT_TRUE(Sound().IsSpecial(257));
  EXPECT_EQ(Sound().Encode("ab", {.parse_special_tokens = false}), (Ids{'a', 'b'}));
}

TEST_F(DirectoryTokenizer, TokenizerJsonIsTheTruthWhateverTheConfigSays) {
  files_.Write("tokenizer.json", TinyTokenizerJson().dump());
  files_.Write("tokenizer.model", "junk");
  WriteConfig({{"add_bos_token", false}, {"add_eos_token", true}});
  EXPECT_EQ(Sound().Encode("a", {}), (Ids{256, 'a'}));
}

TEST_F(DirectoryTokenizer, NothingToReadIsRefused) { EXPECT_THAT(Read(), RefusedWith("tokenizer.json")); }

TEST_F(DirectoryTokenizer, TokensWithoutAnEmbeddingAreIgnored) {
  files_.Write("tokenizer.json", TinyTokenizerJson().dump());
  EXPECT_THAT(Read(257), IsOk());
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_EQ(warnings_[0], "tokenizer.json: added token '</s>': id 257 has no embedding; ignored");
  EXPECT_THAT(Read(200), RefusedWith("tokenizer.json: 'model.vocab': has ids up to 255"));
}

// --- vocab.json and merges.txt ---------------------------------------------------------------------------------------

TEST_F(DirectoryTokenizer, VocabAndMergesAreGpt2s) {
  WriteVocabAndMerges();
  const Tokenizer& tokenizer = Sound();
  EXPECT_EQ(tokenizer.Encode("ab</s>", {}), (Ids{257, '<', '/', 's', '>'}));
  EXPECT_EQ(tokenizer.Decode({257, ' ', 257}, true), "ab ab");
}

TEST_F(DirectoryTokenizer, TheConfigAddsBosAndPrefixSpace) {
  WriteVocabAndMerges();
  const json token = {{"__type", "AddedToken"}, {"content", "</s>"}, {"lstrip", false}, {"rstrip", true}};
  WriteConfig({{"bos_token", token}, {"add_bos_token", true}, {"add_prefix_space", true}});
  EXPECT_EQ(Sound().Encode("ab", {}), (Ids{256, ' ', 257}));
  EXPECT_EQ(Sound().leading_specials(), 1);
  EXPECT_EQ(Sound().Encode("</s>  ab", {.add_special_tokens = false}), (Ids{256, ' ', 257}));
  EXPECT_TRUE(Sound().IsSpecial(256));
}

TEST_F(DirectoryTokenizer, SpecialTokensMayBeTextAndComeFromTheMap) {
  WriteVocabAndMerges();
  files_.Write("special_tokens_map.json",
               R"({"bos_token": "</s>", "eos_token": {"content": "</s>"}, "pad_token": "<pad>"})");
  WriteConfig({{"add_bos_token", true}, {"add_eos_token", true}});
  EXPECT_EQ(Sound().Encode("ab", {}), (Ids{256, 257, 256}));
  EXPECT_EQ(warnings_, std::vector<std::string>{"vocab.json: pad_token '<pad>' is not in the vocabulary; ignored"});
}

TEST_F(DirectoryTokenizer, AddedTokensComeFromTheConfigOrTheirOwnFile) {
  WriteVocabAndMerges();
  files_.Write("added_tokens.json", R"({"<x>": 259})");
  EXPECT_EQ(Sound().Encode("<x>", {}), Ids{259});
  EXPECT_FALSE(Sound().IsSpecial(259));
  WriteConfig({{"added_tokens_decoder", {{"258", {{"content", "<y>"}, {"special", true}}}}}});
  EXPECT_EQ(Sound().Encode("<y>", {}), Ids{258});
  EXPECT_TRUE(Sound().IsSpecial(258));
  EXPECT_EQ(Sound().Encode("<x>", {}).size(), 3u);
  WriteConfig({{"added_tokens_decoder", {{"many", {{"content", "<y>"}}}}}});
  EXPECT_THAT(Read(), RefusedWith("tokenizer_config.json: 'added_tokens_decoder.many': is not an id"));
}

TEST_F(DirectoryTokenizer, BadMergesAreRefusedByLine) {
  WriteVocabAndMerges();
  files_.Write("merges.txt", "#version: 0.2\r\na b\r\na\r\n");
  EXPECT_THAT(Read(), RefusedWith("merges.txt: line 3: 'a' is not a pair"));
  files_.Write("merges.txt", "a z");
  EXPECT_THAT(Read(), RefusedWith("vocab.json: merge 0: 'az' is not in the vocabulary"));
  files_.Write("vocab.json", R"({"a": 1, "b": 1})");
  EXPECT_THAT(Read(), RefusedWith("vocab.json: 'b': id 1 is also that of 'a'"));
}

// --- tokenizer.model -------------------------------------------------------------------------------------------------

TEST_F(DirectoryTokenizer, SentencePieceAddsBosUnlessToldOtherwise) {
  files_.Write("tokenizer.model", TinySentencePiece().Build());
  EXPECT_EQ(Sound().Encode("ab</s>ab", {}), (Ids{1, 264, 2, 264}));
  WriteConfig({{"add_bos_token", false}, {"add_eos_token", true}, {"legacy", false}});
  EXPECT_EQ(Sound().Encode("ab</s>ab", {}), (Ids{264, 2, 263, 2}));
  WriteConfig({{"add_prefix_space", false}});
  EXPECT_EQ(Sound().Encode("ab", {}), (Ids{1, 263}));
}

TEST_F(DirectoryTokenizer, SentencePieceMayHaveAddedTokens) {
  files_.Write("tokenizer.model", TinySentencePiece().Build());
  WriteConfig({{"added_tokens_decoder", {{"265", {{"content", "[A]"}, {"special", true}}}}}, {"bos_token", "[A]"}});
  EXPECT_EQ(Sound().Encode("ab[A]", {}), (Ids{265, 264, 265}));
}

}  // namespace
}  // namespace hydrant
