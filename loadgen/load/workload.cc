#include "loadgen/load/workload.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "loadgen/load/dataset_files.h"
#include "loadgen/load/words.h"

namespace hydrant {
namespace {

// Streams of the seed, see Random.
constexpr uint64_t kConversationStream = 2;
constexpr uint64_t kPrefixStream = 3;
constexpr uint64_t kTenantStream = 4;
constexpr uint64_t kOrderStream = 5;

// vLLM leaves out what is too short to measure or would not fit a small context; tokens.
constexpr int32_t kShareGptTokensMin = 4;
constexpr int32_t kShareGptPromptMax = 1024;
constexpr int32_t kShareGptTotalMax = 2048;
constexpr int32_t kOutputDefault = 128;

bool UsableChat(const std::vector<std::string>& chat) {
  if (chat.size() < 2) return false;
  const int32_t prompt = GuessTokens(chat[0]);
  const int32_t answer = GuessTokens(chat[1]);
  return prompt >= kShareGptTokensMin && answer >= kShareGptTokensMin && prompt <= kShareGptPromptMax &&
         prompt + answer <= kShareGptTotalMax;
}

std::vector<int32_t> DrawIds(Random* random, int32_t count, std::pair<int32_t, int32_t> range) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int32_t& id : ids) id = static_cast<int32_t>(random->Integer(range.first, range.second - 1));
  return ids;
}

template <typename T>
void Shuffle(Random* random, std::vector<T>* items) {
  for (size_t i = items->size(); i > 1; --i) {
    std::swap((*items)[i - 1], (*items)[static_cast<size_t>(random->Integer(0, static_cast<int64_t>(i) - 1))]);
  }
}

}  // namespace

absl::StatusOr<Workload> Workload::Make(WorkloadSpec spec) {
  Workload workload(std::move(spec));
  double total = 0;
  for (const TenantSpec& tenant : workload.spec_.tenants) total += tenant.load > 0 ? tenant.load : tenant.weight;
  double end = 0;
  for (const TenantSpec& tenant : workload.spec_.tenants) {
    end += (tenant.load > 0 ? tenant.load : tenant.weight) / total;
    workload.load_ends_.push_back(end);
  }
  if (workload.spec_.dataset == Dataset::kShareGpt) {
    auto chats = ReadShareGpt(workload.spec_.path);
    if (!chats.ok()) return chats.status();
    std::copy_if(chats->begin(), chats->end(), std::back_inserter(workload.chats_), UsableChat);
    if (workload.chats_.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(workload.spec_.path, ": no conversation can be used"));
    }
    Random random(workload.spec_.seed, kOrderStream);
    Shuffle(&random, &workload.chats_);
  }
  if (workload.spec_.dataset == Dataset::kSonnet) {
    auto lines = ReadLines(workload.spec_.path);
    if (!lines.ok()) return lines.status();
    workload.lines_ = *std::move(lines);
  }
  return workload;
}

Conversation Workload::At(size_t conversation_idx) const {
  Random random(spec_.seed, kConversationStream, conversation_idx);
  Conversation conversation;
  if (spec_.dataset == Dataset::kShareGpt) {
    conversation = FromShareGpt(&random, conversation_idx);
  } else {
    const int32_t turns = spec_.turns.SampleCount(&random, 1);
    for (int32_t i = 0; i < turns; ++i) conversation.turns.push_back(SyntheticTurn(&random, conversation_idx, i));
  }
  for (size_t i = 1; i < conversation.turns.size(); ++i) conversation.turns[i].think_s = spec_.think_s.Sample(&random);
  AddPrefix(&random, &conversation);
  // From a stream of its own: another set of tenants asks the same questions.
  const double draw = Random(spec_.seed, kTenantStream, conversation_idx).Uniform();
  while (conversation.tenant_idx + 1 < load_ends_.size() && draw >= load_ends_[conversation.tenant_idx]) {
    ++conversation.tenant_idx;
  }
  return conversation;
}

Turn Workload::SyntheticTurn(Random* random, size_t conversation_idx, int32_t turn_idx) const {
  Turn turn;
  turn.input_tokens = spec_.input_tokens.SampleCount(random, 1);
  turn.output_tokens_max = spec_.output_tokens.value_or(Distribution(kOutputDefault)).SampleCount(random, 1);
  if (!spec_.lengths.empty() && turn_idx == 0) {
    std::tie(turn.input_tokens, turn.output_tokens_max) = spec_.lengths[conversation_idx % spec_.lengths.size()];
  }
  if (spec_.token_ids.has_value()) {
    turn.token_ids = DrawIds(random, turn.input_tokens, *spec_.token_ids);
  } else if (spec_.dataset == Dataset::kSonnet) {
    turn.text = Lines(random, turn.input_tokens);
  } else {
    AppendWords(random, turn.input_tokens, &turn.text);
  }
  return turn;
}

std::string Workload::Lines(Random* random, int32_t tokens) const {
  std::string text;
  while (GuessTokens(text) < tokens) {
    absl::StrAppend(&text, lines_[static_cast<size_t>(random->Integer(0, std::ssize(lines_) - 1))], "\n");
  }
  return text;
}

Conversation Workload::FromShareGpt(Random* random, size_t conversation_idx) const {
  const std::vector<std::string>& chat = chats_[conversation_idx % chats_.size()];
  const size_t turns = std::min(static_cast<size_t>(spec_.turns.SampleCount(random, 1)), chat.size() / 2);
  Conversation conversation;
  for (size_t i = 0; i < turns; ++i) {
    Turn turn;
    turn.text = chat[2 * i];
    turn.input_tokens = GuessTokens(turn.text);
    turn.output_tokens_max =
        spec_.output_tokens.has_value() ? spec_.output_tokens->SampleCount(random, 1) : GuessTokens(chat[2 * i + 1]);
    conversation.turns.push_back(std::move(turn));
  }
  return conversation;
}

void Workload::AddPrefix(Random* random, Conversation* conversation) const {
  if (spec_.prefix_tokens == 0) return;
  const uint64_t prefix = static_cast<uint64_t>(random->Integer(0, spec_.prefixes - 1));
  Random prefix_random(spec_.seed, kPrefixStream, prefix);
  if (spec_.token_ids.has_value()) {
    Turn& first = conversation->turns[0];
    std::vector<int32_t> ids = DrawIds(&prefix_random, spec_.prefix_tokens, *spec_.token_ids);
    first.token_ids.insert(first.token_ids.begin(), ids.begin(), ids.end());
    first.input_tokens += spec_.prefix_tokens;
    return;
  }
  conversation->system_tokens = spec_.prefix_tokens;
  if (spec_.dataset == Dataset::kSonnet) {
    conversation->system = Lines(&prefix_random, spec_.prefix_tokens);
  } else {
    AppendWords(&prefix_random, spec_.prefix_tokens, &conversation->system);
  }
}

}  // namespace hydrant
