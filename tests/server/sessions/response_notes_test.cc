#include "server/sessions/response_notes.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/server/sessions/idle_store.h"

namespace hydrant {
namespace {

TEST(ResponseNotes, AreCheckedAndOneThatIsDeletedIsNotFound) {
  TurnNote note;
  note.head = std::make_shared<const std::string>(R"("tools":[])");
  for (const char* text :
       {"", "{}", "[]\n[]", "{}\n{}", "{}\n[7]", "{\"output\":7}\n[]", "{\"output\":[{\"type\":\"x\"}]}\n[]",
        "{}\n[{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"[\"}]"}) {
    note.text = text;
    EXPECT_FALSE(ItemsOf(note, RequestContext()).has_value()) << text;
  }
  note.text = R"({"output":[{"type":"function_call","status":"incomplete","call_id":"c","name":"f","arguments":"{"}]})"
              "\n[]";
  EXPECT_TRUE(ItemsOf(note, RequestContext()).has_value()) << "a call that broke off is no reason to lose a chain";
  note.text = "{\"id\":\"resp_1\",\"a\":";
  EXPECT_EQ(ResponseJson(note), "");
  SessionStore sessions(IdleStore());
  SessionPast past;
  past.tokens = {1, 2};
  for (const char* id : {"resp_0123456789abcdef_s", "resp_1123456789abcdef_s"}) {
    note.turn = past.notes.size() + 1;
    note.text = std::string("{\"id\":\"") + id + "\",\"a\":1}\n[]";
    past.notes.push_back(std::make_shared<const TurnNote>(note));
  }
  const std::string first = "resp_0123456789abcdef_s", second = "resp_1123456789abcdef_s";
  sessions.Begin({}, "s", false).value().End(past);
  EXPECT_EQ(SessionOfResponse(first), "s");
  EXPECT_FALSE(FindResponse(sessions, {.tenant = 1}, first).has_value());
  EXPECT_EQ(ResponseJson(FindResponse(sessions, {}, first)->note()), "{\"id\":\"" + first + R"(","a":1,"tools":[]})");
  const auto forget = [&](TurnNotes* notes) {
    notes->push_back(notes->back());  // as a file of a session may have it
    RemoveResponse(notes, second);
    return std::optional<ApiError>();
  };
  ASSERT_FALSE(ChangeNotes(sessions, SessionOwner(), SessionOfResponse(first), forget, [](bool durable) {
                 EXPECT_TRUE(durable);
               }).has_value());
  EXPECT_FALSE(FindResponse(sessions, {}, second).has_value());
  EXPECT_TRUE(FindResponse(sessions, {}, first).has_value());
}

}  // namespace
}  // namespace hydrant
