#include "model/grammar/gbnf_reader.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/grammar/notation/gbnf_syntax.h"
#include "model/text/str_cat.h"

namespace hydrant::grammar {
namespace {

class GbnfBuilder {
 public:
  GbnfBuilder(std::string_view text, GbnfSyntax syntax, GrammarParts& parts)
      : text_(text), syntax_(std::move(syntax)), parts_(parts) {}

  std::optional<Refusal> Build() {
    FindExpressions();
    if (parts_.fuel.empty()) return std::nullopt;
    const auto named_root = [](const GbnfRule& rule) { return rule.name == "root"; };
    const auto root = static_cast<size_t>(std::ranges::find_if(syntax_.rules, named_root) - syntax_.rules.begin());
    if (std::optional<Refusal> refusal = LeftRecursion()) return refusal;
    std::vector<NodeId> entries;
    for (size_t i = 0; i < syntax_.rules.size(); ++i) entries.push_back(parts_.script.Reserve());
    entries_ = std::move(entries);
    for (size_t i = 0; i < syntax_.rules.size() && !parts_.script.too_large(); ++i) {
      if (i == root || !HasExpression(syntax_.rules[i].root)) {
        parts_.script.Fill(entries_[i], {Node(syntax_.rules[i].root, kReturnNode)});
      }
    }
    if (!parts_.script.too_large()) parts_.script.root = entries_[root];
    return std::nullopt;
  }

 private:
  using Kind = GbnfNode::Kind;
  static constexpr RegexId kUnknown = -1;

  bool HasExpression(size_t node) const { return expressions_[node] != kUnknown; }

  // Finds those of nodes that lead to no rule which calls itself: the parts first, until there are no more.
  void FindExpressions() {
    expressions_.assign(syntax_.nodes.size(), kUnknown);
    // Who waits for a rule, and for how many parts a node waits.
    std::vector<std::vector<size_t>> parents(syntax_.nodes.size()), callers(syntax_.rules.size());
    std::vector<std::vector<size_t>> rules_at(syntax_.nodes.size());
    std::vector<size_t> waits(syntax_.nodes.size()), ready;
    for (size_t i = 0; i < syntax_.nodes.size(); ++i) {
      const GbnfNode& node = syntax_.nodes[i];
      waits[i] = node.kind == Kind::kRule ? 1 : node.parts.size();
      for (const size_t part : node.parts) parents[part].push_back(i);
      if (node.kind == Kind::kRule) callers[static_cast<size_t>(node.rule)].push_back(i);
      if (waits[i] == 0) ready.push_back(i);
    }
    for (size_t i = 0; i < syntax_.rules.size(); ++i) rules_at[syntax_.rules[i].root].push_back(i);
    while (!ready.empty() && parts_.fuel.Spend(8)) {
      const size_t id = ready.back();
      ready.pop_back();
      expressions_[id] = Expression(syntax_.nodes[id]);
      const auto arrive = [&](size_t above) {
        if (--waits[above] == 0) ready.push_back(above);
      };
      for (const size_t above : parents[id]) arrive(above);
      for (const size_t rule : rules_at[id]) {
        for (const size_t caller : callers[rule]) arrive(caller);
      }
    }
  }

  RegexId Expression(const GbnfNode& node) {
    RegexArena& arena = parts_.dfa.arena();
    std::vector<RegexId> parts;
    for (const size_t part : node.parts) parts.push_back(expressions_[part]);
    parts_.fuel.Spend(static_cast<int64_t>(node.text.size() + node.characters.ranges().size() * 4 + parts.size()));
    switch (node.kind) {
      case Kind::kText:
        return arena.Literal(node.text);
      case Kind::kClass:
        return EncodedClass(arena, node.characters, TextEncoding::kUtf8);
      case Kind::kRule:
        return expressions_[syntax_.rules[static_cast<size_t>(node.rule)].root];
      case Kind::kConcat:
        return arena.Concat(parts);
      case Kind::kOr:
        return arena.Or(std::move(parts));
      case Kind::kRepeat:
        return arena.Repeat(parts[0], node.least, node.most);
    }
    return kNothing;
  }

  // --- rules that call themselves

  // By node: whether it may be nothing.
  std::vector<bool> Nullable() {
    std::vector<bool> nullable(syntax_.nodes.size());
    for (bool changed = true; changed && parts_.fuel.Spend(static_cast<int64_t>(nullable.size()));) {
      changed = false;
      for (size_t i = 0; i < nullable.size(); ++i) {
        if (nullable[i] || !IsNullable(i, nullable)) continue;
        nullable[i] = changed = true;
      }
    }
    return nullable;
  }
  bool IsNullable(size_t id, const std::vector<bool>& nullable) const {
    const GbnfNode& node = syntax_.nodes[id];
    if (HasExpression(id)) return parts_.dfa.arena().nullable(expressions_[id]);
    const auto known = [&](size_t part) { return nullable[part]; };
    switch (node.kind) {
      case Kind::kRule:
        return known(syntax_.rules[static_cast<size_t>(node.rule)].root);
      case Kind::kConcat:
        return std::ranges::all_of(node.parts, known);
      case Kind::kOr:
        return std::ranges::any_of(node.parts, known);
      case Kind::kRepeat:
        return node.least == 0 || known(node.parts[0]);
      default:
        return false;
    }
  }

  // The calls with which a rule may begin.
  std::vector<size_t> FirstCalls(size_t root, const std::vector<bool>& nullable) {
    std::vector<size_t> calls, todo = {root};
    while (!todo.empty() && parts_.fuel.Spend(1)) {
      const size_t id = todo.back();
      todo.pop_back();
      if (HasExpression(id)) continue;
      const GbnfNode& node = syntax_.nodes[id];
      if (node.kind == Kind::kRule) calls.push_back(id);
      for (const size_t part : node.parts) {
        todo.push_back(part);
        if (node.kind == Kind::kConcat && !nullable[part]) break;
      }
    }
    return calls;
  }

  std::optional<Refusal> LeftRecursion() {
    const std::vector<bool> nullable = Nullable();
    enum class Visit : uint8_t { kNew, kOpen, kDone };
    std::vector<Visit> visits(syntax_.rules.size());
    struct Place {
      size_t rule;
      std::vector<size_t> calls;
      size_t next;
    };
    for (size_t first = 0; first < syntax_.rules.size(); ++first) {
      if (visits[first] != Visit::kNew) continue;
      std::vector<Place> way;
      const auto open = [&](size_t rule) {
        visits[rule] = Visit::kOpen;
        way.push_back({rule, FirstCalls(syntax_.rules[rule].root, nullable), 0});
      };
      open(first);
      while (!way.empty()) {
        Place& last = way.back();
        if (last.next == last.calls.size()) {
          visits[last.rule] = Visit::kDone;
          way.pop_back();
          continue;
        }
        const GbnfNode& call = syntax_.nodes[last.calls[last.next++]];
        const auto rule = static_cast<size_t>(call.rule);
        if (visits[rule] == Visit::kOpen) {
          return Refusal{
              RefusalKind::kInvalidGrammar, "", "",
              AtPlace(text_, call.place, StrCat("the rule '", syntax_.rules[rule].name, "' begins with itself"))};
        }
        if (visits[rule] == Visit::kNew) open(rule);
      }
    }
    return std::nullopt;
  }

  // Recursion is bounded by groups inside groups and the repetitions behind them.
  NodeId Node(size_t id, NodeId next) {
    const GbnfNode& node = syntax_.nodes[id];
    Script& script = parts_.script;
    if (!MayGoOn(1)) return kReturnNode;
    if (HasExpression(id)) return script.Text(expressions_[id], next);
    switch (node.kind) {
      case Kind::kRule:
        return script.Call(entries_[static_cast<size_t>(node.rule)], next);
      case Kind::kConcat:
        return Sequence(node.parts, next);
      case Kind::kOr: {
        std::vector<NodeId> ways;
        std::vector<RegexId> plain;
        for (const size_t part : node.parts) {
          if (!MayGoOn(1)) break;
          if (HasExpression(part)) {
            plain.push_back(expressions_[part]);
          } else {
            ways.push_back(Node(part, next));
          }
        }
        if (!plain.empty()) ways.push_back(script.Text(parts_.dfa.arena().Or(std::move(plain)), next));
        return script.Fork(std::move(ways));
      }
      case Kind::kRepeat:
        return Repeat(node, next);
      default:
        return next;
    }
  }

  // Whether so much work may be done; if not, what is made is not used. Not all work makes nodes.
  bool MayGoOn(size_t units) { return !parts_.script.too_large() && parts_.fuel.Spend(static_cast<int64_t>(units)); }

  // Expressions that follow each other are one.
  NodeId Sequence(const std::vector<size_t>& parts, NodeId next) {
    for (size_t i = parts.size(); i > 0 && MayGoOn(1);) {
      size_t begin = i;
      while (begin > 0 && HasExpression(parts[begin - 1])) --begin;
      if (begin < i) {
        if (!MayGoOn(i - begin)) return next;
        std::vector<RegexId> plain;
        for (size_t at = begin; at < i; ++at) plain.push_back(expressions_[parts[at]]);
        next = parts_.script.Text(parts_.dfa.arena().Concat(plain), next);
        i = begin;
      } else {
        next = Node(parts[--i], next);
      }
    }
    return next;
  }

  NodeId Repeat(const GbnfNode& node, NodeId next) {
    Script& script = parts_.script;
    const size_t part = node.parts[0];
    if (node.most == 0) return next;
    if (node.most == kUnbounded) {
      const NodeId loop = script.Reserve();
      script.Fill(loop, {next, Node(part, loop)});
      next = loop;
    } else {
      const NodeId behind = next;
      for (int32_t i = node.least; i < node.most && MayGoOn(1); ++i) {
        const NodeId one = Node(part, next);
        if (one == next) break;  // the part is nothing, and so are any number of it
        next = script.Fork({behind, one});
      }
    }
    for (int32_t i = 0; i < node.least && MayGoOn(1); ++i) {
      const NodeId one = Node(part, next);
      if (one == next) break;
      next = one;
    }
    return next;
  }

  std::string_view text_;
  GbnfSyntax syntax_;
  GrammarParts& parts_;
  std::vector<RegexId> expressions_;  // by node
  std::vector<NodeId> entries_;       // by rule
};

}  // namespace

std::optional<Refusal> BuildGbnf(std::string_view text, GrammarParts& parts) {
  if (text.size() > kGbnfBytesMax) {
    return Refusal{RefusalKind::kTooLarge, "", "", StrCat("more than ", kGbnfBytesMax, " bytes")};
  }
  parts.fuel.Spend(static_cast<int64_t>(text.size()));
  auto syntax = ReadGbnfSyntax(text);
  if (auto* error = std::get_if<std::string>(&syntax)) {
    return Refusal{RefusalKind::kInvalidGrammar, "", "", std::move(*error)};
  }
  return GbnfBuilder(text, std::move(std::get<GbnfSyntax>(syntax)), parts).Build();
}

}  // namespace hydrant::grammar
