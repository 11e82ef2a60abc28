#include "server/generation/generation_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "server/engine/engine_types.h"
#include "server/engine/logit_shaper.h"
#include "server/generation/chat_prepare.h"
#include "server/generation/responses_prepare.h"
#include "tests/server/generation/byte_context.h"
#include "tests/server/sessions/idle_store.h"
#include "tests/support/stub_engine.h"

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Takes jobs and orders; the test plays the engine through the mailbox.
class FakeQueue : public StubEngine {
 public:
  std::optional<uint64_t> TrySubmit(GenerationJob submitted) override {
    if (full) return std::nullopt;
    job = std::move(submitted);
    return 100;
  }
  void Cancel(std::list<IdRange> ids) noexcept override {
    for (const IdRange& range : ids) {
      for (uint64_t i = 0; i < range.count; ++i) cancelled.push_back(range.first + i);
    }
  }
  void SettleTurn(TurnId id, bool keep) override { settled.push_back({id.turn, keep, cancelled.size()}); }
  void Resume(uint64_t first_id, int32_t count) override { resumed.emplace_back(first_id, count); }

  bool full = false;
  GenerationJob job;
  std::vector<uint64_t> cancelled;
  std::vector<std::tuple<uint64_t, bool, size_t>> settled;  // turn, whether it is kept, how many were cancelled before
  std::vector<std::pair<uint64_t, int32_t>> resumed;
};

class GenerationRunTest : public testing::Test {
 protected:
  GenerationRunTest() {
    context_ = ByteContext(1000);
    MetricsOptions options;
    options.model_name = "m";
    options.context = 1000;
    options.policy_names = KvPolicyLabels();
    metrics_ = std::make_unique<Metrics>(options);
  }

  std::unique_ptr<GenerationRun> Start(const std::string& body, PrepareFunction prepare = PrepareCompletion) {
    ApiResult<PreparedGeneration> prepared = prepare(body, context_, {}, {});
    EXPECT_TRUE(prepared.ok()) << (prepared.ok() ? "" : prepared.error().message);
    auto run = std::make_unique<GenerationRun>(std::move(prepared.value()), context_, queue_, *metrics_, 0, "1", 0);
    EXPECT_TRUE(run->Submit([] {}, nullptr));
    return run;
  }
  void Send(int32_t choice, int32_t token, FinishReason end = FinishReason::kNone) {
    TokenEvent event;
    event.choice = choice;
    event.token = token;
    event.finish = end;
    SequenceProgress status;
    status.live = 17;
    status.budget = 16;
    status.blocks = 2;
    status.evicted = 3;
    (void)queue_.job.mailbox->PushToken(std::move(event), status);
  }
  static std::string Events(GenerationRun& run) {
    run.Absorb();
    std::string out;
    run.AppendEvents(&out);
    return out;
  }
  double Aborts() {
    const std::string text = metrics_->Render(EngineCounters(), SessionCounts(), false);
    const std::string series = "finished_reason=\"abort\",model_name=\"m\"} ";
    return std::stod(text.substr(text.find(series) + series.size()));
  }

  ServingContext context_;
  FakeQueue queue_;
  std::unique_ptr<Metrics> metrics_;
};

TEST_F(GenerationRunTest, AnAdaptersSlotIsTheEnginesAndNotTheReaders) {
  ApiResult<PreparedGeneration> prepared = PrepareCompletion(R"({"prompt":"x"})", context_);
  ASSERT_TRUE(prepared.ok());
  auto adapter = std::make_shared<LoadedAdapter>();
  adapter->slot = std::make_shared<AdapterSlot>();
  adapter->slot->number = 3;
  const std::weak_ptr<const AdapterSlot> slot = adapter->slot;
  prepared.value().adapter = std::move(adapter);
  GenerationRun run(std::move(prepared.value()), context_, queue_, *metrics_, 0, "1", 0);
  ASSERT_TRUE(run.Submit([] {}, nullptr));
  EXPECT_EQ(queue_.job.sequences.front().adapter, 3);
  EXPECT_FALSE(slot.expired());
  Send(0, 'a', FinishReason::kLength);
  const std::shared_ptr<StreamMailbox> unread = queue_.job.mailbox;
  queue_.job = {};
  EXPECT_TRUE(slot.expired()) << "the answer is still to be read";
}

// A token with the log-probability -1 and the best one 'z'.
TokenEvent Scored(int32_t choice, int32_t token, FinishReason finish) {
  TokenEvent event;
  event.choice = choice;
  event.token = token;
  event.finish = finish;
  event.logprobs = std::make_unique<SampleResult>();
  event.logprobs->id = token;
  event.logprobs->logprob = event.logprob = -1.0f;
  event.logprobs->top = {{'z', -0.5f}};
  event.best = 'z';
  return event;
}

TEST_F(GenerationRunTest, AnAuditedTurnHasLogProbabilitiesThatItsClientDoesNotSee) {
  KvAudit::Options options;
  options.share = 1;
  options.context = 1000;
  options.policy_names = KvPolicyLabels();
  options.tenant_name = [](int32_t) { return std::string("t"); };
  KvAudit audit(std::move(options));
  context_.audit = &audit;
  SequenceProgress status;
  status.budget = 16;
  status.evicted = 3;
  for (const char* stream : {"false", "true"}) {
    const std::string body =
        std::string(R"({"prompt":"abc","max_tokens":1,"n":2,"kv":{"policy":"h2o","budget":16},"stream":)") + stream +
        "}";
    const auto run = Start(body);
    for (const SequenceRequest& sequence : queue_.job.sequences) {
      EXPECT_TRUE(sequence.audited);
      EXPECT_EQ(sequence.logprobs, -1) << "nothing is in its mailbox that it did not ask for";
    }
    for (int32_t choice = 0; choice < 2; ++choice) {
      (void)queue_.job.mailbox->PushToken(Scored(choice, 'd', FinishReason::kLength), status);
    }
    run->Absorb();
    std::string out;
    if (stream[0] == 't') {
      run->AppendEvents(&out);
    } else {
      out = run->Body();
    }
    EXPECT_THAT(out, HasSubstr(R"("text":"d")"));
    EXPECT_THAT(out, HasSubstr(R"("logprobs":null)"));
    EXPECT_THAT(out, Not(HasSubstr("-0.5"))) << out;
    EXPECT_THAT(out, Not(HasSubstr("-1.0"))) << out;
    for (int32_t choice = 0; choice < 2; ++choice) {
      const std::optional<ReplayText> text = audit.Next();
      ASSERT_TRUE(text.has_value()) << "every choice is a turn";
      EXPECT_EQ(text->tokens.vector(), (std::vector<int32_t>{'a', 'b', 'c', 'd'}));
      EXPECT_EQ(text->begin, 3);
      audit.OnEnd(ReplayEnd::kNoRoom);
    }
    EXPECT_FALSE(audit.has_text());
  }
  Start(R"({"prompt":"abc","max_tokens":1,"logprobs":0,"kv":{"policy":"h2o","budget":16}})");
  EXPECT_EQ(queue_.job.sequences.front().logprobs, 0) << "its own";
  EXPECT_TRUE(queue_.job.sequences.front().audited);
  Start(R"({"prompt":"abc","max_tokens":1})");
  EXPECT_FALSE(queue_.job.sequences.front().audited) << "nothing is evicted";
}

// Nothing else is work for an io thread: masks may be in its way.
TEST_F(GenerationRunTest, AFormIsFollowedWhereTheAnswerHasBegunOrHasToBeClosed) {
  struct Case {
    std::string form;
    std::string prefix;
    const char* more;
    bool follows;
    const char* code;
  };
  std::string dear;  // every byte leads to a state of its own
  for (uint32_t i = 0, seed = 1; i < 100000; ++i, seed = seed * 1664525u + 1013904223u) dear += seed >> 31 ? 'a' : 'b';
  const std::string some = R"("guided_regex":"a+")";
  const std::string far = R"("guided_json":{"type":"string","pattern":"a[ab]{18}$","minLength":5})";
  const char* const close = R"(,"structured_outputs":{"close_at_max_tokens":true})";
  for (const Case& c : {Case{some, "", "", false, ""}, Case{some, "aa", "", true, ""}, Case{some, "", close, true, ""},
                        Case{some, "ab", "", true, "prefix_not_allowed"},
                        Case{R"("guided_regex":"(a|b)*a(a|b){200}c")", dear, "", true, "structured_output_too_complex"},
                        Case{R"("guided_json":{"type":"object","minProperties":2})", "", close, true, "unsupported"},
                        Case{far, "", "", false, ""}, Case{far, "", close, true, "structured_output_too_complex"}}) {
    SCOPED_TRACE(c.form + c.prefix.substr(0, 9) + c.more);
    ApiResult<PreparedGeneration> prepared =
        PrepareCompletion(R"({"prompt":"a","max_tokens":9,)" + c.form + c.more + "}", context_);
    ASSERT_TRUE(prepared.ok()) << prepared.error().message;
    prepared.value().shape_start.prefix = c.prefix;
    GenerationRun run(std::move(prepared.value()), context_, queue_, *metrics_, 0, "1", 0);
    const ShapeResult shape = context_.shapes->Get(run.ShapeKey());
    EXPECT_EQ(run.FollowsShape(shape), c.follows);
    const std::optional<ApiError> error = run.SetShape(shape);
    EXPECT_EQ(error.has_value() ? error->code : "", c.code);
  }
}

TEST_F(GenerationRunTest, ChoicesAreSamplesOfPromptsInOrder) {
  const auto run = Start(R"({"prompt": ["a", "bc"], "n": 2, "seed": 5, "max_tokens": 3, "logprobs": 1, "echo": true})");
  const std::vector<SequenceRequest>& sequences = queue_.job.sequences;
  ASSERT_EQ(sequences.size(), 4u);
  EXPECT_EQ(sequences[1].request.prompt, ByteIds("a"));
  EXPECT_EQ(sequences[2].request.prompt, ByteIds("bc"));
  EXPECT_EQ(sequences[2].request.prompt.data(), sequences[3].request.prompt.data()) << "one copy, however many samples";
  EXPECT_EQ(sequences[0].sampling.key, 5u);
  EXPECT_EQ(sequences[1].sampling.key, 6u) << "samples differ";
  EXPECT_EQ(sequences[2].sampling.key, 5u) << "equal prompts draw alike";
  EXPECT_EQ(sequences[3].prompt_logprobs, 1);
  for (int32_t choice = 0; choice < 4; ++choice) Send(choice, 'p' + choice, FinishReason::kLength);
  run->Absorb();
  ASSERT_TRUE(run->done());
  const std::string body = run->Body();
  EXPECT_THAT(body, HasSubstr(R"("prompt_tokens":3)")) << "each prompt counts once";
  EXPECT_THAT(body, HasSubstr(R"("completion_tokens":4)"));
  EXPECT_THAT(body, HasSubstr(R"("index":3,"text":"bcs")"));
  EXPECT_THAT(queue_.cancelled, IsEmpty());
}

TEST_F(GenerationRunTest, EverySampleHasRulesOfItsOwn) {
  const auto run = Start(R"({"prompt": ["a", "b"], "n": 2, "repetition_penalty": 1.5})");
  const std::vector<SequenceRequest>& sequences = queue_.job.sequences;
  ASSERT_EQ(sequences.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    ASSERT_NE(sequences[i].shaper, nullptr);
    const LogitAdjustments* next = sequences[i].shaper->Next();
    ASSERT_NE(next, nullptr);
    ASSERT_EQ(next->counts.size(), 1u);
    EXPECT_EQ(next->counts[0].id, i < 2 ? 'a' : 'b');
    sequences[i].shaper->Push('z');
    EXPECT_EQ(sequences[i].shaper->Next()->counts.size(), 2u) << "the others' tokens are not its own";
  }
}

TEST_F(GenerationRunTest, LogProbabilitiesOfThePromptAreReportedBesideAnEcho) {
  const auto run = Start(R"({"prompt": "hi!", "max_tokens": 1, "echo": true, "logprobs": 1, "prompt_logprobs": 2})");
  EXPECT_EQ(queue_.job.sequences[0].prompt_logprobs, 2) << "the larger of the two";
  EXPECT_TRUE(queue_.job.sequences[0].prompt_ranks);
  PromptEvent event;
  event.begin = 1;
  for (const int32_t id : {int32_t{'i'}, int32_t{'!'}}) {
    SampleResult& result = event.results.emplace_back();
    result.id = id;
    result.logprob = -3.5f;
    result.rank = 30;
    result.top = {{'x', -0.5f}, {'y', -1.5f}};
  }
  (void)queue_.job.mailbox->PushPrompt(std::move(event));
  Send(0, 'z', FinishReason::kLength);
  run->Absorb();
  const std::string body = run->Body();
  EXPECT_THAT(body, HasSubstr(R"("prompt_logprobs":[null,{"105":{"logprob":-3.5,"rank":30,"decoded_token":"i"},)"
                              R"("120":{"logprob":-0.5,"rank":1,"decoded_token":"x"},)"
                              R"("121":{"logprob":-1.5,"rank":2,"decoded_token":"y"}},{"33":)"));
  EXPECT_THAT(body, HasSubstr(R"("top_logprobs":[null,{"x":-0.5,"i":-3.5},)")) << "the echo shows one beside its own";
}

TEST_F(GenerationRunTest, WithoutASeedEverySampleDrawsItsOwn) {
  const auto run = Start(R"({"prompt": "a", "n": 2})");
  EXPECT_NE(queue_.job.sequences[0].sampling.key, queue_.job.sequences[1].sampling.key);
}

TEST_F(GenerationRunTest, AChunkPerTokenTheEndOnTheLastThenDone) {
  const auto run = Start(R"({"prompt": "a", "stream": true, "max_tokens": 2})");
  Send(0, 'x');
  const std::string first = Events(*run);
  EXPECT_THAT(first, HasSubstr(R"("text":"x")"));
  EXPECT_THAT(first, HasSubstr(R"("finish_reason":null)"));
  EXPECT_THAT(first, Not(HasSubstr("usage")));
  EXPECT_EQ(Events(*run), "") << "nothing new";
  Send(0, 'y', FinishReason::kLength);
  const std::string last = Events(*run);
  EXPECT_THAT(last, HasSubstr(R"("text":"y")"));
  EXPECT_THAT(last, HasSubstr(R"("finish_reason":"length")"));
  EXPECT_TRUE(last.ends_with("data: [DONE]\n\n"));
}

TEST_F(GenerationRunTest, TokensThatWaitedShareOneChunk) {
  const auto run = Start(R"({"prompt": "a", "stream": true, "return_token_ids": true})");
  for (const char c : std::string("xyz")) Send(0, c);
  const std::string chunk = Events(*run);
  EXPECT_THAT(chunk, HasSubstr(R"("text":"xyz")"));
  EXPECT_THAT(chunk, HasSubstr(R"("token_ids":[120,121,122])"));
  EXPECT_THAT(chunk, HasSubstr(R"("prompt_token_ids":[97])"));
  EXPECT_EQ(chunk.find("data: "), chunk.rfind("data: "));
  Send(0, 'w');
  EXPECT_THAT(Events(*run), Not(HasSubstr(R"("prompt_token_ids":[)"))) << "on the first chunk only";
}

TEST_F(GenerationRunTest, AnIntervalHoldsTokensBackButNeverTheFirstOrTheLast) {
  const auto run = Start(R"({"prompt": "a", "stream": true, "stream_interval": 3})");
  Send(0, '1');
  EXPECT_NE(Events(*run), "");
  Send(0, '2');
  EXPECT_EQ(Events(*run), "");
  Send(0, '3');
  EXPECT_EQ(Events(*run), "");
  Send(0, '4');
  EXPECT_THAT(Events(*run), HasSubstr("234"));
  Send(0, '5', FinishReason::kLength);
  EXPECT_THAT(Events(*run), HasSubstr(R"("text":"5")"));
}

TEST_F(GenerationRunTest, UsageAndKvComeWhenAskedFor) {
  const auto run =
      Start(R"({"prompt": "abc", "stream": true, "stream_options": {"include_usage": true}, "kv_report": true,
                             "kv": {"policy": "h2o", "budget": 16}})");
  Send(0, 'x', FinishReason::kLength);
  const std::string out = Events(*run);
  const size_t usage = out.find(R"("choices":[])");
  ASSERT_NE(usage, std::string::npos) << out;
  EXPECT_THAT(out.substr(usage), HasSubstr(R"("prompt_tokens":3,"completion_tokens":1,"total_tokens":4)"));
  EXPECT_THAT(out.substr(usage), HasSubstr(R"("live":17,"budget":16,"evicted":3,"blocks":2)"));
}

TEST_F(GenerationRunTest, AStopStringEndsTheSequenceWhereTheEngineFindsIt) {
  const auto run = Start(R"({"prompt": "a", "stop": "no", "n": 2})");
  ASSERT_EQ(queue_.job.sequences.size(), 2u);
  EXPECT_NE(queue_.job.sequences[0].end_finder, queue_.job.sequences[1].end_finder) << "each has read its own text";
  for (const char c : std::string("yes no")) {
    const bool ends = queue_.job.sequences[0].end_finder->Push(c);
    Send(0, c, ends ? FinishReason::kText : FinishReason::kNone);
  }
  run->Absorb();
  EXPECT_FALSE(run->done());
  Send(1, 'z', FinishReason::kLength);
  run->Absorb();
  ASSERT_TRUE(run->done());
  EXPECT_THAT(queue_.cancelled, IsEmpty());
  const std::string body = run->Body();
  EXPECT_THAT(body, HasSubstr(R"("text":"yes ")"));
  EXPECT_THAT(body, HasSubstr(R"("finish_reason":"stop","stop_reason":"no")"));
  EXPECT_THAT(body, HasSubstr(R"("completion_tokens":7)")) << "six for the stop string's text, one of the other choice";
}

TEST_F(GenerationRunTest, ATurnThatTheEngineHasEndedIsOverThoughNobodyHeardOfIt) {
  SessionStore::Options options;
  options.clock = [] { return 1; };
  options.on_forget = [](uint64_t) {};
  options.on_settle = [this](const TurnId& turn, bool keep) { queue_.SettleTurn(turn, keep); };
  SessionStore sessions(std::move(options));
  context_.sessions = &sessions;
  const std::string body = R"({"prompt": "ab", "session_id": "s", "max_tokens": 2})";
  {
    const auto run = Start(body);
    Send(0, 'c');
    Send(0, 'd', FinishReason::kLength);
  }
  EXPECT_THAT(queue_.cancelled, IsEmpty());
  EXPECT_EQ(sessions.Get(0, "s").value().tokens, 4);
  {
    const auto run = Start(body);
    Send(0, 'c');
  }
  EXPECT_THAT(queue_.cancelled, ElementsAre(100u));
  EXPECT_EQ(sessions.Get(0, "s").value().tokens, 4);
  EXPECT_THAT(queue_.settled, ElementsAre(std::tuple(1, true, 0), std::tuple(2, false, 1)))
      << "the engine hears of the cancel before it hears that nobody goes on from the turn";
}

TEST_F(GenerationRunTest, DroppedBeforeItsEndItCancelsWhatIsOpen) {
  {
    const auto run = Start(R"({"prompt": "a", "n": 3})");
    Send(1, 'x', FinishReason::kLength);
    run->Absorb();
  }
  EXPECT_THAT(queue_.cancelled, ElementsAre(100u, 101u, 102u)) << "the one that has ended does not mind";
  EXPECT_EQ(Aborts(), 2);
}

TEST_F(GenerationRunTest, ARequestTheQueueRefusedCancelsNothing) {
  queue_.full = true;
  ApiResult<PreparedGeneration> prepared = PrepareCompletion(R"({"prompt": "a"})", context_);
  {
    GenerationRun run(std::move(prepared.value()), context_, queue_, *metrics_, 0, "1", 0);
    EXPECT_FALSE(run.Submit([] {}, nullptr));
  }
  EXPECT_THAT(queue_.cancelled, IsEmpty());
  EXPECT_EQ(Aborts(), 0);
}

TEST_F(GenerationRunTest, ErrorsOfTheEngineFailTheRequest) {
  const struct {
    FinishReason end;
    int status;
    const char* code;
  } cases[] = {{FinishReason::kError, 500, "numerical_error"},
               {FinishReason::kNoMemory, 503, "out_of_memory"},
               {FinishReason::kRefused, 503, "engine_refused"},
               {FinishReason::kPastMoved, 503, "session_kv_busy"},
               {FinishReason::kNoRoom, 400, "kv_capacity_exceeded"}};
  for (const auto& test : cases) {
    const auto run = Start(R"({"prompt": "a"})");
    Send(0, -1, test.end);
    run->Absorb();
    ASSERT_TRUE(run->error().has_value());
    EXPECT_EQ(run->error()->status, test.status);
    EXPECT_EQ(run->error()->code, test.code);
  }
  queue_.cancelled.clear();
  {
    const auto run = Start(R"({"prompt": "a"})");
    (void)queue_.job.mailbox->Fail();
    run->Absorb();
    ASSERT_TRUE(run->error().has_value());
    EXPECT_EQ(run->error()->code, "engine_failed");
  }
  EXPECT_THAT(queue_.cancelled, IsEmpty()) << "nobody is there to cancel anything";
}

// Who reads `end_turn` or `completed` takes what there is for the whole answer.
TEST_F(GenerationRunTest, AnAnswerThatCannotSayThatItWasCutShortIsAnError) {
  std::vector<std::string> warnings;
  context_.chat = MakeChatSetup({"{{ messages[0].content }}", ""}, "", "", "auto", &warnings);
  SessionStore sessions(IdleStore());
  context_.sessions = &sessions;
  const std::string hi = R"({"max_tokens":9,"messages":[{"role":"user","content":"hi"}],"stream":)";
  const struct {
    PrepareFunction prepare;
    std::string body;
    const char* error;  // how its stream ends; null: it has a word for it
  } cases[] = {{PrepareMessages, hi, "event: error"},
               {PrepareResponses, R"({"max_output_tokens":9,"input":"hi","stream":)", "event: response.failed"},
               {PrepareChat, hi, nullptr}};
  for (const auto& c : cases) {
    for (const std::string stream : {"false", "true"}) {
      SCOPED_TRACE(c.body + stream);
      const auto run = Start(c.body + stream + "}", c.prepare);
      Send(0, 'x');
      Events(*run);
      Send(0, -1, FinishReason::kAbort);
      run->Absorb();
      ASSERT_EQ(run->error().has_value(), c.error != nullptr);
      std::string out;
      if (c.error == nullptr) {
        run->AppendEvents(&out);
        EXPECT_THAT(out, HasSubstr(R"("finish_reason":"abort")"));
        continue;
      }
      EXPECT_EQ(run->error()->status, 503);
      EXPECT_EQ(run->error()->code, "aborted");
      EXPECT_EQ(run->error()->retry_after_s, 1);
      run->AppendError(&out);
      EXPECT_THAT(out, HasSubstr(c.error));
      EXPECT_EQ(sessions.counts().busy, 0);
    }
  }
}

TEST_F(GenerationRunTest, ACallThatItsClientIsNotToldOfIsNotInTheNextTurn) {
  SessionStore sessions(IdleStore());
  context_.sessions = &sessions;
  std::vector<std::string> warnings;
  context_.chat = MakeChatSetup(
      {"{% for m in messages %}<{{ m.role }}>{{ m.content or '' }}{% for c in m.tool_calls %}({{ c.function.name }})"
       "{% endfor %}</>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
       ""},
      "", "", "hermes", &warnings);
  const std::string tools = R"(,"tools":[{"type":"function","name":"f"}],"parallel_tool_calls":)";
  const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
  for (const bool parallel : {true, false}) {
    const std::string said = tools + (parallel ? "true" : "false");
    ApiResult<PreparedGeneration> prepared = PrepareResponses(R"({"input":"u")" + said + "}", context_);
    ASSERT_TRUE(prepared.ok()) << prepared.error().message;
    const std::string id = prepared.value().answer_id;
    auto run = std::make_unique<GenerationRun>(std::move(prepared.value()), context_, queue_, *metrics_, 0, id, 0);
    ASSERT_TRUE(run->Submit([] {}, nullptr));
    for (const char byte : call + call) Send(0, byte);
    Send(0, ByteTokenizer::kEos, FinishReason::kStop);
    run->Absorb();
    const auto body = nlohmann::json::parse(run->Body());
    ASSERT_EQ(body["output"].size(), parallel ? 2u : 1u);
    const std::string call_id = body["output"][0]["call_id"];
    const ApiResult<PreparedGeneration> next = PrepareResponses(
        R"({"previous_response_id":")" + run->id() +
            R"(","input":[{"type":"function_call_output","output":"1","call_id":")" + call_id + "\"}]" + said + "}",
        context_);
    ASSERT_TRUE(next.ok()) << next.error().message;
    EXPECT_EQ(context_.tokenizer->Decode(next.value().prompts.front().ids.vector(), /*skip_special_tokens=*/false),
              "<user>u</><assistant>" + (parallel ? call + call : "(f)") + "</><tool>1</><assistant>");
    EXPECT_TRUE(run->id().ends_with(next.value().turn->id())) << "the chain stays where it is";
  }
}

TEST_F(GenerationRunTest, AnEventThatThereWasNoMemoryForFailsTheRequestAndCancelsTheRest) {
  {
    const auto run = Start(R"({"prompt": "a", "n": 2})");
    Send(0, 'x');
    EXPECT_FALSE(queue_.job.mailbox->Lose()) << "it is to be woken already";
    Send(1, 'x');
    run->Absorb();
    ASSERT_TRUE(run->error().has_value());
    EXPECT_EQ(run->error()->code, "out_of_memory");
  }
  EXPECT_THAT(queue_.cancelled, ElementsAre(100u, 101u));
}

TEST_F(GenerationRunTest, APausedRequestIsResumedWhenItsEventsAreTaken) {
  context_.limits.stream_buffer_bytes_max = 1;
  const auto run = Start(R"({"prompt": "a", "n": 2, "stream": true})");
  Send(0, 'x');
  run->Absorb();
  EXPECT_THAT(queue_.resumed, ElementsAre(std::pair<uint64_t, int32_t>(100, 2)));
  run->Absorb();
  EXPECT_EQ(queue_.resumed.size(), 1u);
}

}  // namespace
}  // namespace hydrant
