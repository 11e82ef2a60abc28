// An Executor without a model: what it "samples" is a function of the position, so every answer is known beforehand. A
// test can hold it or make it fail. Steps may overlap.
#ifndef HYDRANT_TESTS_SUPPORT_SCRIPTED_EXECUTOR_H_
#define HYDRANT_TESTS_SUPPORT_SCRIPTED_EXECUTOR_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "kernels/kv_cache_view.h"
#include "model/run/executor.h"

namespace hydrant {

// (layer, KV head) pairs of a cache that is not there.
inline constexpr int32_t kScriptedPairs = 6;

class ScriptedExecutor : public Executor {
 public:
  // The token sampled for `position`; by default the alphabet, over and over. Set before the engine starts.
  std::function<int32_t(const StepRow& row, int32_t position)> next = [](const StepRow&, int32_t position) {
    return 'a' + position % 26;
  };
  std::function<void()> on_step = [] {};  // Await calls it for each. Set before the engine starts.
  std::atomic<bool> not_finite = false;   // rows that sample are not finite
  std::atomic<bool> fails = false;        // Await throws
  std::atomic<int64_t> read_ms = 0;       // that reading a session's KV takes
  std::atomic<int64_t> launches = 0;      // steps that began
  std::atomic<int64_t> steps = 0;         // ended
  std::atomic<int64_t> left_out = 0;      // of these, as somebody had come

  // No step ends, or only the next `more`, until Release.
  void Hold(int64_t more = 0) {
    steps_max_ = steps + more;
    steps_max_.notify_all();
  }
  void Release() {
    steps_max_ = std::numeric_limits<int64_t>::max();
    steps_max_.notify_all();
  }

  Ticket Launch(const StepInput& input) override {
    inputs_[static_cast<size_t>(launches++ % kStepsInFlight)] = &input;
    return {};
  }

  void Sample(Ticket, std::span<const LogitAdjustments* const>) override {}

  StepOutput Await(Ticket) override {
    for (int64_t most; steps >= (most = steps_max_);) steps_max_.wait(most);
    if (fails) throw std::runtime_error("the device is gone");
    on_step();
    const StepInput& input = *inputs_[static_cast<size_t>(steps++ % kStepsInFlight)];
    for (const ReadOp& read : input.reads) Read(read);
    StepOutput output;
    output.left_out = input.overtaken != nullptr && *input.overtaken;
    if (output.left_out) {
      ++left_out;
      return output;
    }
    for (const StepRow& row : input.rows) {
      RowOutput& answer = output.rows.emplace_back();
      answer.losses.resize(static_cast<size_t>(row.losses.cuts));
      for (const int32_t target : row.targets)
        answer.targets.push_back(Result(target, row.target_logprobs, row.target_ranks));
      if (row.states != nullptr) AddStates(row);
      if (!row.sample) continue;
      const int32_t position = row.position + static_cast<int32_t>(row.tokens.size());
      answer.sampled = Result(next(row, position), row.logprobs);
      answer.sampled.finite = !not_finite;
    }
    return output;
  }

 private:
  // Token i lies in slot i of every pair, with score i + 1.
  void Read(const ReadOp& read) const {
    for (const auto began = std::chrono::steady_clock::now();
         std::chrono::steady_clock::now() - began < std::chrono::milliseconds(read_ms);) {
      std::this_thread::yield();
    }
    KvScores& out = *read.out;
    out.blocks = static_cast<int32_t>(BlocksForSlots(read.live));
    out.scores.clear();
    out.positions.clear();
    for (int32_t block = 0; block < out.blocks; ++block) {
      for (int32_t i = 0; i < kScriptedPairs * kBlockSlots; ++i) {
        out.positions.push_back(block * kBlockSlots + i % kBlockSlots);
        out.scores.push_back(static_cast<float>(out.positions.back() + 1));
      }
    }
  }

  // Token t at position p has the state [t, p + 1].
  static void AddStates(const StepRow& row) {
    const auto count = static_cast<int32_t>(row.tokens.size());
    const bool takes_all = row.states->pooling() == Pooling::kMean;
    const bool ends_prompt = row.position + count == row.prompt_length;
    for (int32_t i = takes_all ? 0 : ends_prompt ? count - 1 : count; i < count; ++i) {
      const float state[] = {static_cast<float>(row.tokens[static_cast<size_t>(i)]),
                             static_cast<float>(row.position + i + 1)};
      row.states->Add(state);
    }
  }

  // Log-probabilities that say which token they belong to: -id / 100, rank id + 1, candidates 0, 1, … below it.
  static SampleResult Result(int32_t id, int32_t logprobs, bool rank = false) {
    SampleResult result;
    result.rank = rank ? id + 1 : 0;
    result.id = id;
    result.logprob = static_cast<float>(-id) / 100;
    result.best = logprobs >= 0 ? 0 : -1;
    for (int32_t k = 0; k < logprobs; ++k) result.top.push_back({k, static_cast<float>(-k)});
    return result;
  }

  const StepInput* inputs_[kStepsInFlight] = {};  // in turn
  std::atomic<int64_t> steps_max_ = std::numeric_limits<int64_t>::max();
};

// The next character of `text` for each generated token, then the end of the sequence (id 256).
inline std::function<int32_t(const StepRow&, int32_t)> Recite(std::string text) {
  return [text = std::move(text)](const StepRow& row, int32_t position) {
    const auto at = static_cast<size_t>(position - row.prompt_length);
    return at < text.size() ? static_cast<int32_t>(static_cast<unsigned char>(text[at])) : 256;
  };
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SUPPORT_SCRIPTED_EXECUTOR_H_
