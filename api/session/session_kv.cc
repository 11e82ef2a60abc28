#include "api/session/session_kv.h"

#include <cmath>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/wire/json_writer.h"

namespace hydrant {
namespace {

const char* NameOf(KvUnknown unknown) {
  switch (unknown) {
    case KvUnknown::kNothing:
      return "";
    case KvUnknown::kCold:
      return "cold";
    case KvUnknown::kQueued:
      return "queued";
    case KvUnknown::kAside:
      return "set_aside";
    case KvUnknown::kRolling:
      return "rolling_positions";
    case KvUnknown::kTooMany:
      return "too_many_slots";
  }
  return "";
}

void AppendName(std::string* out, std::string_view name) {
  if (out->back() != '{') out->push_back(',');
  absl::StrAppend(out, "\"", std::string(name), "\":");
}

void AppendInteger(std::string* out, std::string_view name, int64_t value) {
  AppendName(out, name);
  AppendJsonInteger(out, value);
}

// Six digits: as much as a picture needs.
void AppendNumber(std::string* out, float value) { absl::StrAppend(out, std::isfinite(value) ? value : 0.0f); }

// Null when there are none though there should be `expected`.
void AppendNumbers(std::string* out, std::string_view name, std::span<const float> values, size_t expected) {
  AppendName(out, name);
  if (values.empty() && expected > 0) {
    out->append("null");
    return;
  }
  out->push_back('[');
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out->push_back(',');
    AppendNumber(out, values[i]);
  }
  out->push_back(']');
}

// [[row], …] of `cols` numbers each; a negative one is null.
void AppendMatrix(std::string* out, std::string_view name, std::span<const float> values, int32_t cols) {
  AppendName(out, name);
  out->push_back('[');
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t col = i % static_cast<size_t>(cols);
    out->append(col > 0 ? "," : i > 0 ? "],[" : "[");
    values[i] < 0 ? void(out->append("null")) : AppendNumber(out, values[i]);
  }
  out->append(values.empty() ? "]" : "]]");
}

// A piece that is no text by itself is the list of its bytes.
void AppendPieces(std::string* out, const std::vector<std::string_view>& pieces) {
  AppendName(out, "pieces");
  out->push_back('[');
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0) out->push_back(',');
    if (IsValidUtf8(pieces[i])) {
      AppendJsonString(out, pieces[i]);
    } else {
      std::vector<int32_t> bytes;
      for (const char byte : pieces[i]) bytes.push_back(static_cast<unsigned char>(byte));
      AppendJsonIntegers(out, bytes);
    }
  }
  out->push_back(']');
}

void AppendHeld(std::string* out, const SessionKv& kv) {
  const bool known = kv.unknown == KvUnknown::kNothing;
  AppendName(out, "held");
  known ? AppendJsonIntegers(out, kv.held) : void(out->append("null"));
  AppendNumbers(out, "scores", kv.scores, 1);
  AppendName(out, "unknown");
  AppendJsonStringOrNull(out, NameOf(kv.unknown));
  if (known) {
    AppendMatrix(out, "reach", kv.reach, kv.kv_heads);
  } else {
    AppendName(out, "reach");
    out->append("null");
  }
}

void AppendPair(std::string* out, const SessionKv::Pair& pair) {
  AppendName(out, "pair");
  out->push_back('{');
  AppendInteger(out, "layer", pair.layer);
  AppendInteger(out, "head", pair.head);
  AppendName(out, "positions");
  AppendJsonIntegers(out, pair.positions);
  AppendNumbers(out, "scores", pair.scores, pair.positions.size());
  out->push_back('}');
}

}  // namespace

std::string SessionKvJson(const SessionKv& kv) {
  std::string out = "{\"object\":\"session.kv\"";
  AppendName(&out, "id");
  AppendJsonString(&out, kv.id);
  AppendName(&out, "state");
  AppendJsonString(&out, SessionStateName(kv.state));
  AppendName(&out, "policy");
  AppendJsonStringOrNull(&out, kv.policy);
  AppendName(&out, "budget");
  AppendJsonIntegerOrNull(&out, kv.budget);
  AppendInteger(&out, "heavy", kv.heavy);
  AppendInteger(&out, "recent", kv.recent);
  AppendInteger(&out, "layers", kv.layers);
  AppendInteger(&out, "kv_heads", kv.kv_heads);
  AppendInteger(&out, "known", kv.known);
  AppendInteger(&out, "logical", kv.logical);
  AppendInteger(&out, "live", kv.live);
  AppendInteger(&out, "blocks", kv.blocks);
  AppendInteger(&out, "after", kv.after);
  AppendName(&out, "has_more");
  AppendJsonBool(&out, kv.after + static_cast<int64_t>(kv.tokens.size()) < kv.known);
  AppendName(&out, "tokens");
  AppendJsonIntegers(&out, kv.tokens);
  AppendPieces(&out, kv.pieces);
  AppendName(&out, "specials");
  AppendJsonIntegers(&out, kv.specials);
  AppendHeld(&out, kv);
  AppendName(&out, "ahead");
  kv.ahead.has_value() ? AppendJsonInteger(&out, *kv.ahead) : void(out.append("null"));
  AppendName(&out, "aside");
  AppendJsonBool(&out, kv.aside);
  if (kv.pair.has_value()) AppendPair(&out, *kv.pair);
  if (kv.token.has_value()) {
    AppendName(&out, "token");
    out.push_back('{');
    AppendInteger(&out, "position", kv.token->position);
    AppendMatrix(&out, "scores", kv.token->scores, kv.kv_heads);
    out.push_back('}');
  }
  out.push_back('}');
  return out;
}

ApiResult<SessionKvQuery> ReadSessionKvQuery(
    const std::function<std::optional<std::string>(std::string_view)>& value_of, int32_t layers, int32_t kv_heads) {
  SessionKvQuery query;
  std::optional<ApiError> error;
  const auto read = [&](std::string_view name, int32_t low, int32_t high) -> std::optional<int32_t> {
    const std::optional<std::string> text = value_of(name);
    if (!text.has_value()) return std::nullopt;
    const ApiResult<int32_t> value = ReadQueryInteger(name, *text, low, high);
    if (value.ok()) return value.value();
    if (!error.has_value()) error = value.error();
    return std::nullopt;
  };
  constexpr int32_t kPositionMax = 1 << 30;
  query.after = read("after", 0, kPositionMax);
  query.limit = read("limit", 1, kKvTokensMax).value_or(kKvTokensMax);
  query.layer = read("layer", 0, layers - 1);
  query.head = read("head", 0, kv_heads - 1);
  query.token = read("token", 0, kPositionMax);
  if (!error.has_value() && query.layer.has_value() != query.head.has_value()) {
    error = InvalidField(query.layer.has_value() ? "head" : "layer", "'layer' and 'head' belong together.");
  }
  if (error.has_value()) return *std::move(error);
  return query;
}

}  // namespace hydrant
