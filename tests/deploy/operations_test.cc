// Holds the tables of docs/memory.md about the size of blocks and of sequences against the server's own arithmetic.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "block_manager/kv_budget.h"
#include "server/sizing.h"
#include "tests/model/weights/shaped_tensors.h"
#include "tests/support/source_dir.h"

namespace hydrant {
namespace {

using Row = std::map<std::string, std::string>;  // column -> cell

// The table that has a column `column`.
std::vector<Row> TableWith(const std::string& column) {
  std::ifstream file(SourceDir() + "/docs/memory.md");
  std::vector<std::string> header;
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> cells;
    if (line.starts_with("| ")) {
      for (const absl::string_view cell : absl::StrSplit(line.substr(1, line.size() - 2), '|')) {
        cells.emplace_back(absl::StripAsciiWhitespace(cell));
      }
    }
    if (header.empty()) {
      if (std::find(cells.begin(), cells.end(), column) != cells.end()) header = cells;
    } else if (cells.empty() && !line.starts_with("|---")) {
      break;
    } else if (!cells.empty()) {
      EXPECT_EQ(cells.size(), header.size()) << line;
      Row& row = rows.emplace_back();
      for (size_t i = 0; i < header.size(); ++i) row[header[i]] = cells[i];
    }
  }
  EXPECT_FALSE(rows.empty()) << column;
  return rows;
}

int64_t Number(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), ','), text.end());
  int64_t number = -1;
  EXPECT_TRUE(absl::SimpleAtoi(text, &number)) << text;
  return number;
}

// Megabytes with one digit after the point, as the page writes them.
std::string Megabytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", std::round(static_cast<double>(bytes) / 1e5) / 10);
  const std::string plain = text;
  return plain.size() > 5 ? plain.substr(0, plain.size() - 5) + "," + plain.substr(plain.size() - 5) : plain;
}

TEST(Operations, TheSizesOfBlocksAreThoseOfTheServer) {
  for (const Row& row : TableWith("block, bytes")) {
    ModelConfig model;
    model.layers = static_cast<int32_t>(Number(row.at("layers")));
    model.kv_heads = model.query_heads = static_cast<int32_t>(Number(row.at("KV heads")));
    model.head_dim = static_cast<int32_t>(Number(row.at("head size")));
    model.context = 8192;
    model.stored_dtype = row.at("KV type") == "float32" ? DType::kF32 : DType::kBF16;
    Config config;
    config.kv_cache_memory_bytes = int64_t{8} << 30;
    config.prefix_caching = row.at("prefix caching") == "on";
    const DeviceFacts device = {[](const StepBounds&) { return int64_t{0}; }};
    const auto plan_weights = [&](WeightChoice choice, int32_t positions_max) {
      return PlanWeights(model, HollowTensors(model), PlainDevice(), choice, positions_max);
    };
    const absl::StatusOr<Sizing> sizing =
        DeriveLimits(config, model, plan_weights, device, {int64_t{64} << 30, 20'000});
    ASSERT_TRUE(sizing.ok()) << sizing.status();
    EXPECT_EQ(sizing->limits.blocks, Number(row.at("blocks in 8 GiB"))) << row.at("model");
    const std::string said = absl::StrCat("KV block ", Number(row.at("block, bytes")), " bytes = ");
    EXPECT_TRUE(std::any_of(sizing->explanation.begin(), sizing->explanation.end(), [&](const std::string& line) {
      return line.starts_with(said);
    })) << said;
  }
}

TEST(Operations, TheBlocksOfSequencesAreThoseThatAdmissionReserves) {
  std::map<std::string, int64_t> block_bytes;
  for (const Row& row : TableWith("block, bytes")) {
    block_bytes.emplace(row.at("model"), Number(row.at("block, bytes")));  // the first of each: with prefix caching
  }
  for (const Row& row : TableWith("most blocks")) {
    const auto prompt = static_cast<int32_t>(Number(row.at("prompt")));
    const int64_t max_tokens = Number(row.at("max_tokens"));
    KvBudget budget = KvBudget::Unlimited();
    if (row.at("budget") != "none") budget = KvBudget::Exact(static_cast<int32_t>(Number(row.at("budget"))));
    if (row.at("prefill") == "budgeted") budget.prompt_stride = kBudgetedPrefillStride;
    EXPECT_EQ(PeakBlocks(prompt, max_tokens, budget), Number(row.at("most blocks"))) << row.at("budget");
    // From the end of its prompt on.
    const int32_t live = budget.PlayPrompt(0, 0, prompt).after;
    const int64_t then = PeakBlocksFrom(live, prompt, prompt, max_tokens, budget);
    EXPECT_EQ(then, Number(row.at("then"))) << row.at("budget");
    EXPECT_EQ(Megabytes(then * block_bytes.at("SmolLM2-135M (default)")), row.at("then, MB, default model"));
    EXPECT_EQ(Megabytes(then * block_bytes.at("Llama-3.1-8B")), row.at("then, MB, Llama-3.1-8B"));
  }
}

}  // namespace
}  // namespace hydrant
