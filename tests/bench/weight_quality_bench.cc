// What multiplying weights as they are stored, or expanded to bf16, costs in quality, and what keeping keys and values in
// fewer bits does: a model's next-token distributions against those of the same file expanded to fp32 with an fp32 cache, over
// texts.
//
//   weight_quality_bench MODEL TEXT… [--dtype auto|bfloat16|float32] [--kv-dtype float32|float16|bfloat16|int8]
//                        [--context n] [--tokens n] [--threads n]
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "tests/bench/kv_types.h"
#include "tests/model/run/weight_quality.h"

int main(int argc, char** argv) {
  std::string model, dtype = "auto";
  hydrant::KvType kv_type = hydrant::KvType::kF32;
  std::vector<std::string> texts;
  int context = 512, tokens = 1 << 16, threads = 2;
  CLI::App app{"Quality of weights as they are stored against the same file expanded to fp32."};
  app.add_option("MODEL", model)->required();
  app.add_option("TEXT", texts, "files")->required();
  app.add_option("--dtype", dtype, "auto: as they are stored")
      ->check(CLI::IsMember({"auto", "bfloat16", "float32"}))
      ->capture_default_str();
  app.add_option("--kv-dtype", kv_type, "of the cache that is compared (default: float32)")
      ->transform(CLI::Transformer(hydrant::KvTypesByName()));
  app.add_option("--context", context)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--tokens", tokens, "at most so many")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--threads", threads)->check(CLI::PositiveNumber)->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  const auto checkpoint = hydrant::Checkpoint::Open(model);
  if (!checkpoint.ok()) {
    std::fprintf(stderr, "%s\n", std::string(checkpoint.status().message()).c_str());
    return 78;
  }
  std::vector<int32_t> ids;
  for (const std::string& path : texts) {
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const std::vector<int32_t> more = (*checkpoint)->tokenizer->Encode(text, {});
    ids.insert(ids.end(), more.begin(), more.end());
  }
  if (ids.size() > static_cast<size_t>(tokens)) ids.resize(static_cast<size_t>(tokens));
  if (ids.size() < static_cast<size_t>(context)) {
    std::fprintf(stderr, "the texts have %zu tokens, fewer than a context\n", ids.size());
    return 1;
  }
  const hydrant::WeightChoice choice = {dtype == "bfloat16" ? hydrant::DType::kBF16 : hydrant::DType::kF32,
                                        /*keep_quantised=*/dtype == "auto"};
  const hydrant::WeightQuality quality =
      hydrant::CompareWeights(**checkpoint, {choice, kv_type}, ids, context, threads);
  std::printf(
      "%zu positions in contexts of %d: mean KL %.3g, median %.3g, 99.9 %% %.3g, max %.3g; same top token %.2f %%\n",
      quality.kl.size(), context, quality.mean_kl(), quality.kl_at(0.5), quality.kl_at(0.999), quality.kl_at(1),
      100 * quality.same_top);
  std::printf("perplexity %.4f expanded, %.4f in the other form: %+.3f %%\n", std::exp(quality.loss_expanded),
              std::exp(quality.loss_other), 100 * (quality.perplexity_ratio() - 1));
  return 0;
}
