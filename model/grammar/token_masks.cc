#include "model/grammar/token_masks.h"

#include <algorithm>
#include <utility>

namespace hydrant::grammar {

TokenMasks::TokenMasks(std::shared_ptr<Grammar> grammar, std::shared_ptr<const TokenTrie> trie)
    : grammar_(std::move(grammar)),
      trie_(std::move(trie)),
      stack_(trie_->depth_max() + 1),
      lexemes_(trie_->depth_max() + 1) {}

void TokenMasks::AddTokens(const TokenTrie::Node& node, std::span<uint32_t> out) const {
  for (uint32_t i = node.tokens_begin; i < node.tokens_end; ++i) {
    const auto id = static_cast<uint32_t>(trie_->tokens()[i]);
    out[id / 32] |= uint32_t{1} << (id % 32);
  }
}

bool TokenMasks::WalkNodes(size_t begin, size_t end, size_t depth, const Configurations& from, Walk& walk,
                           std::span<uint32_t> out) {
  const std::span<const TokenTrie::Node> nodes = trie_->nodes();
  stack_[depth] = from;
  for (size_t i = begin; i < end;) {
    const TokenTrie::Node& node = nodes[i];
    Configurations& next = stack_[node.depth + 1u];
    if (walk.left == 0 || walk.fuel.empty()) return false;
    --walk.left;
    machine_->Step(stack_[node.depth], node.byte, walk.fuel, next);
    if (next.size() > kConfigurationsMax) return false;
    if (next.empty()) {
      i = node.below_end;
      continue;
    }
    AddTokens(node, out);
    ++i;
  }
  return !walk.fuel.empty();
}

const TokenMasks::Inside* TokenMasks::InsideOf(const Configuration& from, Walk& walk) {
  const bool is_key = from.phase == Phase::kExtraKey;
  std::unique_ptr<Inside>& known = insides_[{from.lexeme, is_key}];
  if (known != nullptr) return known.get();
  auto inside = std::make_unique<Inside>();
  inside->tokens.assign(trie_->words(), 0);
  const std::span<const TokenTrie::Node> nodes = trie_->nodes();
  LazyDfa& dfa = machine_->dfa();
  lexemes_[0] = from.lexeme;
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const RegexId before = lexemes_[node.depth];
    const RegexId left = dfa.Step(before, node.byte, walk.fuel);
    // A value that is complete has ended; a key ends with its quote, a number before what is no part of it.
    const bool ends = is_key ? left == kNothing && node.byte == '"' && dfa.arena().nullable(before)
                             : left == kEmptyText || (left == kNothing && dfa.arena().nullable(before));
    if (ends) inside->ends.emplace_back(static_cast<uint32_t>(i), before);
    if (ends || left == kNothing) {
      i = node.below_end;
      continue;
    }
    lexemes_[node.depth + 1u] = left;
    AddTokens(node, inside->tokens);
    ++i;
  }
  if (walk.fuel.empty()) return nullptr;
  remembered_bytes_ += inside->tokens.size() * 4 + inside->ends.size() * 8;
  known = std::move(inside);
  return known.get();
}

bool TokenMasks::AddConfiguration(const Configuration& from, Walk& walk, std::span<uint32_t> out) {
  const std::span<const TokenTrie::Node> nodes = trie_->nodes();
  if (from.phase != Phase::kScalar && from.phase != Phase::kExtraKey) {
    return WalkNodes(0, nodes.size(), 0, {from}, walk, out);
  }
  const Inside* inside = InsideOf(from, walk);
  if (inside == nullptr) return false;
  for (size_t i = 0; i < out.size(); ++i) out[i] |= inside->tokens[i];
  for (const auto& [end, before] : inside->ends) {
    Configuration there = from;
    there.lexeme = before;
    if (from.phase == Phase::kExtraKey) {
      way_.clear();
      for (uint32_t at = nodes[end].parent; at != TokenTrie::kNoParent; at = nodes[at].parent)
        way_.push_back(nodes[at].byte);
      for (size_t i = way_.size(); i-- > 0;) there.key_hash = JsonMachine::KeyHash(there.key_hash, way_[i]);
    }
    if (!WalkNodes(end, nodes[end].below_end, nodes[end].depth, {there}, walk, out)) return false;
  }
  return true;
}

void TokenMasks::ForgetIfMuch() {
  if (remembered_bytes_ <= kRememberedBytesMax) return;
  masks_.clear();
  insides_.clear();
  remembered_bytes_ = 0;
}

Grammar::Verdict TokenMasks::Mask(GrammarState& state, std::span<uint32_t> out) {
  grammar_->Renew(state);
  if (machine_ != state.machine_) {
    remembered_bytes_ = kRememberedBytesMax + 1;  // it speaks of another
    machine_ = state.machine_;
  }
  ForgetIfMuch();
  if (const auto known = masks_.find(state.configurations_); known != masks_.end()) {
    std::ranges::copy(known->second, out.begin());
    return Grammar::Verdict::kAllowed;
  }
  std::ranges::fill(out, 0u);
  Walk walk{kNodesMax, {kMaskFuel}};
  if (state.configurations_.size() == 1) {
    if (!AddConfiguration(state.configurations_[0], walk, out)) return Grammar::Verdict::kLimit;
  } else {
    // Those inside of scalars one by one; the others together.
    Configurations others;
    for (const Configuration& each : state.configurations_) {
      if (each.phase != Phase::kScalar && each.phase != Phase::kExtraKey) {
        others.push_back(each);
      } else if (!AddConfiguration(each, walk, out)) {
        return Grammar::Verdict::kLimit;
      }
    }
    if (!others.empty() && !WalkNodes(0, trie_->nodes().size(), 0, others, walk, out)) return Grammar::Verdict::kLimit;
  }
  masks_.emplace(state.configurations_, Words(out.begin(), out.end()));
  remembered_bytes_ += out.size() * 4 + state.configurations_.size() * sizeof(Configuration);
  return Grammar::Verdict::kAllowed;
}

Grammar::Verdict TokenMasks::PlainMask(GrammarState& state, std::span<uint32_t> out) {
  grammar_->Renew(state);
  if (machine_ != state.machine_) remembered_bytes_ = kRememberedBytesMax + 1;
  machine_ = state.machine_;
  ForgetIfMuch();
  std::ranges::fill(out, 0u);
  Walk walk{kNodesMax, {kMaskFuel}};
  const bool known = WalkNodes(0, trie_->nodes().size(), 0, state.configurations_, walk, out);
  return known ? Grammar::Verdict::kAllowed : Grammar::Verdict::kLimit;
}

}  // namespace hydrant::grammar
