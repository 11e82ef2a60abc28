// Adapters as clients and operators meet them: a whole server over the small model, and folders that PEFT saved, whose
// answers are PEFT's (tests/golden/README.md).
#include "server/adapter_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "nlohmann/json.hpp"
#include "server/server.h"
#include "tests/server/key_hex.h"
#include "tests/server/test_server.h"
#include "tests/support/golden_file.h"
#include "tests/support/source_dir.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using Response = RawClient::Response;

std::string Golden(const std::string& name) { return SourceDir() + "/tests/golden/" + name; }
std::string Folder(const std::string& name) { return Golden("adapters/" + name); }

// The model as "base", with the adapters "all" and "qv" and room for a third; the tenant "one" may name "qv" only.
class AdapterServing : public testing::Test {
 protected:
  void SetUp() override {
    const std::string tenants =
        dir_.Write("tenants.json", R"({"tenants":[{"name":"every","api_keys_sha256":[")" + HexOfKey("key-every") +
                                       R"("]},{"name":"one","adapters":["qv"],"api_keys_sha256":[")" +
                                       HexOfKey("key-one") + R"("]}]})");
    ASSERT_EQ(chmod(tenants.c_str(), 0600), 0);
    config_.model_path = Golden("gqa_tied");
    config_.served_model_name = "base";
    config_.chat_template_path = dir_.Write("chat.jinja", "{{ messages[0].content }}");
    config_.port = 0;
    config_.admin_port = 0;
    config_.admin_key = "key-admin";
    config_.tenants_path = tenants;
    config_.threads = 1;
    config_.sequences_max = 16;
    config_.batch_tokens_max = 1024;
    config_.blocks_override = 256;
    config_.log_level = LogLevel::kError;
    config_.adapters = true;
    config_.adapters_max = 3;
    config_.adapter_rank_max = 8;
    config_.adapter_modules = {{"all", Folder("all")}, {"qv", Folder("qv_root") + "//"}};
  }
  void Start() {
    std::promise<void> ready;
    thread_ = std::thread([this, &ready] {
      exit_code_ = Serve(config_, [&](const std::string& line) {
        const auto port = static_cast<uint16_t>(std::atoi(line.c_str() + line.find("127.0.0.1:") + 10));
        if (line.starts_with("admin listener")) admin_port_ = port;
        if (!line.starts_with("listening")) return;
        port_ = port;
        ready.set_value();
      });
    });
    ready.get_future().wait();
  }
  void TearDown() override {
    if (!thread_.joinable()) return;
    kill(getpid(), SIGTERM);
    thread_.join();
    EXPECT_EQ(exit_code_, kExitOk);
  }

  Response Post(uint16_t port, const std::string& path, const Json& body, const std::string& key) const {
    const std::string text = body.dump();
    return RawClient(port).Ask("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + key +
                               "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(text.size()) +
                               "\r\n\r\n" + text);
  }
  Response Admin(const std::string& path, const Json& body = Json::object()) const {
    return Post(admin_port_, path, body, "key-admin");
  }
  Response Complete(const Json& body, const std::string& key = "key-every") const {
    return Post(port_, "/v1/completions", body, key);
  }
  // Greedy, as the goldens are.
  static Json Greedy(const std::string& model, const Json& prompt, size_t tokens) {
    return {{"model", model},   {"prompt", prompt},   {"max_tokens", tokens},
            {"temperature", 0}, {"ignore_eos", true}, {"return_token_ids", true}};
  }
  Response Load(const std::string& name, const std::string& path) const {
    return Admin("/v1/load_lora_adapter", {{"lora_name", name}, {"lora_path", path}});
  }
  Response Unload(const std::string& name) const { return Admin("/v1/unload_lora_adapter", {{"lora_name", name}}); }
  std::vector<std::string> Models(const std::string& key) const {
    const Response response = RawClient(port_).Ask(Get("/v1/models", "Authorization: Bearer " + key + "\r\n"));
    std::vector<std::string> names;
    const Json list = Json::parse(response.body);
    for (const Json& model : list["data"]) names.push_back(model["id"]);
    return names;
  }
  // 400 or 404 that names the field.
  static void ExpectRefused(const Response& response, int status, const std::string& field, const std::string& text) {
    EXPECT_EQ(response.status, status) << response.body;
    const Json error = Json::parse(response.body)["error"];
    EXPECT_EQ(error["param"], field) << response.body;
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(text));
  }

  TempDir dir_;
  Config config_;
  uint16_t port_ = 0, admin_port_ = 0;  // from Start on
  std::thread thread_;
  int exit_code_ = -1;
};

TEST_F(AdapterServing, AnswersOfABatchAreThoseOfEachAlone) {
  Start();
  const struct {
    std::string model, golden;
  } models[] = {{"base", "gqa_tied"}, {"all", "adapters/all"}, {"qv", "adapters/qv_root"}};
  std::vector<Json> bodies, expected;
  for (const auto& model : models) {
    const Json golden = ReadJson(Golden(model.golden + "/greedy.json"));
    for (size_t i = 0; i < 3; ++i) {
      const Json& prompt = golden["prompts"][i];
      bodies.push_back(Greedy(model.model, prompt["prompt_ids"], prompt["tokens"].size()));
      expected.push_back(prompt["tokens"]);
    }
  }
  // All are admitted by the same step: none begins before all have come.
  ASSERT_EQ(Admin("/pause").status, 200);
  std::vector<std::future<Response>> answers;
  for (const Json& body : bodies) answers.push_back(std::async(std::launch::async, [&] { return Complete(body); }));
  ASSERT_TRUE(Eventually([&] {
    const Response metrics = RawClient(admin_port_).Ask(Get("/metrics", "Authorization: Bearer key-admin\r\n"));
    return metrics.body.find("vllm:num_requests_waiting{engine=\"0\",model_name=\"base\"} 9\n") != std::string::npos;
  }));
  ASSERT_EQ(Admin("/resume").status, 200);
  for (size_t i = 0; i < bodies.size(); ++i) {
    const Response response = answers[i].get();
    ASSERT_EQ(response.status, 200) << response.body;
    const Json answer = Json::parse(response.body);
    EXPECT_EQ(answer["model"], bodies[i]["model"]);
    EXPECT_EQ(answer["choices"][0]["token_ids"], expected[i]) << i;
  }
}

TEST_F(AdapterServing, NamesAreThoseThatTheTenantMayUse) {
  Start();
  EXPECT_THAT(Models("key-every"), ElementsAre("base", "all", "qv"));
  EXPECT_THAT(Models("key-one"), ElementsAre("base", "qv"));
  const Json document =
      Json::parse(RawClient(admin_port_).Ask(Get("/openapi.json", "Authorization: Bearer key-admin\r\n")).body);
  EXPECT_TRUE(document["paths"]["/v1/load_lora_adapter"].contains("post"));
  EXPECT_FALSE(document["paths"].contains("/v1/completions"));
  EXPECT_FALSE(document["components"].contains("schemas")) << "those of the clients' port";
  const std::string key = "Authorization: Bearer key-one\r\n";
  const Json card = Json::parse(RawClient(port_).Ask(Get("/v1/models/qv", key)).body);
  EXPECT_EQ(card["parent"], "base");
  EXPECT_EQ(card["root"], "qv_root") << "never a path of the server's";
  EXPECT_EQ(RawClient(port_).Ask(Get("/v1/models/all", key)).status, 404);

  const auto asks = [](const std::string& model) { return Greedy(model, Json::array({5, 6}), 2); };
  EXPECT_EQ(Complete(asks("qv"), "key-one").status, 200);
  ExpectRefused(Complete(asks("all"), "key-one"), 404, "model", "base");
  ExpectRefused(Complete(asks("poet")), 404, "model", "base");
  EXPECT_EQ(Post(port_, "/tokenize", {{"model", "qv"}, {"prompt", "x"}}, "key-one").status, 200);
  for (const char* model : {"qv", "base"}) {
    Json chat = {{"messages", {{{"role", "user"}, {"content", "x"}}}}, {"model", model}};
    const Response rendered = Post(port_, "/v1/chat/completions/render", chat, "key-one");
    ASSERT_EQ(rendered.status, 200) << rendered.body;
    EXPECT_EQ(Json::parse(rendered.body)["model"], model);
  }
  ExpectRefused(Post(port_, "/tokenize", {{"model", "all"}, {"prompt", "x"}}, "key-one"), 404, "model", "base");
}

TEST_F(AdapterServing, ComeAndGoWhileTheServerRuns) {
  Start();
  const Json body = {{"lora_name", "late"}, {"lora_path", Folder("patterns")}};
  EXPECT_EQ(Post(port_, "/v1/load_lora_adapter", body, "key-every").status, 404) << "no client's business";
  EXPECT_EQ(Post(admin_port_, "/v1/load_lora_adapter", body, "key-every").status, 403);
  ExpectRefused(Load("none", dir_.File("none")), 400, "lora_path", "none");
  ExpectRefused(Load("none", Folder("mlp_of_one")), 400, "lora_path", "rank 16");
  const Response loaded = Load("late", Folder("patterns"));
  EXPECT_EQ(loaded.status, 200) << loaded.body;
  EXPECT_EQ(loaded.body, "Success: LoRA adapter 'late' added successfully.");
  EXPECT_THAT(Models("key-every"), ElementsAre("base", "all", "late", "qv"));
  const auto expect_answer = [&](const std::string& name, const std::string& folder) {
    const Json golden = ReadJson(Folder(folder) + "/greedy.json")["prompts"][1];
    const Response response = Complete(Greedy(name, golden["prompt_ids"], golden["tokens"].size()));
    ASSERT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(Json::parse(response.body)["choices"][0]["token_ids"], golden["tokens"]) << name;
  };
  expect_answer("late", "patterns");

  const Response full = Load("more", Folder("all"));
  EXPECT_EQ(full.status, 503) << full.body;
  EXPECT_TRUE(Json::parse(full.body)["error"]["param"].is_null()) << full.body;
  EXPECT_EQ(full.Field("retry-after"), "5");
  EXPECT_THAT(full.body, HasSubstr("--max-loras"));
  ExpectRefused(Load("late", Folder("all")), 400, "lora_name", "late");
  ExpectRefused(Load("base", Folder("all")), 400, "lora_name", "base");
  ExpectRefused(Load("a b", Folder("all")), 400, "lora_name", "name");
  ExpectRefused(Load("", Folder("all")), 400, "lora_name", "required");
  ExpectRefused(Admin("/v1/load_lora_adapter", {{"lora_name", "x"}}), 400, "lora_path", "required");
  Json in_place = body;
  in_place["load_inplace"] = true;
  ExpectRefused(Admin("/v1/load_lora_adapter", in_place), 400, "load_inplace", "load_inplace");

  EXPECT_EQ(Unload("late").body, "Success: LoRA adapter 'late' removed successfully.");
  ExpectRefused(Unload("late"), 404, "lora_name", "late");
  ExpectRefused(Complete(Greedy("late", Json::array({5}), 2)), 404, "model", "base");
  // Its slot is the next one's, which computes with its own numbers and no rest of those before.
  ASSERT_TRUE(Eventually([&] { return Load("next", Folder("all")).status == 200; }));
  expect_answer("next", "all");
  expect_answer("qv", "qv_root");

  ASSERT_EQ(Admin("/admin/drain").status, 200);
  const Response late = Load("last", Folder("all"));
  EXPECT_EQ(late.status, 503);
  EXPECT_EQ(Json::parse(late.body)["error"]["code"], "draining") << "the end waits for what has begun alone";
}

TEST_F(AdapterServing, PrefixesAreSharedWithTheSameAdapterOnly) {
  Start();
  const Json golden = ReadJson(Folder("all") + "/greedy.json")["prompts"][2];
  const auto cached = [&](const std::string& model) {
    const Response response = Complete(Greedy(model, golden["prompt_ids"], golden["tokens"].size()));
    const Json answer = Json::parse(response.body);
    const bool same = answer["choices"][0]["token_ids"] == golden["tokens"];
    EXPECT_EQ(same, model == "all" || model == "same") << model;
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>();
  };
  EXPECT_EQ(cached("base"), 0);
  EXPECT_EQ(cached("all"), 0);
  EXPECT_EQ(cached("qv"), 0);
  EXPECT_EQ(cached("all"), 32);
  // The contents count, whatever they are called.
  ASSERT_EQ(Load("same", Folder("all")).status, 200);
  EXPECT_EQ(cached("same"), 32);
  EXPECT_EQ(cached("base"), 32);
}

TEST_F(AdapterServing, ASessionGoesOnWithItsAdapterOnly) {
  config_.session_dir = dir_.File("sessions");
  config_.session_dir_unsafe = true;  // tests may run in a container's own layer
  Start();
  const auto turn = [&](const std::string& session, const std::string& model, bool first = false) {
    Json body = Greedy(model, Json::array({5, 6, 7, 8}), 3);
    body["session_id"] = session;
    body["session_append"] = !first;
    return Complete(body);
  };
  for (const char* model : {"base", "all"})
    EXPECT_EQ(turn(std::string("of-") + model, model, /*first=*/true).status, 200) << model;
  ExpectRefused(turn("of-all", "qv"), 400, "model", "another adapter");
  ExpectRefused(turn("of-all", "base"), 400, "model", "another adapter");
  ExpectRefused(turn("of-base", "all"), 400, "model", "without an adapter");
  EXPECT_EQ(turn("of-all", "all").status, 200) << "a turn that was refused took nothing";
  EXPECT_EQ(turn("of-base", "base").status, 200);
  // Another adapter under its name is another adapter, and the same under another name is the same.
  ASSERT_EQ(Unload("all").status, 200);
  ASSERT_TRUE(Eventually([&] { return Load("all", Folder("patterns")).status == 200; }));
  ASSERT_EQ(Load("renamed", Folder("all")).status, 200);
  ExpectRefused(turn("of-all", "all"), 400, "model", "another adapter");
  EXPECT_EQ(turn("of-all", "renamed").status, 200);
  TearDown();
  Start();  // reads the sessions of the disk
  ExpectRefused(turn("of-all", "qv"), 400, "model", "another adapter");
  EXPECT_EQ(turn("of-all", "all").status, 200);
}

TEST_F(AdapterServing, AResponseGoesOnWithAnyModel) {
  config_.session_headers = {"x-gateway-key"};
  config_.chat_template_path =
      dir_.Write("template", "{% for message in messages %}[{{ message['content'] }}]{% endfor %}");
  Start();
  const auto respond = [&](const Json& more, const std::string& affinity = "") {
    Json body = {{"input", "x"}, {"max_output_tokens", 2}, {"temperature", 0}};
    body.update(more);
    const std::string text = body.dump();
    return RawClient(port_).Ask(
        "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer key-every\r\n" +
        (affinity.empty() ? "" : "x-gateway-key: " + affinity + "\r\n") +
        "Content-Type: application/json\r\nContent-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text);
  };
  const auto expect_of = [](const Response& response, const std::string& model) {
    ASSERT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(Json::parse(response.body)["model"], model);
  };
  const Response first = respond({{"model", "all"}});
  expect_of(first, "all");
  const std::string id = Json::parse(first.body)["id"];
  // A chain is a tree: the newest of it branches as the older ones do.
  for (const char* model : {"qv", "all", "base"}) {
    expect_of(respond({{"model", model}, {"previous_response_id", id}}), model);
  }
  for (const char* model : {"all", "qv", "base"}) {
    SCOPED_TRACE("a gateway's key");
    expect_of(respond({{"model", model}}, "a-key"), model);
  }
}

TEST_F(AdapterServing, OneThatCannotBeServedEndsTheStart) {
  config_.adapter_modules[1].path = Folder("mlp_of_one");
  std::vector<std::string> lines;
  EXPECT_EQ(Serve(config_, [&](const std::string& line) { lines.push_back(line); }), kExitConfig);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], testing::AllOf(HasSubstr("--lora-modules"), HasSubstr("qv="), HasSubstr("rank 16")));
}

// What Gateway API's endpoint pickers send requests by (docs/scale-out.md).
TEST_F(AdapterServing, MetricsNameTheAdaptersThatRequestsWaitForAndRunWith) {
  Start();
  const auto demand = [this] {
    const Response scrape = RawClient(admin_port_).Ask(Get("/metrics", "Authorization: Bearer key-admin\r\n"));
    constexpr std::string_view kSeries = "\nvllm:lora_requests_info{";
    const size_t begin = scrape.body.find(kSeries);
    EXPECT_EQ(begin, scrape.body.rfind(kSeries)) << "one series";
    if (begin == std::string::npos) return scrape.body;
    return scrape.body.substr(begin + kSeries.size(), scrape.body.find('}', begin) - begin - kSeries.size());
  };
  const std::string nobody = R"(max_lora="3",running_lora_adapters="",waiting_lora_adapters="")";
  EXPECT_EQ(demand(), nobody);
  ASSERT_EQ(Admin("/pause").status, 200);
  std::future<Response> answer = std::async(std::launch::async, [this] {
    return Complete(Greedy("qv", Json::array({3, 4, 5}), 4));
  });
  for (int i = 0; i < 10'000 && demand() == nobody; ++i) {
  }
  EXPECT_EQ(demand(), R"(max_lora="3",running_lora_adapters="",waiting_lora_adapters="qv")");
  ASSERT_EQ(Admin("/resume").status, 200);
  EXPECT_EQ(answer.get().status, 200);
  for (int i = 0; i < 10'000 && demand() != nobody; ++i) {
  }
  EXPECT_EQ(demand(), nobody);
}

}  // namespace
}  // namespace hydrant
