// Masks of answers that have to end in time: what each token leaves to be said.
#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "model/grammar/token_masks.h"

namespace hydrant::grammar {
namespace {

// A token may end inside a character, which then has this many bytes left at most.
constexpr int64_t kCharacterRest = 3;
constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max() / 2;

}  // namespace

// Whether plain text below a node leaves no more to be said than there was before it: it only counts down what a loop still asks for.
// Of a union that is not so, as its shortest text may be one that the plain text is not.
bool TokenMasks::PlainBringsNearer(const Configurations& from, const TokenTrie::Node& node, Fuel& fuel) {
  if (!node.plain_below || from.size() != 1) return false;
  const Configuration& only = from.front();
  if (only.phase != Phase::kScalar && only.phase != Phase::kExtraKey) return false;
  const RegexKind kind = machine_->dfa().arena().node(only.lexeme).kind;
  return (kind == RegexKind::kRepeat || kind == RegexKind::kConcat) &&
         PlainCharacters(only.lexeme, fuel) >= node.bytes_below;
}

template <typename OnToken>
bool TokenMasks::WalkNeeds(const Configurations& from, int64_t here, int64_t most, bool prune, Walk& walk,
                           const OnToken& on_token) {
  const std::span<const TokenTrie::Node> nodes = trie_->nodes();
  std::vector<int64_t> needs(trie_->depth_max() + 1);
  stack_[0] = from;
  needs[0] = here;
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const Configurations& before = stack_[node.depth];
    Configurations& next = stack_[node.depth + 1u];
    if (walk.left == 0 || walk.fuel.empty()) return false;
    --walk.left;
    const int64_t need_before = needs[node.depth];
    if (need_before + kCharacterRest <= most && PlainBringsNearer(before, node, walk.fuel)) {
      i = node.below_end;
      continue;
    }
    machine_->Step(before, node.byte, walk.fuel, next);
    if (next.size() > kConfigurationsMax) return false;
    if (next.empty()) {
      i = node.below_end;
      continue;
    }
    const int64_t need = next == before ? need_before : machine_->BytesToEnd(next, walk.fuel).value_or(kUnknown);
    needs[node.depth + 1u] = need;
    // A byte brings the end nearer by one at most.
    if (prune && need < kUnknown && need - (node.bytes_below - 1) > most) {
      for (const int32_t token : trie_->TokensBelow(i)) on_token(token, need);
      i = node.below_end;
      continue;
    }
    if (need > most) {
      for (uint32_t t = node.tokens_begin; t < node.tokens_end; ++t) on_token(trie_->tokens()[t], need);
    }
    ++i;
  }
  return !walk.fuel.empty();
}

Grammar::Verdict TokenMasks::MaskWithin(GrammarState& state, int64_t bytes, std::span<uint32_t> out) {
  if (const Grammar::Verdict verdict = Mask(state, out); verdict != Grammar::Verdict::kAllowed) return verdict;
  Walk walk{kNodesMax, {kMaskFuel}};
  const Configurations from = state.configurations_;
  const auto forbid = [&](int32_t token) {
    const auto id = static_cast<uint32_t>(token);
    out[id / 32] &= ~(uint32_t{1} << (id % 32));
  };
  const JsonMachine::Mark mark = machine_->Here();
  auto known = needs_.find(from);
  if (known == needs_.end()) {
    Needs needs;
    needs.here = machine_->BytesToEnd(from, walk.fuel).value_or(kUnknown);
    const int64_t most = std::min(needs.here, kUnknown) + kCharacterRest;
    const bool is_known = WalkNeeds(from, needs.here, most, /*prune=*/false, walk,
                                    [&](int32_t token, int64_t need) { needs.above.emplace_back(need, token); });
    machine_->BackTo(mark);
    if (!is_known) return Grammar::Verdict::kLimit;
    std::ranges::sort(needs.above, std::greater<>());
    remembered_bytes_ += needs.above.size() * sizeof(needs.above[0]) + from.size() * sizeof(Configuration);
    known = needs_.emplace(from, std::move(needs)).first;
  }
  const Needs& needs = known->second;
  if (bytes >= needs.here + kCharacterRest) {
    for (const auto& [need, token] : needs.above) {
      if (need <= bytes) break;
      forbid(token);
    }
    return Grammar::Verdict::kAllowed;
  }
  const bool is_known =
      WalkNeeds(from, needs.here, bytes, /*prune=*/true, walk, [&](int32_t token, int64_t) { forbid(token); });
  machine_->BackTo(mark);
  return is_known ? Grammar::Verdict::kAllowed : Grammar::Verdict::kLimit;
}

}  // namespace hydrant::grammar
