// What multiplying weights as they are stored, or expanded to bf16, costs in quality, and what keeping keys and values in
// fewer bits does: a model's next-token distributions against those of the same file expanded to fp32 with an fp32 cache, over
// texts.
//
//   weight_quality_bench MODEL TEXT… [--dtype auto|bfloat16|float32] [--kv-dtype float32|float16|bfloat16|int8]
//                        [--context n] [--tokens n] [--threads n]
//   weight_quality_bench MODEL --peer-logits FILE [--dtype …] [--kv-dtype …] [--threads n]
//
// With what llama-perplexity wrote the texts are those of the file, and llama.cpp's distributions are compared with the same.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "tests/bench/kv_types.h"
#include "tests/bench/peer_logits.h"
#include "tests/bench/reads_name.h"
#include "tests/model/run/weight_quality.h"

namespace {

using hydrant::Checkpoint;
using hydrant::WeightQuality;

struct Arguments {
  std::string model, dtype = "auto", peer_logits;
  hydrant::KvType kv_type = hydrant::KvType::kF32;
  std::vector<std::string> texts;
  int context = 512, tokens = 1 << 16, threads = 2;

  hydrant::OtherForm form() const {
    return {{dtype == "bfloat16" ? hydrant::DType::kBF16 : hydrant::DType::kF32, /*keep_quantised=*/dtype == "auto"},
            kv_type};
  }
};

void Print(const char* what, const WeightQuality& quality, int context) {
  std::printf(
      "%zu positions in contexts of %d: mean KL %.3g, median %.3g, 99.9 %% %.3g, max %.3g; same top token %.2f %%\n",
      quality.kl.size(), context, quality.mean_kl(), quality.kl_at(0.5), quality.kl_at(0.999), quality.kl_at(1),
      100 * quality.same_top);
  std::printf("perplexity %.4f expanded, %.4f %s: %+.3f %%\n", std::exp(quality.loss_expanded),
              std::exp(quality.loss_other), what, 100 * (quality.perplexity_ratio() - 1));
}

// Both distributions without the tokens of which llama.cpp's file keeps no probability; these count as one token, the last. Tells
// which the token `next` then is.
int32_t Group(std::span<const double> ours, std::span<const double> theirs, int32_t next, std::vector<double>* p,
              std::vector<double>* q) {
  p->clear();
  q->clear();
  double p_rest = 0, q_kept = 0;
  int32_t next_of_all = -1;
  for (size_t i = 0; i < ours.size(); ++i) {
    if (!std::isfinite(theirs[i])) {
      p_rest += std::exp(ours[i]);
      continue;
    }
    if (static_cast<int32_t>(i) == next) next_of_all = static_cast<int32_t>(p->size());
    q_kept += std::exp(theirs[i]);
    p->push_back(ours[i]);
    q->push_back(theirs[i]);
  }
  const double least = 1e-9;  // below what 16 bits tell
  p->push_back(std::log(std::max(p_rest, least)));
  q->push_back(std::log(std::max(1 - q_kept, least)));
  return next_of_all >= 0 ? next_of_all : static_cast<int32_t>(p->size()) - 1;
}

int CompareWithPeer(const Checkpoint& checkpoint, const Arguments& arguments) {
  hydrant::PeerLogits peer(arguments.peer_logits);
  if (!peer.ok() || peer.vocab() != checkpoint.config.vocab) {
    std::fprintf(stderr, "%s holds no logits of this model\n", arguments.peer_logits.c_str());
    return 1;
  }
  const int32_t context = peer.context();
  const hydrant::OtherForm form = arguments.form();
  hydrant::TeacherForced expanded(checkpoint, {hydrant::DType::kF32}, hydrant::KvType::kF32, context,
                                  arguments.threads);
  hydrant::TeacherForced other(checkpoint, form.weights, form.kv_type, context, arguments.threads);
  const std::vector<int32_t> first = checkpoint.tokenizer->Encode("", {.add_special_tokens = true});
  hydrant::QualitySum ours, theirs;
  std::vector<double> of_peer, grouped, grouped_peer;
  for (std::span<const int32_t> ids = peer.ids(); !ids.empty(); ids = ids.subspan(static_cast<size_t>(context))) {
    std::vector<int32_t> text(ids.begin(), ids.begin() + context);
    if (!first.empty()) text[0] = first[0];
    bool whole = true;
    hydrant::ForEachPosition(expanded, other, static_cast<size_t>(checkpoint.config.vocab), text, peer.first(),
                             [&](int32_t index, std::span<const double> p, std::span<const double> q) {
                               const int32_t next = text[static_cast<size_t>(index) + 1];
                               whole = whole && peer.Next(&of_peer);
                               if (!whole) return;
                               ours.Add(p, q, next);
                               const int32_t grouped_next = Group(p, of_peer, next, &grouped, &grouped_peer);
                               theirs.Add(grouped, grouped_peer, grouped_next);
                             });
    if (!whole) {
      std::fprintf(stderr, "%s ends early\n", arguments.peer_logits.c_str());
      return 1;
    }
  }
  Print("in the other form", ours.Done(), context);
  Print("by llama.cpp", theirs.Done(), context);
  return 0;
}

int CompareForms(const Checkpoint& checkpoint, const Arguments& arguments) {
  std::vector<int32_t> ids;
  for (const std::string& path : arguments.texts) {
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const std::vector<int32_t> more = checkpoint.tokenizer->Encode(text, {});
    ids.insert(ids.end(), more.begin(), more.end());
  }
  if (ids.size() > static_cast<size_t>(arguments.tokens)) ids.resize(static_cast<size_t>(arguments.tokens));
  if (ids.size() < static_cast<size_t>(arguments.context)) {
    std::fprintf(stderr, "the texts have %zu tokens, fewer than a context\n", ids.size());
    return 1;
  }
  Print("in the other form",
        hydrant::CompareWeights(checkpoint, arguments.form(), ids, arguments.context, arguments.threads),
        arguments.context);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"Quality of weights as they are stored against the same file expanded to fp32."};
  app.add_option("MODEL", arguments.model)->required();
  auto* texts = app.add_option("TEXT", arguments.texts, "files");
  app.add_option("--peer-logits", arguments.peer_logits, "what llama-perplexity --save-all-logits wrote")
      ->excludes(texts);
  app.add_option("--dtype", arguments.dtype, "auto: as they are stored")
      ->check(CLI::IsMember({"auto", "bfloat16", "float32"}))
      ->capture_default_str();
  app.add_option("--kv-dtype", arguments.kv_type, "of the cache that is compared (default: float32)")
      ->transform(hydrant::ReadsName(hydrant::KvTypesByName()));
  app.add_option("--context", arguments.context)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--tokens", arguments.tokens, "at most so many")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--threads", arguments.threads)->check(CLI::PositiveNumber)->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  const auto checkpoint = Checkpoint::Open(arguments.model);
  if (!checkpoint.ok()) {
    std::fprintf(stderr, "%s\n", std::string(checkpoint.status().message()).c_str());
    return 78;
  }
  return arguments.peer_logits.empty() ? CompareForms(**checkpoint, arguments)
                                       : CompareWithPeer(**checkpoint, arguments);
}
