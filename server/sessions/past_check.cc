#include "server/sessions/past_check.h"

#include <algorithm>

#include "kernels/step/block_ops.h"
#include "server/sessions/past_codec.h"

namespace hydrant {
namespace {

std::optional<ApiError> CheckKv(const SessionPast& past, const KvModelFacts& facts) {
  KvSpec spec = past.spec;
  const bool is_ratio =
      spec.budget_kind == KvBudgetKind::kRatioOfPrompt || spec.budget_kind == KvBudgetKind::kRatioOfTotal;
  if (is_ratio && !(spec.budget_ratio > 0 && spec.budget_ratio <= 1)) {
    return InvalidField("kv.budget", "'kv.budget' is a ratio outside of (0, 1].");
  }
  if (std::optional<ApiError> error = CheckKvSpec(spec, facts.budget_max)) return error;
  // What a ratio came to depends on a prompt that is not known any more; everything else follows from it.
  if (is_ratio) {
    spec.budget_kind = KvBudgetKind::kTokens;
    spec.budget_tokens = past.kv.budget.keep;
    if (std::optional<ApiError> error = CheckKvSpec(spec, facts.budget_max)) return error;
  }
  const ApiResult<KvResolution> kv = ResolveKvPolicy(spec, 1, 1, facts);
  if (!kv.ok()) return kv.error();
  // The codec writes every field of it.
  SessionPast here, there;
  here.kv = kv.value();
  there.kv = past.kv;
  if (EncodePast(here, nullptr, {}) == EncodePast(there, nullptr, {})) return std::nullopt;
  return InvalidField("kv", "What 'kv' came to is not what it comes to on this server.");
}

// A conversation in which nothing was generated yet: what was said in it is in its notes alone.
std::optional<ApiError> CheckUnbegun(const SessionPast& past, const KvModelFacts& facts) {
  if (past.computed != 0) return InvalidField("computed", "No token has been computed where there is none.");
  if (past.added_special_tokens != 0) {
    return InvalidField("added_special_tokens", "There are fewer tokens than the server is said to have added.");
  }
  if (past.text.has_value()) return InvalidField("text", "The session has a text, and no tokens.");
  KvSpec spec = past.spec;
  if (std::optional<ApiError> error = CheckKvSpec(spec, facts.budget_max)) return error;
  SessionPast here, there;
  there.kv = past.kv;
  if (EncodePast(here, nullptr, {}) == EncodePast(there, nullptr, {})) return std::nullopt;
  return InvalidField("kv", "'kv' has come to nothing where there are no tokens.");
}

}  // namespace

std::optional<ApiError> CheckPast(const SessionPast& past, int32_t vocab, const KvModelFacts& facts) {
  const auto tokens = static_cast<int32_t>(past.tokens.size());
  if (tokens == 0 && !past.notes.empty()) return CheckUnbegun(past, facts);
  if (tokens == 0) return InvalidField("tokens", "The session has no tokens.");
  if (std::any_of(past.tokens.begin(), past.tokens.end(), [vocab](int32_t id) { return id < 0 || id >= vocab; })) {
    return InvalidField("tokens", "A token id is not in the vocabulary.");
  }
  // A session that recalls has the first blocks of its last prompt. Else the last token of an answer has not been
  // computed; a stop token that is not kept has been the one after it.
  if (past.spec.recalls()) {
    if (past.computed >= tokens || past.computed % kBlockSlots != 0) {
      return InvalidField("computed", "A session that recalls has whole blocks of its last prompt computed.");
    }
  } else if (past.computed < tokens - 1 || past.computed < 1) {
    return InvalidField("computed", "All tokens but the last have been computed.");
  }
  if (past.added_special_tokens > tokens) {
    return InvalidField("added_special_tokens", "There are fewer tokens than the server is said to have added.");
  }
  return CheckKv(past, facts);
}

}  // namespace hydrant
