// An engine that takes nothing and does nothing: what tests override of it is what they look at.
#ifndef HYDRANT_TESTS_SUPPORT_STUB_ENGINE_H_
#define HYDRANT_TESTS_SUPPORT_STUB_ENGINE_H_

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "server/engine/engine_port.h"

namespace hydrant {

class StubEngine : public EnginePort {
 public:
  std::optional<uint64_t> TrySubmit(GenerationJob) override { return std::nullopt; }
  void Cancel(std::list<IdRange>) noexcept override {}
  void Resume(uint64_t, int32_t) override {}
  Backlog backlog() const override { return {}; }
  void SetTenants(std::vector<TenantOptions>) override {}
  void PauseAdmission(bool) override {}
  void ResetPrefixes() override {}
  void SettleTurn(TurnId, bool) override {}
  void DropSession(uint64_t) override {}
  void ReadKv(uint64_t, bool, std::shared_ptr<KvReading>, std::function<void()> done) override { done(); }
  void TakeParked(TurnId, std::function<void(KvBytes)> done) override { done({}); }
  EngineCounters counters() const override { return {}; }
  bool stalled() const override { return false; }
  void Stop() override {}
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SUPPORT_STUB_ENGINE_H_
