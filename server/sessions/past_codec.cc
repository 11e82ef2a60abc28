#include "server/sessions/past_codec.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "server/sessions/journal/byte_codec.h"

namespace hydrant {
namespace {

constexpr uint8_t kVersion = 1;
// The same with notes after it, as the first that has any is written.
constexpr uint8_t kVersionWithNotes = 2;
// The same with an adapter's digest and notes after it, as what an adapter computed is written.
constexpr uint8_t kVersionWithAdapter = 3;
// The same with what the policy pins, an adapter's digest, which may be empty, and notes after it.
constexpr uint8_t kVersionWithPins = 4;
// The same of a session that recalls: whether the policy pins says a byte before that.
constexpr uint8_t kVersionWithRecall = 5;
constexpr uint64_t kAdapterBytesMax = 64;
constexpr auto kInt32Max = static_cast<uint64_t>(std::numeric_limits<int32_t>::max());

template <typename Sequence>
size_t CommonBeginning(const Sequence& a, const Sequence& b) {
  const size_t most = std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(most), b.begin()).first -
                             a.begin());
}

void PutInt(int32_t value, std::string* out) { PutVarint(static_cast<uint64_t>(value), out); }
int32_t ReadInt(ByteReader* reader) { return static_cast<int32_t>(reader->Varint(kInt32Max)); }
void PutBool(bool value, std::string* out) { PutFixed(static_cast<uint8_t>(value), out); }
bool ReadBool(ByteReader* reader) { return reader->Fixed<uint8_t>() != 0; }
void PutReal(double value, std::string* out) { PutFixed(std::bit_cast<uint64_t>(value), out); }
double ReadReal(ByteReader* reader) { return std::bit_cast<double>(reader->Fixed<uint64_t>()); }

void PutTokens(const std::vector<int32_t>& tokens, const std::vector<int32_t>& before, std::string* out) {
  const size_t kept = CommonBeginning(tokens, before);
  PutVarint(kept, out);
  PutVarint(tokens.size() - kept, out);
  for (size_t i = kept; i < tokens.size(); ++i) PutInt(tokens[i], out);
}

void ReadTokens(ByteReader* reader, std::vector<int32_t>* tokens) {
  tokens->resize(reader->Varint(tokens->size()));
  const uint64_t more = reader->Varint(reader->left().size());  // a byte each at least
  tokens->reserve(tokens->size() + more);
  for (uint64_t i = 0; i < more; ++i) tokens->push_back(ReadInt(reader));
}

void PutRanges(const std::vector<ByteRange>& ranges, const std::vector<ByteRange>& before, std::string* out) {
  size_t kept = 0;
  while (kept < std::min(ranges.size(), before.size()) && ranges[kept].begin == before[kept].begin &&
         ranges[kept].end == before[kept].end) {
    ++kept;
  }
  PutVarint(kept, out);
  PutVarint(ranges.size() - kept, out);
  for (size_t i = kept; i < ranges.size(); ++i) {
    PutVarint(ranges[i].begin, out);
    PutVarint(ranges[i].end, out);
  }
}

void ReadRanges(ByteReader* reader, std::vector<ByteRange>* ranges) {
  ranges->resize(reader->Varint(ranges->size()));
  for (uint64_t more = reader->Varint(reader->left().size()); more > 0; --more) {
    const uint64_t begin = reader->Varint(), end = reader->Varint();
    ranges->push_back({begin, end});
  }
}

// Ascending, disjoint, and in [low, high].
bool RangesFit(const std::vector<ByteRange>& ranges, size_t low, size_t high) {
  for (const ByteRange& range : ranges) {
    if (range.begin < low || range.end < range.begin || range.end > high) return false;
    low = range.end;
  }
  return true;
}

void PutSpec(const KvSpec& spec, std::string* out) {
  PutFixed(static_cast<uint8_t>(spec.preset), out);
  PutFixed(static_cast<uint8_t>(spec.budget_kind), out);
  PutInt(spec.budget_tokens, out);
  PutReal(spec.budget_ratio, out);
  PutInt(spec.recent.value_or(0), out);
  PutInt(spec.periodic_beta, out);
  PutBool(spec.elastic, out);
  PutInt(spec.floor.value_or(0), out);
  PutBool(spec.budgeted_prefill, out);
  PutFixed(static_cast<uint8_t>(spec.position.has_value() ? 1 + static_cast<int>(*spec.position) : 0), out);
}

template <typename Enum>
Enum ReadEnum(ByteReader* reader, Enum last) {
  return static_cast<Enum>(reader->Fixed<uint8_t>() % (static_cast<int>(last) + 1));
}

KvSpec ReadSpec(ByteReader* reader) {
  const auto if_any = [reader] {
    const int32_t value = ReadInt(reader);
    return value > 0 ? std::optional(value) : std::nullopt;
  };
  KvSpec spec;
  spec.preset = ReadEnum(reader, kKvPresetLast);
  spec.budget_kind = ReadEnum(reader, KvBudgetKind::kRatioOfTotal);
  spec.budget_tokens = ReadInt(reader);
  spec.budget_ratio = ReadReal(reader);
  spec.recent = if_any();
  spec.periodic_beta = ReadInt(reader);
  spec.elastic = ReadBool(reader);
  spec.floor = if_any();
  spec.budgeted_prefill = ReadBool(reader);
  const int position = reader->Fixed<uint8_t>() % 3;
  if (position > 0) spec.position = static_cast<KvPosition>(position - 1);
  return spec;
}

// What the spec came to: it holds for the session's life, though a later version might make something else of it.
void PutResolution(const KvResolution& kv, std::string* out) {
  for (const int32_t value :
       {kv.budget.keep, kv.budget.slack, kv.budget.prompt_stride, kv.budget.turn_heavy, kv.budget.floor,
        kv.policy.heavy, kv.policy.recent, kv.policy.score_rows, kv.policy.pool_width, kv.policy_label}) {
    PutInt(value, out);
  }
  for (const bool value :
       {kv.budget.periodic, kv.policy.evicts, kv.policy.square, kv.policy.store_pooled, kv.policy.rolling}) {
    PutBool(value, out);
  }
  PutFixed(static_cast<uint8_t>(kv.policy.score_source), out);
  PutFixed(static_cast<uint8_t>(kv.policy.gqa_reduce), out);
  PutFixed(std::bit_cast<uint32_t>(kv.policy.decay), out);
  if (kv.policy.pin_rows == 0) return;
  PutInt(kv.policy.pin_rows, out);
  PutInt(kv.policy.pin_tokens, out);
  PutInt(kv.policy.pins_min, out);
  PutBool(kv.policy.decays_prompt, out);
  PutFixed(std::bit_cast<uint32_t>(kv.policy.pin_decay), out);
}

bool ReadResolution(ByteReader* reader, bool pins, KvResolution* kv) {
  for (int32_t* value :
       {&kv->budget.keep, &kv->budget.slack, &kv->budget.prompt_stride, &kv->budget.turn_heavy, &kv->budget.floor,
        &kv->policy.heavy, &kv->policy.recent, &kv->policy.score_rows, &kv->policy.pool_width, &kv->policy_label}) {
    *value = ReadInt(reader);
  }
  for (bool* value :
       {&kv->budget.periodic, &kv->policy.evicts, &kv->policy.square, &kv->policy.store_pooled, &kv->policy.rolling}) {
    *value = ReadBool(reader);
  }
  const auto source = reader->Fixed<uint8_t>(), reduce = reader->Fixed<uint8_t>();
  kv->policy.score_source = static_cast<ScoreSource>(source);
  kv->policy.gqa_reduce = static_cast<GqaReduce>(reduce);
  kv->policy.decay = std::bit_cast<float>(reader->Fixed<uint32_t>());
  kv->policy.pin_rows = pins ? ReadInt(reader) : 0;
  kv->policy.pin_tokens = pins ? ReadInt(reader) : 0;
  kv->policy.pins_min = pins ? ReadInt(reader) : 0;
  kv->policy.decays_prompt = pins ? ReadBool(reader) : true;
  kv->policy.pin_decay = pins ? std::bit_cast<float>(reader->Fixed<uint32_t>()) : 1.0f;
  // What EngineCore asks of a policy that pins.
  if (pins && (kv->policy.pool_width != 1 || kv->policy.rolling || !kv->policy.scores())) return false;
  return reader->ok() && pins == (kv->policy.pin_rows > 0) && kv->policy.pin_decay > 0 && kv->policy.pin_decay <= 1 &&
         kv->budget.valid() && kv->policy.recent >= 1 && kv->policy.pool_width % 2 == 1 && kv->policy.decay > 0 &&
         kv->policy.decay <= 1 && source <= static_cast<uint8_t>(ScoreSource::kNone) &&
         reduce <= static_cast<uint8_t>(GqaReduce::kFirst) &&
         kv->policy_label < static_cast<int32_t>(KvPolicyLabels().size());
}

void PutNotes(const TurnNotes& notes, const TurnNotes& before, std::string* out) {
  // Compared as objects: what a turn goes on from it has the notes of.
  const size_t kept = CommonBeginning(notes, before);
  PutVarint(kept, out);
  PutVarint(notes.size() - kept, out);
  for (size_t i = kept; i < notes.size(); ++i) {
    PutVarint(notes[i]->turn, out);
    PutInt(notes[i]->tokens, out);
    PutString(notes[i]->text, out);
    const bool same_head = i > 0 && *notes[i - 1]->head == *notes[i]->head;
    PutBool(same_head, out);
    if (!same_head) PutString(*notes[i]->head, out);
  }
}

void ReadNotes(ByteReader* reader, TurnNotes* notes) {
  notes->resize(reader->Varint(notes->size()));
  for (uint64_t more = reader->Varint(reader->left().size()); more > 0 && reader->ok(); --more) {
    auto note = std::make_shared<TurnNote>();
    note->turn = reader->Varint();
    note->tokens = ReadInt(reader);
    note->text = reader->String();
    if (ReadBool(reader) && !notes->empty()) {
      note->head = notes->back()->head;
    } else {
      note->head = std::make_shared<const std::string>(reader->String());
    }
    notes->push_back(std::move(note));
  }
}

bool NotesFit(const TurnNotes& notes, size_t tokens) {
  return std::all_of(notes.begin(), notes.end(),
                     [tokens](const auto& note) { return static_cast<size_t>(note->tokens) <= tokens; });
}

bool IsVersion(uint8_t version) { return version >= kVersion && version <= kVersionWithRecall; }

// Puts what `body` says over `past`. False: it says nothing that could be so.
bool ReadOver(const std::string& body, const ModelId& model, SessionPast* past) {
  ByteReader reader(body);
  const auto version = reader.Fixed<uint8_t>();
  if (!IsVersion(version)) return false;
  if (reader.Array<std::tuple_size_v<ModelId>>() != model || !reader.ok()) return false;
  ReadTokens(&reader, &past->tokens);
  past->computed = ReadInt(&reader);
  past->added_special_tokens = ReadInt(&reader);
  if (ReadBool(&reader)) {
    std::string text = std::move(past->text).value_or("");
    text.resize(reader.Varint(text.size()));
    past->text = text.append(reader.String());
  } else {
    past->text.reset();
  }
  past->text_before_last.reset();
  if (ReadBool(&reader)) past->text_before_last = reader.Varint();
  past->prompt_bytes = reader.Varint();
  ReadRanges(&reader, &past->client_ranges);
  ReadRanges(&reader, &past->answer_specials);
  past->spec = ReadSpec(&reader);
  past->spec.recall = version == kVersionWithRecall;
  const bool pins = past->spec.recall ? ReadBool(&reader) : version == kVersionWithPins;
  if (!ReadResolution(&reader, pins, &past->kv)) return false;
  past->adapter = version >= kVersionWithAdapter ? reader.String() : std::string();
  if (past->adapter.size() > kAdapterBytesMax || (past->adapter.empty() && version == kVersionWithAdapter))
    return false;
  if (version != kVersion) {
    ReadNotes(&reader, &past->notes);
  } else {
    past->notes.clear();
  }
  if (!reader.done()) return false;
  const size_t text_bytes = past->text.has_value() ? past->text->size() : 0;
  const size_t tokens = past->tokens.size();
  return static_cast<size_t>(past->computed) <= tokens && past->text_before_last.value_or(0) <= text_bytes &&
         (!past->text_before_last.has_value() || tokens > 0) && past->prompt_bytes <= text_bytes &&
         RangesFit(past->client_ranges, 0, past->prompt_bytes) &&
         RangesFit(past->answer_specials, past->prompt_bytes, text_bytes) && NotesFit(past->notes, tokens);
}

}  // namespace

std::string EncodePast(const SessionPast& past, const SessionPast* before, const ModelId& model) {
  static const SessionPast kNothing;
  const SessionPast& from = before != nullptr ? *before : kNothing;
  std::string out;
  const bool recalls = past.spec.recall, pins = past.kv.policy.pin_rows > 0;
  const bool adapter = recalls || pins || !past.adapter.empty();
  PutFixed(recalls              ? kVersionWithRecall
           : pins               ? kVersionWithPins
           : adapter            ? kVersionWithAdapter
           : past.notes.empty() ? kVersion
                                : kVersionWithNotes,
           &out);
  PutArray(model, &out);
  PutTokens(past.tokens, from.tokens, &out);
  PutInt(past.computed, &out);
  PutInt(past.added_special_tokens, &out);
  PutBool(past.text.has_value(), &out);
  if (past.text.has_value()) {
    const std::string_view text = *past.text;
    const size_t kept = from.text.has_value() ? CommonBeginning(text, std::string_view(*from.text)) : 0;
    PutVarint(kept, &out);
    PutString(text.substr(kept), &out);
  }
  PutBool(past.text_before_last.has_value(), &out);
  if (past.text_before_last.has_value()) PutVarint(*past.text_before_last, &out);
  PutVarint(past.prompt_bytes, &out);
  PutRanges(past.client_ranges, from.client_ranges, &out);
  PutRanges(past.answer_specials, from.answer_specials, &out);
  PutSpec(past.spec, &out);
  if (recalls) PutBool(pins, &out);
  PutResolution(past.kv, &out);
  if (adapter) PutString(past.adapter, &out);
  if (adapter || !past.notes.empty()) PutNotes(past.notes, from.notes, &out);
  return out;
}

std::string EncodeKvPolicy(const SessionPast& past) {
  std::string out;
  PutSpec(past.spec, &out);
  PutResolution(past.kv, &out);
  if (!past.adapter.empty() || past.spec.recall) PutString(past.adapter, &out);
  if (past.spec.recall) PutBool(true, &out);
  return out;
}

std::optional<SessionPast> DecodePast(std::span<const std::string> bodies, const ModelId& model) {
  SessionPast past;
  for (const std::string& body : bodies) {
    if (!ReadOver(body, model, &past)) return std::nullopt;
  }
  if (bodies.empty()) return std::nullopt;
  return past;
}

std::optional<ModelId> ModelOfPast(std::string_view body) {
  ByteReader reader(body);
  const auto version = reader.Fixed<uint8_t>();
  if (!IsVersion(version)) return std::nullopt;
  const auto model = reader.Array<std::tuple_size_v<ModelId>>();
  return reader.ok() ? std::optional(model) : std::nullopt;
}

}  // namespace hydrant
