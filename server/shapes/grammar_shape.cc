#include "server/shapes/grammar_shape.h"

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <string_view>
#include <utility>

#include "model/text/text_pieces.h"

namespace hydrant {
namespace {

using grammar::Grammar;
using grammar::GrammarState;

// All bytes, those first that go on with most texts that go on at all.
constexpr std::array<char, 256> kLikelyFirst = [] {
  std::array<char, 256> bytes{};
  for (size_t i = 0; i < 256; ++i) bytes[i] = static_cast<char>(i);
  constexpr std::string_view kLikely = "0a A,.\"eE";
  for (size_t i = 0; i < kLikely.size(); ++i) {
    std::swap(bytes[i], *std::find(bytes.begin() + static_cast<std::ptrdiff_t>(i), bytes.end(), kLikely[i]));
  }
  return bytes;
}();

}  // namespace

GrammarShape::GrammarShape(std::shared_ptr<CompiledShape> shape, ShapeStart start)
    : shape_(std::move(shape)),
      start_(std::move(start)),
      phase_(start_.thinks               ? Phase::kThinks
             : start_.thinks_behind >= 0 ? Phase::kMayThink
                                         : Phase::kAnswers) {}

bool GrammarShape::IsOver(const GrammarState& state, grammar::Fuel& fuel) {
  return std::ranges::all_of(kLikelyFirst, [&](const char& byte) {
    GrammarState copy = state;
    return shape_->followed().Advance(copy, {&byte, 1}, fuel) == Grammar::Verdict::kForbidden;
  });
}

std::optional<std::string_view> GrammarShape::AnswerIn(int32_t token) {
  const ShapeVocabulary& vocabulary = shape_->vocabulary();
  switch (phase_) {
    case Phase::kMayThink:
      if (token == start_.thinks_behind) {
        phase_ = Phase::kThinks;
        return std::nullopt;
      }
      // A mask allows thinking as the first token alone; who is free may begin it behind white space.
      if (!start_.calls_only || vocabulary.BytesOf(token).find_first_not_of(kWhiteSpace) != std::string_view::npos) {
        phase_ = Phase::kAnswers;
      }
      break;
    case Phase::kThinks: {
      thought_ += vocabulary.MarkupOf(token);
      const std::string& close = start_.thinking_closes;
      const size_t at = thought_.find(close);
      if (at == std::string::npos) {
        if (thought_.size() >= close.size()) thought_.erase(0, thought_.size() - close.size() + 1);
        return std::nullopt;
      }
      phase_ = Phase::kGap;
      // White space behind it is nobody's.
      const size_t begin = thought_.find_first_not_of(kWhiteSpace, at + close.size());
      if (begin == std::string::npos) return std::nullopt;
      phase_ = Phase::kAnswers;
      return std::string_view(thought_).substr(begin);
    }
    case Phase::kGap:
      phase_ = Phase::kAnswers;
      if (std::ranges::find(vocabulary.line_ends(), token) != vocabulary.line_ends().end()) return std::nullopt;
      break;
    case Phase::kAnswers:
      break;
  }
  const std::string_view bytes = vocabulary.BytesOf(token);
  // An end of text, or a token at which the client wants to stop: not the shape's to say.
  return bytes.empty() ? std::nullopt : std::optional(bytes);
}

AnswerShape::Verdict GrammarShape::Follow(std::string_view bytes) {
  Grammar& grammar = shape_->followed();
  int64_t most = std::min(fuel_.left, Grammar::kAdvanceFuel);
  grammar::Fuel fuel{most};
  if (!followed_.has_value()) followed_ = start_.behind.has_value() ? *start_.behind : shape_->BeginFollowed();
  Grammar::Verdict verdict = grammar.Advance(*followed_, bytes, fuel);
  // An answer of many keys that moves to another automaton comes further with each try.
  while (verdict == Grammar::Verdict::kLimit && fuel.empty() && fuel_.Spend(most)) {
    most = std::min(fuel_.left, Grammar::kAdvanceFuel);
    fuel = grammar::Fuel{most};
    verdict = grammar.Advance(*followed_, bytes, fuel);
  }
  if (verdict != Grammar::Verdict::kAllowed) return Verdict::kLost;
  unmasked_.append(bytes);
  const bool is_over = grammar.Accepts(*followed_) && IsOver(*followed_, fuel);
  fuel_.Spend(most - fuel.left);
  return is_over ? Verdict::kComplete : Verdict::kGoesOn;
}

// Nothing was promised: what cannot be held to the shape is not.
void GrammarShape::GiveUp() {
  given_up_ = true;
  in_call_ = false;
}

void GrammarShape::FollowCalls(std::string_view bytes) {
  const bool was_in_call = in_call_;
  Verdict verdict = Follow(bytes);
  if (verdict == Verdict::kLost && !was_in_call) {
    // A mark and what no call goes on with are text, in which another mark may begin.
    followed_.reset();
    unmasked_.clear();
    verdict = Follow(bytes);
    if (verdict == Verdict::kLost) {
      followed_.reset();
      return unmasked_.clear();
    }
  }
  // Where there are no more calls, text is nobody's to end.
  if (verdict != Verdict::kGoesOn) return GiveUp();
  in_call_ = was_in_call || !start_.from_arguments ? !Grammar::InText(*followed_) : Grammar::InArguments(*followed_);
  if (!in_call_ || !was_in_call) unmasked_.clear();
  if (!in_call_ || was_in_call) return;
  const int64_t most = std::min(fuel_.left, Grammar::kAdvanceFuel);
  grammar::Fuel fuel{most};
  masked_ = shape_->Alone(*followed_, fuel);
  fuel_.Spend(most - fuel.left);
  if (fuel.empty()) GiveUp();
}

void GrammarShape::PushCalls(int32_t token) {
  if (given_up_) return;
  try {
    const std::optional<std::string_view> bytes = AnswerIn(token);
    if (bytes.has_value()) {
      FollowCalls(*bytes);
    } else if (!in_call_) {
      followed_.reset();  // half a mark before it is text
    }
  } catch (const std::bad_alloc&) {
    GiveUp();
  }
}

AnswerShape::Verdict GrammarShape::Push(int32_t token) {
  ++pushed_;
  fuel_.left = std::min(fuel_.left + kFuelOfToken, kFuelMax);
  if (start_.calls_only) {
    PushCalls(token);
    return Verdict::kGoesOn;
  }
  const std::optional<std::string_view> bytes = AnswerIn(token);
  return bytes.has_value() ? Follow(*bytes) : Verdict::kGoesOn;
}

int64_t GrammarShape::LeastAnswer() {
  if (!least_answer_.has_value()) {
    grammar::GrammarState state = start_.behind.has_value() ? *start_.behind : shape_->Begin();
    grammar::Fuel fuel{Grammar::kAdvanceFuel};
    least_answer_ = shape_->BytesToEnd(state, fuel).value_or(0);
  }
  return *least_answer_;
}

void GrammarShape::AllowAll(std::span<uint32_t> bits) const {
  std::ranges::fill(bits, ~uint32_t{0});
  const size_t beyond = shape_->vocabulary().trie()->vocabulary() % 32;
  if (beyond > 0) bits.back() = (uint32_t{1} << beyond) - 1;
}

void GrammarShape::AllowThoughts(std::span<uint32_t> bits) {
  const std::string& close = start_.thinking_closes;
  const auto close_bytes = static_cast<int64_t>(close.size());
  if (start_.tokens_max > 0 && start_.tokens_max - pushed_ <= LeastAnswer() + close_bytes) {
    // It is time to end thinking: with the rest of what may have begun.
    std::ranges::fill(bits, 0u);
    return grammar::AllowToken(bits, shape_->vocabulary().ByteToken(close[HeldBytes(thought_, close)]));
  }
  AllowAll(bits);
  // An answer that ends within thinking would be none.
  for (const int32_t end : shape_->vocabulary().ends()) grammar::ForbidToken(bits, end);
  // Nor may a token that ends thinking say what only a mask of the answer can allow.
  for (size_t begun = 0; begun < close.size(); ++begun) {
    const std::string_view view = close;
    if (thought_.ends_with(view.substr(0, begun))) shape_->vocabulary().ForbidBeyond(view.substr(begun), bits);
  }
}

bool GrammarShape::Mask(std::span<uint32_t> bits) {
  if (!start_.calls_only) return MaskAnswer(bits);
  try {
    if (MaskAnswer(bits) && std::ranges::any_of(bits, [](uint32_t word) { return word != 0; })) return true;
  } catch (const std::bad_alloc&) {
    // As if a limit had been met.
  }
  GiveUp();
  AllowAll(bits);
  return true;
}

bool GrammarShape::MaskAnswer(std::span<uint32_t> bits) {
  if (phase_ == Phase::kThinks) {
    AllowThoughts(bits);
    return true;
  }
  std::optional<int64_t> left;  // behind this token
  if (start_.tokens_max > 0) left = std::max<int64_t>(start_.tokens_max - pushed_ - 1, 0);
  if (!masked_.has_value()) masked_ = start_.behind.has_value() ? *start_.behind : shape_->Begin();
  if (!unmasked_.empty()) {
    if (shape_->Advance(*masked_, unmasked_, fuel_) != Grammar::Verdict::kAllowed) return false;
    unmasked_.clear();
  }
  if (shape_->Mask(*masked_, bits, left, fuel_) != Grammar::Verdict::kAllowed) return false;
  const int64_t room = left.has_value() ? *left - LeastAnswer() : std::numeric_limits<int64_t>::max();
  if (phase_ == Phase::kMayThink && room >= static_cast<int64_t>(start_.thinking_closes.size())) {
    grammar::AllowToken(bits, start_.thinks_behind);
  }
  if (phase_ == Phase::kGap && room >= 0) {
    for (const int32_t token : shape_->vocabulary().line_ends()) grammar::AllowToken(bits, token);
  }
  return true;
}

}  // namespace hydrant
