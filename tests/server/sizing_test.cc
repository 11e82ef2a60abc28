#include "server/sizing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>

#include "model/run/kv_cache.h"
#include "model/run/transformer.h"
#include "tests/model/weights/shaped_tensors.h"

namespace hydrant {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr HostFacts kHost = {int64_t{8} << 30, 20'000};

ModelConfig Model() {
  ModelConfig model;
  model.layers = 30;
  model.query_heads = 9;
  model.kv_heads = 3;
  model.head_dim = 64;
  model.context = 8192;
  model.stored_dtype = DType::kBF16;
  return model;
}

int64_t BlockBytes(const ModelConfig& model, KvType kv_type) {
  return static_cast<int64_t>(KvCache::BytesPerBlock(model, kv_type));
}

int64_t NoScratch(const StepBounds&) { return 0; }
const DeviceFacts kDevice = {NoScratch};

WeightPlan Plan(const ModelConfig& model, WeightChoice choice, int32_t positions_max) {
  return PlanWeights(model, HollowTensors(model), PlainDevice(), choice, positions_max);
}

absl::StatusOr<Sizing> DeriveLimits(const Config& config, const ModelConfig& model, const DeviceFacts& device,
                                    const HostFacts& host) {
  const auto plan = [&](WeightChoice choice, int32_t positions_max) { return Plan(model, choice, positions_max); };
  return hydrant::DeriveLimits(config, model, plan, device, host);
}

TEST(Sizing, ABlockIsKeysValuesScoresAndPositions) {
  // 30 layers x 3 heads x 16 slots x (2 x 64 elements + a score + a position).
  EXPECT_EQ(BlockBytes(Model(), KvType::kBF16), 30 * 3 * 16 * (2 * 64 * 2 + 8));
  EXPECT_EQ(BlockBytes(Model(), KvType::kF32), 30 * 3 * 16 * (2 * 64 * 4 + 8));
}

TEST(Sizing, APrefixCacheHasTwoSpareScoreBlocksPerBlock) {
  Config config;
  config.kv_cache_memory_bytes = int64_t{100} * 30 * 3 * 16 * (2 * 64 * 2 + 3 * 8);
  const Sizing sizing = *DeriveLimits(config, Model(), kDevice, kHost);
  EXPECT_EQ(sizing.limits.blocks, 100);
  EXPECT_EQ(sizing.limits.spare_score_blocks, 200);
  EXPECT_EQ(sizing.score_block_bytes, 30 * 3 * 16 * 8);
  EXPECT_EQ(sizing.block_bytes, 30 * 3 * 16 * (2 * 64 * 2 + 3 * 8));
  config.prefix_caching = false;
  EXPECT_GT(DeriveLimits(config, Model(), kDevice, kHost)->limits.blocks, 105);
  EXPECT_EQ(DeriveLimits(config, Model(), kDevice, kHost)->limits.spare_score_blocks, 0);
}

TEST(Sizing, StreamedWeightsLeaveTheirMemoryToThePool) {
  Config config;
  ModelConfig model = Model();
  model.hidden = 576;
  model.ffn = 1536;
  model.vocab = 49'152;
  const Sizing all = *DeriveLimits(config, model, kDevice, kHost);
  const int64_t bytes = Plan(model, all.weights, all.limits.context_max).bytes();
  config.weights_memory_bytes = bytes;
  EXPECT_EQ(DeriveLimits(config, model, kDevice, kHost)->stream_bytes, 0) << "all fit";
  config.weights_memory_bytes = bytes / 4;
  const Sizing streamed = *DeriveLimits(config, model, kDevice, kHost);
  EXPECT_EQ(streamed.stream_bytes, bytes / 4);
  EXPECT_GT(streamed.limits.blocks, all.limits.blocks);
  EXPECT_GT(streamed.limits.engine_stall_s, all.limits.engine_stall_s);
  config.origins["engine_stall_s"] = "flag";
  EXPECT_EQ(DeriveLimits(config, model, kDevice, kHost)->limits.engine_stall_s, all.limits.engine_stall_s);
  config.adapters = true;
  EXPECT_THAT(DeriveLimits(config, model, kDevice, kHost).status().message(), HasSubstr("--weights-memory"));
}

TEST(Sizing, SessionsMayParkAsMuchAsThePoolHolds) {
  const int64_t block = BlockBytes(Model(), KvType::kBF16);
  const auto parked = [](const Config& config) {
    return DeriveLimits(config, Model(), kDevice, kHost)->limits.parked_blocks;
  };
  Config config;
  config.blocks_override = 100;
  EXPECT_EQ(parked(config), 100);
  config.session_memory_bytes = 10 * block + block - 1;
  EXPECT_EQ(parked(config), 10);
  config.session_memory_bytes = 0;
  EXPECT_EQ(parked(config), 0);
  // A pool of nine tenths of what is left: half of the tenth beside it.
  config = Config();
  config.prefix_caching = false;
  config.memory_utilization = 0.9;
  const Sizing large = *DeriveLimits(config, Model(), kDevice, kHost);
  EXPECT_NEAR(static_cast<double>(large.limits.parked_blocks), large.limits.blocks / 18.0, 2);
}

TEST(Sizing, SwapSpaceIsHostMemoryBesideThePool) {
  const int64_t block = BlockBytes(Model(), KvType::kBF16);
  Config config;
  config.blocks_override = 100;
  EXPECT_EQ(DeriveLimits(config, Model(), kDevice, kHost)->limits.swap_blocks, 0);
  config.swap_space_gib = static_cast<double>(10 * block + block / 2) / (1 << 30);
  EXPECT_EQ(DeriveLimits(config, Model(), kDevice, kHost)->limits.swap_blocks, 10);
  config.swap_space_gib = static_cast<double>(block / 2) / (1 << 30);
  EXPECT_THAT(DeriveLimits(config, Model(), kDevice, kHost).status().message(), HasSubstr("--swap-space"));
  config.swap_space_gib = 1 << 20;
  EXPECT_THAT(DeriveLimits(config, Model(), kDevice, kHost).status().message(), HasSubstr("--swap-space"));
}

TEST(Sizing, AutoTypesAreTheCheckpoints) {
  ModelConfig model = Model();
  for (const DType stored : {DType::kF32, DType::kBF16, DType::kF16}) {
    model.stored_dtype = stored;
    const Sizing sizing = *DeriveLimits(Config(), model, kDevice, kHost);
    EXPECT_EQ(sizing.weights.expanded, stored);
    EXPECT_TRUE(sizing.weights.keep_quantised);
    EXPECT_EQ(sizing.kv_type, KvTypeOf(stored));
  }
  Config config;
  config.weight_dtype = DType::kBF16;
  config.kv_type = KvType::kF32;
  const Sizing asked = *DeriveLimits(config, Model(), kDevice, kHost);
  EXPECT_EQ(asked.weights.expanded, DType::kBF16);
  EXPECT_FALSE(asked.weights.keep_quantised) << "who asks for a type gets it";
  EXPECT_EQ(asked.kv_type, KvType::kF32);
  config.weight_dtype = DType::kF16;
  config.kv_type = KvType::kF16;
  const Sizing half = *DeriveLimits(config, Model(), kDevice, kHost);
  EXPECT_EQ(half.weights.expanded, DType::kF16);
  EXPECT_EQ(half.kv_type, KvType::kF16);
  config.quantization = Quantization::kInt8;
  const Sizing both = *DeriveLimits(config, Model(), kDevice, kHost);
  EXPECT_EQ(both.weights.expanded, DType::kF16) << "of what is not quantised";
  EXPECT_TRUE(both.weights.keep_quantised);
}

TEST(Sizing, Int8KeysAndValuesTakeAByteAndAScalePerTokenAndHead) {
  Config config;
  config.kv_type = KvType::kInt8;
  config.blocks_override = 10;
  const Sizing sizing = *DeriveLimits(config, Model(), kDevice, kHost);
  EXPECT_EQ(sizing.kv_type, KvType::kInt8);
  EXPECT_EQ(BlockBytes(Model(), KvType::kInt8), 30 * 3 * 16 * (2 * (64 + 4) + 8));
  EXPECT_THAT(sizing.explanation, Contains(HasSubstr("(2 x 64 x 1 + 2 x 4 + 8 x 3)")));
}

TEST(Sizing, TheFirstGivenPoolSizeWins) {
  const int64_t block = BlockBytes(Model(), KvType::kBF16);
  const auto blocks = [](const Config& config) { return DeriveLimits(config, Model(), kDevice, kHost)->limits.blocks; };
  Config config;
  config.prefix_caching = false;
  // This model has nothing but a cache; what a step needs is 2,048 rows of queries, keys and values, all twice.
  const int64_t left = kHost.available_memory_bytes - int64_t{2048} * 2 * (9 + 3) * 64 * 4;
  EXPECT_EQ(blocks(config), left / 4 / block) << "a quarter of what is left";
  config.memory_utilization = 0.5;
  EXPECT_EQ(blocks(config), left / 2 / block);
  config.blocks_override = 314;
  EXPECT_EQ(blocks(config), 314);
  config.kv_cache_memory_bytes = 10 * block + 1;
  EXPECT_EQ(blocks(config), 10);
}

TEST(Sizing, ThePoolIsAShareOfWhatTheWeightsLeave) {
  ModelConfig model = Model();
  model.hidden = 576;
  model.ffn = 1536;
  model.vocab = 49152;
  model.rope_dims = 64;
  model.tied_embeddings = true;
  // q and o, k and v, three MLP matrices, the table; bf16.
  const int64_t weights = (int64_t{49152} + 30 * (2 * 576 + 2 * 192 + 3 * 1536)) * 576 * 2;
  const int64_t rope = int64_t{8192} * 64 * 4;
  // For 2,048 tokens the state twice, queries and what attention gives, keys and values, the MLP; for 64 states and logits.
  const int64_t workspace = (int64_t{2048} * (4 * 576 + 2 * 192 + 1536) + int64_t{64} * (576 + 49152)) * 4;
  const int64_t left = kHost.available_memory_bytes - weights - rope - workspace;
  Config config;
  config.prefix_caching = false;
  const Sizing sizing = *DeriveLimits(config, model, kDevice, kHost);
  EXPECT_EQ(sizing.limits.blocks, left / 4 / BlockBytes(model, KvType::kBF16));
  std::string text;
  for (const std::string& line : sizing.explanation) text += line + "\n";
  for (const int64_t term : {weights, rope, workspace, left}) {
    EXPECT_NE(text.find(std::to_string(term)), std::string::npos) << term << " in:\n" << text;
  }
  EXPECT_EQ(DeriveLimits(config, model, kDevice, {weights, 20'000}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(Sizing, LearnedPositionsAndProjectionsAreCounted) {
  ModelConfig model = Model();
  model.hidden = 576;
  model.ffn = 1536;
  model.vocab = 49152;
  Config config;
  config.blocks_override = 10;
  const auto explanation = [&] {
    std::string text;
    const Sizing sizing = *DeriveLimits(config, model, kDevice, kHost);
    for (const std::string& line : sizing.explanation) text += line + "\n";
    return text;
  };
  model.rope_dims = 0;
  model.position_rows = model.context + 2;
  model.position_offset = 2;
  const std::string table = " - " + std::to_string(int64_t{model.context} * model.hidden * 2) + " position table";
  EXPECT_NE(explanation().find(table), std::string::npos) << explanation();
  const auto weight_bytes = [&] { return Plan(model, {DType::kBF16}, model.context).bytes(); };
  const int64_t without = weight_bytes();
  model.embedding_dim = model.hidden / 2;
  EXPECT_NE(weight_bytes(), without);
  EXPECT_NE(explanation().find(std::to_string(weight_bytes()) + " weights"), std::string::npos);
}

TEST(Sizing, WarnsWhereShortTextsGetTheFrequenciesOfLongOnes) {
  ModelConfig model = Model();
  model.rope_dims = 2;
  model.rope_inv_freq = {1};
  Config config;
  config.blocks_override = 1000;
  const auto warnings = [&] { return DeriveLimits(config, model, kDevice, kHost)->warnings; };
  EXPECT_THAT(warnings(), testing::IsEmpty());
  model.rope_long_inv_freq = {0.5};
  model.rope_short_context = 4096;
  EXPECT_THAT(warnings(), testing::ElementsAre(HasSubstr("--max-model-len 4096 serves short ones")));
  config.max_model_len = 4096;
  EXPECT_THAT(warnings(), testing::IsEmpty());
}

TEST(Sizing, AContextWhoseRotaryTableDoesNotFitIsRefusedBeforeItIsMade) {
  ModelConfig model = Model();
  model.context = 1 << 24;
  model.rope_dims = 64;
  Config config;
  config.blocks_override = 10;
  const HostFacts small = {int64_t{2} << 30, 20'000};
  const absl::Status status = DeriveLimits(config, model, kDevice, small).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << "the model's fault: exit 78";
  EXPECT_NE(std::string(status.message()).find("--max-model-len"), std::string::npos) << status;
  config.max_model_len = 8192;
  EXPECT_TRUE(DeriveLimits(config, model, kDevice, small).ok());
}

// A matrix's adapters take 1 MiB per slot here.
TEST(Sizing, AdaptersHaveToFitBesideTheWeightsAndThePoolThatIsAskedFor) {
  ModelConfig model = Model();
  model.hidden = 576;
  model.ffn = 1536;
  DeviceFacts device = kDevice;
  device.adapter_bytes = [](const LinearSpec&, const AdapterSpec& spec) { return int64_t{spec.slots} << 20; };
  const int64_t slot_bytes = int64_t{model.layers} * 4 << 20;
  Config config;
  config.max_model_len = 1024;
  config.adapters = true;
  config.adapters_max = 4;
  config.adapter_rank_max = 32;
  const HostFacts host = {int64_t{2} << 30, 20'000};
  const auto refused = [&] { return std::string(DeriveLimits(config, model, device, host).status().message()); };
  EXPECT_EQ(refused(), "");
  config.adapters_max = 1024;
  EXPECT_THAT(refused(), testing::StartsWith("--max-loras 1024 adapters of rank 32 take " +
                                             std::to_string(1024 * slot_bytes) + " bytes, and "));
  EXPECT_THAT(refused(), testing::EndsWith(" are free beside the weights; lower --max-loras or --max-lora-rank"));
  EXPECT_EQ(DeriveLimits(config, model, device, host).status().code(), absl::StatusCode::kResourceExhausted);
  // A pool that is asked for does not hide it, and is not taken from adapters.
  config.kv_cache_memory_bytes = 100'000'000;
  EXPECT_THAT(refused(), testing::StartsWith("--max-loras 1024 adapters"));
  config.adapters_max = 4;
  EXPECT_EQ(refused(), "");
  config.kv_cache_memory_bytes = (int64_t{2} << 30) - slot_bytes;
  EXPECT_THAT(refused(), HasSubstr(" are free beside the weights and a pool of " +
                                   std::to_string(config.kv_cache_memory_bytes) + " bytes; lower --max-loras"));
  config.kv_cache_memory_bytes = 0;
  config.blocks_override = 1 << 20;
  EXPECT_THAT(refused(), HasSubstr(" are free beside the weights and a pool of "));
}

TEST(Sizing, SlotsAreCountedIn32Bits) {
  Config config;
  config.prefix_caching = false;
  config.blocks_override = std::numeric_limits<int32_t>::max();
  const Sizing sizing = *DeriveLimits(config, Model(), kDevice, kHost);
  EXPECT_EQ(sizing.limits.blocks, std::numeric_limits<int32_t>::max() / kBlockSlots);
}

TEST(Sizing, ConnectionsLeaveRoomForOtherFiles) {
  Config config;
  EXPECT_EQ(DeriveLimits(config, Model(), kDevice, {1 << 30, 1024})->limits.connections_max, 1024 - 96);
  EXPECT_EQ(DeriveLimits(config, Model(), kDevice, {1 << 30, 1 << 20})->limits.connections_max, 10'000);
  EXPECT_EQ(DeriveLimits(config, Model(), kDevice, {1 << 30, 10})->limits.connections_max, 1);
  config.session_dir = "d";
  EXPECT_EQ(DeriveLimits(config, Model(), kDevice, {1 << 30, 1024})->limits.connections_max, (1024 - 104) / 2)
      << "each may have a file of KV open";
  config.session_disk_bytes = 0;
  EXPECT_EQ(DeriveLimits(config, Model(), kDevice, {1 << 30, 1024})->limits.connections_max, 1024 - 96);
}

TEST(Sizing, WhatContradictsIsRefusedByItsFlag) {
  const struct {
    const char* flag;
    std::function<void(Config&)> change;
    absl::StatusCode code;
  } cases[] = {
      {"--max-model-len", [](Config& c) { c.max_model_len = 8193; }, absl::StatusCode::kInvalidArgument},
      {"--max-num-batched-tokens", [](Config& c) { c.batch_tokens_max = 256 + 14; },
       absl::StatusCode::kInvalidArgument},
      {"--kv-cache-memory-bytes", [](Config& c) { c.kv_cache_memory_bytes = 1; }, absl::StatusCode::kResourceExhausted},
  };
  for (const auto& test : cases) {
    Config config;
    test.change(config);
    const absl::Status status = DeriveLimits(config, Model(), kDevice, kHost).status();
    EXPECT_EQ(status.code(), test.code) << test.flag;
    EXPECT_NE(std::string(status.message()).find(test.flag), std::string::npos) << status;
  }
  Config smallest;
  smallest.batch_tokens_max = 256 + 15;
  EXPECT_TRUE(DeriveLimits(smallest, Model(), kDevice, kHost).ok());
}

TEST(Sizing, TheExplanationHasEveryTerm) {
  Config config;
  config.blocks_override = 100;
  const Sizing sizing = *DeriveLimits(config, Model(), kDevice, kHost);
  std::string text;
  for (const std::string& line : sizing.explanation) text += line + "\n";
  for (const char* term : {"bfloat16", "8192", "30 layers x 3 heads x 16 slots", "100 blocks = 1600 slots",
                           "--num-gpu-blocks-override", "256 running"}) {
    EXPECT_NE(text.find(term), std::string::npos) << term << " in:\n" << text;
  }
}

TEST(Sizing, APoolOfLessThanOneFullContextIsAWarning) {
  Config config;
  config.blocks_override = 8192 / 16;
  EXPECT_TRUE(DeriveLimits(config, Model(), kDevice, kHost)->warnings.empty());
  --config.blocks_override;
  const Sizing sizing = *DeriveLimits(config, Model(), kDevice, kHost);
  ASSERT_EQ(sizing.warnings.size(), 1u);
  EXPECT_NE(sizing.warnings[0].find("less than one full context"), std::string::npos);
}

TEST(Sizing, TheRoomIsDescribedInOneLine) {
  Config config;
  config.blocks_override = 1024;
  const Sizing sizing = *DeriveLimits(config, Model(), kDevice, kHost);
  EXPECT_EQ(DescribeRoom(sizing.limits),
            "KV pool of 1024 blocks = 16384 tokens, 2 full contexts; 16384 tokens of parked sessions beside it; "
            "256 sequences at once");
}

TEST(Sizing, EveryLimitIsInTheExplanation) {
  Config config;
  Limits& limits = config.limits;
  int32_t next = 7001;  // numbers that nothing else is
  for (int32_t* limit : {&limits.header_bytes_max,      &limits.header_fields_max,
                         &limits.uri_bytes_max,         &limits.connections_max,
                         &limits.pipelined_bytes_max,   &limits.send_buffer_bytes,
                         &limits.tcp_keepalive_idle_s,  &limits.tcp_keepalive_interval_s,
                         &limits.tcp_keepalive_probes,  &limits.tcp_user_timeout_ms,
                         &limits.json_depth_max,        &limits.json_nodes_max,
                         &limits.prompts_max,           &limits.n_max,
                         &limits.rolling_tokens_max,    &limits.inbox_max,
                         &limits.waiting_sequences_max, &config.blocks_override,
                         &config.batch_tokens_max,      &config.max_model_len}) {
    *limit = next++;
  }
  for (int64_t* limit : {&limits.body_bytes_max, &limits.stream_buffer_bytes_max, &limits.logprobs_kept_max}) {
    *limit = next++;
  }
  for (double* limit : {&limits.header_timeout_s, &limits.body_timeout_s, &limits.keepalive_timeout_s,
                        &limits.stream_stall_s, &limits.engine_stall_s}) {
    *limit = next++;
  }
  const Sizing sizing = *DeriveLimits(config, Model(), kDevice, kHost);
  std::string text;
  for (const std::string& line : sizing.explanation) text += line + "\n";
  for (int32_t number = 7001; number < next; ++number) {
    EXPECT_NE(text.find(std::to_string(number)), std::string::npos) << number << " in:\n" << text;
  }
}

// Weights and the pool lie in the device's memory, what sessions leave in the host's.
TEST(DeriveLimits, ADeviceWithMemoryOfItsOwnGivesMostOfItToThePool) {
  DeviceFacts gpu = kDevice;
  gpu.memory_bytes = int64_t{2} << 30;
  const Sizing sizing = *DeriveLimits(Config(), Model(), gpu, kHost);
  const Sizing host = *DeriveLimits(Config(), Model(), kDevice, {int64_t{2} << 30, 20'000});
  EXPECT_NEAR(sizing.limits.blocks, host.limits.blocks * 0.9 / 0.25, 4);
  Config asked;
  asked.memory_utilization = 0.25;
  EXPECT_EQ(DeriveLimits(asked, Model(), gpu, kHost)->limits.blocks, host.limits.blocks);
  EXPECT_EQ(sizing.limits.parked_blocks, sizing.limits.blocks) << "8 GiB hold as much as the pool";
  EXPECT_LT(DeriveLimits(Config(), Model(), gpu, {int64_t{1} << 20, 20'000})->limits.parked_blocks,
            sizing.limits.blocks);
  EXPECT_NE(sizing.explanation[1].find("device memory"), std::string::npos);
}

ModelConfig ManyTokensModel() {
  ModelConfig model = Model();
  model.vocab = 128'256;
  return model;
}

// A device with 24 GiB of its own.
DeviceFacts Gpu24() {
  DeviceFacts gpu = kDevice;
  gpu.memory_bytes = int64_t{24} << 30;
  return gpu;
}

// The head's weights are read once for all of them, and what their logits take is not the pool's.
TEST(DeriveLimits, ADeviceWithMemoryOfItsOwnFormsTheLogitsOfMoreRowsAtOnce) {
  const ModelConfig model = ManyTokensModel();
  Config config;
  config.sequences_max = 512;
  DeviceFacts gpu = Gpu24();
  EXPECT_EQ(DeriveLimits(config, model, kDevice, {int64_t{24} << 30, 20'000})->logits_rows_max, 64);
  const Sizing sizing = *DeriveLimits(config, model, gpu, kHost);
  EXPECT_EQ(sizing.logits_rows_max, (int64_t{24} << 30) / 100 / (128'256 * 4));
  gpu.memory_bytes = int64_t{80} << 30;
  EXPECT_EQ(DeriveLimits(config, model, gpu, kHost)->logits_rows_max, 512);
  config.sequences_max = 40;
  EXPECT_EQ(DeriveLimits(config, model, gpu, kHost)->logits_rows_max, 64);
}

// Ranks have all logits each: rows of them are counted as often.
TEST(DeriveLimits, EveryRankHasTheLogitsOfAllRows) {
  const ModelConfig model = ManyTokensModel();
  Config config;
  config.sequences_max = 512;
  DeviceFacts gpu = Gpu24();
  const Sizing one = *DeriveLimits(config, model, gpu, kHost);
  gpu.copies = 2;
  const Sizing two = *DeriveLimits(config, model, gpu, kHost);
  EXPECT_EQ(two.logits_rows_max, (int64_t{24} << 30) / 100 / (2 * 128'256 * 4));
  // Half the rows, twice each: the pool is less by the activations of a step alone.
  const int64_t step_bytes = Transformer::WorkspaceBytes(
      model, Plan(model, {}, 100), {.tokens_max = config.batch_tokens_max, .rows_max = 1, .logits_rows_max = 64},
      NoScratch, /*copies=*/1);
  const int64_t row_bytes = 128'256 * 4;
  const int64_t rows_of_one = one.logits_rows_max - 64, rows_of_two = 2 * (two.logits_rows_max - 64);
  EXPECT_NEAR(static_cast<double>((one.limits.blocks - two.limits.blocks) * one.block_bytes),
              0.9 * static_cast<double>(step_bytes + (rows_of_two - rows_of_one) * row_bytes),
              static_cast<double>(2 * one.block_bytes));
}

// What a flag gives to the pool is the pool's, and 64 rows are enough where nothing else is left.
TEST(DeriveLimits, TheLogitsOfMoreRowsLeaveThePoolWhatItWasGiven) {
  const ModelConfig model = ManyTokensModel();
  Config config;
  config.sequences_max = 512;
  DeviceFacts gpu = Gpu24();
  const auto sized = [&] { return *DeriveLimits(config, model, gpu, kHost); };
  const int32_t wanted = sized().logits_rows_max;
  const int64_t row_bytes = 128'256 * 4, block_bytes = sized().block_bytes;
  config.memory_utilization = 1;
  const Sizing all = sized();
  EXPECT_EQ(all.logits_rows_max, 64);
  config.memory_utilization = 0;
  for (const int64_t rows_beside : {0, 100, 1000}) {
    const auto blocks = static_cast<int32_t>(all.limits.blocks - rows_beside * row_bytes / block_bytes);
    const int64_t left = int64_t{all.limits.blocks - blocks} * block_bytes / row_bytes;
    config.blocks_override = blocks;
    EXPECT_EQ(sized().limits.blocks, blocks);
    EXPECT_NEAR(sized().logits_rows_max, std::min<int64_t>(wanted, 64 + left), 1 + block_bytes / row_bytes);
    config.blocks_override = 0;
    config.kv_cache_memory_bytes = blocks * block_bytes;
    EXPECT_EQ(sized().limits.blocks, blocks);
    config.kv_cache_memory_bytes = 0;
  }
  config.memory_utilization = 0.5;
  EXPECT_EQ(sized().limits.blocks, all.limits.blocks / 2);
  EXPECT_EQ(sized().logits_rows_max, wanted);
}

TEST(DeriveLimits, TheScratchOfTheLargestStepIsNotThePools) {
  Config config;
  config.sequences_max = 40;
  StepBounds asked;
  DeviceFacts device = kDevice;
  device.scratch_bytes = [&asked](const StepBounds& bounds) {
    asked = bounds;
    return int64_t{1} << 30;
  };
  const int64_t with = DeriveLimits(config, Model(), device, kHost)->limits.blocks;
  const int64_t without = DeriveLimits(config, Model(), kDevice, kHost)->limits.blocks;
  const int64_t block = BlockBytes(Model(), KvType::kBF16) + 2 * int64_t{30 * 3 * 16 * 8};
  EXPECT_NEAR(with, without - (int64_t{1} << 30) / 4 / block, 1) << "a quarter of a gibibyte less";
  EXPECT_EQ(asked.slots_max, 8192);
  EXPECT_EQ(asked.rows_max, 40);
  EXPECT_EQ(asked.tokens_max, config.batch_tokens_max);
  EXPECT_EQ(asked.adapter_rank_max, 0);
}

// Ranks that share a memory have a copy each of what a step computes with; the pool's blocks are there once.
TEST(DeriveLimits, EveryRankHasItsOwnActivations) {
  const Config config;
  DeviceFacts device = kDevice;
  device.copies = 3;
  const Sizing ranks = *DeriveLimits(config, Model(), device, kHost);
  const Sizing one = *DeriveLimits(config, Model(), kDevice, kHost);
  EXPECT_EQ(ranks.block_bytes, one.block_bytes);
  const int64_t activations = Transformer::WorkspaceBytes(
      Model(), Plan(Model(), {}, 100),
      {.tokens_max = config.batch_tokens_max, .rows_max = 1, .logits_rows_max = one.logits_rows_max}, NoScratch,
      /*copies=*/1);
  EXPECT_NEAR(one.limits.blocks - ranks.limits.blocks, 2 * activations / 4 / one.block_bytes, 1);
  EXPECT_GT(one.limits.blocks - ranks.limits.blocks, 1);
}

// A device is asked for what this model's weights need.
TEST(DeriveLimits, TheScratchIsThatOfTheWeightsAsTheyAreMultiplied) {
  StepBounds asked;
  DeviceFacts device = kDevice;
  device.scratch_bytes = [&asked](const StepBounds& bounds) {
    asked = bounds;
    return int64_t{1};
  };
  device.adapter_bytes = [](const LinearSpec&, const AdapterSpec&) { return int64_t{1}; };
  ModelConfig model = Model();
  model.hidden = 256;
  model.ffn = 512;
  Config config;
  config.adapters = true;
  for (const bool kept : {false, true}) {
    const auto plan = [&](WeightChoice choice, int32_t positions_max) {
      choice.keep_quantised = true;
      return PlanWeights(model, HollowTensors(model, WeightFormat::kQ4_1),
                         kept ? PlainDevice({WeightFormat::kQ4_1}) : PlainDevice(), choice, positions_max);
    };
    for (const DType dtype : {DType::kBF16, DType::kF32}) {
      config.weight_dtype = dtype;
      ASSERT_TRUE(hydrant::DeriveLimits(config, model, plan, device, kHost).ok());
      EXPECT_EQ(asked.quantised_cols_max, kept ? model.q_cols() : 0);
      EXPECT_EQ(asked.adapter_dtype, dtype);
    }
  }
}

TEST(Sizing, AuditsHaveBlocksOfTheirOwnOutOfAShareAndBesideACount) {
  Config config;
  config.kv_audit = 0.1;
  config.blocks_override = 320;
  Sizing sizing = *DeriveLimits(config, Model(), kDevice, kHost);
  EXPECT_EQ(sizing.limits.blocks, 320) << "the pool is what was asked for";
  EXPECT_EQ(sizing.replay_blocks, 20) << "a sixteenth";
  config.blocks_override = 10'000;
  EXPECT_EQ(DeriveLimits(config, Model(), kDevice, kHost)->replay_blocks, 8192 / 16) << "a context is enough";
  config.blocks_override = 0;
  config.max_model_len = 1024;
  sizing = *DeriveLimits(config, Model(), kDevice, kHost);
  EXPECT_EQ(sizing.replay_blocks, 64);
  config.kv_audit = 0;
  EXPECT_EQ(DeriveLimits(config, Model(), kDevice, kHost)->limits.blocks, sizing.limits.blocks + 64)
      << "of the same memory";
  EXPECT_EQ(DeriveLimits(config, Model(), kDevice, kHost)->replay_blocks, 0);
}

// More than there is would be found out by the device, or by whatever the system kills.
TEST(Sizing, AuditsBesideACountOfBlocksHaveToFit) {
  Config config;
  config.memory_utilization = 1;
  const int32_t all = DeriveLimits(config, Model(), kDevice, kHost)->limits.blocks;
  config.memory_utilization = 0;
  config.blocks_override = all;
  EXPECT_TRUE(DeriveLimits(config, Model(), kDevice, kHost).ok());
  config.kv_audit = 0.1;
  const absl::Status refused = DeriveLimits(config, Model(), kDevice, kHost).status();
  EXPECT_THAT(refused.message(), HasSubstr("--kv-audit"));
  EXPECT_THAT(refused.message(), HasSubstr("--num-gpu-blocks-override"));
  const int32_t replays = std::min(8192 / 16, all / 16);
  config.blocks_override = all - replays + 1;
  EXPECT_FALSE(DeriveLimits(config, Model(), kDevice, kHost).ok());
  config.blocks_override = all - replays;
  EXPECT_TRUE(DeriveLimits(config, Model(), kDevice, kHost).ok());
  // A pool in bytes goes before a number of blocks, and they are of it.
  config.kv_cache_memory_bytes = 1 << 30;
  const Sizing both = *DeriveLimits(config, Model(), kDevice, kHost);
  config.blocks_override = 0;
  EXPECT_EQ(both.limits.blocks, DeriveLimits(config, Model(), kDevice, kHost)->limits.blocks);
  EXPECT_LE((both.limits.blocks + both.replay_blocks) * both.block_bytes, 1 << 30);
}

}  // namespace
}  // namespace hydrant
