#include "server/generation/generation_prepare.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/response/completion_writer.h"
#include "server/engine/prefix_sharing.h"
#include "server/generation/bad_words.h"
#include "server/sessions/chat_lines.h"
#include "server/sessions/session_prompt.h"

namespace hydrant {
namespace {

ApiError TooManyTokens(const GenerationFields& request, const ServingContext& context) {
  return InvalidField("prompt",
                      absl::StrCat(request.pooling == Pooling::kNone ? "'n' times the" : "The",
                                   " tokens of all prompts may be at most ", context.limits.request_tokens_max(), "."));
}

// The bounds of a request as a whole: what every prompt may be by itself adds up.
struct Totals {
  int64_t tokens = 0;    // of prompts, to compute
  int64_t logprobs = 0;  // that wait for the rest of the response

  // `parked` of the prompt's `length` tokens are not computed again: so a session may go on for ever, turn by turn.
  std::optional<ApiError> Add(const GenerationFields& request, int64_t length, int64_t parked,
                              const ServingContext& context) {
    tokens += request.n * (length - parked);
    if (tokens > context.limits.request_tokens_max()) return TooManyTokens(request, context);
    const int32_t of_prompt = std::max(request.echo ? request.logprobs : -1, request.prompt_logprobs);
    logprobs += request.n * length * (of_prompt + 1);
    // A stream sends those of generated tokens as they come, and those of the prompt with the first of them.
    if (!request.stream) logprobs += int64_t{request.n} * request.max_tokens * (request.logprobs + 1);
    if (logprobs <= context.limits.logprobs_kept_max) return std::nullopt;
    const std::string_view field = request.prompt_logprobs >= 0 ? "prompt_logprobs" : "logprobs";
    return InvalidField(
        field, absl::StrCat("'", std::string(field), "': this request asks for more than ",
                            context.limits.logprobs_kept_max, " log-probabilities, all tokens and samples together."));
  }
};

// A budget in tokens was held against the maximum when it was read; one that follows from lengths, and `full`, which
// keeps everything, only can be now.
std::optional<ApiError> CheckKept(const KvBudget& budget, int64_t tokens, const TenantRules& rules) {
  const int64_t kept = budget.limited() ? budget.keep : tokens;
  if (rules.kv_budget_max == 0 || kept <= rules.kv_budget_max) return std::nullopt;
  return InvalidField("kv.budget", absl::StrCat("This request would keep ", kept, " tokens; this tenant's maximum is ",
                                                rules.kv_budget_max, "."));
}

// `slots`: the most the sequence occupies at once.
std::optional<ApiError> CheckLength(int64_t prompt_tokens, int32_t max_tokens, int64_t slots, const KvResolution& kv,
                                    const ServingContext& context) {
  if (!kv.policy.rolling) return CheckPromptLength(prompt_tokens, max_tokens, context.request.context);
  if (max_tokens > context.limits.rolling_tokens_max) {
    return InvalidField("max_tokens", absl::StrCat("'max_tokens' may be at most ", context.limits.rolling_tokens_max,
                                                   " with rolling positions."));
  }
  return CheckRollingLength(prompt_tokens, slots, context.request.context);
}

ApiError TooLong(size_t ids_at_least, int32_t context) {
  return InvalidField("prompt",
                      absl::StrCat("This model's maximum context length is ", context,
                                   " tokens. However, your prompt contains at least ", ids_at_least,
                                   " input tokens. Please reduce the length of the input prompt."),
                      "context_length_exceeded");
}

// Where only the last tokens are kept, which those are is known when all of the text is tokenized: so its length is bounded, that of all
// prompts together.
std::optional<ApiError> CheckTruncatedText(const std::vector<RequestPrompt>& prompts, const GenerationFields& fields,
                                           const ServingContext& context) {
  if (!fields.truncate_prompt_tokens.has_value()) return std::nullopt;
  int64_t bytes = 0;
  for (const RequestPrompt& prompt : prompts) bytes += std::ssize(prompt.text);
  const int64_t bytes_max = TextBytesMax(context.request.context);
  if (bytes <= bytes_max) return std::nullopt;
  return InvalidField("truncate_prompt_tokens",
                      absl::StrCat("'truncate_prompt_tokens' is possible for at most ", bytes_max,
                                   " bytes of text; this request has ", bytes, "."));
}

// The tokens of a text, or of its turn of a session. One that cannot fit, the context or with rolling positions what a request may
// have computed, is refused by its length alone, or as soon as it has more: a text of megabytes costs nothing that its sender does
// not pay for.
ApiResult<TurnPrompt> EncodeText(const RequestPrompt& from, const GenerationFields& request, const SessionPast* past,
                                 bool is_turn, const ServingContext& context) {
  const Tokenizer& tokenizer = *context.tokenizer;
  const bool rolls = request.kv.rolls() || (past != nullptr && past->spec.rolls());
  size_t ids_max = std::numeric_limits<size_t>::max();
  if (!from.is_ids && !request.truncate_prompt_tokens.has_value()) {
    // What a session has computed before is not computed again.
    ids_max = rolls ? static_cast<size_t>(context.limits.request_tokens_max() / request.n) +
                          (past == nullptr ? 0 : past->tokens.size())
                    : static_cast<size_t>(context.request.context);
  }
  const auto too_long = [&](size_t ids_at_least) {
    return rolls ? TooManyTokens(request, context) : TooLong(ids_at_least, context.request.context);
  };
  if (from.text.size() > ids_max) {
    const size_t ids_min = tokenizer.ids_min(from.text);
    if (ids_min > ids_max) return too_long(ids_min);
  }
  ApiResult<TurnPrompt> made = is_turn ? MakeTurnPrompt(from, request, past, tokenizer, ids_max)
                                       : PromptAlone(from, request.add_special_tokens, tokenizer, ids_max);
  if (made.ok() && made.value().ids.size() > ids_max) return too_long(made.value().ids.size());
  return made;
}

// The policy of a turn: the session's, where the request says nothing about it.
const KvSpec& SpecOf(const GenerationFields& request, const SessionPast* past) {
  return past != nullptr && !request.has_kv ? past->spec : request.kv;
}

// How many tokens are kept of a prompt that is truncated. As many as fit leave the answer its place, unless positions roll.
int32_t TruncatedLength(const GenerationFields& request, const KvSpec& spec, const ServingContext& context) {
  assert(request.truncate_prompt_tokens.has_value());
  if (*request.truncate_prompt_tokens != kRestOfContext) return *request.truncate_prompt_tokens;
  const int32_t most = context.request.context;
  if (spec.rolls()) return most;
  const int32_t answer =
      request.max_tokens == kRestOfContext ? std::max(1, request.min_tokens) : std::min(request.max_tokens, most);
  return std::max(1, most - answer);
}

// A prompt by itself, or as the turn of a session.
ApiResult<PreparedPrompt> EncodePrompt(RequestPrompt& from, const GenerationFields& request, const SessionTurn* turn,
                                       const ServingContext& context) {
  PreparedPrompt prompt;
  prompt.show_specials = !from.is_ids;
  ApiResult<TurnPrompt> made =
      EncodeText(from, request, turn == nullptr ? nullptr : turn->past(), turn != nullptr, context);
  if (!made.ok()) return made.error();
  std::vector<int32_t> ids = std::move(made.value().ids);
  static_cast<PromptText&>(prompt) = std::move(made.value());
  from.text = {};
  from.ids = {};
  if (request.truncate_prompt_tokens.has_value()) {
    const KvSpec& spec = SpecOf(request, turn == nullptr ? nullptr : turn->past());
    TruncatePrompt(&ids, TruncatedLength(request, spec, context), prompt.added_special_tokens);
    prompt.text.reset();  // it may say more than the tokens
    prompt.continues = turn != nullptr && Continues(ids, turn->past());
  }
  prompt.ids = std::move(ids);
  return prompt;
}

// Which tokens its cache keeps with an answer of `max_tokens`. A session that goes on has one answer for its life, whatever
// lengths its turns have; a turn that recalls has that of its whole prompt.
ApiResult<KvResolution> ResolvePromptKv(const PreparedPrompt& prompt, int32_t max_tokens, const SessionPast* past,
                                        const ServingContext& context) {
  if (prompt.continues && !prompt.spec.recalls()) {
    if (std::optional<ApiError> error = CheckPins(prompt.spec, context.kv)) return *std::move(error);
    return past->kv;
  }
  return ResolveKvPolicy(prompt.spec, static_cast<int32_t>(prompt.ids.size()), max_tokens, context.kv);
}

// What a turn leaves of its prompt for the next one, if that is to recall and its policy's sums of scores can be gone on from.
// Elsewhere: -1, what it holds at its end.
int32_t HistoryOf(const PreparedPrompt& prompt, const EvictionPolicy& policy, const ServingContext& context) {
  if (!prompt.spec.recalls()) return -1;
  const PrefixUse use = SharePrefixes(policy, {}, /*whole_prompt=*/false);
  const bool can = context.prefix_caching && use.scores == ScoreNeed::kSnapshot;
  return can ? WholePromptBlocks(static_cast<int32_t>(prompt.ids.size())) : 0;
}

// What the turn goes on from of that which its session has parked. Null: nothing.
const ParkedTurn* ResumedBy(const SessionTurn* turn, const GenerationFields& request, const PreparedPrompt& prompt) {
  // Log-probabilities of a prompt take all of it.
  const bool scores_prompt = (request.echo && request.logprobs >= 0) || request.prompt_logprobs >= 0;
  return turn == nullptr || scores_prompt || !prompt.continues ? nullptr : turn->parked();
}

// The most slots the sequence occupies at once.
int64_t PeakSlotsOf(const ParkedTurn* resumed, int32_t prompt_tokens, int32_t max_tokens, const KvBudget& budget) {
  if (resumed == nullptr) return PeakSlotsFrom(0, 0, prompt_tokens, max_tokens, budget);
  return PeakSlotsResumed(resumed->live, resumed->computed, prompt_tokens, max_tokens, budget);
}

// Null: nothing is asked of tokens.
ApiResult<std::shared_ptr<const LogitRules>> MakeLogitRules(const GenerationFields& fields,
                                                            const ServingContext& context) {
  LogitRules rules;
  rules.options = fields;
  ApiResult<std::vector<std::vector<int32_t>>> bad_words = EncodeBadWords(fields.bad_words, *context.tokenizer);
  if (!bad_words.ok()) return bad_words.error();
  rules.bad_words = std::move(bad_words.value());
  rules.min_tokens = fields.min_tokens;
  if (fields.min_tokens > 0) {
    // As in vLLM also where the end is ignored.
    rules.stop_ids = context.eos_ids;
    rules.stop_ids.insert(rules.stop_ids.end(), fields.stop_token_ids.begin(), fields.stop_token_ids.end());
  }
  if (rules.neutral()) return std::shared_ptr<const LogitRules>();
  return std::shared_ptr<const LogitRules>(std::make_shared<LogitRules>(std::move(rules)));
}

int64_t BlocksOf(const TenantRules& rules, const ServingContext& context) {
  return rules.blocks_max > 0 ? std::min<int64_t>(rules.blocks_max, context.limits.blocks) : context.limits.blocks;
}

// RoomForAnswer but for what is kept of the answer.
int32_t RoomForTokens(int64_t prompt_tokens, const GenerationFields& fields, const KvSpec& spec,
                      const ServingContext& context, const TenantRules& rules) {
  const bool said = fields.max_tokens != kRestOfContext;
  const int32_t rolling = context.limits.rolling_tokens_max;
  int64_t room = spec.rolls() ? (said ? rolling : std::min(context.request.context, rolling))
                              : context.request.context - prompt_tokens;
  if (rules.tokens_max > 0) room = std::min(room, rules.tokens_max / fields.n - prompt_tokens);
  if (!fields.stream && fields.logprobs >= 0) {
    const int64_t of_prompt = std::max(fields.echo ? fields.logprobs : -1, fields.prompt_logprobs) + 1;
    const int64_t positions = context.limits.logprobs_kept_max / fields.n - prompt_tokens * of_prompt;
    room = std::min(room, positions / (fields.logprobs + 1));
  }
  const int32_t cap = said ? fields.max_tokens : context.request.max_new_tokens;
  if (cap > 0) room = std::min<int64_t>(room, std::max(cap, fields.min_tokens));
  if (rules.max_tokens_max > 0) room = std::min<int64_t>(room, rules.max_tokens_max);
  return static_cast<int32_t>(std::max<int64_t>(1, room));
}

// The most tokens of an answer that did not say how long it may be: the default there is for that, or what the context, the
// pool, the tenant's limits and the log-probabilities asked for leave if that is less, so that a default is never what a
// request is refused for. Where nothing is left, one, which the checks that follow refuse with the right words. All of it is
// promised to the sequence when it is let in (its KV cannot be taken away), so under `full` few such answers run at once.
// Of one that did say, with fits_context, no more than that.
int32_t RoomForAnswer(const PreparedPrompt& prompt, const SessionTurn* turn, const GenerationFields& fields,
                      const ServingContext& context, const TenantRules& rules) {
  const auto length = static_cast<int32_t>(prompt.ids.size());
  const SessionPast* past = turn == nullptr ? nullptr : turn->past();
  const ParkedTurn* resumed = ResumedBy(turn, fields, prompt);
  // Whether what is kept of so many can be. The last one has a place, too.
  const auto fits = [&](int32_t tokens) {
    const ApiResult<KvResolution> kv = ResolvePromptKv(prompt, tokens, past, context);
    if (!kv.ok()) return true;  // which fewer would not mend
    const KvBudget& budget = kv.value().budget;
    const int64_t slots = PeakSlotsOf(resumed, length, tokens, budget);
    if (CheckLength(length, tokens, slots, kv.value(), context).has_value()) return false;
    if (CheckKept(budget, int64_t{length} + tokens, rules).has_value()) return false;
    int64_t blocks = BlocksForSlots(PeakSlotsOf(resumed, length, tokens + 1, budget));
    if (turn != nullptr && HistoryOf(prompt, kv.value().policy, context) > 0) {
      blocks = std::max(blocks, PeakBlocksShared(length, tokens + 1, budget));
    }
    return blocks <= BlocksOf(rules, context);
  };
  const int32_t room = RoomForTokens(length, fields, prompt.spec, context, rules);
  if (fits(room)) return room;
  int32_t most = 1;  // that fit, or nothing does
  for (int32_t above = room; above - most > 1;) {
    const int32_t middle = most + (above - most) / 2;
    (fits(middle) ? most : above) = middle;
  }
  return most;
}

// What is left of a prompt's way to the engine once it is encoded.
std::optional<ApiError> SettlePrompt(const SessionTurn* turn, const ServingContext& context, const TenantRules& rules,
                                     GenerationFields* fields, PreparedPrompt* prompt) {
  const auto length = static_cast<int64_t>(prompt->ids.size());
  const SessionPast* past = turn == nullptr ? nullptr : turn->past();
  prompt->spec = SpecOf(*fields, past);
  // Under another policy nothing of the past is of use.
  prompt->continues = prompt->continues && prompt->spec == past->spec;
  if (fields->max_tokens == kRestOfContext || fields->fits_context) {
    fields->max_tokens = RoomForAnswer(*prompt, turn, *fields, context, rules);
  }
  const ApiResult<KvResolution> kv = ResolvePromptKv(*prompt, fields->max_tokens, past, context);
  if (!kv.ok()) return kv.error();
  prompt->kv = kv.value();
  if (turn != nullptr) prompt->history = HistoryOf(*prompt, prompt->kv.policy, context);
  if (prompt->continues && prompt->spec.recalls()) prompt->turn_tokens = static_cast<int32_t>(length) - past->computed;
  const ParkedTurn* resumed = ResumedBy(turn, *fields, *prompt);
  if (resumed != nullptr) prompt->resumes = resumed->id.turn;
  if (resumed != nullptr) prompt->parked = resumed->computed;
  const int64_t slots = PeakSlotsOf(resumed, static_cast<int32_t>(length), fields->max_tokens, prompt->kv.budget);
  if (std::optional<ApiError> error = CheckLength(length, fields->max_tokens, slots, prompt->kv, context)) return error;
  if (std::optional<ApiError> error = CheckKept(prompt->kv.budget, length + fields->max_tokens, rules)) return error;
  const int64_t blocks = BlocksOf(rules, context);
  const int64_t needed = BlocksForSlots(slots);
  if (needed > blocks) return KvCapacityExceeded(needed, blocks);
  // Only a default can cause this: a request's own values were compared when they were read.
  if (fields->min_tokens > fields->max_tokens) {
    return InvalidField("min_tokens", absl::StrCat("'min_tokens' may be at most ", fields->max_tokens,
                                                   " here: there is no room for a longer answer."));
  }
  return std::nullopt;
}

uint64_t BitsAt(const SessionName& bytes, size_t begin) {
  uint64_t bits = 0;
  for (size_t i = begin; i < begin + sizeof(bits); ++i) bits = bits << 8 | bytes[i];
  return bits;
}

// What a chat's sessions are called, for what its client calls it: with every adapter it has others. Nothing that the client wrote can be
// read from it.
std::string ChatName(const std::string& key, const LoadedAdapter* adapter, const TenantRules& tenant,
                     const ServingContext& context) {
  const std::string owner = absl::StrCat("chats of ", tenant.tenant);
  const SessionJournal* journal = context.sessions->journal();
  std::string said = "chat " + key;
  if (adapter != nullptr) said.append(1, '\0').append(adapter->digest);
  std::string name(kLinePrefix);
  const auto append = [&name](uint64_t bits) {
    static constexpr char kHex[] = "0123456789abcdef";
    for (int shift = 60; shift >= 0; shift -= 4) name.push_back(kHex[(bits >> shift) & 15]);
  };
  if (journal != nullptr) {  // the same after a restart
    const SessionName digest = journal->NameOf(owner, said);
    append(BitsAt(digest, 0));
    append(BitsAt(digest, 8));
  } else {
    const PrefixSalt salt = context.prefix_salts.Of(owner, said);
    append(salt.high);
    append(salt.low);
  }
  return name;
}

// Whether somebody else has the session, or its tenant, or the server, has no place for it.
bool HasNoTurn(const ApiError& error) {
  return error.code == "session_busy" || error.code == "session_limit_exceeded" || error.code == "too_many_sessions";
}

// The adapter that the request names. Errors: it went since the name was checked.
std::optional<ApiError> FindAdapter(const ServingContext& context, PreparedGeneration* prepared) {
  const std::string& served = context.request.model_names.front();
  const std::string& name = prepared->fields.model;
  if (context.adapters == nullptr || name.empty() || name == served) return std::nullopt;
  prepared->adapter = context.adapters->Find(name);
  return prepared->adapter == nullptr ? std::optional(ModelNotFound(served)) : std::nullopt;
}

// All of a session is computed with one adapter, or without: another one would read keys and values that are not its
// own. A chat's line has its adapter in its name.
std::optional<ApiError> CheckSessionAdapter(const SessionTurn* turn, const LoadedAdapter* adapter) {
  if (turn == nullptr || turn->past() == nullptr || turn->past()->tokens.empty()) return std::nullopt;
  const std::string& before = turn->past()->adapter;
  if (before == (adapter == nullptr ? std::string() : adapter->digest)) return std::nullopt;
  return InvalidField(
      "model", before.empty() ? "This session began without an adapter, and cannot go on with one."
                              : "This session began with another adapter, or with another version of it, and cannot "
                                "go on with this model.");
}

// The smaller of the server's and the tenant's.
TimeLimit TimeLimitOf(const Limits& limits, const TenantRules& rules) {
  const TimeLimit all = {limits.request_timeout_s, "--request-timeout-s"};
  const TimeLimit own = {rules.seconds_max, "request_seconds_max"};
  if (own.seconds == 0) return all;
  return all.seconds == 0 || own.seconds <= all.seconds ? own : all;
}

}  // namespace

ApiResult<PreparedGeneration> PrepareCompletion(std::string_view body, const ServingContext& context,
                                                const TenantRules& rules, const RequestHeaders& headers) {
  ApiResult<CompletionRequest> parsed = ParseCompletionRequest(body, RequestContextOf(context, rules, headers));
  if (!parsed.ok()) return parsed.error();
  CompletionRequest& request = parsed.value();
  PreparedGeneration prepared;
  prepared.writer = std::make_unique<CompletionWriter>(request.return_tokens_as_token_ids);
  std::vector<RequestPrompt> prompts = std::move(request.prompts);
  prepared.fields = std::move(static_cast<GenerationFields&>(request));
  prepared.fields.chat_key.clear();  // it has no conversation
  if (std::optional<ApiError> error = PreparePrompts(std::move(prompts), context, rules, &prepared)) {
    return std::move(*error);
  }
  return prepared;
}

std::vector<std::shared_ptr<const LoadedAdapter>> AdaptersOf(const ServingContext& context,
                                                             const AdapterNames* allowed) {
  if (context.adapters == nullptr) return {};
  std::vector<std::shared_ptr<const LoadedAdapter>> adapters = context.adapters->List();
  if (allowed != nullptr)
    std::erase_if(adapters, [&](const auto& adapter) { return !allowed->contains(adapter->name); });
  return adapters;
}

std::function<bool(std::string_view)> AdapterCheck(const ServingContext& context,
                                                   std::shared_ptr<const AdapterNames> allowed) {
  if (context.adapters == nullptr) return nullptr;
  return [&context, allowed = std::move(allowed)](std::string_view name) {
    return (allowed == nullptr || allowed->contains(name)) && context.adapters->Find(name) != nullptr;
  };
}

RequestContext RequestContextOf(const ServingContext& context, const TenantRules& rules,
                                const RequestHeaders& headers) {
  RequestContext request = context.request;
  request.is_other_model = AdapterCheck(context, rules.adapters);
  if (rules.kv.has_value()) request.kv = *rules.kv;
  request.kv_budget_max = rules.kv_budget_max;
  request.priority_max = rules.priority_max;
  request.max_tokens_max = rules.max_tokens_max;
  request.time_limit = TimeLimitOf(context.limits, rules);
  request.headers = headers;
  return request;
}

std::optional<ApiError> PreparePrompts(std::vector<RequestPrompt> prompts, const ServingContext& context,
                                       const TenantRules& tenant, PreparedGeneration* prepared) {
  GenerationFields& fields = prepared->fields;
  assert(prompts.size() == 1 || (fields.session_id.empty() && fields.max_tokens != kRestOfContext));
  if (fields.n * std::ssize(prompts) > context.limits.request_sequences_max()) {
    return InvalidField("prompt", absl::StrCat("'n' times the number of prompts may be at most ",
                                               context.limits.request_sequences_max(), "."));
  }
  if (std::optional<ApiError> error = CheckTruncatedText(prompts, fields, context)) return error;
  if (std::optional<ApiError> error = FindAdapter(context, prepared)) return error;
  if (!fields.session_id.empty()) {
    ApiResult<SessionTurn> turn =
        context.sessions->Begin(tenant.sessions, fields.session_id, fields.session_append, fields.session_turn);
    if (!turn.ok() && !(fields.session_is_affinity && HasNoTurn(turn.error()))) return turn.error();
    if (turn.ok()) prepared->turn.emplace(std::move(turn.value()));
    const SessionTurn* begun = prepared->turn.has_value() ? &*prepared->turn : nullptr;
    if (std::optional<ApiError> error = CheckSessionAdapter(begun, prepared->adapter.get())) {
      if (!fields.session_is_affinity) return error;
      prepared->turn.reset();
    }
    if (!prepared->turn.has_value()) fields.session_id.clear();
  } else if (!fields.chat_key.empty() && fields.n == 1 && prompts.size() == 1) {
    std::optional<SessionTurn> line = BeginChatLine(*context.sessions, tenant.sessions,
                                                    ChatName(fields.chat_key, prepared->adapter.get(), tenant, context),
                                                    prompts.front(), *context.tokenizer);
    if (line.has_value()) prepared->turn.emplace(*std::move(line));
  }
  const bool* needs_disk = tenant.sessions.needs_disk;
  if (needs_disk != nullptr && *needs_disk) return SessionBusy();  // which nobody is told
  const SessionTurn* turn = prepared->turn.has_value() ? &*prepared->turn : nullptr;
  ApiResult<std::shared_ptr<const LogitRules>> made = MakeLogitRules(fields, context);
  if (!made.ok()) return made.error();
  const std::shared_ptr<const LogitRules> rules = std::move(made.value());
  Totals totals;
  prepared->prompts.reserve(prompts.size());
  for (RequestPrompt& from : prompts) {
    ApiResult<PreparedPrompt> encoded = EncodePrompt(from, fields, turn, context);
    if (!encoded.ok()) return encoded.error();
    PreparedPrompt& prompt = prepared->prompts.emplace_back(std::move(encoded.value()));
    if (std::optional<ApiError> error = SettlePrompt(turn, context, tenant, &fields, &prompt)) return error;
    if (rules != nullptr) prompt.shaper = std::make_shared<const LogitShaper>(rules, prompt.ids);
    // Now and not at the end, so that a body of many prompts never costs more than what is allowed.
    if (std::optional<ApiError> error = totals.Add(fields, std::ssize(prompt.ids), prompt.parked, context))
      return error;
  }
  return std::nullopt;
}

}  // namespace hydrant
