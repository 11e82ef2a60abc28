#include "server/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Arguments = std::vector<std::string>;

ConfigResult Parse(Arguments flags) {
  flags.insert(flags.begin(), {"serve", "model.gguf"});
  return ParseCommandLine(flags);
}

Config Good(const Arguments& flags) {
  const ConfigResult result = Parse(flags);
  EXPECT_TRUE(result.config.has_value()) << result.message;
  return result.config.value_or(Config());
}

TEST(Config, TheDefaultsAreTheDocumentedOnes) {
  unsetenv("HYDRANT_API_KEY");
  const Config config = Good({});
  EXPECT_EQ(config.model_path, "model.gguf");
  EXPECT_EQ(config.host, "127.0.0.1");
  EXPECT_EQ(config.port, 8000);
  EXPECT_EQ(config.device, "auto");
  EXPECT_EQ(config.sequences_max, 256);
  EXPECT_EQ(config.batch_tokens_max, 2048);
  EXPECT_EQ(config.api_key, "");
  EXPECT_EQ(config.kv.preset, KvPreset::kFull);
  EXPECT_FALSE(config.weight_dtype.has_value());
  EXPECT_FALSE(config.kv_type.has_value());
  EXPECT_EQ(config.log_level, LogLevel::kInfo);
  const Limits& limits = config.limits;
  EXPECT_EQ(limits.header_bytes_max, 8 << 10);
  EXPECT_EQ(limits.header_fields_max, 100);
  EXPECT_EQ(limits.uri_bytes_max, 4 << 10);
  EXPECT_EQ(limits.body_bytes_max, 8 << 20);
  EXPECT_EQ(limits.json_depth_max, 64);
  EXPECT_EQ(limits.json_nodes_max, 200'000);
  EXPECT_EQ(limits.header_timeout_s, 10);
  EXPECT_EQ(limits.body_timeout_s, 30);
  EXPECT_EQ(limits.n_max, 16);
  EXPECT_EQ(limits.prompts_max, 1024);
  EXPECT_EQ(limits.stream_buffer_bytes_max, 256 << 10);
  EXPECT_EQ(limits.stream_stall_s, 30);
  EXPECT_EQ(limits.connections_max, 10'000);
  EXPECT_GE(limits.send_buffer_bytes, 32 << 10);
  EXPECT_LE(limits.send_buffer_bytes, 64 << 10);
}

TEST(Config, EveryFlagArrives) {
  // clang-format off
  const Config config = Good({"--host=localhost",
                              "--port", "0",
                              "--served-model-name", "m",
                              "--api-key", "k",
                              "--allowed-origins", "https://a, https://b",
                              "--allowed-hosts", "h",
                              "--override-generation-config", "{\"max_new_tokens\": 7}",
                              "--device", "cpu",
                              "--enforce-eager",
                              "--async-scheduling",
                              "--threads", "3",
                              "--dtype", "bfloat16",
                              "--quantization", "int4",
                              "--weights-memory", "123456",
                              "--weights-image-dir", "/srv/images",
                              "--enable-lora",
                              "--max-loras", "2",
                              "--max-lora-rank", "32",
                              "--lora-modules", "poet=/srv/poet, legal=/srv/l=1",
                              "--kv-cache-dtype", "float32",
                              "--max-model-len", "100",
                              "--max-num-seqs", "7",
                              "--max_num_batched_tokens=64",
                              "--max-prefill-tokens", "32",
                              "--block-size", "16",
                              "--kv-cache-memory-bytes", "1000000000",
                              "--num-gpu-blocks-override", "9",
                              "--gpu-memory-utilization", "0.5",
                              "--no-enable-prefix-caching",
                              "--kv-policy", "h2o",
                              "--kv-budget", "256",
                              "--kv-recent", "100",
                              "--swap-space", "0.5",
                              "--debug-kv-dump", "d.jsonl",
                              "--session-memory-bytes", "0",
                              "--session-ttl", "0.5",
                              "--header-timeout-s", "1",
                              "--body-timeout-s", "2",
                              "--keepalive-timeout-s", "3",
                              "--stream-stall-s", "4",
                              "--engine-stall-s", "5",
                              "--shutdown-timeout-s", "6",
                              "--shutdown-delay-s", "7",
                              "--request-timeout-s", "8.5",
                              "--queue-timeout-s", "9",
                              "--max-connections", "11",
                              "--max-waiting-seqs", "12",
                              "--max-body-bytes", "4096",
                              "--log-format", "json",
                              "--log-level", "debug"});
  // clang-format on
  EXPECT_EQ(config.host, "localhost");
  EXPECT_EQ(config.port, 0);
  EXPECT_EQ(config.served_model_name, "m");
  EXPECT_EQ(config.api_key, "k");
  EXPECT_THAT(config.allowed_origins, ElementsAre("https://a", "https://b"));
  EXPECT_THAT(config.allowed_hosts, ElementsAre("h"));
  EXPECT_EQ(config.generation_override, "{\"max_new_tokens\": 7}");
  EXPECT_TRUE(config.enforce_eager);
  EXPECT_EQ(config.overlap, true);
  EXPECT_EQ(config.threads, 3);
  EXPECT_EQ(config.weight_dtype, DType::kBF16);
  EXPECT_EQ(config.kv_type, KvType::kF32);
  EXPECT_EQ(config.quantization, Quantization::kInt4);
  EXPECT_EQ(config.weights_memory_bytes, 123'456);
  EXPECT_EQ(config.weights_image_dir, "/srv/images");
  EXPECT_TRUE(config.adapters);
  EXPECT_EQ(config.adapters_max, 2);
  EXPECT_EQ(config.adapter_rank_max, 32);
  ASSERT_EQ(config.adapter_modules.size(), 2u);
  EXPECT_EQ(config.adapter_modules[1].name, "legal");
  EXPECT_EQ(config.adapter_modules[1].path, "/srv/l=1");
  EXPECT_EQ(config.max_model_len, 100);
  EXPECT_EQ(config.sequences_max, 7);
  EXPECT_EQ(config.batch_tokens_max, 64);
  EXPECT_EQ(config.prefill_tokens_max, 32);
  EXPECT_EQ(config.kv_cache_memory_bytes, 1'000'000'000);
  EXPECT_EQ(config.blocks_override, 9);
  EXPECT_EQ(config.memory_utilization, 0.5);
  EXPECT_EQ(config.kv.preset, KvPreset::kH2o);
  EXPECT_EQ(config.kv.budget_tokens, 256);
  EXPECT_EQ(config.kv.recent, 100);
  EXPECT_EQ(config.swap_space_gib, 0.5);
  EXPECT_EQ(config.kv_dump_path, "d.jsonl");
  EXPECT_EQ(config.session_memory_bytes, 0);
  EXPECT_EQ(config.limits.session_ttl_s, 0.5);
  EXPECT_EQ(config.limits.header_timeout_s, 1);
  EXPECT_EQ(config.limits.body_timeout_s, 2);
  EXPECT_EQ(config.limits.keepalive_timeout_s, 3);
  EXPECT_EQ(config.limits.stream_stall_s, 4);
  EXPECT_EQ(config.limits.engine_stall_s, 5);
  EXPECT_EQ(config.shutdown_timeout_s, 6);
  EXPECT_EQ(config.shutdown_delay_s, 7);
  EXPECT_EQ(config.limits.request_timeout_s, 8.5);
  EXPECT_EQ(config.limits.queue_timeout_s, 9);
  EXPECT_EQ(config.limits.connections_max, 11);
  EXPECT_EQ(config.limits.waiting_sequences_max, 12);
  EXPECT_EQ(config.limits.body_bytes_max, 4096);
  EXPECT_EQ(config.log_level, LogLevel::kDebug);
  EXPECT_EQ(config.log_format, LogFormat::kJson);
}

TEST(Config, AStoreOfSharedLimits) {
  const Config config =
      Good({"--tenants", "x.json", "--shared-limits", "redis://u@store:7000/2", "--shared-limits-fail", "closed",
            "--shared-limits-timeout-s", "0.1", "--shared-limits-password-file", "f"});
  ASSERT_TRUE(config.shared_limits.has_value());
  EXPECT_EQ(config.shared_limits->Text(), "redis://u@store:7000/2");
  EXPECT_EQ(config.shared_limits->user, "u");
  EXPECT_FALSE(config.shared_limits_fail_open);
  EXPECT_EQ(config.shared_limits_timeout_s, 0.1);
  EXPECT_EQ(config.shared_limits_password_path, "f");
  EXPECT_TRUE(Good({"--tenants", "x.json", "--shared-limits", "unix:///s"}).shared_limits_fail_open);
  EXPECT_FALSE(Good({}).shared_limits.has_value());
}

TEST(Config, RanksAreAskedForAlone) {
  EXPECT_EQ(Good({}).ranks, 1);
  EXPECT_EQ(Good({"--tensor-parallel-size", "2"}).ranks, 2);
  EXPECT_EQ(Good({"--kv-audit", "0.25"}).kv_audit, 0.25);
  EXPECT_EQ(Good({"--kv-audit", "0", "--debug-kv-dump", "f"}).kv_audit, 0);
  EXPECT_EQ(Good({"--tensor-parallel-size", "1", "--enable-lora", "--weights-memory", "1000"}).ranks, 1);
}

TEST(Config, TypesOfTheCacheHaveTheNamesOfOthersToo) {
  EXPECT_EQ(Good({"--kv-cache-dtype", "int8"}).kv_type, KvType::kInt8);
  EXPECT_EQ(Good({"--kv-cache-dtype", "int8_per_token_head"}).kv_type, KvType::kInt8);
  EXPECT_EQ(Good({"--kv-cache-dtype", "half"}).kv_type, KvType::kF16);
  EXPECT_EQ(Good({"--kv-cache-dtype", "bfloat16"}).kv_type, KvType::kBF16);
}

TEST(Config, BudgetsComeInTokensOrRatios) {
  const Config prompt = Good({"--kv-policy", "window", "--kv-budget", "prompt:0.25"});
  EXPECT_EQ(prompt.kv.budget_kind, KvBudgetKind::kRatioOfPrompt);
  EXPECT_EQ(prompt.kv.budget_ratio, 0.25);
  for (const auto& [name, preset] : {std::pair("snapkv", KvPreset::kSnapKv), std::pair("h2o-plus", KvPreset::kH2oPlus),
                                     std::pair("h2o-decay", KvPreset::kH2oDecay)}) {
    EXPECT_EQ(Good({"--kv-policy", name, "--kv-budget", "128"}).kv.preset, preset);
  }
  // It has a budget, and positions, of its own.
  EXPECT_TRUE(Good({"--kv-policy", "h2o-streaming"}).kv.rolls());
  const Config total = Good({"--kv-policy", "sinks", "--kv-budget", "total:1"});
  EXPECT_EQ(total.kv.budget_kind, KvBudgetKind::kRatioOfTotal);
}

TEST(Config, EveryMistakeIsExit64AndOneLineThatNamesTheFlag) {
  const struct {
    Arguments flags;
    const char* name;
  } cases[] = {
      {{"--no-such-flag"}, "--no-such-flag"},
      {{"--port", "65536"}, "--port"},
      {{"--port", "-1"}, "--port"},
      {{"--port", "x"}, "--port"},
      {{"--port"}, "--port"},
      {{"--threads", "0"}, "--threads"},
      {{"--dtype", "int8"}, "--dtype"},
      {{"--kv-cache-dtype", "fp8"}, "--kv-cache-dtype fp8 is not supported: int8 takes the same memory"},
      {{"--kv-cache-dtype", "fp8_e4m3"}, "--kv-cache-dtype fp8_e4m3 is not supported: int8"},
      {{"--kv-cache-dtype", "fp8_e5m2"}, "--kv-cache-dtype fp8_e5m2 is not supported: int8"},
      {{"--kv-audit", "1.5"}, "--kv-audit"},
      {{"--kv-audit", "0.5", "--weights-memory", "1000"}, "--kv-audit: each of its short steps would read the weights"},
      {{"--kv-audit", "0.5", "--debug-kv-dump", "f"}, "--kv-audit: a dump is of requests' steps alone"},
      {{"--tensor-parallel-size", "0"}, "--tensor-parallel-size"},
      {{"--tensor-parallel-size", "2", "--device", "cuda"}, "--tensor-parallel-size 2: several GPUs"},
      {{"--tensor-parallel-size=2", "--enable-lora"},
       "--tensor-parallel-size 2: ranks have no adapters (--enable-lora)"},
      {{"--tensor-parallel-size=2", "--weights-memory=1000"}, "--tensor-parallel-size 2: ranks stream no weights"},
      {{"--kv-cache-dtype", "int4"}, "--kv-cache-dtype: must be auto"},
      {{"--lora-modules", "a=b"}, "--lora-modules: needs --enable-lora"},
      {{"--enable-lora", "--lora-modules", "a"}, "--lora-modules: 'a' is not NAME=PATH"},
      {{"--enable-lora", "--max-loras=1", "--lora-modules=a=b,c=d"},
       "--lora-modules: 2 adapters, and --max-loras is 1"},
      {{"--quantization=int2"}, "--quantization: int2 not in {int8,int4,gguf,compressed-tensors,gptq,awq,fp8,mxfp4}"},
      {{"--device", "tpu"}, "--device"},
      {{"--block-size", "32"}, "--block-size"},
      {{"--max-model-len", "0"}, "--max-model-len"},
      {{"--max-num-seqs", "0"}, "--max-num-seqs"},
      {{"--max-num-seqs", "1.5"}, "--max-num-seqs"},
      {{"--max-num-batched-tokens", "31"}, "--max-num-batched-tokens"},
      {{"--max-prefill-tokens", "15"}, "--max-prefill-tokens"},
      {{"--kv-cache-memory-bytes", "0"}, "--kv-cache-memory-bytes"},
      {{"--num-gpu-blocks-override", "0"}, "--num-gpu-blocks-override"},
      {{"--gpu-memory-utilization", "1.1"}, "--gpu-memory-utilization"},
      {{"--gpu-memory-utilization", "nan"}, "--gpu-memory-utilization"},
      {{"--kv-policy", "nope"}, "--kv-policy"},
      {{"--kv-policy", "h2o"}, "--kv-budget"},
      {{"--kv-budget", "100"}, "--kv-budget"},
      {{"--kv-recent", "100"}, "--kv-recent"},
      {{"--kv-policy", "h2o", "--kv-budget", "0"}, "--kv-budget"},
      {{"--kv-policy", "h2o", "--kv-budget", "1.5"}, "--kv-budget"},
      {{"--kv-policy", "h2o", "--kv-budget", "nan"}, "--kv-budget"},
      {{"--kv-policy", "h2o", "--kv-budget", "1e30"}, "--kv-budget"},
      {{"--kv-policy", "h2o", "--kv-budget", "prompt:0"}, "--kv-budget"},
      {{"--kv-policy", "h2o", "--kv-budget", "half:0.5"}, "--kv-budget"},
      {{"--kv-policy", "h2o", "--kv-budget", "10", "--kv-recent", "11"}, "--kv-"},
      {{"--kv-policy", "sinks", "--kv-budget", "4"}, "--kv-"},
      {{"--header-timeout-s", "0"}, "--header-timeout-s"},
      {{"--body-timeout-s", "-1"}, "--body-timeout-s"},
      {{"--keepalive-timeout-s", "inf"}, "--keepalive-timeout-s"},
      {{"--stream-stall-s", "x"}, "--stream-stall-s"},
      {{"--engine-stall-s", "0"}, "--engine-stall-s"},
      {{"--shutdown-timeout-s", "-1"}, "--shutdown-timeout-s"},
      {{"--shutdown-delay-s", "nan"}, "--shutdown-delay-s"},
      {{"--request-timeout-s", "-1"}, "--request-timeout-s"},
      {{"--queue-timeout-s", "nan"}, "--queue-timeout-s"},
      {{"--max-connections", "0"}, "--max-connections"},
      {{"--max-waiting-seqs", "0"}, "--max-waiting-seqs"},
      {{"--max-body-bytes", "1"}, "--max-body-bytes"},
      {{"--log-level", "loud"}, "--log-level"},
      {{"--log-format", "xml"}, "--log-format"},
      {{"--host", "0.0.0.0"}, "--host"},
      {{"--tenants", "x.json", "--api-key", "k"}, "--api-key"},
      {{"--tenants", "x.json", "--api-key-file", "f"}, "--api-key-file"},
      {{"--trusted-proxies", "10.0.0.0/8,proxy"}, "--trusted-proxies: proxy"},
      {{"--trusted-proxies", "*"}, "--trusted-proxies"},
      {{"--session-headers", "x-a, x b"}, "--session-headers: x b is no name"},
      {{"--session-headers", "X-Routing-Key,Authorization"}, "--session-headers: authorization names no sessions"},
      {{"--session-headers", "cookie"}, "--session-headers: cookie"},
      {{"--session-headers", "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q"}, "--session-headers: at most 16"},
      {{"--replica-id", "a\r\nset-cookie: b"}, "--replica-id"},
      {{"--replica-id", std::string(129, 'a')}, "--replica-id"},
      {{"--proxy-header", "x-real-ip"}, "--proxy-header"},
      {{"--tenant-floor-share", "1"}, "--tenant-floor-share"},
      {{"--shared-limits", "redis://a"}, "--shared-limits: needs --tenants"},
      {{"--tenants", "x.json", "--shared-limits", "rediss://a"}, "--shared-limits: TLS"},
      {{"--tenants", "x.json", "--shared-limits", "redis://u:p@a"}, "--shared-limits-password-file"},
      {{"--tenants", "x.json", "--shared-limits", "redis://u@a"}, "a user needs --shared-limits-password-file"},
      {{"--shared-limits-fail", "closed"}, "--shared-limits-fail needs --shared-limits"},
      {{"--shared-limits-timeout-s", "1"}, "--shared-limits-timeout-s needs --shared-limits"},
      {{"--shared-limits-password-file", "f"}, "--shared-limits-password-file needs --shared-limits"},
      {{"--tenants", "x.json", "--shared-limits", "redis://a", "--shared-limits-fail", "ajar"}, "--shared-limits-fail"},
      {{"--tenants", "x.json", "--shared-limits", "redis://a", "--shared-limits-timeout-s", "0"}, "--shared-limits-ti"},
      {{"--api-key", "k", "--api-key-file", "f"}, "--api-key-file"},
      {{"--admin-api-key", "k", "--admin-api-key-file", "f"}, "--admin-api-key-file"},
      {{"--scheduling-policy", "lottery"}, "--scheduling-policy"},
      {{"--scheduling-policy", "priority"}, "--scheduling-policy"},
      {{"--admin-port", "65536", "--admin-api-key", "k"}, "--admin-port"},
      {{"--admin-host", "0.0.0.0"}, "--admin-host"},
      {{"--session-durability", "tokens"}, "--session-durability: tokens needs --session-dir"},
      {{"--session-dir=x", "--session-durability", "both"}, "--session-durability"},
      {{"--session-durability", "kv"}, "--session-durability: kv needs --session-dir"},
      {{"--session-dir=x", "--session-durability", "kv", "--session-disk-bytes", "0"}, "kv needs --session-disk-bytes"},
      {{"--session-dir=x", "--session-durability", "kv", "--session-memory-bytes", "0"}, "--session-memory-bytes"},
      {{"--session-disk-bytes", "-1"}, "--session-disk-bytes"},
      {{"--session-ttl", "-1"}, "--session-ttl"},
      {{"--session-memory-bytes", "-1"}, "--session-memory-bytes"},
      {{"--swap-space", "-1"}, "--swap-space"},
      {{"--admin-port", "1"}, "--admin-port"},
      {{"another.gguf"}, "another.gguf"},
  };
  for (const auto& test : cases) {
    const ConfigResult result = Parse(test.flags);
    EXPECT_FALSE(result.config.has_value()) << test.name;
    EXPECT_EQ(result.exit_code, kExitUsage) << test.name;
    EXPECT_THAT(result.message, HasSubstr(test.name));
    EXPECT_EQ(result.message.find('\n'), std::string::npos) << result.message;
  }
  for (const Arguments& arguments : {Arguments{}, Arguments{"serve"}, Arguments{"nonsense"}}) {
    EXPECT_EQ(ParseCommandLine(arguments).exit_code, kExitUsage);
  }
}

TEST(Config, WhatWouldHaveNoEffectIsRefused) {
  std::vector<std::pair<Arguments, std::string>> cases = {
      {{"--allowed-origins", R"(["*"])"}, R"(--allowed-origins: ["*"]: must be *, null or SCHEME://HOST[:PORT])"},
      {{"--allowed-origins", "https://a,app.example"}, "--allowed-origins: app.example: must be"},
      {{"--allowed-origins", "http://app.example/"}, "--allowed-origins: http://app.example/: must be"},
      {{"--allowed-hosts", R"(["*"])"}, R"(--allowed-hosts: ["*"]: must be * or HOST[:PORT])"},
  };
  for (const std::string row :
       {"--session-key-file=f needs --session-dir", "--session-disk-bytes=5 needs --session-dir",
        "--session-purge-s=5 needs --session-dir", "--session-disk-mbps=5 needs --session-dir",
        "--session-dir-unsafe=true needs --session-dir", "--session-read-timeout-s=5 needs --session-dir",
        "--proxy-header=forwarded needs --trusted-proxies", "--max-loras=4 needs --enable-lora",
        "--max-lora-rank=8 needs --enable-lora", "--admin-host=::1 needs --admin-port",
        "--admin-api-key=k needs --admin-port or --admin-socket"}) {
    cases.push_back({{row.substr(0, row.find(' '))}, row.substr(0, row.find('=')) + row.substr(row.find(' '))});
  }
  for (const auto& test : cases) {
    const ConfigResult result = Parse(test.first);
    EXPECT_EQ(result.exit_code, kExitUsage) << test.second;
    EXPECT_THAT(result.message, HasSubstr(test.second));
  }
}

TEST(Config, DraftsAreAskedForAsInVllm) {
  const std::string ngram = R"({"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4})";
  EXPECT_EQ(Good({"--speculative-config", ngram}).drafts.tokens, 3);
  EXPECT_EQ(Good({}).drafts.tokens, 0);
  EXPECT_EQ(Good({"--speculative-config", ""}).drafts.tokens, 0) << "None, as vLLM reads it";
  const TempDir dir;
  const std::string path = dir.Write("c.json", R"({"speculative_config": )" + ngram + "}");
  EXPECT_EQ(Good({"--config", path}).drafts.lookup_min, 4);
  const Arguments others[] = {{"--device", "cuda"},
                              {"--device", "cpu", "--tensor-parallel-size", "2"},
                              {"--async-scheduling"},
                              {"--debug-kv-dump", "dump"}};
  for (const Arguments& other : others) {
    Arguments flags = {"--speculative-config", ngram};
    flags.insert(flags.end(), other.begin(), other.end());
    EXPECT_THAT(Parse(flags).message, HasSubstr("--speculative-config: "));
  }
  EXPECT_THAT(Parse({"--speculative-config", "2"}).message, HasSubstr("--speculative-config: must be a JSON object"));
}

TEST(Config, AMistypedFlagIsToldTheNearestOne) {
  const struct {
    Arguments flags;
    const char* message;
  } cases[] = {
      {{"--max-num-seq", "5"}, "--max-num-seq: did you mean --max-num-seqs?"},
      {{"--max_num_seq=5"}, "--max-num-seq: did you mean --max-num-seqs?"},
      {{"--prot", "5"}, "--prot: did you mean --port?"},
      {{"--no-u"}, "--no-u: did you mean --no-ui?"},
      {{"--api-kee=geheim"}, "--api-kee: did you mean --api-key?"},
      {{"--quantum-entangled", "2"}, "--quantum-entangled: there is no such flag; hydrantd --help-all lists them"},
  };
  for (const auto& test : cases) {
    const ConfigResult result = Parse(test.flags);
    EXPECT_EQ(result.message, test.message);
    EXPECT_EQ(result.exit_code, kExitUsage);
  }
  const TempDir dir;
  const std::string path = dir.Write("c.json", R"({"max_num_seq": 5})");
  const ConfigResult in_file = Parse({"--config", path});
  EXPECT_EQ(in_file.message, path + ": --max-num-seq: did you mean --max-num-seqs?");
  EXPECT_EQ(in_file.exit_code, kExitConfig);
}

TEST(Config, WithoutACommandItSaysWhatWasMeant) {
  const struct {
    Arguments arguments;
    const char* message;
  } cases[] = {
      {{}, "there is nothing to do; to serve a model: hydrantd serve MODEL (hydrantd --help)"},
      {{"serve"}, "MODEL is missing: hydrantd serve MODEL [flags]"},
      {{"sevre", "model.gguf"}, "there is no command 'sevre': did you mean serve?"},
      {{"familes"}, "there is no command 'familes': did you mean families?"},
      {{"check"}, "check: name one directory: hydrantd check DIRECTORY"},
      {{"model.gguf"}, "there is no command 'model.gguf': did you mean hydrantd serve model.gguf?"},
      {{"--port", "8001", "serve"}, "--port: the command comes first: hydrantd serve MODEL [flags]"},
  };
  for (const auto& test : cases) {
    const ConfigResult result = ParseCommandLine(test.arguments);
    EXPECT_EQ(result.message, test.message);
    EXPECT_EQ(result.exit_code, kExitUsage);
  }
}

TEST(Config, InsecureAllowsOtherAddresses) { EXPECT_EQ(Good({"--host", "0.0.0.0", "--insecure"}).host, "0.0.0.0"); }

TEST(Config, HelpAndVersionAreAnswersNotErrors) {
  for (const Arguments& arguments : {Arguments{"--version"}, Arguments{"--help"}, Arguments{"serve", "--help"}}) {
    const ConfigResult result = ParseCommandLine(arguments);
    EXPECT_FALSE(result.config.has_value());
    EXPECT_EQ(result.exit_code, kExitOk);
    EXPECT_NE(result.message, "");
  }
  EXPECT_THAT(ParseCommandLine({"serve", "--help"}).message, HasSubstr("--kv-budget"));
  EXPECT_EQ(ParseCommandLine({"--help"}).message, ParseCommandLine({"serve", "-h"}).message);
}

std::vector<std::string> Lines(const std::string& text) { return absl::StrSplit(text, '\n'); }

TEST(Config, HelpIsAPageAndHelpAllHasTheRest) {
  const std::string help = ParseCommandLine({"--help"}).message;
  const std::string all = ParseCommandLine({"--help-all"}).message;
  EXPECT_LE(std::count(help.begin(), help.end(), '\n'), 50);
  EXPECT_THAT(help, HasSubstr("hydrantd serve MODEL [flags]\n"));
  EXPECT_THAT(
      help,
      HasSubstr("\n  --port PORT                         port to listen on; 0 picks a free one (default: 8000)\n"));
  EXPECT_THAT(help, HasSubstr("\n  --session-ttl SECONDS  "));
  EXPECT_THAT(help, Not(HasSubstr("--header-timeout-s")));
  EXPECT_THAT(all, HasSubstr("\n  --header-timeout-s SECONDS  "));
  EXPECT_THAT(all, HasSubstr("\n  --[no-]enable-prefix-caching  "));
  // A flag without a line of explanation, or with one that a terminal would break, is not explained.
  for (const std::string& line : Lines(all)) {
    EXPECT_LE(line.size(), 150u) << line;
    EXPECT_TRUE(!line.starts_with("  --") || line.size() > 50) << line;
  }
  // Whatever --help shows exists.
  for (const std::string& line : Lines(help))
    EXPECT_TRUE(!line.starts_with("  --") || all.find(line) != std::string::npos) << line;
}

TEST(Config, TheKeyMayComeFromTheEnvironmentButAFlagWins) {
  setenv("HYDRANT_API_KEY", "from-environment", 1);
  EXPECT_EQ(Good({}).api_key, "from-environment");
  EXPECT_EQ(Good({"--api-key", "from-flag"}).api_key, "from-flag");
  unsetenv("HYDRANT_API_KEY");
}

TEST(Config, AKeyThatIsGivenIsOneThatClientsCanSend) {
  const struct {
    Arguments flags;
    const char* wrong;
  } cases[] = {
      {{"--api-key", ""}, "--api-key: must not be empty"},
      {{"--api-key="}, "--api-key"},
      {{"--api-key-file", ""}, "--api-key-file: must not be empty"},
      {{"--admin-api-key", "", "--admin-socket", "s"}, "--admin-api-key: must not be empty"},
      {{"--metrics-api-key-file", ""}, "--metrics-api-key-file: must not be empty"},
      {{"--tenants", ""}, "--tenants: must not be empty"},
      {{"--api-key", "secret "}, "--api-key: a key has visible ASCII characters alone"},
      {{"--api-key", "geheim\u00e4"}, "--api-key: a key has visible ASCII characters alone"},
      {{"--admin-api-key", "secret\n"}, "--admin-api-key: a key has visible ASCII characters alone"},
      {{"--api-key", std::string(1025, 'k')}, "--api-key: a key has at most 1024 bytes"},
  };
  for (const auto& test : cases) {
    const ConfigResult result = Parse(test.flags);
    EXPECT_EQ(result.exit_code, kExitUsage) << test.wrong;
    EXPECT_THAT(result.message, HasSubstr(test.wrong));
    EXPECT_THAT(result.message, Not(HasSubstr("secret")));
  }
}

TEST(Config, AKeyOfTheEnvironmentIsSentByClientsOrThereIsNone) {
  setenv("HYDRANT_API_KEY", "", 1);  // as compose.yaml says that there is none
  EXPECT_EQ(Good({}).api_key, "");
  for (const char* variable : {"HYDRANT_API_KEY", "HYDRANT_ADMIN_KEY"}) {
    setenv(variable, "secret\n", 1);
    const ConfigResult result = Parse({});
    unsetenv(variable);
    EXPECT_EQ(result.exit_code, kExitUsage);
    EXPECT_THAT(result.message, HasSubstr(std::string(variable) + ": a key has visible ASCII characters alone"));
    EXPECT_THAT(result.message, Not(HasSubstr("secret")));
  }
}

TEST(Config, TheAdminKeyMayComeFromTheEnvironmentAndAPortNeedsOne) {
  unsetenv("HYDRANT_ADMIN_KEY");
  EXPECT_FALSE(Good({}).admin_port.has_value());
  EXPECT_THAT(Parse({"--admin-port", "0"}).message, HasSubstr("--admin-port"));
  EXPECT_EQ(Good({"--admin-port", "0", "--admin-api-key", "k"}).admin_port, 0);
  EXPECT_EQ(Good({"--admin-socket", "s"}).admin_socket, "s") << "its permissions protect it";
  setenv("HYDRANT_ADMIN_KEY", "from-environment", 1);
  EXPECT_EQ(Good({"--admin-port", "7"}).admin_key, "from-environment");
  EXPECT_FALSE(Good({}).admin_port.has_value());
  unsetenv("HYDRANT_ADMIN_KEY");
}

TEST(Config, AFileOfKeysWinsOverTheEnvironment) {
  setenv("HYDRANT_API_KEY", "from-environment", 1);
  setenv("HYDRANT_ADMIN_KEY", "from-environment", 1);
  const Config config =
      Good({"--api-key-file", "a", "--admin-api-key-file", "b", "--metrics-api-key-file", "c", "--admin-port", "0"});
  unsetenv("HYDRANT_API_KEY");
  unsetenv("HYDRANT_ADMIN_KEY");
  EXPECT_EQ(config.api_key, "");
  EXPECT_EQ(config.api_key_path, "a");
  EXPECT_EQ(config.admin_key, "");
  EXPECT_EQ(config.admin_key_path, "b");
  EXPECT_EQ(config.metrics_key_path, "c");
}

TEST(Config, WithAFileOfTenantsTheEnvironmentsKeyIsNotTheirs) {
  setenv("HYDRANT_API_KEY", "k", 1);
  const Config config = Good({"--tenants", "t.json", "--scheduling-policy", "fcfs"});
  unsetenv("HYDRANT_API_KEY");
  EXPECT_EQ(config.api_key, "");
  EXPECT_EQ(config.tenants_path, "t.json");
  EXPECT_EQ(config.scheduling_policy, SchedulingPolicy::kFcfs);
  EXPECT_EQ(Good({}).scheduling_policy, SchedulingPolicy::kFair);
}

TEST(Config, AFileGivesFlagsAndFlagsWin) {
  const TempDir dir;
  const std::string path = dir.Write("c.json", R"({"max_num_seqs": 5, "max-model-len": 100, "kv_policy": "h2o",
      "kv_budget": "prompt:0.5", "insecure": true, "allowed_hosts": ["a", "b"], "header_timeout_s": 1.5,
      "enable_prefix_caching": false, "async_scheduling": false, "ui": false, "api_key": null})");
  const Config config = Good({"--config", path, "--max-num-seqs", "9"});
  EXPECT_EQ(config.sequences_max, 9);
  EXPECT_EQ(config.max_model_len, 100);
  EXPECT_EQ(config.kv.preset, KvPreset::kH2o);
  EXPECT_EQ(config.kv.budget_ratio, 0.5);
  EXPECT_FALSE(config.prefix_caching);
  EXPECT_EQ(config.overlap, false);
  EXPECT_EQ(Good({}).overlap, std::nullopt);
  EXPECT_EQ(Good({"--no-async-scheduling"}).overlap, false);
  EXPECT_FALSE(config.ui);
  EXPECT_TRUE(Good({}).ui);
  EXPECT_FALSE(Good({"--no-ui"}).ui);
  EXPECT_TRUE(config.insecure);
  EXPECT_THAT(config.allowed_hosts, ElementsAre("a", "b"));
  EXPECT_EQ(config.limits.header_timeout_s, 1.5);
}

TEST(Config, AFileHoldsAnOverrideAsAnObject) {
  const TempDir dir;
  const std::string path =
      dir.Write("c.json", R"({"override_generation_config": {"max_new_tokens": 7, "top_p": 0.5}})");
  EXPECT_EQ(Good({"--config", path}).generation_override, R"({"max_new_tokens":7,"top_p":0.5})");
}

TEST(Config, AWrongFileIsExit78AndOneLineThatNamesFileAndKey) {
  const TempDir dir;
  const struct {
    const char* text;
    const char* word;
  } cases[] = {
      {"", "c.json: is empty"},
      {R"({"help": true})", "c.json: help: is no setting"},
      {R"({"help_all": true})", "c.json: help-all: is no setting"},
      {R"({"config": "other.json"})", "c.json: config: is no setting"},
      {"{\n\"port\": }", "c.json:2: is not valid JSON"},
      {R"({"kv_policy": "h2o", "kv_budget": "many"})", "--kv-budget: "},
      {"[1]", "object"},
      {R"({"no_such_key": 1})", "no-such-key"},
      {R"({"port": 70000})", "port"},
      {R"({"port": "x"})", "port"},
      {R"({"port": {}})", "port"},
      {R"({"override_generation_config": [1]})", "override-generation-config"},
      {R"({"allowed_hosts": [1]})", "allowed-hosts"},
      {R"({"session_durability": "both"})", "session-durability"},
  };
  for (const auto& test : cases) {
    const ConfigResult result = Parse({"--config", dir.Write("c.json", test.text)});
    EXPECT_FALSE(result.config.has_value()) << test.text;
    EXPECT_EQ(result.exit_code, kExitConfig) << test.text;
    EXPECT_THAT(result.message, HasSubstr("c.json")) << test.text;
    EXPECT_THAT(result.message, HasSubstr(test.word));
    EXPECT_EQ(result.message.find('\n'), std::string::npos) << result.message;
  }
  const ConfigResult missing = Parse({"--config", dir.File("missing.json")});
  EXPECT_EQ(missing.exit_code, kExitConfig);
  EXPECT_THAT(missing.message, HasSubstr("missing.json: cannot be read"));
  EXPECT_THAT(Parse({"--config", dir.File("")}).message, HasSubstr("cannot be read")) << "a directory";
}

}  // namespace
}  // namespace hydrant
