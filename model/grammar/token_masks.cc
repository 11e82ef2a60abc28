#include "model/grammar/token_masks.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

namespace hydrant::grammar {
namespace {

// A token may end inside a character, which then has this many bytes left at most.
constexpr int64_t kCharacterRest = 3;
constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max() / 2;
// To look up what is remembered of a single lexeme takes a few nanoseconds.
constexpr int64_t kNodesOfUnit = 8;

}  // namespace

TokenMasks::TokenMasks(std::shared_ptr<Grammar> grammar, std::shared_ptr<const TokenTrie> trie)
    : grammar_(std::move(grammar)),
      trie_(std::move(trie)),
      stack_(trie_->depth_max() + 1),
      lexemes_(trie_->depth_max() + 1),
      counts_(trie_->depth_max() + 1) {}

void TokenMasks::AddTokens(std::span<const int32_t> tokens, std::span<uint32_t> out) {
  for (const int32_t token : tokens) AllowToken(out, token);
}

bool TokenMasks::WalkNodes(size_t begin, size_t end, size_t depth, std::span<const Configuration> from, Fuel& fuel,
                           std::span<uint32_t> out) {
  const std::span<const TokenTrie::Node> nodes = trie_->nodes();
  stack_[depth].assign(from.begin(), from.end());
  for (size_t i = begin; i < end;) {
    const TokenTrie::Node& node = nodes[i];
    Configurations& next = stack_[node.depth + 1u];
    // What is remembered of a step costs no fuel of its own.
    if (!fuel.Spend(static_cast<int64_t>(stack_[node.depth].size()))) return false;
    machine_->Step(stack_[node.depth], node.byte, fuel, next);
    if (next.size() > kConfigurationsMax) return false;
    if (next.empty()) {
      i = node.below_end;
      continue;
    }
    AddTokens(trie_->tokens().subspan(node.tokens_begin, node.tokens_end - node.tokens_begin), out);
    ++i;
  }
  return !fuel.empty();
}

const TokenMasks::Inside* TokenMasks::InsideOf(const Configuration& from, Fuel& fuel) {
  const bool is_key = from.phase == Phase::kExtraKey;
  const RegexId lexeme = Widened(from.lexeme, is_key, fuel);
  const std::pair<int32_t, int32_t> own = {lexeme, is_key ? kKeys : kScalars};
  if (const auto known = insides_.find(own); known != insides_.end() && known->second != nullptr) {
    return known->second.get();
  }
  auto inside = std::make_unique<Inside>();
  inside->tokens.assign(trie_->words(), 0);
  const auto counted = is_key ? std::nullopt : facts_->Count(from.lexeme);
  if (counted.has_value() && facts_->HaveCommon(*counted, fuel)) {
    if (const Inside* rest = InsideOfRest(*counted, fuel); rest != nullptr) return rest;
    if (fuel.empty()) return nullptr;
    WalkCounted(from.lexeme, *counted, fuel, *inside);
  } else {
    WalkLexeme(lexeme, is_key, fuel, *inside);
  }
  return fuel.empty() ? nullptr : Remember(insides_[own], std::move(inside));
}

// No token is longer than the trie is deep. Few texts may be left of a key, which its end then has to tell.
RegexId TokenMasks::Widened(RegexId lexeme, bool is_key, Fuel& fuel) {
  return facts_->Widened(lexeme, static_cast<int32_t>(trie_->depth_max()), is_key ? JsonMachine::kFewTexts + 1 : 0,
                         fuel);
}

// Where the counter has room for whatever a token leaves to be said, it forbids none.
const TokenMasks::Inside* TokenMasks::InsideOfRest(const LexemeFacts::Counted& counted, Fuel& fuel) {
  const RegexNode count = machine_->dfa().arena().node(counted.count);
  // To look whether few characters are room enough costs more than it saves.
  if (count.kind != RegexKind::kRepeat || count.b > 0 || count.c < static_cast<int64_t>(trie_->depth_max())) {
    return nullptr;
  }
  const RegexId rest = Widened(counted.rest, /*is_key=*/false, fuel);
  const int64_t cut = facts_->CharactersCut(counted.rest, static_cast<int32_t>(trie_->depth_max()), fuel);
  if (fuel.empty()) return nullptr;
  std::unique_ptr<Inside>& known = insides_[{rest, kMeasured}];
  if (known == nullptr) {
    auto inside = std::make_unique<Inside>();
    inside->tokens.assign(trie_->words(), 0);
    inside->characters = 0;
    WalkLexeme(rest, /*is_key=*/false, fuel, *inside);
    if (fuel.empty()) return nullptr;
    Remember(known, std::move(inside));
  }
  return *known->characters + cut <= count.c + int64_t{1} ? known.get() : nullptr;
}

void TokenMasks::WalkLexeme(RegexId lexeme, bool is_key, Fuel& fuel, Inside& inside) {
  const std::span<const TokenTrie::Node> nodes = trie_->nodes();
  LazyDfa& dfa = machine_->dfa();
  lexemes_[0] = lexeme;
  // A key of which few texts are left depends on what keys there are; one more character than these is any of many.
  const int32_t more = is_key ? 1 : 0;
  // Where any plain text may come, most of the mask is known.
  const bool any_plain = facts_->PlainCharacters(lexeme, fuel) >= static_cast<int64_t>(trie_->depth_max()) + more;
  if (any_plain) std::ranges::copy(trie_->plain_tokens(), inside.tokens.begin());
  const auto measure = [&](int32_t read, RegexId left) {
    inside.characters = std::max(*inside.characters, read + facts_->MostOfLeastCharacters(left, fuel));
  };
  int64_t looked_at = 0;
  for (size_t i = 0; i < nodes.size(); ++looked_at) {
    const TokenTrie::Node& node = nodes[i];
    const RegexId before = lexemes_[node.depth];
    const bool is_plain = node.plain_below && facts_->PlainCharacters(before, fuel) >= node.bytes_below + more;
    if (is_plain || IsLoop(before, i, fuel)) {
      if (!is_plain || !any_plain || !node.plain_way) AddTokens(trie_->TokensBelow(i), inside.tokens);
      if (inside.characters.has_value()) measure(node.depth + node.bytes_below, before);
      i = node.below_end;
      continue;
    }
    const RegexId left = dfa.Step(before, node.byte, fuel);
    // A value that is complete has ended; a key ends with its quote, a number before what is no part of it.
    const bool ends = is_key ? left == kNothing && node.byte == '"' && dfa.arena().nullable(before)
                             : left == kEmptyText || (left == kNothing && dfa.arena().nullable(before));
    const bool is_last = ends || (is_key && left != kNothing && facts_->PlainCharacters(left, fuel) == 0 &&
                                  machine_->HasFewTexts(left, fuel));
    if (is_last) inside.ends.emplace_back(static_cast<uint32_t>(i), before);
    if (is_last || left == kNothing) {
      i = node.below_end;
      continue;
    }
    lexemes_[node.depth + 1u] = left;
    if (inside.characters.has_value()) measure(node.depth + 1, left);
    AddTokens(trie_->tokens().subspan(node.tokens_begin, node.tokens_end - node.tokens_begin), inside.tokens);
    ++i;
  }
  fuel.Spend(looked_at / kNodesOfUnit);
}

// A string is read twice, by its counter and by all else: together they would be as many states as both have, multiplied.
void TokenMasks::WalkCounted(RegexId lexeme, const LexemeFacts::Counted& whole, Fuel& fuel, Inside& inside) {
  const std::span<const TokenTrie::Node> nodes = trie_->nodes();
  LazyDfa& dfa = machine_->dfa();
  counts_[0] = whole.count;
  lexemes_[0] = whole.rest;
  int64_t looked_at = 0;
  for (size_t i = 0; i < nodes.size() && !fuel.empty(); ++looked_at) {
    const TokenTrie::Node& node = nodes[i];
    const LexemeFacts::Counted before = {counts_[node.depth], lexemes_[node.depth]};
    if (IsLoop(before.rest, i, fuel) && facts_->HaveCommonBehind(before, node.bytes_below, fuel)) {
      AddTokens(trie_->TokensBelow(i), inside.tokens);
      i = node.below_end;
      continue;
    }
    const RegexId rest = dfa.Step(before.rest, node.byte, fuel);
    const bool ends = rest == kEmptyText && dfa.arena().nullable(before.count);
    // What is read behind the end asks only for what is not counted.
    if (ends) inside.ends.emplace_back(static_cast<uint32_t>(i), before.rest);
    const RegexId count = rest == kNothing || rest == kEmptyText ? kNothing : dfa.Step(before.count, node.byte, fuel);
    bool may = count != kNothing;
    if (may && !facts_->HaveCommon({count, rest}, fuel)) {
      TextTo(i, way_);
      way_.push_back(node.byte);
      may = dfa.StepAll(lexeme, {reinterpret_cast<const char*>(way_.data()), way_.size()}, fuel) != kNothing;
    }
    if (!may) {
      i = node.below_end;
      continue;
    }
    counts_[node.depth + 1u] = count;
    lexemes_[node.depth + 1u] = rest;
    AddTokens(trie_->tokens().subspan(node.tokens_begin, node.tokens_end - node.tokens_begin), inside.tokens);
    ++i;
  }
  fuel.Spend(looked_at / kNodesOfUnit);
}

bool TokenMasks::IsLoop(RegexId left, size_t node, Fuel& fuel) {
  // To find out takes as long as some dozens of nodes; of large tries' 300,000 that is worth it where there are many below.
  const size_t many = trie_->nodes().size() / 2048;
  const uint64_t kinds = trie_->KindsBelow(node);
  if ((kinds >> kNoKind & 1) != 0) return false;
  const bool is_many = trie_->nodes()[node].below_end - node >= many;
  return (kinds & ~facts_->Loops(left, is_many, fuel)) == 0;
}

const TokenMasks::Inside* TokenMasks::Remember(std::unique_ptr<Inside>& place, std::unique_ptr<Inside> inside) {
  remembered_bytes_ += inside->tokens.size() * 4 + inside->ends.size() * 8;
  place = std::move(inside);
  return place.get();
}

// Free text that may end anywhere is walked with what may come behind it.
bool TokenMasks::IsInsideScript(const Configuration& from) const {
  if (from.phase == Phase::kText) return true;
  if (from.phase != Phase::kFree) return false;
  const NodeId next = machine_->plan().script.node(from.target).next;
  return next == kNoNode || (next == kReturnNode && from.frame == kNoFrame);
}

const TokenMasks::Inside* TokenMasks::InsideOfText(const Configuration& from, Fuel& fuel) {
  const RegexId lexeme = Widened(from.lexeme, /*is_key=*/false, fuel);
  std::unique_ptr<Inside>& known = insides_[{lexeme, kTexts}];
  if (known != nullptr) return known.get();
  auto inside = std::make_unique<Inside>();
  inside->tokens.assign(trie_->words(), 0);
  const std::span<const TokenTrie::Node> nodes = trie_->nodes();
  LazyDfa& dfa = machine_->dfa();
  lexemes_[0] = lexeme;
  int64_t looked_at = 0;
  for (size_t i = 0; i < nodes.size(); ++looked_at) {
    const TokenTrie::Node& node = nodes[i];
    const RegexId before = lexemes_[node.depth];
    // A loop over plain text before something that is not empty ends nowhere below.
    const RegexNode loop = dfa.arena().node(before);
    const bool is_plain = node.plain_below && loop.kind == RegexKind::kConcat && !dfa.arena().nullable(loop.b) &&
                          facts_->PlainCharacters(before, fuel) >= node.bytes_below;
    if (is_plain || (!loop.nullable && IsLoop(before, i, fuel))) {
      AddTokens(trie_->TokensBelow(i), inside->tokens);
      i = node.below_end;
      continue;
    }
    const RegexId left = dfa.Step(before, node.byte, fuel);
    if (left != kNothing) {
      AddTokens(trie_->tokens().subspan(node.tokens_begin, node.tokens_end - node.tokens_begin), inside->tokens);
      if (dfa.arena().nullable(left) && node.below_end > i + 1) inside->ends.emplace_back(static_cast<uint32_t>(i), 0);
    }
    if (left == kNothing || left == kEmptyText) {
      i = node.below_end;
      continue;
    }
    lexemes_[node.depth + 1u] = left;
    ++i;
  }
  return fuel.Spend(looked_at / kNodesOfUnit) ? Remember(known, std::move(inside)) : nullptr;
}

const TokenMasks::Inside* TokenMasks::InsideOfFree(const Configuration& from, Fuel& fuel) {
  std::unique_ptr<Inside>& known = insides_[{from.lexeme, from.target}];
  if (known != nullptr) return known.get();
  auto inside = std::make_unique<Inside>();
  inside->tokens.assign(trie_->words(), 0);
  const std::span<const TokenTrie::Node> nodes = trie_->nodes();
  const ScriptNode& own = machine_->plan().script.node(from.target);
  const TriggerTable& triggers = machine_->plan().script.triggers(own);
  lexemes_[0] = from.lexeme;
  if (!fuel.Spend(static_cast<int64_t>(nodes.size()) / kNodesOfUnit)) return nullptr;
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const int32_t state = triggers.Step(lexemes_[node.depth], node.byte);
    if (!JsonMachine::MayBeFree(triggers, state, node.byte)) {
      i = node.below_end;
      continue;
    }
    const std::span<const int32_t> fired = triggers.Fired(state);
    if (!fired.empty() && !fuel.Spend(static_cast<int64_t>(fired.size()))) return nullptr;
    const auto way = [&](int32_t trigger) { return own.ways[static_cast<size_t>(trigger)]; };
    const bool forbidden = std::ranges::find(fired, kNoNode, way) != fired.end();
    if (!forbidden) {
      AddTokens(trie_->tokens().subspan(node.tokens_begin, node.tokens_end - node.tokens_begin), inside->tokens);
      if (node.below_end > i + 1) {
        for (const int32_t trigger : fired) inside->ends.emplace_back(static_cast<uint32_t>(i), trigger);
      }
    }
    if (!fired.empty()) {
      i = node.below_end;
      continue;
    }
    lexemes_[node.depth + 1u] = state;
    ++i;
  }
  return Remember(known, std::move(inside));
}

bool TokenMasks::AddBehind(const Inside& inside, int32_t which, const Configurations& behind, Fuel& fuel,
                           std::span<uint32_t> out) {
  const std::span<const TokenTrie::Node> nodes = trie_->nodes();
  if (!fuel.Spend(static_cast<int64_t>(256 * behind.size() + inside.ends.size() / 16))) return false;
  ByteSet first;  // what may come next: most nodes are left out by it
  Configurations next;
  for (int byte = 0; byte < 256; ++byte) {
    machine_->Step(behind, static_cast<uint8_t>(byte), fuel, next);
    if (!next.empty()) first.Add(static_cast<uint8_t>(byte));
  }
  for (const auto& [end, own] : inside.ends) {
    if (own != which) continue;
    for (size_t i = end + 1; i < nodes[end].below_end; i = nodes[i].below_end) {
      if (!first.Has(nodes[i].byte)) continue;
      if (!WalkNodes(i, nodes[i].below_end, nodes[i].depth, behind, fuel, out)) return false;
    }
  }
  return !fuel.empty();
}

bool TokenMasks::AddScript(const Configuration& from, Fuel& fuel, std::span<uint32_t> out) {
  const bool is_text = from.phase == Phase::kText;
  const Inside* inside = is_text ? InsideOfText(from, fuel) : InsideOfFree(from, fuel);
  if (inside == nullptr) return false;
  for (size_t i = 0; i < out.size(); ++i) out[i] |= inside->tokens[i];
  if (inside->ends.empty()) return true;
  if (is_text) return AddBehind(*inside, 0, machine_->BehindText(from, fuel), fuel, out);
  std::vector<int32_t> fired;
  for (const auto& [end, trigger] : inside->ends) fired.push_back(trigger);
  std::ranges::sort(fired);
  fired.erase(std::unique(fired.begin(), fired.end()), fired.end());
  return std::ranges::all_of(fired, [&](int32_t trigger) {
    return AddBehind(*inside, trigger, machine_->BehindTrigger(from, trigger, fuel), fuel, out);
  });
}

void TokenMasks::TextTo(size_t node, std::vector<uint8_t>& bytes) const {
  const std::span<const TokenTrie::Node> nodes = trie_->nodes();
  bytes.clear();
  for (uint32_t at = nodes[node].parent; at != TokenTrie::kNoParent; at = nodes[at].parent)
    bytes.push_back(nodes[at].byte);
  std::ranges::reverse(bytes);
}

bool TokenMasks::AddConfiguration(const Configuration& from, Fuel& fuel, std::span<uint32_t> out) {
  const std::span<const TokenTrie::Node> nodes = trie_->nodes();
  const Inside* inside = InsideOf(from, fuel);
  if (inside == nullptr) return false;
  for (size_t i = 0; i < out.size(); ++i) out[i] |= inside->tokens[i];
  for (const auto& [end, before] : inside->ends) {
    Configuration there = from;
    there.lexeme = before;
    if (from.phase == Phase::kExtraKey) {
      TextTo(end, way_);
      for (const uint8_t byte : way_) there.key_hash = JsonMachine::KeyHash(there.key_hash, byte);
    }
    if (!WalkNodes(end, nodes[end].below_end, nodes[end].depth, {&there, 1}, fuel, out)) return false;
  }
  return true;
}

// Moves to the machine of a state; what is remembered of another one, or too much, is forgotten.
bool TokenMasks::Follow(GrammarState& state, Fuel& fuel) {
  if (!grammar_->Renew(state, fuel)) return false;
  if (machine_ == state.machine_ && remembered_bytes_ <= kRememberedBytesMax) return true;
  machine_ = state.machine_;
  masks_.clear();
  needs_.clear();
  insides_.clear();
  facts_.emplace(machine_->dfa());
  remembered_bytes_ = 0;
  return true;
}

Grammar::Verdict TokenMasks::Mask(GrammarState& state, std::span<uint32_t> out, Fuel& fuel) {
  if (!Follow(state, fuel)) return Grammar::Verdict::kLimit;
  if (const auto known = masks_.find(state.configurations_); known != masks_.end()) {
    std::ranges::copy(known->second, out.begin());
    return Grammar::Verdict::kAllowed;
  }
  if (fuel.empty()) return Grammar::Verdict::kLimit;
  std::ranges::fill(out, 0u);
  const int64_t most = std::min(fuel.left, kMaskFuel);
  Fuel own{most};
  const JsonMachine::Mark mark = machine_->Here();
  bool is_known = true;
  // Those inside of scalars and keys one by one; the others together.
  Configurations others;
  for (const Configuration& each : state.configurations_) {
    if (IsInsideScript(each)) {
      is_known = is_known && AddScript(each, own, out);
    } else if (each.phase == Phase::kScalar || each.phase == Phase::kExtraKey) {
      is_known = is_known && AddConfiguration(each, own, out);
    } else {
      others.push_back(each);
    }
  }
  is_known = is_known && (others.empty() || WalkNodes(0, trie_->nodes().size(), 0, others, own, out));
  fuel.Spend(most - own.left);
  // What stands behind tokens that are not taken would fill the memory.
  machine_->BackTo(mark);
  if (!is_known) return Grammar::Verdict::kLimit;
  masks_.try_emplace(state.configurations_, Words(out.begin(), out.end()));
  remembered_bytes_ += out.size() * 4 + state.configurations_.size() * sizeof(Configuration);
  return Grammar::Verdict::kAllowed;
}

Grammar::Verdict TokenMasks::PlainMask(GrammarState& state, std::span<uint32_t> out) {
  Fuel fuel;
  if (!Follow(state, fuel)) return Grammar::Verdict::kLimit;
  std::ranges::fill(out, 0u);
  const bool is_known = WalkNodes(0, trie_->nodes().size(), 0, state.configurations_, fuel, out);
  return is_known ? Grammar::Verdict::kAllowed : Grammar::Verdict::kLimit;
}

// Whether plain text below a node leaves no more to be said than there was before it: it only counts down what a loop still asks for.
// Of a union that is not so, as its shortest text may be one that the plain text is not; nor where some texts are excluded.
// What is true of each way to read it is true of all together.
bool TokenMasks::PlainBringsNearer(const Configurations& from, const TokenTrie::Node& node, Fuel& fuel) {
  return node.plain_below && std::ranges::all_of(from, [&](const Configuration& each) {
           if (each.phase != Phase::kScalar && each.phase != Phase::kExtraKey) return false;
           RegexNode loop = machine_->dfa().arena().node(each.lexeme);
           if (loop.kind == RegexKind::kConcat) loop = machine_->dfa().arena().node(loop.a);
           return loop.kind == RegexKind::kRepeat && facts_->PlainCharacters(each.lexeme, fuel) >= node.bytes_below;
         });
}

// What all ways to read it are inside of, a scalar or a key of nobody's name, if that is one and the same: they differ in what is around it,
// and its end alone tells them apart. Where the way to the end is known an object has no such key before.
RegexId TokenMasks::SharedLexeme(const Configurations& from) {
  const auto is_in = [&](const Configuration& each) {
    return (each.phase == Phase::kScalar || each.phase == Phase::kExtraKey) && each.phase == from[0].phase &&
           each.lexeme == from[0].lexeme && each.key_hash == from[0].key_hash;
  };
  return !from.empty() && std::ranges::all_of(from, is_in) ? from[0].lexeme : kNothing;
}

// One step inside of it for all together, and by how many bytes the end is further then. kUnknown: that is not where it leads.
int64_t TokenMasks::StepShared(const Configurations& from, RegexId shared, uint8_t byte, Fuel& fuel,
                               Configurations& to) {
  if (shared == kNothing) return kUnknown;
  // To copy what is around it takes a tenth of what a step of each takes.
  if (!fuel.Spend(1 + static_cast<int64_t>(from.size()) / 8)) return kUnknown;
  const RegexId left = machine_->dfa().Step(shared, byte, fuel);
  if (left == kNothing || left == kEmptyText) return kUnknown;
  to = from;
  for (Configuration& each : to) {
    each.lexeme = left;
    if (each.phase == Phase::kExtraKey) each.key_hash = JsonMachine::KeyHash(each.key_hash, byte);
  }
  return machine_->BytesInside(left, fuel) - machine_->BytesInside(shared, fuel);
}

template <typename OnToken>
bool TokenMasks::WalkNeeds(const Configurations& from, int64_t here, int64_t most, bool prune, Fuel& fuel,
                           const OnToken& on_token, int64_t& longest) {
  const std::span<const TokenTrie::Node> nodes = trie_->nodes();
  std::vector<int64_t> needs(trie_->depth_max() + 1);
  stack_[0] = from;
  needs[0] = here;
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const Configurations& before = stack_[node.depth];
    Configurations& next = stack_[node.depth + 1u];
    const int64_t need_before = needs[node.depth];
    const RegexId shared = SharedLexeme(before);
    if (need_before + kCharacterRest <= most &&
        (PlainBringsNearer(before, node, fuel) || (shared != kNothing && IsLoop(shared, i, fuel)))) {
      longest = std::max(longest, node.depth + node.bytes_below + need_before + kCharacterRest);
      i = node.below_end;
      continue;
    }
    const int64_t in_scalar = need_before < kUnknown ? StepShared(before, shared, node.byte, fuel, next) : kUnknown;
    if (in_scalar == kUnknown) {
      if (!fuel.Spend(static_cast<int64_t>(before.size()))) return false;
      machine_->Step(before, node.byte, fuel, next);
    }
    if (next.size() > kConfigurationsMax) return false;
    if (next.empty()) {
      i = node.below_end;
      continue;
    }
    const int64_t need = next == before          ? need_before
                         : in_scalar != kUnknown ? need_before + in_scalar
                                                 : machine_->BytesToEnd(next, fuel).value_or(kUnknown);
    needs[node.depth + 1u] = need;
    longest = std::max(longest, node.depth + 1 + need);
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
  return !fuel.empty();
}

std::pair<Configurations, int64_t> TokenMasks::WithoutCounts(const Configurations& from, Fuel& fuel) {
  std::pair<Configurations, int64_t> plain = {from, kUnknown};
  for (Configuration& each : plain.first) {
    const auto counted = each.phase == Phase::kScalar ? facts_->Count(each.lexeme) : std::nullopt;
    if (!counted.has_value()) continue;
    const RegexNode count = machine_->dfa().arena().node(counted->count);
    if (count.kind != RegexKind::kRepeat || count.b > 0) continue;
    // What is measured is what must come.
    each.lexeme = facts_->Longer(counted->rest, static_cast<int32_t>(trie_->depth_max()), fuel);
    plain.second = std::min<int64_t>(plain.second, count.c);
  }
  std::ranges::sort(plain.first);
  plain.first.erase(std::unique(plain.first.begin(), plain.first.end()), plain.first.end());
  return plain;
}

const TokenMasks::Needs* TokenMasks::NeedsOf(const Configurations& from, Fuel& fuel) {
  if (const auto known = needs_.find(from); known != needs_.end()) return &known->second;
  Needs needs;
  needs.here = machine_->BytesToEnd(from, fuel).value_or(kUnknown);
  const int64_t most = std::min(needs.here, kUnknown) + kCharacterRest;
  const auto note = [&](int32_t token, int64_t need) { needs.above.emplace_back(need, token); };
  if (!WalkNeeds(from, needs.here, most, /*prune=*/false, fuel, note, needs.longest)) return nullptr;
  std::ranges::sort(needs.above, std::greater<>());
  remembered_bytes_ += needs.above.size() * sizeof(needs.above[0]) + from.size() * sizeof(Configuration);
  return &needs_.try_emplace(from, std::move(needs)).first->second;
}

Grammar::Verdict TokenMasks::MaskWithin(GrammarState& state, int64_t bytes, std::span<uint32_t> out, Fuel& fuel) {
  if (const Grammar::Verdict verdict = Mask(state, out, fuel); verdict != Grammar::Verdict::kAllowed) return verdict;
  const int64_t fuel_most = std::min(fuel.left, kMaskFuel);
  Fuel own{fuel_most};
  const auto forbid = [&](int32_t token) { ForbidToken(out, token); };
  const JsonMachine::Mark mark = machine_->Here();
  auto [from, room] = WithoutCounts(state.configurations_, own);
  const Needs* needs = NeedsOf(from, own);
  if (needs != nullptr && needs->longest > room) {
    from = state.configurations_;
    needs = NeedsOf(from, own);
  }
  bool is_known = needs != nullptr;
  if (is_known && bytes >= needs->here + kCharacterRest) {
    for (const auto& [need, token] : needs->above) {
      if (need <= bytes) break;
      forbid(token);
    }
  } else if (is_known) {
    int64_t longest = 0;
    is_known = WalkNeeds(
        from, needs->here, bytes, /*prune=*/true, own, [&](int32_t token, int64_t) { forbid(token); }, longest);
  }
  fuel.Spend(fuel_most - own.left);
  machine_->BackTo(mark);
  return is_known ? Grammar::Verdict::kAllowed : Grammar::Verdict::kLimit;
}

}  // namespace hydrant::grammar
