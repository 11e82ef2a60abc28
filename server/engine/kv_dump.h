// KvDump writes --debug-kv-dump: for every sequence that ends, one JSON object on one line with its tokens, the
// positions that were kept after the prompt, and the victims of each decode step. A check replays its decisions against
// an oracle.
//
// Thread: engine (and set-up). For debugging: it writes on the engine thread and holds token ids of requests.
#ifndef HYDRANT_SERVER_ENGINE_KV_DUMP_H_
#define HYDRANT_SERVER_ENGINE_KV_DUMP_H_

#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/run/model_executor.h"
#include "server/engine/engine_core.h"
#include "server/engine/engine_port.h"

namespace hydrant {

class KvDump : public KvDumpSink {
 public:
  // `preset_names[label]` is the name of DecodeOptions::policy_label.
  static absl::StatusOr<std::unique_ptr<KvDump>> Open(const std::string& path, std::vector<std::string> preset_names);

  // The core whose state rows the sink's calls mean. Before the first step.
  void Attach(const EngineCore& core) { core_ = &core; }

  void OnAccept(const SequenceRequest& sequence);
  void OnRefuse(uint64_t id) { records_.erase(id); }
  // Books the tokens of a step and writes what has ended.
  void OnEvents(std::span<const EngineEvent> events);

  void OnPromptDone(int32_t state_row, Positions kept) override;
  void OnDecode(int32_t state_row, std::optional<std::vector<std::vector<int32_t>>> victims) override;

 private:
  struct Record {
    std::vector<int32_t> prompt;
    std::vector<int32_t> tokens;
    EvictionPolicy policy;
    KvBudget budget;
    int32_t label = 0;
    Positions kept;
    std::vector<std::optional<std::vector<std::vector<int32_t>>>> victims;
  };

  KvDump(std::ofstream file, std::vector<std::string> preset_names)
      : file_(std::move(file)), preset_names_(std::move(preset_names)) {}
  Record* Find(int32_t state_row);
  void Write(const Record& record);

  std::ofstream file_;
  const std::vector<std::string> preset_names_;
  const EngineCore* core_ = nullptr;
  std::map<uint64_t, Record> records_;  // by sequence id
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ENGINE_KV_DUMP_H_
