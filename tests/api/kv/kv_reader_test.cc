#include "api/kv/kv_reader.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

struct Outcome {
  KvSpec spec;
  std::optional<ApiError> error;
};

Outcome Read(std::string_view kv, const KvSpec& default_value = KvSpec()) {
  const std::string body = "{\"kv\":" + std::string(kv) + "}";
  const ApiResult<JsonBody> document = JsonBody::Parse(body, RequestLimits());
  EXPECT_TRUE(document.ok()) << body;
  Outcome outcome;
  ObjectReader reader(document.value().root(), "", &outcome.error);
  outcome.spec = ReadKvSpec(&reader, default_value, 1024);
  return outcome;
}

KvSpec ServerDefault() {
  KvSpec spec;
  spec.preset = KvPreset::kH2o;
  spec.budget_kind = KvBudgetKind::kTokens;
  spec.budget_tokens = 256;
  spec.recent = 100;
  spec.periodic_beta = 16;
  return spec;
}

TEST(KvReaderTest, AcceptsTheDocumentedForms) {
  struct Case {
    const char* kv;
    KvPreset preset;
    KvBudgetKind kind;
    int32_t tokens;
    double ratio;
    std::optional<int32_t> recent;
    int32_t beta;
  };
  const Case cases[] = {
      {"null", KvPreset::kFull, KvBudgetKind::kUnset, 0, 0, {}, 0},
      {"{}", KvPreset::kFull, KvBudgetKind::kUnset, 0, 0, {}, 0},
      {R"({"policy":"full"})", KvPreset::kFull, KvBudgetKind::kUnset, 0, 0, {}, 0},
      {R"({"policy":"h2o","budget":256})", KvPreset::kH2o, KvBudgetKind::kTokens, 256, 0, {}, 0},
      {R"({"budget":256})", KvPreset::kH2o, KvBudgetKind::kTokens, 256, 0, {}, 0},
      {R"({"policy":"h2o-real","budget":64,"recent":16})", KvPreset::kH2oReal, KvBudgetKind::kTokens, 64, 0, 16, 0},
      {R"({"policy":"h2o-llama3","budget":64})", KvPreset::kH2oLlama3, KvBudgetKind::kTokens, 64, 0, {}, 0},
      {R"({"policy":"snapkv","budget":64})", KvPreset::kSnapKv, KvBudgetKind::kTokens, 64, 0, {}, 0},
      {R"({"policy":"h2o-plus","budget":64,"recent":20})", KvPreset::kH2oPlus, KvBudgetKind::kTokens, 64, 0, 20, 0},
      {R"({"policy":"h2o-decay","budget":64})", KvPreset::kH2oDecay, KvBudgetKind::kTokens, 64, 0, {}, 0},
      {R"({"policy":"window","budget":64})", KvPreset::kWindow, KvBudgetKind::kTokens, 64, 0, {}, 0},
      {R"({"policy":"sinks","budget":64,"recent":60})", KvPreset::kSinks, KvBudgetKind::kTokens, 64, 0, 60, 0},
      {R"({"policy":"h2o","budget":{"ratio_of_prompt":0.2}})",
       KvPreset::kH2o,
       KvBudgetKind::kRatioOfPrompt,
       0,
       0.2,
       {},
       0},
      {R"({"policy":"h2o","budget":{"ratio_of_total":1}})", KvPreset::kH2o, KvBudgetKind::kRatioOfTotal, 0, 1, {}, 0},
      {R"({"policy":"h2o","budget":64,"cadence":"exact"})", KvPreset::kH2o, KvBudgetKind::kTokens, 64, 0, {}, 0},
      {R"({"policy":"h2o","budget":64,"cadence":{"periodic":16}})",
       KvPreset::kH2o,
       KvBudgetKind::kTokens,
       64,
       0,
       {},
       16},
      {R"({"policy":"h2o","budget":64,"position":"absolute","prefill":"full","elastic":false,"floor":64})",
       KvPreset::kH2o,
       KvBudgetKind::kTokens,
       64,
       0,
       {},
       0},
      {R"({"policy":"h2o","budget":64,"recent":null,"cadence":null,"floor":null,"unknown":null})",
       KvPreset::kH2o,
       KvBudgetKind::kTokens,
       64,
       0,
       {},
       0},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.kv);
    const Outcome outcome = Read(c.kv);
    ASSERT_FALSE(outcome.error.has_value()) << outcome.error->message;
    EXPECT_EQ(outcome.spec.preset, c.preset);
    EXPECT_EQ(outcome.spec.budget_kind, c.kind);
    EXPECT_EQ(outcome.spec.budget_tokens, c.tokens);
    EXPECT_EQ(outcome.spec.budget_ratio, c.ratio);
    EXPECT_EQ(outcome.spec.recent, c.recent);
    EXPECT_EQ(outcome.spec.periodic_beta, c.beta);
  }
}

TEST(KvReaderTest, WrongFormsNameTheirField) {
  struct Case {
    const char* kv;
    const char* param;
    const char* code;
  };
  const Case cases[] = {
      {"[]", "kv", "invalid_type"},
      {"256", "kv", "invalid_type"},
      {R"({"policy":"nope","budget":64})", "kv.policy", "invalid_value"},
      {R"({"policy":"h2o_plus","budget":64})", "kv.policy", "invalid_value"},
      {R"({"policy":"h2o-plus"})", "kv.budget", "missing_field"},
      {R"({"policy":"snapkv","budget":64,"recent":65})", "kv.recent", "invalid_value"},
      {R"({"policy":"H2O","budget":64})", "kv.policy", "invalid_value"},
      {R"({"policy":7,"budget":64})", "kv.policy", "invalid_value"},
      {R"({"policy":"h2o"})", "kv.budget", "missing_field"},
      {R"({"policy":"h2o","budget":0})", "kv.budget", "invalid_value"},
      {R"({"policy":"h2o","budget":-1})", "kv.budget", "invalid_value"},
      {R"({"policy":"h2o","budget":1025})", "kv.budget", "invalid_value"},
      {R"({"policy":"h2o","budget":4294967297})", "kv.budget", "invalid_value"},
      {R"({"policy":"h2o","budget":0.2})", "kv.budget", "invalid_value"},
      {R"({"policy":"h2o","budget":"256"})", "kv.budget", "invalid_value"},
      {R"({"policy":"h2o","budget":{}})", "kv.budget", "invalid_value"},
      {R"({"policy":"h2o","budget":{"ratio":0.5}})", "kv.budget", "invalid_value"},
      {R"({"policy":"h2o","budget":{"ratio_of_prompt":0.5,"ratio_of_total":0.5}})", "kv.budget", "invalid_value"},
      {R"({"policy":"h2o","budget":{"ratio_of_prompt":0}})", "kv.budget.ratio_of_prompt", "invalid_value"},
      {R"({"policy":"h2o","budget":{"ratio_of_total":1.01}})", "kv.budget.ratio_of_total", "invalid_value"},
      {R"({"policy":"h2o","budget":{"ratio_of_total":"x"}})", "kv.budget.ratio_of_total", "invalid_type"},
      {R"({"policy":"sinks","budget":4})", "kv.budget", "invalid_value"},
      {R"({"policy":"full","budget":64})", "kv.budget", "invalid_value"},
      {R"({"policy":"full","recent":64})", "kv.recent", "invalid_value"},
      {R"({"policy":"full","cadence":{"periodic":16}})", "kv.cadence", "invalid_value"},
      {R"({"policy":"h2o","budget":64,"recent":0})", "kv.recent", "invalid_value"},
      {R"({"policy":"h2o","budget":64,"recent":65})", "kv.recent", "invalid_value"},
      {R"({"policy":"window","budget":64,"recent":32})", "kv.recent", "invalid_value"},
      {R"({"policy":"h2o","budget":64,"cadence":"periodic"})", "kv.cadence", "invalid_value"},
      {R"({"policy":"h2o","budget":64,"cadence":{}})", "kv.cadence", "invalid_value"},
      {R"({"policy":"h2o","budget":64,"cadence":{"periodic":0}})", "kv.cadence.periodic", "invalid_value"},
      {R"({"policy":"h2o","budget":64,"cadence":{"periodic":1e9}})", "kv.cadence.periodic", "invalid_type"},
      {R"({"policy":"full","position":"rolling"})", "kv.position", "invalid_value"},
      {R"({"position":"rolling"})", "kv.position", "invalid_value"},
      {R"({"policy":"h2o","budget":64,"position":true})", "kv.position", "invalid_value"},
      {R"({"policy":"h2o-streaming","recent":0})", "kv.recent", "invalid_value"},
      {R"({"policy":"h2o-streaming","budget":64,"recent":65})", "kv.recent", "invalid_value"},
      {R"({"policy":"h2o","budget":64,"position":"spinning"})", "kv.position", "invalid_value"},
      {R"({"policy":"h2o","budget":64,"recall":"always"})", "kv.recall", "invalid_value"},
      {R"({"policy":"h2o","budget":64,"recall":true})", "kv.recall", "invalid_value"},
      {R"({"policy":"full","recall":1})", "kv.recall", "invalid_value"},
      {R"({"policy":"h2o","budget":64,"recall":"turn","position":"rolling"})", "kv.recall", "invalid_value"},
      {R"({"policy":"h2o","budget":64,"recall":"turn","prefill":"budgeted"})", "kv.recall", "invalid_value"},
      {R"({"policy":"h2o-streaming","recall":"turn"})", "kv.recall", "invalid_value"},
      {R"({"policy":"h2o","budget":64,"prefill":"half"})", "kv.prefill", "invalid_value"},
      {R"({"policy":"h2o","budget":64,"prefill":true})", "kv.prefill", "invalid_value"},
      {R"({"policy":"full","prefill":"budgeted"})", "kv.prefill", "invalid_value"},
      {R"({"policy":"snapkv","budget":64,"prefill":"budgeted"})", "kv.prefill", "invalid_value"},
      {R"({"policy":"h2o-plus","budget":64,"prefill":"budgeted"})", "kv.prefill", "invalid_value"},
      {R"({"policy":"h2o-decay","budget":64,"prefill":"budgeted"})", "kv.prefill", "invalid_value"},
      {R"({"policy":"h2o","budget":64,"elastic":1})", "kv.elastic", "invalid_type"},
      {R"({"policy":"h2o","budget":64,"elastic":"yes"})", "kv.elastic", "invalid_type"},
      {R"({"policy":"full","elastic":true})", "kv.elastic", "invalid_value"},
      {R"({"elastic":true})", "kv.elastic", "invalid_value"},
      {R"({"policy":"full","floor":32})", "kv.floor", "invalid_value"},
      {R"({"policy":"h2o","budget":64,"floor":65})", "kv.floor", "invalid_value"},
      {R"({"policy":"h2o","budget":64,"elastic":true,"floor":65})", "kv.floor", "invalid_value"},
      {R"({"policy":"h2o","budget":64,"elastic":false,"floor":32})", "kv.floor", "invalid_value"},
      {R"({"policy":"h2o","budget":64,"floor":-1})", "kv.floor", "invalid_value"},
      {R"({"policy":"h2o","budget":64,"floor":1.5})", "kv.floor", "invalid_type"},
      {R"({"policy":"h2o","budget":64,"floor":"half"})", "kv.floor", "invalid_type"},
      {R"({"policy":"sinks","budget":64,"floor":4})", "kv.floor", "invalid_value"},
      {R"({"policy":"h2o","budget":{"ratio_of_prompt":0.5},"floor":1025})", "kv.floor", "invalid_value"},
      {R"({"policy":"h2o","budget":64,"floor":0})", "kv.floor", "invalid_value"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.kv);
    const Outcome outcome = Read(c.kv);
    ASSERT_TRUE(outcome.error.has_value());
    EXPECT_EQ(outcome.error->status, 400);
    EXPECT_EQ(outcome.error->param, c.param);
    EXPECT_EQ(outcome.error->code, c.code);
  }
}

TEST(KvReaderTest, PrefillIsTakenOverWhereThePresetAllowsIt) {
  for (const char* preset : {"h2o", "h2o-real", "h2o-llama3", "window", "sinks"}) {
    const std::string kv = std::string(R"({"budget":64,"prefill":"budgeted","policy":")") + preset + "\"}";
    const Outcome outcome = Read(kv);
    ASSERT_FALSE(outcome.error.has_value()) << kv << outcome.error->message;
    EXPECT_TRUE(outcome.spec.budgeted_prefill) << kv;
  }
  KvSpec default_value = ServerDefault();
  default_value.budgeted_prefill = true;
  EXPECT_TRUE(Read(R"({"budget":64})", default_value).spec.budgeted_prefill);
  EXPECT_FALSE(Read(R"({"prefill":"full"})", default_value).spec.budgeted_prefill);
  const Outcome plus = Read(R"({"policy":"h2o-plus"})", default_value);
  ASSERT_FALSE(plus.error.has_value()) << plus.error->message;
  EXPECT_FALSE(plus.spec.budgeted_prefill);
}

TEST(KvReaderTest, ATurnRecallsWhereAskedAndNothingElseContradictsIt) {
  const auto recalls = [](const std::string& kv, const KvSpec& default_value) {
    const Outcome outcome = Read(kv, default_value);
    EXPECT_FALSE(outcome.error.has_value()) << kv << outcome.error->message;
    return outcome.spec.recall;
  };
  const KvSpec off = ServerDefault();
  EXPECT_FALSE(recalls(R"({"policy":"h2o","budget":64})", off));
  EXPECT_TRUE(recalls(R"({"policy":"h2o","budget":64,"recall":"turn"})", off));
  EXPECT_FALSE(recalls(R"({"policy":"h2o","budget":64,"recall":"off"})", off));
  EXPECT_FALSE(recalls(R"({"policy":"h2o","budget":64,"recall":null})", off));
  EXPECT_TRUE(recalls(R"({"policy":"full","recall":"turn"})", off)) << "for policies that evict";
  KvSpec on = off;
  on.recall = true;
  EXPECT_TRUE(recalls(R"({"policy":"auto","budget":64})", on));
  EXPECT_FALSE(recalls(R"({"recall":"off"})", on));
  EXPECT_FALSE(Read(R"({"policy":"full"})", on).spec.recalls()) << "it forgets nothing";
  KvSpec full;
  full.recall = true;
  EXPECT_TRUE(recalls(R"({"policy":"h2o","budget":64})", full)) << "a default for policies that evict";
  EXPECT_FALSE(recalls(R"({"policy":"h2o-streaming"})", full));
  // Nobody asked for both.
  EXPECT_FALSE(recalls(R"({"policy":"h2o","budget":64,"position":"rolling"})", on));
  EXPECT_FALSE(recalls(R"({"policy":"h2o","budget":64,"prefill":"budgeted"})", on));
  EXPECT_FALSE(recalls(R"({"policy":"h2o-streaming"})", on));
  KvSpec other = off;
  other.position = KvPosition::kRolling;
  other.budgeted_prefill = true;
  const Outcome said = Read(R"({"recall":"turn"})", other);
  ASSERT_FALSE(said.error.has_value()) << said.error->message;
  EXPECT_TRUE(said.spec.recall);
  EXPECT_FALSE(said.spec.rolls());
  EXPECT_FALSE(said.spec.budgeted_prefill);
}

TEST(KvReaderTest, PositionsRollWhereAskedAndWhereThePresetDoes) {
  const struct {
    const char* kv;
    bool rolls;
  } cases[] = {
      {R"({"policy":"h2o","budget":64})", false},
      {R"({"policy":"h2o","budget":64,"position":"absolute"})", false},
      {R"({"policy":"h2o","budget":64,"position":"rolling"})", true},
      {R"({"policy":"h2o","budget":64,"position":null})", false},
      {R"({"policy":"sinks","budget":64,"position":"rolling","prefill":"budgeted"})", true},
      {R"({"policy":"h2o-llama3","budget":64,"position":"rolling"})", true},
      {R"({"policy":"h2o-streaming"})", true},
      {R"({"policy":"h2o-streaming","position":"absolute"})", false},
      {R"({"policy":"full","position":"absolute"})", false},
  };
  for (const auto& c : cases) {
    const Outcome outcome = Read(c.kv);
    ASSERT_FALSE(outcome.error.has_value()) << c.kv << ": " << outcome.error->message;
    EXPECT_EQ(outcome.spec.rolls(), c.rolls) << c.kv;
  }
  KvSpec rolling = ServerDefault();
  rolling.position = KvPosition::kRolling;
  EXPECT_TRUE(Read(R"({"budget":64})", rolling).spec.rolls());
  EXPECT_TRUE(Read(R"({"policy":"sinks"})", rolling).spec.rolls());
  EXPECT_FALSE(Read(R"({"position":"absolute"})", rolling).spec.rolls());
  EXPECT_FALSE(Read(R"({"policy":"full"})", rolling).spec.rolls());
  KvSpec streaming;
  streaming.preset = KvPreset::kH2oStreaming;
  EXPECT_FALSE(Read(R"({"policy":"h2o","budget":64})", streaming).spec.rolls()) << "that was the preset's own way";
}

TEST(KvReaderTest, WhatAPresetCannotDoIsNotTakenOverFromADefault) {
  KvSpec default_value = ServerDefault();
  default_value.position = KvPosition::kRolling;
  default_value.budgeted_prefill = true;
  const Outcome chosen = Read(R"({"policy":"auto"})", default_value);
  ASSERT_FALSE(chosen.error.has_value()) << chosen.error->message;
  EXPECT_EQ(chosen.spec.preset, KvPreset::kAuto);
  EXPECT_FALSE(chosen.spec.rolls());
  EXPECT_FALSE(chosen.spec.budgeted_prefill);
  const Outcome asked = Read(R"({"policy":"auto","position":"rolling"})", default_value);
  ASSERT_TRUE(asked.error.has_value()) << "it was asked for";
  EXPECT_EQ(asked.error->param, "kv.position");
  EXPECT_EQ(asked.error->status, 400);
}

TEST(KvReaderTest, ConsentToALowerBudgetIsAFloorOrAWord) {
  KvSpec elastic = ServerDefault();
  elastic.elastic = true;
  KvSpec floor = ServerDefault();
  floor.floor = 100;
  const struct {
    const char* kv;
    KvSpec default_value;
    bool elastic;
    std::optional<int32_t> floor;
  } cases[] = {
      {R"({"budget":64})", KvSpec(), false, {}},
      {R"({"budget":64,"elastic":true})", KvSpec(), true, {}},
      {R"({"budget":64,"floor":40})", KvSpec(), false, 40},
      {R"({"budget":64,"elastic":true,"floor":40})", KvSpec(), true, 40},
      {R"({"budget":64,"elastic":null,"floor":null})", KvSpec(), false, {}},
      {R"({"budget":{"ratio_of_total":0.5},"floor":40})", KvSpec(), false, 40},
      {R"({"recent":50})", elastic, true, {}},
      {R"({"budget":64})", elastic, true, {}},
      {R"({"elastic":false})", elastic, false, {}},
      {R"({"policy":"full"})", elastic, false, {}},
      {R"({"recent":50})", floor, false, 100},
      {R"({"budget":200})", floor, false, {}},
      {R"({"elastic":false})", floor, false, {}},
      {R"({"elastic":true})", floor, true, {}},
      {R"({"floor":256})", floor, false, 256},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.kv);
    const Outcome outcome = Read(c.kv, c.default_value);
    ASSERT_FALSE(outcome.error.has_value()) << outcome.error->message;
    EXPECT_EQ(outcome.spec.elastic, c.elastic);
    EXPECT_EQ(outcome.spec.floor, c.floor);
  }
}

TEST(KvReaderTest, AbsentMembersComeFromTheServersDefault) {
  const KvSpec default_value = ServerDefault();
  EXPECT_EQ(Read("null", default_value).spec.recent, 100);
  EXPECT_EQ(Read("{}", default_value).spec.budget_tokens, 256);

  const Outcome smaller = Read(R"({"budget":64})", default_value);
  EXPECT_EQ(smaller.spec.preset, KvPreset::kH2o);
  EXPECT_EQ(smaller.spec.budget_tokens, 64);
  EXPECT_EQ(smaller.spec.recent, std::nullopt);  // the default's 100 belongs to its own budget
  EXPECT_EQ(smaller.spec.periodic_beta, 16);

  const Outcome sinks = Read(R"({"policy":"sinks"})", default_value);
  EXPECT_EQ(sinks.spec.preset, KvPreset::kSinks);
  EXPECT_EQ(sinks.spec.budget_tokens, 256);
  EXPECT_EQ(sinks.spec.recent, std::nullopt);

  const Outcome plus = Read(R"({"policy":"h2o-plus"})", default_value);
  EXPECT_EQ(plus.spec.preset, KvPreset::kH2oPlus);
  EXPECT_EQ(plus.spec.recent, std::nullopt);  // a third, not h2o's 100

  const Outcome exact = Read(R"({"cadence":"exact"})", default_value);
  EXPECT_EQ(exact.spec.periodic_beta, 0);
  EXPECT_EQ(exact.spec.recent, 100);

  const Outcome full = Read(R"({"policy":"full"})", default_value);
  ASSERT_FALSE(full.error.has_value());
  EXPECT_FALSE(full.spec.evicts());
  EXPECT_EQ(full.spec.budget_kind, KvBudgetKind::kUnset);
}

}  // namespace
}  // namespace hydrant
