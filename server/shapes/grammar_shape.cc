#include "server/shapes/grammar_shape.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

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

GrammarShape::GrammarShape(std::shared_ptr<CompiledShape> shape, std::string prefix)
    : shape_(std::move(shape)), prefix_(std::move(prefix)), unmasked_(prefix_) {}

bool GrammarShape::IsOver(const GrammarState& state) {
  return std::ranges::all_of(kLikelyFirst, [&](const char& byte) {
    GrammarState copy = state;
    return shape_->followed().Advance(copy, {&byte, 1}) == Grammar::Verdict::kForbidden;
  });
}

AnswerShape::Verdict GrammarShape::Push(int32_t token) {
  Grammar& grammar = shape_->followed();
  if (!followed_.has_value()) {
    followed_ = grammar.Begin();
    if (grammar.Advance(*followed_, prefix_) != Grammar::Verdict::kAllowed) return Verdict::kLost;
  }
  const std::string_view bytes = shape_->vocabulary().BytesOf(token);
  // An end of text, or a token at which the client wants to stop: not the shape's to say.
  if (bytes.empty()) return Verdict::kGoesOn;
  if (grammar.Advance(*followed_, bytes) != Grammar::Verdict::kAllowed) return Verdict::kLost;
  unmasked_.append(bytes);
  return grammar.Accepts(*followed_) && IsOver(*followed_) ? Verdict::kComplete : Verdict::kGoesOn;
}

bool GrammarShape::Mask(std::span<uint32_t> bits) {
  if (!masked_.has_value()) masked_ = shape_->Begin();
  if (!unmasked_.empty()) {
    if (shape_->Advance(*masked_, unmasked_) != Grammar::Verdict::kAllowed) return false;
    unmasked_.clear();
  }
  return shape_->Mask(*masked_, bits) == Grammar::Verdict::kAllowed;
}

}  // namespace hydrant
