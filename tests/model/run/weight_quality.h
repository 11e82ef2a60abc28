// What it costs to multiply weights in another form than fp32, such as that in which they are stored, or to keep keys and
// values in another type: the next-token distributions of one checkpoint in both, on the same text.
#ifndef HYDRANT_TESTS_MODEL_RUN_WEIGHT_QUALITY_H_
#define HYDRANT_TESTS_MODEL_RUN_WEIGHT_QUALITY_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "model/checkpoint/checkpoint.h"
#include "model/run/kv_cache.h"
#include "model/run/transformer.h"
#include "model/weights/weights.h"

namespace hydrant {

// Runs texts of at most `context` tokens from their beginning.
class TeacherForced {
 public:
  static constexpr int32_t kLogitsRows = 32;

  TeacherForced(const Checkpoint& checkpoint, WeightChoice choice, KvType kv_type, int32_t context, int threads)
      : device_(CpuDevice::Create({.threads = threads}).value()),
        cache_(*device_, {.layers = checkpoint.config.layers,
                          .blocks = static_cast<int32_t>(BlocksForSlots(context)),
                          .kv_heads = checkpoint.config.kv_heads,
                          .head_dim = checkpoint.config.head_dim,
                          .type = kv_type,
                          .state_rows = 1}),
        transformer_(checkpoint.config, Load(checkpoint, *device_, choice, kv_type, context), *device_,
                     {.tokens_max = context, .rows_max = 1, .slots_max = context, .logits_rows_max = kLogitsRows}),
        table_(BlocksForSlots(context)) {
    std::iota(table_.begin(), table_.end(), 0);
  }

  void Forward(std::span<const int32_t> ids) {
    BatchRow row;
    row.prompt_length = row.token_count = static_cast<int32_t>(ids.size());
    row.prefill = true;
    row.block_table = table_;
    row.score_table = table_;
    transformer_.Forward({ids, {&row, 1}}, cache_.view());
  }

  // [indices, vocab], valid until the next call.
  const float* Logits(std::span<const int32_t> indices) {
    return static_cast<const float*>(transformer_.Logits(indices).data);
  }

 private:
  static Weights Load(const Checkpoint& checkpoint, Device& device, WeightChoice choice, KvType kv_type,
                      int32_t context) {
    WeightPlan plan = PlanWeights(checkpoint, device, choice, context);
    plan.balance_keys = kv_type == KvType::kInt8;
    return LoadWeights(checkpoint, device, plan);
  }

  std::unique_ptr<CpuDevice> device_;
  KvCache cache_;
  Transformer transformer_;
  std::vector<int32_t> table_;
};

struct WeightQuality {
  std::vector<double> kl;                    // KL(expanded || other) of every position, ascending
  double same_top = 0;                       // share of positions whose most probable token is the same
  double loss_expanded = 0, loss_other = 0;  // mean -log p of the text's next token

  double mean_kl() const { return std::accumulate(kl.begin(), kl.end(), 0.0) / static_cast<double>(kl.size()); }
  double kl_at(double share) const { return kl[static_cast<size_t>(share * static_cast<double>(kl.size() - 1))]; }
  // The other form's perplexity by that of fp32.
  double perplexity_ratio() const { return std::exp(loss_other - loss_expanded); }
};

// log p of every token -> out.
inline void LogSoftmax(std::span<const float> logits, std::vector<double>* out) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - *largest);
  out->clear();
  for (const float logit : logits) out->push_back(static_cast<double>(logit) - *largest - std::log(sum));
}

// Adds up WeightQuality over positions.
class QualitySum {
 public:
  // log p of every token, expanded and in the other form; `next` follows in the text.
  void Add(std::span<const double> expanded, std::span<const double> other, int32_t next) {
    double kl = 0;
    for (size_t i = 0; i < expanded.size(); ++i) kl += std::exp(expanded[i]) * (expanded[i] - other[i]);
    sum_.kl.push_back(kl);
    const auto top = [](std::span<const double> p) { return std::max_element(p.begin(), p.end()) - p.begin(); };
    sum_.same_top += top(expanded) == top(other) ? 1 : 0;
    sum_.loss_expanded -= expanded[static_cast<size_t>(next)];
    sum_.loss_other -= other[static_cast<size_t>(next)];
  }

  WeightQuality Done() {
    const auto count = static_cast<double>(sum_.kl.size());
    sum_.same_top /= count;
    sum_.loss_expanded /= count;
    sum_.loss_other /= count;
    std::sort(sum_.kl.begin(), sum_.kl.end());
    return std::move(sum_);
  }

 private:
  WeightQuality sum_;
};

// What is compared with weights, keys and values in fp32.
struct OtherForm {
  WeightChoice weights;
  KvType kv_type = KvType::kF32;
};

// Calls see(index, log p expanded, log p in the other form) for positions [begin, context - 1) of one text: the last has no next token.
template <typename See>
void ForEachPosition(TeacherForced& expanded, TeacherForced& other, size_t vocab, std::span<const int32_t> text,
                     int32_t begin, const See& see) {
  const auto context = static_cast<int32_t>(text.size());
  std::vector<double> p, q;
  expanded.Forward(text);
  other.Forward(text);
  for (; begin + 1 < context; begin += TeacherForced::kLogitsRows) {
    std::vector<int32_t> indices(static_cast<size_t>(std::min(TeacherForced::kLogitsRows, context - 1 - begin)));
    std::iota(indices.begin(), indices.end(), begin);
    const float* from = expanded.Logits(indices);
    const float* to = other.Logits(indices);
    for (const int32_t index : indices) {
      LogSoftmax({from, vocab}, &p);
      LogSoftmax({to, vocab}, &q);
      see(index, p, q);
      from += vocab;
      to += vocab;
    }
  }
}

// Cuts `ids` into texts of `context` tokens; what is left over is not looked at.
inline WeightQuality CompareWeights(const Checkpoint& checkpoint, const OtherForm& form, std::span<const int32_t> ids,
                                    int32_t context, int threads) {
  TeacherForced expanded(checkpoint, {DType::kF32}, KvType::kF32, context, threads);
  TeacherForced other(checkpoint, form.weights, form.kv_type, context, threads);
  QualitySum sum;
  for (; ids.size() >= static_cast<size_t>(context); ids = ids.subspan(static_cast<size_t>(context))) {
    const std::span<const int32_t> text = ids.first(static_cast<size_t>(context));
    ForEachPosition(expanded, other, static_cast<size_t>(checkpoint.config.vocab), text, 0,
                    [&](int32_t index, std::span<const double> p, std::span<const double> q) {
                      sum.Add(p, q, text[static_cast<size_t>(index) + 1]);
                    });
  }
  return sum.Done();
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_MODEL_RUN_WEIGHT_QUALITY_H_
