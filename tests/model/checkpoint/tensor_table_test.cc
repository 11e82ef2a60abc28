#include "model/checkpoint/tensor_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/files/dequantize.h"
#include "model/files/mapped_file.h"
#include "tests/model/checkpoint/gguf_builder.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

constexpr TensorName kTensorTableNames[] = {
    {TensorRole::kEmbedding, Presence::kRequired, "embed"},   {TensorRole::kHead, Presence::kUnlessTied, "head"},
    {TensorRole::kFinalNorm, Presence::kRequired, "norm"},    {TensorRole::kQ, Presence::kRequired, "l.#.q"},
    {TensorRole::kQBias, Presence::kAttentionBias, "l.#.qb"}, {TensorRole::kKBias, Presence::kOptional, "l.#.kb"},
    {TensorRole::kUpBias, Presence::kMlpBias, "l.#.ub"},
};
constexpr std::string_view kKnown[] = {"l.#.inv_freq"};

class TensorTableTest : public testing::Test {
 protected:
  TensorTableTest() {
    config_.hidden = 4;
    config_.layers = 2;
    config_.query_heads = 2;
    config_.kv_heads = 1;
    config_.head_dim = 4;
    config_.ffn = 6;
    config_.vocab = 3;
    Add("embed", {3, 4});
    Add("head", {3, 4});
    Add("norm", {4});
    Add("l.0.q", {8, 4});
    Add("l.1.q", {8, 4});
  }

  // fp32 whose element i is i.
  void Add(const std::string& name, std::vector<int64_t> shape) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    std::string& data = data_[name];
    for (int64_t i = 0; i < count; ++i) data += Raw(static_cast<float>(i));
    std::erase_if(tensors_, [&](const RawTensor& t) { return t.name == name; });
    tensors_.push_back({"file", name, WeightFormat::kF32, {}, std::move(shape), data});
  }
  void Remove(const std::string& name) {
    std::erase_if(tensors_, [&](const RawTensor& t) { return t.name == name; });
  }

  absl::StatusOr<TensorTable> Bind(TensorExpectation expectation = {}, bool interleaved = false) {
    naming_ = {kTensorTableNames, kKnown, interleaved};
    warnings_.clear();
    return TensorTable::Bind(naming_, config_, expectation, "index", tensors_, warnings_);
  }

  ModelConfig config_;
  std::map<std::string, std::string> data_;
  std::vector<RawTensor> tensors_;
  TensorNaming naming_;
  std::vector<std::string> warnings_;
};

std::vector<float> Row(const TensorSource* source, int64_t row) {
  std::vector<float> out(static_cast<size_t>(source->cols()));
  source->ReadRows(row, row + 1, out.data());
  return out;
}

TEST_F(TensorTableTest, FindsTensorsByRoleAndLayer) {
  const auto table = Bind();
  ASSERT_THAT(table, IsOk());
  EXPECT_TRUE(warnings_.empty());
  const TensorSource* q = table->Find(TensorRole::kQ, 1);
  ASSERT_NE(q, nullptr);
  EXPECT_EQ(q->rows(), 8);
  EXPECT_EQ(q->cols(), 4);
  EXPECT_EQ(Row(q, 2), (std::vector<float>{8, 9, 10, 11}));
  const TensorSource* norm = table->Find(TensorRole::kFinalNorm, 1);  // the layer is ignored
  ASSERT_NE(norm, nullptr);
  EXPECT_EQ(norm->rows(), 1);
  EXPECT_EQ(norm->cols(), 4);
  EXPECT_EQ(table->Find(TensorRole::kKBias, 0), nullptr);
  EXPECT_EQ(table->Find(TensorRole::kV, 0), nullptr);
}

// Bytes of the file at `path` that the process has in memory.
int64_t MappedBytesInMemory(const std::string& path) {
  std::ifstream maps("/proc/self/smaps");
  int64_t kilobytes = 0;
  bool of_file = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(path) != line.npos) of_file = true;
    if (!of_file || !line.starts_with("Rss:")) continue;
    kilobytes += std::stoll(line.substr(4));
    of_file = false;
  }
  return kilobytes << 10;
}

TEST_F(TensorTableTest, ALargeTensorIsReturnedWhileItIsRead) {
  constexpr int32_t kRows = 1 << 20;
  std::vector<float> rows(4 * size_t{kRows});
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i);
  const TempDir dir;
  const std::string path = dir.Write("large", std::string(reinterpret_cast<const char*>(rows.data()), rows.size() * 4));
  const auto file = MappedFile::Open(path);
  ASSERT_THAT(file, IsOk());
  config_.vocab = kRows;
  Add("head", {kRows, 4});
  Remove("embed");
  tensors_.push_back({"file", "embed", WeightFormat::kF32, {}, {kRows, 4}, (*file)->bytes()});
  const auto table = Bind();
  ASSERT_THAT(table, IsOk());
  const TensorSource* source = table->Find(TensorRole::kEmbedding, 0);
  std::vector<float> read(rows.size());
  int64_t most = 0;
  for (int64_t row = 0; row < kRows; row += 1024) {
    source->ReadRows(row, row + 1024, read.data() + 4 * row);
    source->ReturnRows(row, row + 1024);
    if (row % (64 * 1024) == 0) most = std::max(most, MappedBytesInMemory(path));
  }
  EXPECT_EQ(read, rows);
  EXPECT_LT(most, 4 << 20) << "of 16 MB";
  EXPECT_EQ(Row(source, 7), (std::vector<float>{28, 29, 30, 31})) << "and may be read again";
}

// fp32 whose element i is i: 3 rows of each of q, k, v per head, or all of q before all of k.
class FusedTensorTest : public TensorTableTest {
 protected:
  absl::StatusOr<TensorTable> BindFused(Fusion fusion, int32_t kv_heads) {
    config_.head_dim = 2;
    config_.query_heads = 2;
    config_.kv_heads = kv_heads;
    const int64_t rows = 4 + 4 * kv_heads;
    for (const char* layer : {"l.0.", "l.1."}) {
      Add(layer + std::string("qkv"), {rows, 4});
      Add(layer + std::string("qkv_bias"), {rows});
      Remove(layer + std::string("q"));
    }
    names_ = {{TensorRole::kQ, Presence::kRequired, "l.#.qkv", fusion},
              {TensorRole::kK, Presence::kRequired, "l.#.qkv", fusion},
              {TensorRole::kV, Presence::kRequired, "l.#.qkv", fusion},
              {TensorRole::kQBias, Presence::kRequired, "l.#.qkv_bias", fusion},
              {TensorRole::kKBias, Presence::kRequired, "l.#.qkv_bias", fusion},
              {TensorRole::kVBias, Presence::kRequired, "l.#.qkv_bias", fusion}};
    fused_ = {.names = names_};
    return TensorTable::Bind(fused_, config_, {}, "index", tensors_, warnings_);
  }
  // The stored rows that a role is made of.
  static std::vector<int64_t> Rows(const TensorSource* source) {
    std::vector<int64_t> rows;
    for (int64_t row = 0; row < source->rows(); ++row) rows.push_back(static_cast<int64_t>(Row(source, row)[0]) / 4);
    return rows;
  }

 private:
  std::vector<TensorName> names_;
  TensorNaming fused_;
};

TEST_F(FusedTensorTest, PerHeadTakesEveryThirdHead) {
  const auto table = BindFused(Fusion::kPerHead, 2);
  ASSERT_THAT(table, IsOk());
  EXPECT_EQ(Rows(table->Find(TensorRole::kQ, 1)), (std::vector<int64_t>{0, 1, 6, 7}));
  EXPECT_EQ(Rows(table->Find(TensorRole::kK, 1)), (std::vector<int64_t>{2, 3, 8, 9}));
  EXPECT_EQ(Rows(table->Find(TensorRole::kV, 1)), (std::vector<int64_t>{4, 5, 10, 11}));
  EXPECT_EQ(Row(table->Find(TensorRole::kKBias, 0), 0), (std::vector<float>{2, 3, 8, 9}));
}

TEST_F(FusedTensorTest, StackedTakesOneAfterTheOther) {
  const auto table = BindFused(Fusion::kStacked, 1);
  ASSERT_THAT(table, IsOk());
  EXPECT_EQ(Rows(table->Find(TensorRole::kQ, 0)), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(Rows(table->Find(TensorRole::kK, 0)), (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(Rows(table->Find(TensorRole::kV, 0)), (std::vector<int64_t>{6, 7}));
  EXPECT_EQ(Row(table->Find(TensorRole::kVBias, 1), 0), (std::vector<float>{6, 7}));
}

TEST_F(FusedTensorTest, GateAndUpAreStackedToo) {
  Add("l.0.gate_up", {12, 4});
  Add("l.1.gate_up", {12, 4});
  const std::vector<TensorName> names = {{TensorRole::kGate, Presence::kRequired, "l.#.gate_up", Fusion::kStacked},
                                         {TensorRole::kUp, Presence::kRequired, "l.#.gate_up", Fusion::kStacked}};
  const TensorNaming naming = {.names = names};
  const auto table = TensorTable::Bind(naming, config_, {}, "index", tensors_, warnings_);
  ASSERT_THAT(table, IsOk());
  EXPECT_EQ(Rows(table->Find(TensorRole::kGate, 1)), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(Rows(table->Find(TensorRole::kUp, 1)), (std::vector<int64_t>{6, 7, 8, 9, 10, 11}));
}

// Rows as they are stored, expanded one by one, are what ReadRows says.
void ExpectStoredRows(const TensorSource* source) {
  ASSERT_TRUE(source->has_stored_rows());
  const int64_t row_bytes = RowBytes(source->format(), source->cols());
  std::vector<std::byte> stored(static_cast<size_t>(source->rows() * row_bytes));
  source->ReadStoredRows(0, source->rows(), stored.data());
  std::vector<float> row(static_cast<size_t>(source->cols()));
  for (int64_t i = 0; i < source->rows(); ++i) {
    DequantizeRow(source->format(), stored.data() + i * row_bytes, source->cols(), row.data());
    EXPECT_EQ(row, Row(source, i)) << i;
  }
  source->ReadStoredRows(source->rows() - 1, source->rows(), stored.data());
  DequantizeRow(source->format(), stored.data(), source->cols(), row.data());
  EXPECT_EQ(row, Row(source, source->rows() - 1));
}

// Three experts of two rows and four columns (down: four and two), one by one or together.
class ExpertTensorTest : public TensorTableTest {
 protected:
  ExpertTensorTest() {
    config_.layers = 1;
    config_.ffn = 2;
    config_.experts = 3;
    config_.experts_per_token = 2;
    tensors_.clear();
    Add("l.0.router", {3, 4});
  }
  void AddOneByOne() {
    for (const std::string expert : {"0", "1", "2"}) {
      Add("l.0." + expert + ".gate", {2, 4});
      Add("l.0." + expert + ".up", {2, 4});
      Add("l.0." + expert + ".down", {4, 2});
    }
  }
  absl::StatusOr<TensorTable> BindExperts() {
    return TensorTable::Bind(kNaming, config_, {}, "index", tensors_, warnings_);
  }

  static constexpr TensorName kNamesOfExperts[] = {
      {TensorRole::kRouter, Presence::kRequired, "l.#.router"},
      {TensorRole::kExpertGate, Presence::kRequired, "l.#.@.gate", Fusion::kNone, "l.#.gates"},
      {TensorRole::kExpertUp, Presence::kRequired, "l.#.@.up", Fusion::kNone, "l.#.gates"},
      {TensorRole::kExpertDown, Presence::kRequired, "l.#.@.down", Fusion::kNone, "l.#.downs"},
  };
  static constexpr TensorNaming kNaming = {.names = kNamesOfExperts};
};

TEST_F(ExpertTensorTest, EachHasTensorsOfItsOwn) {
  AddOneByOne();
  const auto table = BindExperts();
  ASSERT_THAT(table, IsOk());
  EXPECT_TRUE(warnings_.empty());
  EXPECT_EQ(table->Find(TensorRole::kExpertUp, 0, 2)->name(), "l.0.2.up");
  EXPECT_EQ(table->Find(TensorRole::kExpertDown, 0, 1)->rows(), 4);
  EXPECT_EQ(table->Find(TensorRole::kExpertDown, 0, 3), nullptr);
  EXPECT_EQ(table->Find(TensorRole::kRouter, 0, 2), table->Find(TensorRole::kRouter, 0)) << "a layer has one";
}

TEST_F(ExpertTensorTest, OneTensorMayHaveAllOfThem) {
  Add("l.0.gates", {3, 4, 4});
  Add("l.0.downs", {3, 4, 2});
  const auto table = BindExperts();
  ASSERT_THAT(table, IsOk());
  EXPECT_TRUE(warnings_.empty());
  // Each expert has two rows of the gate, then two of the up projection.
  EXPECT_EQ(Row(table->Find(TensorRole::kExpertGate, 0, 0), 1), (std::vector<float>{4, 5, 6, 7}));
  EXPECT_EQ(Row(table->Find(TensorRole::kExpertUp, 0, 0), 0), (std::vector<float>{8, 9, 10, 11}));
  EXPECT_EQ(Row(table->Find(TensorRole::kExpertGate, 0, 2), 0), (std::vector<float>{32, 33, 34, 35}));
  EXPECT_EQ(Row(table->Find(TensorRole::kExpertUp, 0, 2), 1), (std::vector<float>{44, 45, 46, 47}));
  EXPECT_EQ(Row(table->Find(TensorRole::kExpertDown, 0, 1), 3), (std::vector<float>{14, 15}));
  // Gates alone.
  Add("l.0.gates", {3, 2, 4});
  const auto alone = BindExperts();
  ASSERT_THAT(alone, IsOk());
  EXPECT_EQ(Row(alone->Find(TensorRole::kExpertGate, 0, 2), 1), (std::vector<float>{20, 21, 22, 23}));
}

constexpr TensorName kInTurnNames[] = {
    {TensorRole::kExpertGate, Presence::kRequired, "l.#.gates", Fusion::kInTurn, "l.#.@.gates"},
    {TensorRole::kExpertGateBias, Presence::kRequired, "l.#.gates_bias", Fusion::kInTurn},
    {TensorRole::kExpertUp, Presence::kRequired, "l.#.gates", Fusion::kInTurn, "l.#.@.gates"},
    {TensorRole::kExpertUpBias, Presence::kRequired, "l.#.gates_bias", Fusion::kInTurn},
    {TensorRole::kExpertDown, Presence::kRequired, "l.#.downs", Fusion::kNone, "l.#.@.downs"},
    {TensorRole::kExpertDownBias, Presence::kRequired, "l.#.downs_bias"},
};

// Columns are rows, and every second one is an up projection's.
TEST_F(ExpertTensorTest, AllOfThemMayBeTransposedAndGatesAndUpInTurn) {
  constexpr TensorNaming kTransposed = {.names = kInTurnNames, .transposed_experts = true};
  Remove("l.0.router");
  Add("l.0.gates", {3, 4, 4});  // of each 4 columns and two times 2 rows
  Add("l.0.gates_bias", {3, 4});
  Add("l.0.downs", {3, 2, 4});
  Add("l.0.downs_bias", {3, 4});
  const auto bind = [&] { return TensorTable::Bind(kTransposed, config_, {}, "index", tensors_, warnings_); };
  const auto table = bind();
  ASSERT_THAT(table, IsOk());
  EXPECT_TRUE(warnings_.empty());
  EXPECT_EQ(Row(table->Find(TensorRole::kExpertGate, 0, 0), 0), (std::vector<float>{0, 4, 8, 12}));
  EXPECT_EQ(Row(table->Find(TensorRole::kExpertGate, 0, 1), 1), (std::vector<float>{18, 22, 26, 30}));
  EXPECT_EQ(Row(table->Find(TensorRole::kExpertUp, 0, 1), 1), (std::vector<float>{19, 23, 27, 31}));
  EXPECT_EQ(Row(table->Find(TensorRole::kExpertDown, 0, 2), 3), (std::vector<float>{19, 23}));
  EXPECT_EQ(Row(table->Find(TensorRole::kExpertGateBias, 0, 1), 0), (std::vector<float>{4, 6}));
  EXPECT_EQ(Row(table->Find(TensorRole::kExpertUpBias, 0, 2), 0), (std::vector<float>{9, 11}));
  EXPECT_EQ(Row(table->Find(TensorRole::kExpertDownBias, 0, 2), 0), (std::vector<float>{8, 9, 10, 11}));
  for (const TensorRole role : {TensorRole::kExpertGate, TensorRole::kExpertUp, TensorRole::kExpertDown}) {
    ExpectStoredRows(table->Find(role, 0, 1));
  }
  Add("l.0.downs", {3, 4, 2});
  EXPECT_THAT(bind(), RefusedWith("file: tensor 'l.0.downs': its shape is [3, 4, 2]",
                                  "the config asks for 3 experts of [4, 2], transposed"));
  Add("l.0.downs", {3, 2, 4});
  Add("l.0.gates", {3, 4, 2});
  EXPECT_THAT(bind(), RefusedWith("tensor 'l.0.gates': its shape is [3, 4, 2]", "[2, 4], gate and up in turn"));
  Add("l.0.gates", {3, 4, 4});
  Add("l.0.gates_bias", {3, 2});
  EXPECT_THAT(bind(), RefusedWith("tensor 'l.0.gates_bias': its shape is [3, 2]", "3 experts of [2], gate and up"));
}

// A tensor of one expert is never transposed.
TEST_F(ExpertTensorTest, EachMayHaveGatesAndUpInTurn) {
  constexpr TensorNaming kInTurn = {.names = kInTurnNames, .transposed_experts = true};
  Remove("l.0.router");
  for (const std::string expert : {"0", "1", "2"}) {
    Add("l.0." + expert + ".gates", {4, 4});
    Add("l.0." + expert + ".downs", {4, 2});
  }
  Add("l.0.gates_bias", {3, 4});
  Add("l.0.downs_bias", {3, 4});
  const auto bind = [&] { return TensorTable::Bind(kInTurn, config_, {}, "index", tensors_, warnings_); };
  const auto table = bind();
  ASSERT_THAT(table, IsOk());
  EXPECT_TRUE(warnings_.empty());
  EXPECT_EQ(Row(table->Find(TensorRole::kExpertGate, 0, 2), 1), (std::vector<float>{8, 9, 10, 11}));
  EXPECT_EQ(Row(table->Find(TensorRole::kExpertUp, 0, 2), 1), (std::vector<float>{12, 13, 14, 15}));
  EXPECT_EQ(Row(table->Find(TensorRole::kExpertDown, 0, 1), 1), (std::vector<float>{2, 3}));
  Add("l.0.1.gates", {2, 4});
  EXPECT_THAT(bind(), RefusedWith("tensor 'l.0.1.gates': its shape is [2, 4], the config asks for [4, 4]"));
  Remove("l.0.1.gates");
  EXPECT_THAT(bind(), RefusedWith("tensor 'l.0.gates': is missing"));
}

TEST_F(ExpertTensorTest, RefusesOnesThatAreMissingOrOfAnotherShape) {
  AddOneByOne();
  Remove("l.0.1.up");
  EXPECT_THAT(BindExperts(), RefusedWith("index: ", "tensor 'l.0.1.up': is missing"));
  AddOneByOne();
  Add("l.0.2.down", {4, 3});
  EXPECT_THAT(BindExperts(), RefusedWith("file: ", "tensor 'l.0.2.down': its shape is [4, 3]"));
  AddOneByOne();
  Add("l.0.router", {4, 4});
  EXPECT_THAT(BindExperts(), RefusedWith("file: ", "tensor 'l.0.router': its shape is [4, 4]"));
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{2, 4, 4}, {3, 3, 4}, {3, 4, 5}, {3, 0, 4}, {4, 3, 4}}) {
    tensors_.clear();
    Add("l.0.router", {3, 4});
    Add("l.0.gates", shape);
    Add("l.0.downs", {3, 4, 2});
    EXPECT_THAT(BindExperts(),
                RefusedWith("file: ", "tensor 'l.0.gates': its shape is [", "the config asks for 3 experts of [2, 4]"));
  }
}

TEST_F(FusedTensorTest, RowsAreToBeHadAsStoredInTheOrderOfTheRole) {
  for (const auto& [fusion, kv_heads] : {std::pair(Fusion::kPerHead, 2), std::pair(Fusion::kStacked, 1)}) {
    const auto table = BindFused(fusion, kv_heads);
    ASSERT_THAT(table, IsOk());
    for (const TensorRole role : {TensorRole::kQ, TensorRole::kK, TensorRole::kV}) {
      ExpectStoredRows(table->Find(role, 1));
    }
    EXPECT_FALSE(table->Find(TensorRole::kKBias, 0)->has_stored_rows()) << "elements from all over the vector";
  }
}

TEST_F(TensorTableTest, RowsOfAnInterleavedTensorAreToBeHadAsStored) {
  const auto table = Bind({}, /*interleaved=*/true);
  ASSERT_THAT(table, IsOk());
  ExpectStoredRows(table->Find(TensorRole::kQ, 1));
  ExpectStoredRows(table->Find(TensorRole::kEmbedding, 0));
  ExpectStoredRows(table->Find(TensorRole::kFinalNorm, 0));
}

TEST_F(TensorTableTest, NamesMayLackThePrefixOrBeOthers) {
  const TensorName names[] = {{TensorRole::kEmbedding, Presence::kRequired, "base.embed"},
                              {TensorRole::kHead, Presence::kUnlessTied, "out", Fusion::kNone, "head"},
                              {TensorRole::kQ, Presence::kRequired, "base.l.#.q"}};
  const std::string_view known[] = {"base.norm"};
  const TensorNaming naming{.names = names, .known = known, .prefix = "base."};
  const auto table = TensorTable::Bind(naming, config_, {}, "index", tensors_, warnings_);
  ASSERT_THAT(table, IsOk());
  EXPECT_NE(table->Find(TensorRole::kHead, 0), nullptr);
  EXPECT_TRUE(warnings_.empty());
  Remove("l.0.q");
  EXPECT_THAT(TensorTable::Bind(naming, config_, {}, "index", tensors_, warnings_),
              RefusedWith("tensor 'base.l.0.q': is missing"));
}

TEST_F(TensorTableTest, NormsAndProjectionsAreThereWhenTheConfigSaysSo) {
  const TensorName names[] = {{TensorRole::kFinalNorm, Presence::kFinalNorm, "final"},
                              {TensorRole::kMlpNorm, Presence::kAffineNorm, "l.#.norm"},
                              {TensorRole::kProjectIn, Presence::kProjected, "in"}};
  const TensorNaming naming{.names = names};
  const auto bind = [&](bool affine) {
    return TensorTable::Bind(naming, config_, {.affine_norms = affine}, "index", tensors_, warnings_);
  };
  EXPECT_THAT(bind(false), IsOk());
  EXPECT_THAT(bind(true), RefusedWith("tensor 'final': is missing"));
  config_.final_norm = false;
  EXPECT_THAT(bind(true), RefusedWith("tensor 'l.0.norm': is missing"));
  config_.embedding_dim = 2;
  EXPECT_THAT(bind(false), RefusedWith("tensor 'in': is missing"));
  Add("in", {4, 2});
  EXPECT_THAT(bind(false), IsOk());
}

// Row E9.
TEST_F(TensorTableTest, RefusesAMissingTensor) {
  Remove("l.1.q");
  EXPECT_THAT(Bind(), RefusedWith("index: tensor 'l.1.q': is missing"));
}

TEST_F(TensorTableTest, RefusesAWrongShape) {
  Add("l.1.q", {4, 8});
  EXPECT_THAT(Bind(), RefusedWith("file: tensor 'l.1.q': its shape is [4, 8], the config asks for [8, 4]"));
  Add("l.1.q", {32});
  EXPECT_THAT(Bind(), RefusedWith("[32]"));
}

TEST_F(TensorTableTest, RefusesAnEmbeddingOfAnotherVocabulary) {
  Add("embed", {4, 4});
  EXPECT_THAT(Bind(), RefusedWith("tensor 'embed'", "[4, 4], the config asks for [3, 4]"));
}

TEST_F(TensorTableTest, WarnsOfExtraTensorsInOneLine) {
  Add("extra", {1});
  ASSERT_THAT(Bind(), IsOk());
  EXPECT_EQ(warnings_, std::vector<std::string>{"file: tensor 'extra': is not used"});
  Add("more", {1});
  ASSERT_THAT(Bind(), IsOk());
  EXPECT_EQ(warnings_, std::vector<std::string>{"file: tensor 'extra' and 1 more: are not used"});
}

TEST_F(TensorTableTest, KnownTensorsAreNotExtra) {
  Add("l.0.inv_freq", {1});
  ASSERT_THAT(Bind(), IsOk());
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(TensorTableTest, ATiedModelHasNoHead) {
  config_.tied_embeddings = true;
  Remove("head");
  const auto table = Bind();
  ASSERT_THAT(table, IsOk());
  EXPECT_EQ(table->Find(TensorRole::kHead, 0), nullptr);
  config_.tied_embeddings = false;
  EXPECT_THAT(Bind(), RefusedWith("tensor 'head': is missing"));
}

TEST_F(TensorTableTest, BiasesAreThereWhenTheConfigSaysSo) {
  EXPECT_THAT(Bind({.attention_bias = true}), RefusedWith("tensor 'l.0.qb': is missing"));
  Add("l.0.qb", {8});
  Add("l.1.qb", {8});
  const auto table = Bind({.attention_bias = true});
  ASSERT_THAT(table, IsOk());
  EXPECT_NE(table->Find(TensorRole::kQBias, 1), nullptr);
  EXPECT_THAT(Bind({.mlp_bias = true}), RefusedWith("tensor 'l.0.ub': is missing"));
}

TEST_F(TensorTableTest, OptionalTensorsAreInEveryLayerOrInNone) {
  Add("l.0.kb", {4});
  EXPECT_THAT(Bind(), RefusedWith("tensor 'l.1.kb': is missing"));
  Add("l.1.kb", {4});
  EXPECT_THAT(Bind(), IsOk());
}

TEST_F(TensorTableTest, RefusesADtypeThatCannotBeRead) {
  tensors_.back().refused_type = "I64";
  EXPECT_THAT(Bind(), RefusedWith("tensor 'l.1.q': dtype I64 is not supported"));
}

TEST_F(TensorTableTest, UndoesTheInterleavingOfEveryHead) {
  Add("l.0.qb", {8});
  Add("l.1.qb", {8});
  const auto table = Bind({.attention_bias = true}, /*interleaved=*/true);
  ASSERT_THAT(table, IsOk());
  // A head of 4 is stored as rows 0 2 1 3 of the halves convention.
  const int64_t stored[] = {0, 2, 1, 3, 4, 6, 5, 7};
  const TensorSource* q = table->Find(TensorRole::kQ, 0);
  std::vector<float> all(32);
  q->ReadRows(0, 8, all.data());
  for (int64_t row = 0; row < 8; ++row)
    EXPECT_EQ(all[static_cast<size_t>(4 * row)], static_cast<float>(4 * stored[row])) << row;
  EXPECT_EQ(Row(table->Find(TensorRole::kQBias, 0), 0), (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(Row(table->Find(TensorRole::kEmbedding, 0), 1), (std::vector<float>{4, 5, 6, 7}));
}

// Row E10.
TEST_F(TensorTableTest, NamesTensorsInWhichItReadANanOrInfinity) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  data_["l.1.q"].replace(4 * 4 * 5, 4, Raw(nan));
  for (RawTensor& tensor : tensors_) {
    if (tensor.name == "l.1.q") tensor.data = data_["l.1.q"];
  }
  const auto table = Bind();
  ASSERT_THAT(table, IsOk());
  Row(table->Find(TensorRole::kQ, 1), 4);
  EXPECT_TRUE(table->NonFinite().empty());
  Row(table->Find(TensorRole::kQ, 1), 5);
  EXPECT_EQ(table->NonFinite(), std::vector<std::string>{"l.1.q"});
}

TEST_F(TensorTableTest, TheStoredDtypeIsThatOfMostElements) {
  EXPECT_EQ(Bind()->stored_dtype(), DType::kF32);
  data_["q"] = std::string(2 * 32 * 100, '\0');
  tensors_.push_back({"file", "q", WeightFormat::kF16, {}, {100, 32}, data_["q"]});
  EXPECT_EQ(Bind()->stored_dtype(), DType::kF16);
  data_["r"] = std::string(20 * 200, '\0');
  tensors_.push_back({"file", "r", WeightFormat::kQ4_1, {}, {200, 32}, data_["r"]});
  EXPECT_EQ(Bind()->stored_dtype(), DType::kBF16);
}

}  // namespace
}  // namespace hydrant
