// Chains of responses without an engine: what it would be given, and what a turn that has ended leaves.
#include "server/generation/responses_prepare.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "server/sessions/response_notes.h"
#include "server/sessions/turn_answer.h"
#include "tests/server/generation/byte_context.h"
#include "tests/server/sessions/idle_store.h"
#include "tests/support/cpu_time.h"

namespace hydrant {
namespace {

using Json = nlohmann::json;

constexpr const char* kTemplate =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls %}({{ c.function.name }}){% endfor "
    "%}</>"
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";

class Responses : public testing::Test {
 protected:
  Responses() : context_(ByteContext(400)), sessions_(IdleStore()) {
    std::vector<std::string> warnings;
    context_.chat = MakeChatSetup({kTemplate, ""}, "<bos>", "<eos>", "auto", &warnings);
    context_.sessions = &sessions_;
  }

  ApiResult<PreparedGeneration> Prepare(const std::string& members, int32_t tenant = 0) {
    TenantRules rules;
    rules.sessions.tenant = tenant;
    return PrepareResponses("{" + members + "}", context_, rules);
  }

  // Ends the turn with this answer, as GenerationRun does. Returns the response's id.
  std::string End(PreparedGeneration prepared, const std::string& text) {
    const PreparedPrompt& prompt = prepared.prompts.front();
    const std::string id = "resp_" + prepared.answer_id;
    prepared.writer->Begin({id, 7, "m", ""});
    TurnAnswer said(*context_.tokenizer, /*skip_special_tokens=*/true);
    for (const int32_t token : ByteIds(text)) said.Add(token);
    SessionPast past = said.PastWith(prompt.ids, prompt.text, prompt.client_ranges, /*drop_last=*/false);
    past.spec = prompt.spec;
    past.kv = prompt.kv;
    past.notes = *prepared.notes;
    Answer answer;
    answer.choices.emplace_back().text = text;
    auto note = std::make_shared<TurnNote>();
    note->turn = prepared.turn->turn();
    note->tokens = static_cast<int32_t>(past.tokens.size());
    note->text = prepared.writer->Note(answer).text;
    note->head = std::make_shared<const std::string>(prepared.note_head);
    past.notes.push_back(std::move(note));
    prepared.turn->End(std::move(past));
    return id;
  }
  std::string Begin(const std::string& members, const std::string& text) {
    ApiResult<PreparedGeneration> prepared = Prepare(members);
    return prepared.ok() ? End(std::move(prepared.value()), text) : prepared.error().message;
  }
  static std::string After(const std::string& id, const std::string& more = R"("input":"more")") {
    return R"("previous_response_id":")" + id + "\"," + more;
  }
  // What the engine would be given; else the error's code.
  std::string PromptOf(const ApiResult<PreparedGeneration>& prepared) {
    if (!prepared.ok()) return prepared.error().code;
    return context_.tokenizer->Decode(prepared.value().prompts.front().ids.vector(), /*skip_special_tokens=*/false);
  }

  ServingContext context_;
  SessionStore sessions_;
};

TEST_F(Responses, AChainIsItsTokensAndWhatIsNew) {
  // The template would write the answer in another way: it is not asked.
  const std::string first = Begin(R"("input":"hi")", " Yo ");
  const std::string session = SessionOfResponse(first);
  ApiResult<PreparedGeneration> next = Prepare(After(first));
  EXPECT_EQ(PromptOf(next), "<user>hi</><assistant> Yo </><user>more</><assistant>");
  ASSERT_TRUE(next.ok());
  EXPECT_TRUE(next.value().prompts[0].continues);
  EXPECT_EQ(next.value().turn->id(), session);
  const std::string second = End(std::move(next.value()), "Well");
  EXPECT_EQ(PromptOf(Prepare(After(second, R"("input":"3")"))),
            "<user>hi</><assistant> Yo </><user>more</><assistant>Well</><user>3</><assistant>");
  const std::optional<FoundResponse> found = FindResponse(sessions_, {}, first);
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(found->newest);
  const Json response = Json::parse(ResponseJson(found->note()));
  EXPECT_EQ(response["id"], first);
  EXPECT_EQ(response["output"][0]["content"][0]["text"], " Yo ");
  EXPECT_EQ(response["instructions"], nullptr);
  ItemFinder items(sessions_, {}, context_.request);
  const nlohmann::ordered_json* item = items.Find(response["output"][0]["id"].get<std::string>());
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(item->at("role"), "assistant");
}

TEST_F(Responses, AnOlderOneAndOneThatIsTakenBranch) {
  const std::string first = Begin(R"("input":"hi")", "Yo");
  const std::string expected = "<user>hi</><assistant>Yo</><user>more</><assistant>";
  {
    const ApiResult<PreparedGeneration> one = Prepare(After(first)), other = Prepare(After(first));
    ASSERT_TRUE(one.ok() && other.ok());
    EXPECT_EQ(PromptOf(one), expected);
    EXPECT_EQ(PromptOf(other), expected);
    EXPECT_NE(one.value().turn->id(), other.value().turn->id());
  }
  const std::string second = End(std::move(Prepare(After(first)).value()), "Well");
  ApiResult<PreparedGeneration> branch = Prepare(After(first));
  EXPECT_EQ(PromptOf(branch), expected);
  ASSERT_TRUE(branch.ok());
  EXPECT_NE(branch.value().turn->id(), SessionOfResponse(first));
  const std::string other = End(std::move(branch.value()), "Else");
  EXPECT_EQ(PromptOf(Prepare(After(other, R"("input":"3")"))), expected + "Else</><user>3</><assistant>");
  EXPECT_EQ(PromptOf(Prepare(After(second, R"("input":"3")"))), expected + "Well</><user>3</><assistant>");
}

TEST_F(Responses, WhatOnlyChangesNotesIsNoTurnThatWasTakenInBetween) {
  const std::string first = Begin(R"("input":"hi")", "Yo"), second = Begin(After(first), "Well");
  const auto forget = [&first](TurnNotes* notes) {
    RemoveResponse(notes, first);
    return std::optional<ApiError>();
  };
  ASSERT_FALSE(ChangeNotes(sessions_, {}, SessionOfResponse(first), forget, [](bool durable) {
                 EXPECT_TRUE(durable);
               }).has_value());
  const ApiResult<PreparedGeneration> next = Prepare(After(second));
  ASSERT_TRUE(next.ok());
  EXPECT_TRUE(next.value().prompts[0].continues);
  EXPECT_EQ(next.value().turn->id(), SessionOfResponse(second));
}

TEST_F(Responses, AnItemOfAResponseThatIsDeletedIsNotReferredTo) {
  const std::string first = Begin(R"("input":"hi")", "Yo"), second = Begin(After(first), "Well");
  const auto item_of = [this](const std::string& id) {
    return Json::parse(ResponseJson(FindResponse(sessions_, {}, id)->note()))["output"][0]["id"].get<std::string>();
  };
  const std::string kept = item_of(first), gone = item_of(second);
  const auto refer = [this](const std::string& item) {
    return PromptOf(Prepare(R"("input":[{"type":"item_reference","id":")" + item + "\"}]"));
  };
  EXPECT_EQ(refer(gone), "<assistant>Well</><assistant>");
  const auto forget = [&second](TurnNotes* notes) {
    RemoveResponse(notes, second);
    return std::optional<ApiError>();
  };
  ASSERT_FALSE(ChangeNotes(sessions_, {}, SessionOfResponse(second), forget, [](bool durable) {
                 EXPECT_TRUE(durable);
               }).has_value());
  EXPECT_EQ(refer(gone), "response_not_found");
  EXPECT_EQ(refer(kept), "<assistant>Yo</><assistant>");
}

TEST_F(Responses, AReferenceCostsWhatItsItemTakes) {
  const std::string first = Begin(R"("input":"hi")", std::string(100'000, 'a'));
  const Json response = Json::parse(ResponseJson(FindResponse(sessions_, {}, first)->note()));
  const Json reference = {{"type", "item_reference"}, {"id", response["output"][0]["id"]}};
  const auto refer = [&](size_t times) {
    return Prepare(R"("store":false,"input":)" + Json(Json::array_t(times, reference)).dump());
  };
  EXPECT_EQ(PromptOf(refer(2)), "context_length_exceeded");
  const ApiResult<PreparedGeneration> many = refer(2000);
  EXPECT_EQ(PromptOf(many), "payload_too_large");
  EXPECT_EQ(many.error().param, "input[10].id");
}

TEST_F(Responses, AnItemIsReferredToByTheIdThatItsClientGaveIt) {
  const std::string first = Begin(R"("input":[{"role":"user","id":"mine","content":"hi"}])", "Yo");
  const std::string refer = R"("input":[{"type":"item_reference","id":"mine"}])";
  EXPECT_EQ(PromptOf(Prepare(After(first, refer))), "<user>hi</><assistant>Yo</><user>hi</><assistant>");
  EXPECT_EQ(PromptOf(Prepare(refer)), "response_not_found") << "nothing says where";
}

TEST_F(Responses, NoTwoItemsThatAreKeptTogetherHaveOneId) {
  const std::string twins =
      R"("input":[{"role":"user","id":"a","content":"1"},{"role":"user","content":"2"},{"role":"user","id":"a","content":"3"}])";
  const ApiResult<PreparedGeneration> kept = Prepare(twins);
  ASSERT_FALSE(kept.ok());
  EXPECT_EQ(kept.error().param, "input[2].id");
  EXPECT_EQ(PromptOf(Prepare(twins + R"(,"store":false)")), "<user>1</><user>2</><user>3</><assistant>");
}

// What there is to be computed is what the client is told there would be.
TEST_F(Responses, AsManyTokensAreCountedAsThePromptHas) {
  std::vector<std::string> warnings;
  std::string trims = kTemplate;
  trims.replace(trims.find("m.content"), std::string("m.content").size(), "m.content | trim");
  context_.chat = MakeChatSetup({trims, ""}, "", "", "auto", &warnings);
  const auto count = [this](const std::string& members) {
    const ApiResult<int64_t> tokens = CountResponseTokens("{" + members + "}", context_);
    return tokens.ok() ? tokens.value() : -1;
  };
  const auto expect_same = [&](const std::string& members) {
    const ApiResult<PreparedGeneration> prepared = Prepare(members);
    ASSERT_TRUE(prepared.ok()) << prepared.error().message;
    EXPECT_EQ(count(members), std::ssize(prepared.value().prompts.front().ids.vector())) << members;
  };
  const std::string call = R"({"type":"function_call","call_id":"c","name":"f","arguments":"{}"})";
  const std::string first =
      Begin(R"("input":[{"role":"user","content":"hi"},)" + call + "]", " as the template would not ");
  const std::string second = Begin(After(first), "<think>hm</think>\n\nyes  ");
  for (const std::string& past : {first, second}) {
    for (
        const std::string members :
        {R"("input":"more")", R"("input":"more","store":false)", R"("input":"more","instructions":"others")",
         R"("input":[{"type":"function_call_output","call_id":"c","output":"1"}])",
         R"("input":[{"type":"reasoning","content":[{"type":"reasoning_text","text":"so"}]},{"role":"user","content":"2"}])"}) {
      expect_same(After(past, members));
    }
  }
  // A session that is only named keeps its tokens where the text begins with theirs.
  context_.chat.for_all.reasoning.open = "<think>";
  context_.chat.for_all.reasoning.close = "</think>";
  Begin(R"("session_id":"s","input":"hi")", "<think>hm</think>\n\nyes");
  const std::string history =
      R"("input":[{"role":"user","content":"hi"},{"role":"assistant","content":"yes"},{"role":"user","content":"2"}])";
  expect_same(R"("session_id":"s",)" + history);
  expect_same(history);
  const std::string many = R"("input":[{"role":"user","content":")" + std::string(300, 'a') +
                           R"("},{"role":"assistant","content":"b"},{"role":"user","content":")" +
                           std::string(200, 'c') + R"("}])";
  EXPECT_GT(count(many), 500) << "what there is no room for is counted, too";
  expect_same(many + R"(,"truncation":"auto")");
  const ApiResult<int64_t> none = CountResponseTokens("{" + After("resp_1") + "}", context_);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, "previous_response_not_found");
  EXPECT_EQ(sessions_.counts().busy, 0);
}

TEST_F(Responses, WhatASessionKeepsIsBounded) {
  const std::string first = Begin(R"("input":"hi")", "Yo");
  const std::string session = SessionOfResponse(first);
  const auto grow = [&](TurnNotes* notes) {
    auto note = std::make_shared<TurnNote>(*notes->back());
    note->head = std::make_shared<const std::string>(NotesBytesMax(400), 'a');
    notes->insert(notes->begin(), std::move(note));
    return std::optional<ApiError>();
  };
  ASSERT_FALSE(ChangeNotes(sessions_, {}, session, grow, [](bool durable) { EXPECT_TRUE(durable); }).has_value());
  ASSERT_GT(NotesBytes(FindPast(sessions_, {}, session)->notes), NotesBytesMax(400));
  const std::string last = Begin(R"("session_id":")" + session + R"(","input":"new")", "Yo");
  EXPECT_EQ(FindPast(sessions_, {}, session)->notes.size(), 2u) << "the oldest gave way";
  ASSERT_FALSE(ChangeNotes(sessions_, {}, session, grow, [](bool durable) { EXPECT_TRUE(durable); }).has_value());
  const ApiResult<PreparedGeneration> next = Prepare(After(last));
  EXPECT_EQ(PromptOf(next), "payload_too_large");
  EXPECT_EQ(next.error().param, "previous_response_id");
  EXPECT_NE(PromptOf(Prepare(After(last) + R"(,"store":false)")), "payload_too_large");
  EXPECT_EQ(sessions_.counts().busy, 0);
}

// A turn costs what is new: of what was said before it reads the calls whose outputs come, and no note without their ids.
TEST_F(Responses, ATurnOfAChainReadsNoNoteThatItDoesNotNeed) {
  const std::string first = Begin(R"("input":"hi")", "Yo");
  const std::string second =
      Begin(After(first, R"("input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}])"), "Well");
  const auto spoil = [](TurnNotes* notes) {
    auto note = std::make_shared<TurnNote>(*notes->front());
    note->text += "]";
    notes->front() = std::move(note);
    return std::optional<ApiError>();
  };
  ASSERT_FALSE(ChangeNotes(sessions_, {}, SessionOfResponse(first), spoil, [](bool) {}).has_value());
  const std::string before = "<user>hi</><assistant>Yo(f)</><assistant>Well</>";
  EXPECT_EQ(PromptOf(Prepare(After(second))), before + "<user>more</><assistant>");
  const std::string output = R"("input":[{"type":"function_call_output","call_id":"c","output":"1"}])";
  EXPECT_EQ(PromptOf(Prepare(After(second, output))), before + "<tool>1</><assistant>");
  EXPECT_EQ(PromptOf(Prepare(After(second, R"("input":"more","instructions":"A")"))), "previous_response_not_found");
}

// Every id was looked for in all of every note: half a minute of a worker for a body of 72 KB.
TEST_F(Responses, ANoteIsGoneThroughOnceForAllCallsWhoseOutputsCome) {
  Json reasoning = {{"type", "reasoning"}, {"content", {{{"type", "reasoning_text"}, {"text", ""}}}}};
  reasoning["content"][0]["text"] = std::string(1'900'000, '"');
  const Json call = {{"type", "function_call"}, {"call_id", "c2047"}, {"name", "f"}, {"arguments", "{}"}};
  const Json user = {{"role", "user"}, {"content", "hi"}};
  const std::string first = Begin("\"input\":" + Json::array({user, reasoning, call}).dump(), "Yo");
  const auto output = [](size_t i) {
    return Json({{"type", "function_call_output"}, {"call_id", "c" + std::to_string(i)}, {"output", ""}});
  };
  const auto prepare = [&](size_t count) {
    Json outputs = Json::array();
    for (size_t i = 0; i < count; ++i) outputs.push_back(output(i));
    EXPECT_EQ(Prepare(After(first, "\"input\":" + outputs.dump())).error().param, "input[0].call_id");
  };
  EXPECT_LT(GrowthOfEightfold(256, prepare), 4) << "most of it is reading the note";
  EXPECT_EQ(PromptOf(Prepare(After(first, "\"input\":" + Json::array({output(2047)}).dump()))),
            "<user>hi</><assistant>(f)</><assistant>Yo</><tool></><assistant>");
}

// Makes one id more than may be, and no more.
class StoppingTokenizer : public ByteTokenizer {
 public:
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options) const override {
    std::vector<int32_t> ids = ByteTokenizer::Encode(text, options);
    if (ids.size() > options.ids_max) ids.resize(options.ids_max + 1);
    return ids;
  }
};

TEST_F(Responses, ABranchIsNotTokenisedBeyondTheContext) {
  context_.tokenizer = std::make_shared<StoppingTokenizer>();
  const std::string first = Begin(R"("input":"hi")", "Yo"), second = Begin(After(first), "Well");
  const ApiResult<PreparedGeneration> branch = Prepare(After(first, "\"input\":\"" + std::string(100'000, 'a') + "\""));
  ASSERT_EQ(PromptOf(branch), "context_length_exceeded");
  EXPECT_EQ(branch.error().message.find("100"), std::string::npos) << branch.error().message;
}

TEST_F(Responses, WithAnotherHeadAllIsRenderedAgain) {
  const std::string first = Begin(R"("input":"hi","instructions":"A")", "Yo");
  EXPECT_EQ(PromptOf(Prepare(After(first, R"("input":"more","instructions":"A")"))),
            "<system>A</><user>hi</><assistant>Yo</><user>more</><assistant>");
  EXPECT_EQ(PromptOf(Prepare(After(first, R"("input":"more","instructions":"B")"))),
            "<system>B</><user>hi</><assistant>Yo</><user>more</><assistant>");
  EXPECT_EQ(PromptOf(Prepare(After(first))), "<user>hi</><assistant>Yo</><user>more</><assistant>");
}

TEST_F(Responses, ADeveloperIsWhatTheTemplateKnowsAndOneWithTheInstructions) {
  const std::string says = R"({"role":"developer","content":"d"},{"role":"user","content":"hi"}])";
  const std::string later = R"("input":[{"role":"user","content":"hi"},)" + says;
  const auto prompt = [&](const std::string& members) { return PromptOf(Prepare(members + R"(,"store":false)")); };
  EXPECT_EQ(prompt("\"input\":[" + says), "<system>d</><user>hi</><assistant>");
  EXPECT_EQ(prompt(later), "<user>hi</><system>d</><user>hi</><assistant>");
  std::vector<std::string> warnings;
  context_.chat = MakeChatSetup({std::string("{# developer #}") + kTemplate, ""}, "", "", "auto", &warnings);
  EXPECT_EQ(prompt("\"input\":[" + says), "<developer>d</><user>hi</><assistant>");
  EXPECT_EQ(prompt(later), "<user>hi</><developer>d</><user>hi</><assistant>");
  EXPECT_EQ(prompt(R"("instructions":"s","input":[)" + says), "<system>s\n\nd</><user>hi</><assistant>");
  const std::string cut =
      R"("truncation":"auto","input":[{"role":"user","content":")" + std::string(400, 'a') + "\"}," + says;
  EXPECT_EQ(prompt(cut), "<developer>d</><user>hi</><assistant>");
}

TEST_F(Responses, WhatGoesOnKeepsAsMuchAsWhatItGoesOnFrom) {
  const std::string first = Begin(R"("input":"hi","kv":{"policy":"h2o","budget":64})", "Yo");
  const std::string second = Begin(After(first), "Well");
  for (const std::string& past : {second, first}) {
    for (const std::string members : {"", R"(,"store":false)"}) {
      const ApiResult<PreparedGeneration> next = Prepare(After(past) + members);
      ASSERT_TRUE(next.ok()) << next.error().message;
      EXPECT_EQ(next.value().prompts[0].kv.budget.keep, 64) << past << members;
    }
  }
  const ApiResult<PreparedGeneration> other = Prepare(After(first) + R"(,"store":false,"kv":{"policy":"full"})");
  ASSERT_TRUE(other.ok()) << other.error().message;
  EXPECT_FALSE(other.value().prompts[0].kv.budget.limited()) << "it says something else";
}

TEST_F(Responses, WhatIsNotKeptLeavesNothingAndWhatIsUnknownBeginsNothing) {
  const ApiResult<PreparedGeneration> loose = Prepare(R"("input":"hi","store":false)");
  ASSERT_TRUE(loose.ok());
  EXPECT_FALSE(loose.value().turn.has_value());
  EXPECT_FALSE(loose.value().notes.has_value());
  const std::string first = Begin(R"("input":"hi")", "Yo");
  const ApiResult<PreparedGeneration> after = Prepare(After(first) + R"(,"store":false)");
  ASSERT_TRUE(after.ok());
  EXPECT_FALSE(after.value().turn.has_value());
  EXPECT_EQ(PromptOf(after), "<user>hi</><assistant>Yo</><user>more</><assistant>");
  for (const std::string& id :
       {std::string("resp_1"), first + "0", "resp_0000000000000000_" + SessionOfResponse(first)}) {
    EXPECT_EQ(PromptOf(Prepare(After(id))), "previous_response_not_found") << id;
  }
  EXPECT_EQ(PromptOf(Prepare(After(first), /*tenant=*/1)), "previous_response_not_found");
  EXPECT_EQ(PromptOf(Prepare(R"("input":"hi","conversation":"conv_1")")), "conversation_not_found");
  EXPECT_EQ(PromptOf(Prepare(R"("input":[{"type":"item_reference","id":"msg_1"}])")), "response_not_found");
  EXPECT_EQ(sessions_.counts().busy, 0);
}

TEST_F(Responses, AnOutputFindsItsCallAndTruncationDropsWholeTurns) {
  const std::string first = Begin(
      R"("input":[{"role":"user","content":"hi"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}])",
      "Yo");
  EXPECT_EQ(PromptOf(Prepare(After(first, R"("input":[{"type":"function_call_output","call_id":"c","output":"1"}])"))),
            "<user>hi</><assistant>(f)</><assistant>Yo</><tool>1</><assistant>");
  const std::string unknown = R"("input":[{"type":"function_call_output","call_id":"d","output":"1"}])";
  EXPECT_EQ(Prepare(After(first, unknown)).error().param, "input[0].call_id");
  const std::string many =
      R"("input":[{"role":"system","content":"s"},{"role":"user","content":")" + std::string(200, 'a') +
      R"("},{"role":"assistant","content":"b"},{"role":"user","content":")" + std::string(200, 'c') +
      R"("},{"role":"assistant","content":"d"},{"role":"user","content":"e"}])";
  EXPECT_EQ(PromptOf(Prepare(many)), "context_length_exceeded");
  EXPECT_EQ(PromptOf(Prepare(many + R"(,"truncation":"auto")")),
            "<system>s</><user>" + std::string(200, 'c') + "</><assistant>d</><user>e</><assistant>");
}

}  // namespace
}  // namespace hydrant
