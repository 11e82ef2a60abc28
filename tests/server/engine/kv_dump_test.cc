#include "server/engine/kv_dump.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "server/kv/kv_resolution.h"
#include "server/process/clock.h"
#include "tests/support/scripted_executor.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

std::string Contents(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

EngineCoreOptions Options() {
  EngineCoreOptions options;
  options.scheduler.blocks = 64;
  options.scheduler.sequences_max = 4;
  options.scheduler.waiting_max = 4;
  options.scheduler.eos_ids = {256};
  options.vocab = 258;
  options.context = 512;
  return options;
}

TEST(KvDump, WritesALinePerSequenceWhenItEnds) {
  const TempDir dir;
  const std::string path = dir.File("dump.jsonl");
  {
    auto dump = KvDump::Open(path, KvPolicyLabels());
    ASSERT_TRUE(dump.ok());
    ScriptedExecutor executor;
    auto core = EngineCore::Create(Options(), executor, MonotonicUs);
    ASSERT_TRUE(core.ok());
    (*dump)->Attach(**core);

    SequenceRequest sequence;
    sequence.request.id = 7;
    sequence.request.prompt = {1, 2, 3};
    sequence.request.max_tokens = 2;
    sequence.request.budget = KvBudget::Exact(2);
    sequence.policy.evicts = true;
    sequence.policy.heavy = 1;
    sequence.policy.recent = 1;
    sequence.policy_label = 1;
    (*dump)->OnAccept(sequence);
    ASSERT_TRUE((*core)->Add(sequence).ok());

    (*dump)->OnEvents((*core)->Step());
    EXPECT_EQ(Contents(path), "") << "nothing before the end";
    const int32_t row = (*core)->scheduler().sequence((*core)->scheduler().running_sequences()[0]).state_row;
    (*dump)->OnPromptDone(row, {{{0, 2}, {1, 2}}});
    (*dump)->OnDecode(row, std::vector<std::vector<int32_t>>{{0, 1}});
    (*dump)->OnDecode(row, std::nullopt);
    (*dump)->OnDecode(row + 1, std::nullopt);  // nobody's row
    (*dump)->OnEvents((*core)->Step());
  }
  EXPECT_EQ(
      Contents(path),
      R"({"prompt_ids":[1,2,3],"tokens":[100,101],"policy":{"preset":"h2o","evicts":true,"heavy":1,"recent":1,)"
      R"("score_source":"attention","gqa_reduce":"sum","square":false,"decay":1.0,"score_rows":0,"pool_width":1,)"
      R"("store_pooled":true,"rolling":false,"pins":0,"periodic":0},"kept_after_prefill":[[[0,2],[1,2]]],"victims":[[[0,1]],null]})"
      "\n");
}

TEST(KvDump, ARefusedSequenceLeavesNothing) {
  const TempDir dir;
  const std::string path = dir.File("dump.jsonl");
  auto dump = KvDump::Open(path, KvPolicyLabels());
  ASSERT_TRUE(dump.ok());
  SequenceRequest sequence;
  sequence.request.id = 7;
  (*dump)->OnAccept(sequence);
  (*dump)->OnRefuse(7);
  EngineEvent end;
  end.id = 7;
  end.finish = FinishReason::kAbort;
  (*dump)->OnEvents(std::vector{end});
  EXPECT_EQ(Contents(path), "");
}

TEST(KvDump, AFileThatCannotBeOpenedIsNamed) {
  const auto dump = KvDump::Open("/no/such/folder/x", {});
  EXPECT_EQ(dump.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(dump.status().message()).find("/no/such/folder/x"), std::string::npos);
}

}  // namespace
}  // namespace hydrant
