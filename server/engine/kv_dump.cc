#include "server/engine/kv_dump.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "api/wire/json_writer.h"

namespace hydrant {
namespace {

// Writes "[a,b,…]" with `append(item)` for each item.
template <typename List, typename Append>
void AppendList(std::string* out, const List& list, const Append& append) {
  out->push_back('[');
  bool first = true;
  for (const auto& item : list) {
    if (!first) out->push_back(',');
    first = false;
    append(item);
  }
  out->push_back(']');
}

const char* Name(GqaReduce reduce) {
  switch (reduce) {
    case GqaReduce::kSum:
      return "sum";
    case GqaReduce::kMean:
      return "mean";
    case GqaReduce::kFirst:
      return "first";
  }
  return "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<KvDump>> KvDump::Open(const std::string& path, std::vector<std::string> preset_names) {
  std::ofstream file(path, std::ios::app);
  if (!file)
    return absl::InvalidArgumentError(absl::StrCat("--debug-kv-dump ", path, ": cannot be opened for writing"));
  return std::unique_ptr<KvDump>(new KvDump(std::move(file), std::move(preset_names)));
}

void KvDump::OnAccept(const SequenceRequest& sequence) {
  Record& record = records_[sequence.request.id];
  record.prompt = sequence.request.prompt;
  record.policy = sequence.policy;
  record.budget = sequence.request.budget;
  record.label = sequence.policy_label;
}

KvDump::Record* KvDump::Find(int32_t state_row) {
  const Scheduler& scheduler = core_->scheduler();
  for (const int32_t index : scheduler.running_sequences()) {
    if (scheduler.sequence(index).state_row != state_row) continue;
    const auto found = records_.find(scheduler.sequence(index).request.id);
    return found == records_.end() ? nullptr : &found->second;
  }
  return nullptr;
}

void KvDump::OnPromptDone(int32_t state_row, Positions kept) {
  if (Record* record = Find(state_row); record != nullptr) record->kept = std::move(kept);
}

void KvDump::OnDecode(int32_t state_row, std::optional<std::vector<std::vector<int32_t>>> victims) {
  if (Record* record = Find(state_row); record != nullptr) record->victims.push_back(std::move(victims));
}

void KvDump::OnEvents(std::span<const EngineEvent> events) {
  for (const EngineEvent& event : events) {
    const auto found = records_.find(event.id);
    if (found == records_.end()) continue;
    if (event.token >= 0) found->second.tokens.push_back(event.token);
    if (event.finish == FinishReason::kNone) continue;
    Write(found->second);
    records_.erase(found);
  }
}

void KvDump::Write(const Record& record) {
  std::string line = "{\"prompt_ids\":";
  AppendJsonIntegers(&line, record.prompt);
  line += ",\"tokens\":";
  AppendJsonIntegers(&line, record.tokens);
  const EvictionPolicy& policy = record.policy;
  line += ",\"policy\":{\"preset\":";
  AppendJsonString(&line, preset_names_[static_cast<size_t>(record.label)]);
  absl::StrAppend(&line, ",\"evicts\":", policy.evicts ? "true" : "false",
                  ",\"heavy\":", policy.evicts ? policy.heavy : 0, ",\"recent\":", policy.evicts ? policy.recent : 0,
                  ",\"score_source\":", policy.score_source == ScoreSource::kAttention ? "\"attention\"" : "\"none\"",
                  ",\"gqa_reduce\":\"", Name(policy.gqa_reduce), "\",\"square\":", policy.square ? "true" : "false",
                  ",\"decay\":");
  AppendJsonFloat(&line, policy.decay);
  absl::StrAppend(&line, ",\"score_rows\":", policy.score_rows, ",\"pool_width\":", policy.pool_width,
                  ",\"store_pooled\":", policy.store_pooled ? "true" : "false",
                  ",\"rolling\":", policy.rolling ? "true" : "false", ",\"pins\":", policy.evicts ? policy.pins() : 0,
                  ",\"periodic\":", record.budget.periodic ? record.budget.slack : 0, "}");
  line += ",\"kept_after_prefill\":";
  const auto append_ids = [&line](const std::vector<int32_t>& ids) { AppendJsonIntegers(&line, ids); };
  AppendList(&line, record.kept, [&](const auto& heads) { AppendList(&line, heads, append_ids); });
  line += ",\"victims\":";
  AppendList(&line, record.victims, [&](const auto& victims) {
    if (victims.has_value()) {
      AppendList(&line, *victims, append_ids);
    } else {
      line += "null";
    }
  });
  line += "}\n";
  file_ << line << std::flush;
}

}  // namespace hydrant
