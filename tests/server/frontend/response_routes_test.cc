// What is kept of responses and conversations, over HTTP.
#include "server/frontend/response_routes.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "server/sessions/journal/session_journal.h"
#include "server/sessions/past_codec.h"
#include "server/sessions/response_notes.h"
#include "server/sessions/transfer/session_file.h"
#include "tests/server/durable_server.h"
#include "tests/server/sessions/journal/stuck_disk.h"
#include "tests/server/test_server.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using Json = nlohmann::json;

std::string Send(const std::string& method, const std::string& path, const std::string& body = "") {
  return method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

class Kept : public testing::Test {
 protected:
  Json Ask(const std::string& method, const std::string& path, const std::string& body = "", int status = 200) {
    const RawClient::Response response =
        method == "POST" ? server_.Ask(Send(method, path, body))
                         : server_.Ask(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(response.status, status) << path << response.body.substr(0, 1000);
    return Json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  }
  std::string CodeOf(const std::string& method, const std::string& path, int status, const std::string& body = "{}") {
    return Ask(method, path, body, status)["error"]["code"];
  }

  TestServer server_{WithChats()};
};

TEST_F(Kept, WhatIsNotThereIsToldByName) {
  EXPECT_EQ(CodeOf("GET", "/v1/responses/resp_1", 404), "response_not_found");
  EXPECT_EQ(CodeOf("GET", "/v1/responses/resp_0123456789abcdef_s/input_items", 404), "response_not_found");
  EXPECT_EQ(CodeOf("DELETE", "/v1/responses/resp_1", 404), "response_not_found");
  EXPECT_EQ(CodeOf("POST", "/v1/responses/resp_1/cancel", 400), "unsupported");
  EXPECT_EQ(CodeOf("GET", "/v1/conversations/conv_1", 404), "conversation_not_found");
  EXPECT_EQ(CodeOf("POST", "/v1/conversations/conv_1/items", 404), "conversation_not_found");
  EXPECT_EQ(CodeOf("DELETE", "/v1/conversations/s", 404), "conversation_not_found");
}

TEST_F(Kept, AConversationHasItemsThatComeAndGo) {
  const std::string hi = R"({"role":"user","content":"hi"})",
                    call = R"({"type":"function_call","call_id":"c","name":"f","arguments":"{}"})";
  const Json made = Ask("POST", "/v1/conversations", R"({"metadata":{"a":"b"},"items":[)" + hi + "]}");
  const std::string path = "/v1/conversations/" + made["id"].get<std::string>();
  EXPECT_EQ(Ask("GET", path), made);
  EXPECT_EQ(made["metadata"], (Json{{"a", "b"}}));
  const Json added = Ask("POST", path + "/items", R"({"items":[)" + call + "," + hi + "]}");
  ASSERT_EQ(added["data"].size(), 2u);
  EXPECT_EQ(added["data"][0]["type"], "function_call");
  const std::string item = added["data"][0]["id"];
  EXPECT_EQ(Ask("GET", path + "/items/" + item)["name"], "f");
  const Json page = Ask("GET", path + "/items?order=asc&limit=2");
  EXPECT_EQ(page["data"].size(), 2u);
  EXPECT_TRUE(page["has_more"]);
  EXPECT_EQ(Ask("GET", path + "/items?after=" + page["last_id"].get<std::string>() + "&order=asc")["data"].size(), 1u);
  EXPECT_EQ(CodeOf("GET", path + "/items?limit=0", 400), "invalid_value");
  EXPECT_EQ(CodeOf("POST", path + "/items", 400, R"({"items":[{"type":"item_reference","id":"x"}]})"),
            "unsupported_item");
  EXPECT_EQ(Ask("DELETE", path + "/items/" + item)["id"], made["id"]);
  for (const char* method : {"GET", "DELETE"}) {
    const Json error = Ask(method, path + "/items/" + item, "", 404)["error"];
    EXPECT_EQ(error["code"], "conversation_not_found") << method;
    EXPECT_EQ(error["param"], "item_id") << method << ": the conversation is there";
    EXPECT_NE(error["message"].get<std::string>().find("no item"), std::string::npos) << error;
  }
  EXPECT_EQ(Ask("GET", path + "/items")["data"].size(), 2u);
  const RawClient::Response changed = server_.Ask(Send("POST", path, R"({"metadata":{"c":"d"}})"));
  EXPECT_EQ(Json::parse(changed.body)["metadata"], (Json{{"c", "d"}}));
  EXPECT_EQ(changed.Field("x-hydrant-durable"), "false") << "there is no disk";
  EXPECT_EQ(Ask("POST", path, "{}", 400)["error"]["param"], "metadata");
  EXPECT_EQ(Ask("POST", path, R"({"metadata":{},"items":[]})", 400)["error"]["param"], "items");
  EXPECT_EQ(Ask("POST", path + "/items", R"({"metadata":{},"items":[]})", 400)["error"]["param"], "metadata");
  EXPECT_EQ(Ask("GET", path)["metadata"], (Json{{"c", "d"}})) << "what was refused changed nothing";
  EXPECT_EQ(Ask("POST", path, R"({"metadata":null})")["metadata"], Json::object());
  EXPECT_TRUE(Ask("DELETE", path)["deleted"]);
  EXPECT_EQ(CodeOf("GET", path, 404), "conversation_not_found");
}

// A list goes on after an id, and an item is deleted by its own: of two with one id a client never came to the end.
TEST_F(Kept, NoTwoItemsOfAConversationHaveOneId) {
  const auto item = [](const std::string& id) { return R"({"role":"user","content":"hi","id":")" + id + "\"}"; };
  const auto items = [](const std::string& list) { return R"({"items":[)" + list + "]}"; };
  const std::string twins = items(item("a") + "," + item("a"));
  EXPECT_EQ(Ask("POST", "/v1/conversations", twins, 400)["error"]["param"], "items[1].id");
  const std::string id = Ask("POST", "/v1/conversations", items(item("a")))["id"], path = "/v1/conversations/" + id;
  EXPECT_EQ(Ask("POST", path + "/items", items(item("b") + "," + item("a")), 400)["error"]["param"], "items[1].id");
  const auto says = [&](const std::string& list) {
    return R"({"max_output_tokens":2,"conversation":")" + id + R"(","input":[)" + list + "]}";
  };
  const std::string said = Ask("POST", "/v1/responses", says(item("b")))["output"][0]["id"];
  for (const std::string& there : {std::string("a"), std::string("b"), said}) {
    EXPECT_EQ(Ask("POST", "/v1/responses", says(item("c") + "," + item(there)), 400)["error"]["param"], "input[1].id");
  }
  const std::string refer = R"({"type":"item_reference","id":"a"})";
  EXPECT_EQ(Ask("POST", "/v1/responses", says(refer), 400)["error"]["param"], "input[0].id");
  EXPECT_EQ(Ask("GET", path + "/items")["data"].size(), 3u);
}

TEST_F(Kept, AnOutputIsInAConversationWithItsCallOrNotAtAll) {
  const auto items = [](const std::string& list) { return R"({"items":[)" + list + "]}"; };
  const std::string call = R"({"type":"function_call","call_id":"c","name":"f","arguments":"{}"})",
                    output = R"({"type":"function_call_output","call_id":"c","output":"1"})";
  EXPECT_EQ(CodeOf("POST", "/v1/conversations", 400, items(output)), "invalid_value");
  EXPECT_EQ(CodeOf("POST", "/v1/conversations", 400, items(output + "," + call)), "invalid_value");
  const std::string path = "/v1/conversations/" + Ask("POST", "/v1/conversations")["id"].get<std::string>();
  EXPECT_EQ(Ask("POST", path + "/items", items(output), 400)["error"]["param"], "items[0].call_id");
  const std::string item = Ask("POST", path + "/items", items(call))["data"][0]["id"];
  const std::string answer = Ask("POST", path + "/items", items(output))["data"][0]["id"];
  EXPECT_EQ(Ask("DELETE", path + "/items/" + item, "", 400)["error"]["param"], "item_id");
  EXPECT_EQ(Ask("GET", path + "/items")["data"].size(), 2u);
  Ask("DELETE", path + "/items/" + answer);
  Ask("DELETE", path + "/items/" + item);
}

TEST_F(Kept, WhatGoesOnFromAResponseOfAConversationIsNotInIt) {
  const std::string id = Ask("POST", "/v1/conversations")["id"], path = "/v1/conversations/" + id;
  const std::string first =
      Ask("POST", "/v1/responses", R"({"input":"hi","max_output_tokens":2,"conversation":")" + id + "\"}")["id"];
  const Json items = Ask("GET", path + "/items");
  const Json next =
      Ask("POST", "/v1/responses", R"({"input":"more","max_output_tokens":2,"previous_response_id":")" + first + "\"}");
  EXPECT_TRUE(next["conversation"].is_null());
  EXPECT_EQ(Ask("GET", path + "/items"), items);
  Ask("DELETE", path);
  EXPECT_EQ(CodeOf("GET", "/v1/responses/" + first, 404), "response_not_found");
  EXPECT_EQ(Ask("GET", "/v1/responses/" + next["id"].get<std::string>())["id"], next["id"]);
}

std::string PutState(const std::string& id, const std::string& state) {
  return "PUT /v1/sessions/" + id +
         "/state HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: *\r\nContent-Length: " + std::to_string(state.size()) +
         "\r\n\r\n" + state;
}

TEST_F(Kept, AConversationMovesAlsoBeforeItsFirstResponse) {
  const std::string id = Ask("POST", "/v1/conversations", R"({"items":[{"role":"user","content":"hi"}]})")["id"];
  const RawClient::Response state = server_.Ask(Get("/v1/sessions/" + id + "/state"));
  ASSERT_EQ(state.status, 200);
  TestServer other(WithChats());
  EXPECT_EQ(other.Ask(PutState(id, state.body)).status, 201);
  EXPECT_EQ(Json::parse(other.Ask(Get("/v1/conversations/" + id + "/items")).body)["data"].size(), 1u);
  const RawClient::Response said =
      other.Ask(Send("POST", "/v1/responses", R"({"input":"more","conversation":")" + id + "\"}"));
  EXPECT_EQ(said.status, 200) << said.body;
  // What an import brings is held to what a session may keep.
  absl::StatusOr<SessionFile> file = ReadSessionFile(state.body);
  ASSERT_TRUE(file.ok());
  SessionPast past = *DecodePast({&file->past, 1}, file->model);
  auto note = std::make_shared<TurnNote>(*past.notes.back());
  note->text += std::string(2 * NotesBytesMax(4096), ' ');
  past.notes.push_back(std::move(note));
  file->past = EncodePast(past, nullptr, file->model);
  TestServerOptions roomy = WithChats();
  roomy.http.limits.body_bytes_max = 32 << 20;
  TestServer third(std::move(roomy));
  const RawClient::Response refused = third.Ask(PutState(id, WriteSessionFile(*file)));
  EXPECT_EQ(refused.status, 413);
  EXPECT_EQ(Json::parse(refused.body)["error"]["param"], "notes") << refused.body;
}

TEST_F(Kept, OnlyTheResponseItselfIsDeletedAndNothingBelowIt) {
  const auto make = [this](const std::string& more) {
    return Ask("POST", "/v1/responses", R"({"input":"hi","max_output_tokens":4)" + more + "}")["id"].get<std::string>();
  };
  const std::string first = make(""), path = "/v1/responses/" + first, session = "/v1/sessions/" + first.substr(22);
  EXPECT_EQ(CodeOf("DELETE", path + "/input_items", 405), "method_not_allowed");
  EXPECT_EQ(CodeOf("GET", path + "/output", 404), "route_not_found");
  EXPECT_EQ(Ask("GET", path)["id"], first);
  EXPECT_EQ(CodeOf("GET", path + "?include%5B%5D=x&include%5B%5D=message.output_text.logprobs", 400), "unsupported");
  EXPECT_EQ(Ask("GET", path + "/input_items")["data"].size(), 1u);
  // A branch has nothing but its own, once the one that it goes on from is found in its own session.
  const std::string after = R"(,"previous_response_id":")" + first + "\"";
  const std::string second = make(after), branch = make(after);
  ASSERT_NE(branch.substr(22), first.substr(22));
  EXPECT_TRUE(Ask("DELETE", "/v1/responses/" + branch)["deleted"]);
  Ask("GET", "/v1/sessions/" + branch.substr(22), "", 404);
  // The last of a chain takes the session with it, in whichever order.
  EXPECT_TRUE(Ask("DELETE", path)["deleted"]);
  EXPECT_EQ(CodeOf("GET", path, 404), "response_not_found");
  Ask("GET", session);
  EXPECT_TRUE(Ask("DELETE", "/v1/responses/" + second)["deleted"]);
  Ask("GET", session, "", 404);
  // A session that the client named is the client's.
  const std::string named = make(R"(,"session_id":"mine")");
  EXPECT_TRUE(Ask("DELETE", "/v1/responses/" + named)["deleted"]);
  Ask("GET", "/v1/sessions/mine");
}

TEST_F(Kept, AConversationTakesSoMuchAndNoMore) {
  const std::string path = "/v1/conversations/" + Ask("POST", "/v1/conversations")["id"].get<std::string>() + "/items";
  const std::string items = R"({"items":[{"role":"user","content":")" + std::string(900'000, 'a') + R"("}]})";
  for (int32_t i = 0; i < 4; ++i) Ask("POST", path, items);
  EXPECT_EQ(CodeOf("POST", path, 413, items), "payload_too_large");
  EXPECT_EQ(Ask("GET", path)["data"].size(), 4u);
}

// A disk that takes nothing for a while, as the journal sees it.
class HangingDisk {
 public:
  explicit HangingDisk(SessionJournal& journal) {
    LogRecord record;
    record.type = RecordType::kForget;
    record.name = journal.NameOf("default", "nobody's");
    journal.Commit(std::move(record), [&](bool) {
      hangs_.set_value();
      back_.get_future().wait();
    });
    hangs_.get_future().wait();
  }
  void ComesBack() { back_.set_value(); }

 private:
  std::promise<void> hangs_, back_;
};

std::string Remove(const std::string& what) { return "DELETE " + what + " HTTP/1.1\r\nHost: localhost\r\n\r\n"; }

TEST(KeptOnADisk, ADiskThatHangsHoldsUpNobodyElseAndWhatIsDeletedIsToldWhenItIs) {
  const TempDir temp;
  std::string path, item, last;
  {
    DurableServer durable(temp.File("d"), WithChats());
    TestServer& server = *durable.server;
    const auto answer = [&server](const std::string& where, const std::string& body) {
      const RawClient::Response response = server.Ask(Send("POST", where, body));
      EXPECT_EQ(response.status, 200) << response.body;
      return Json::parse(response.body);
    };
    const auto respond = [&] {
      return "/v1/responses/" + answer("/v1/responses", R"({"input":"hi"})")["id"].get<std::string>();
    };
    path = "/v1/conversations/" + answer("/v1/conversations", "{}")["id"].get<std::string>();
    const std::string items = R"({"items":[{"role":"user","content":"hi"}]})";
    item = path + "/items/" + answer(path + "/items", items)["data"][0]["id"].get<std::string>();
    const std::string first = respond(), second = respond(),
                      other = "/v1/conversations/" + answer("/v1/conversations", "{}")["id"].get<std::string>();
    last = respond();
    const std::string named =
        "/v1/responses/" + answer("/v1/responses", R"({"input":"hi","session_id":"named"})")["id"].get<std::string>();
    HangingDisk disk(*durable.journal);
    // More than there are workers.
    std::vector<std::unique_ptr<RawClient>> clients;
    for (const std::string& request :
         {Remove(item), Remove(named), Remove(first), Remove(other), Send("POST", "/v1/conversations", "{}"),
          Send("POST", "/v1/conversations", items), Remove(second)}) {
      clients.push_back(std::make_unique<RawClient>(server.port()));
      clients.back()->Send(request);
      if (clients.size() > 2) continue;
      // Connections are not heard in their order.
      const auto is_busy = [&] {
        const std::string path_of = clients.size() == 1 ? path.substr(18) : "named";
        return server.Ask(Get("/v1/sessions/" + path_of)).body.find("\"busy\"") != std::string::npos;
      };
      ASSERT_TRUE(Eventually(is_busy));
    }
    clients.back()->Close();  // it goes at the worst moment
    clients.pop_back();
    EXPECT_EQ(server.Ask(Get(last)).status, 200) << "who changes nothing waits for nobody";
    EXPECT_EQ(server.Ask(Remove(path)).status, 409) << "its item is not gone yet";
    const RawClient::Response locked = server.Ask(Remove(named));
    EXPECT_EQ(locked.status, 409) << "nor is this one's response";
    EXPECT_EQ(Json::parse(locked.body)["error"]["code"], "conversation_locked");
    for (const auto& client : clients) EXPECT_EQ(client->ReadUntil("\r\n", 0.01), "");
    disk.ComesBack();
    for (const auto& client : clients) EXPECT_EQ(client->ReadResponse().status, 200);
    EXPECT_TRUE(Eventually([&] { return server.Ask(Get(second)).status == 404; }));
    EXPECT_EQ(server.Ask(Send("POST", path + "/items", items)).Field("x-hydrant-durable"), "tokens");
  }
  DurableServer durable(temp.File("d"), WithChats());
  TestServer& server = *durable.server;
  EXPECT_EQ(server.Ask(Get(item)).status, 404) << "a restart does not bring it back";
  EXPECT_EQ(server.Ask(Get(last)).status, 200);
  durable.journal->Stop();  // nothing is durable any more
  EXPECT_EQ(server.Ask(Send("POST", path + "/items", R"({"items":[]})")).Field("x-hydrant-durable"), "false");
  for (const std::string& what : {path, last}) {
    const RawClient::Response response = server.Ask(Remove(what));
    EXPECT_EQ(response.status, 503) << what;
    EXPECT_EQ(Json::parse(response.body)["error"]["code"], "not_durable");
  }
}

TEST(KeptOnADisk, NobodysPromptWaitsWhereWhatOthersGoOnFromCannotBeRead) {
  const TempDir temp;
  const std::string hi = R"("input":"hi","max_output_tokens":4)";
  std::vector<std::string> requests;
  {
    DurableServer durable(temp.File("d"), WithChats());
    const auto made = [&](const std::string& path, const std::string& body) {
      return Json::parse(durable.server->Ask(Send("POST", path, body)).body)["id"].get<std::string>();
    };
    const auto goes_on = [&](const char* name) {
      return "{" + hi + ",\"" + name + "\":\"" +
             (std::string(name) == "conversation" ? made("/v1/conversations", "{}")
                                                  : made("/v1/responses", "{" + hi + "}")) +
             "\"}";
    };
    requests.push_back(Send("POST", "/v1/responses", goes_on("previous_response_id")));
    requests.push_back(Send("POST", "/v1/responses", goes_on("conversation")));
    requests.push_back(Send("POST", "/v1/responses/input_tokens", goes_on("previous_response_id")));
    made("/v1/completions", R"({"prompt":"hi","max_tokens":4,"session_id":"s"})");
    requests.push_back(CompletionPost(R"({"prompt":"hi","max_tokens":4,"session_id":"s","session_append":true})"));
    made("/v1/completions", R"({"prompt":"hi","max_tokens":4,"session_id":"t"})");
    requests.push_back(Get("/v1/sessions/t/kv"));
  }
  StuckDisk disk;
  SessionJournal::Options options;
  options.through = [&disk](std::unique_ptr<LogDirectory> files) {
    return std::make_unique<StuckDirectory>(std::move(files), disk);
  };
  DurableServer durable(temp.File("d"), WithChats(), std::move(options));
  for (const std::string& request : requests) {
    disk.Hang(StuckDisk::Stuck::kReads);
    RawClient client(durable.server->port());
    client.Send(request);
    EXPECT_TRUE(Eventually([&] { return disk.waiting() == 1; })) << request;
    // The same client, whose prompts have one line.
    RawClient other(durable.server->port());
    EXPECT_EQ(other.Ask(Send("POST", "/v1/responses", "{" + hi + "}"), 30).status, 200) << request;
    EXPECT_EQ(client.ReadUntil("\r\n", 0.001), "");
    disk.Hang(StuckDisk::Stuck::kNothing);
    EXPECT_EQ(client.ReadResponse().status, 200) << request;
  }
}

// Nothing can be written to any file.
class FullDisk {
 public:
  FullDisk() {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const struct rlimit none = {0, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &none);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  struct rlimit before_ {};
};

TEST(KeptOnADisk, WhatWasDeletedAndIsNotDurableIsDeletedAgainUntilItIs) {
  const TempDir temp;
  DurableServer durable(temp.File("d"), WithChats(), {.retry_s = 0});
  TestServer& server = *durable.server;
  const auto post = [&server](const std::string& path, const std::string& body) {
    const RawClient::Response response = server.Ask(Send("POST", path, body));
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::parse(response.body);
  };
  const std::string items = R"({"items":[{"role":"user","content":"hi"}]})";
  const auto conversation = [&] {
    return "/v1/conversations/" + post("/v1/conversations", items)["id"].get<std::string>();
  };
  const std::string gone = conversation(), other = conversation();
  const std::string item = other + "/items/" + post(other + "/items", items)["data"][0]["id"].get<std::string>();
  const std::string first = post("/v1/responses", R"({"input":"hi","max_output_tokens":4})")["id"];
  post("/v1/responses", R"({"input":"and","max_output_tokens":4,"previous_response_id":")" + first + "\"}");
  const std::string alone = post("/v1/responses", R"({"input":"hi","max_output_tokens":4})")["id"];
  post("/v1/responses", R"({"input":"hi","max_output_tokens":4,"session_id":"s"})");
  const std::vector<std::string> all = {gone, item, "/v1/responses/" + first, "/v1/responses/" + alone,
                                        "/v1/sessions/s"};
  const auto status_of = [&server](const std::string& what) { return server.Ask(Remove(what)).status; };
  {
    const FullDisk full;
    for (int time = 0; time < 2; ++time) {
      for (const std::string& what : all) EXPECT_EQ(status_of(what), 503) << what << " for the time " << time;
    }
  }
  for (const std::string& what : all) EXPECT_EQ(server.Ask(Get(what)).status, 404) << what;
  EXPECT_EQ(status_of("/v1/sessions/t"), 404);
  EXPECT_EQ(status_of(other + "/items/" + "msg_none"), 404);
  for (const std::string& what : all) EXPECT_EQ(status_of(what), 200) << what;
  for (const std::string& what : all) EXPECT_EQ(status_of(what), 404) << what;
  // One that takes the name of what a start would find.
  post("/v1/responses", R"({"input":"hi","max_output_tokens":4,"session_id":"s"})");
  {
    const FullDisk full;
    EXPECT_EQ(status_of("/v1/sessions/s"), 503);
    EXPECT_EQ(
        server.Ask(Send("POST", "/v1/responses", R"({"input":"hi","max_output_tokens":4,"session_id":"s"})")).status,
        200);
    EXPECT_EQ(status_of("/v1/sessions/s"), 503) << "the log has it, if not this one";
  }
  EXPECT_EQ(status_of("/v1/sessions/s"), 200);
  EXPECT_EQ(durable.journal->TurnOf(durable.journal->NameOf("default", "s")), 0u);
}

TEST(KeptOnADisk, WhatExpiresGoesFromAServerThatNobodyAsks) {
  const TempDir temp;
  std::atomic<int64_t> now_us = 1;
  TestServerOptions options = WithChats();
  options.sessions.ttl_us = 1'000'000;
  options.sessions.clock = [&now_us] { return now_us.load(); };
  DurableServer durable(temp.File("d"), std::move(options));
  const SessionName name = durable.journal->NameOf("default", "s");
  const std::string turn = R"({"input":"hi","max_output_tokens":4,"session_id":"s"})";
  EXPECT_EQ(durable.server->Ask(Send("POST", "/v1/responses", turn)).status, 200);
  EXPECT_EQ(durable.journal->TurnOf(name), 1u);
  now_us = 2'000'000;
  EXPECT_TRUE(Eventually([&] { return durable.journal->TurnOf(name) == 0; }));
}

TEST(KeptOnADisk, WhoHasEndedItsSideWaitsForADiskThatHangsNotWithoutEnd) {
  const TempDir temp;
  TestServerOptions options = WithChats();
  options.http.limits.half_closed_s = 0.2;
  DurableServer durable(temp.File("d"), std::move(options));
  HangingDisk disk(*durable.journal);
  RawClient late(durable.server->port());
  late.Send(Send("POST", "/v1/conversations", "{}"));
  late.EndSending();
  EXPECT_EQ(late.ReadAll(30), "");
  EXPECT_TRUE(late.closed());
  disk.ComesBack();
}

TEST(KeptOnADisk, WhoHasEndedItsSideHearsOfTheDisk) {
  const TempDir temp;
  TestServerOptions options = WithChats();
  options.http.limits.half_closed_s = 60;
  DurableServer durable(temp.File("d"), std::move(options), {.waiting_bytes_max = 100'000});
  TestServer& server = *durable.server;
  HangingDisk disk(*durable.journal);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    clients.back()->Send(Send("POST", "/v1/conversations",
                              R"({"items":[{"role":"user","content":")" + std::string(10000, 'a') + "\"}]}"));
  }
  // Connections are not heard in their order. The first answer that anybody has is that enough of them wait.
  RawClient::Response response;
  EXPECT_TRUE(Eventually([&] {
    for (size_t i = 0; i < clients.size() && response.status == 0; ++i) response = clients[i]->ReadResponse(0.001);
    return response.status != 0;
  }));
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(Json::parse(response.body, nullptr, /*allow_exceptions=*/false)["error"]["code"], "disk_behind");
  RawClient client(server.port());
  client.Send(Remove("/v1/conversations/conv_none"));
  client.EndSending();
  EXPECT_EQ(client.ReadResponse().status, 404);
  RawClient patient(server.port());
  patient.Send(Send("POST", "/v1/conversations", "{}"));
  patient.EndSending();
  EXPECT_EQ(patient.ReadUntil("\r\n", 0.01), "");
  disk.ComesBack();
  EXPECT_EQ(patient.ReadResponse().status, 200);
}

}  // namespace
}  // namespace hydrant
