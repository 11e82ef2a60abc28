#include "model/grammar/regex/regex_parser.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "model/grammar/regex/char_class.h"
#include "model/grammar/regex/regex_syntax.h"

namespace hydrant::grammar {
namespace {

// What is beside a part: more of the match; the text's own end, as an anchor or the caller says; or any text at all, which the part
// then includes.
enum class Side : uint8_t { kInside, kAtEnd, kFree };
struct Sides {
  Side left = Side::kInside, right = Side::kInside;
};

class Lowering {
 public:
  Lowering(std::vector<SyntaxNode> nodes, RegexArena& arena, TextEncoding encoding)
      : nodes_(std::move(nodes)), arena_(arena), encoding_(encoding), sides_(nodes_.size()) {}

  std::variant<RegexId, RegexRefusal> Run(RegexExtent extent, Fuel& fuel) {
    const Side side = extent == RegexExtent::kSearch ? Side::kFree : Side::kAtEnd;
    any_ = AnyText(arena_, encoding_);
    sides_.back() = {side, side};
    for (size_t i = nodes_.size(); i-- > 0;) {
      if (auto refusal = HandDown(i)) return std::move(*refusal);
    }
    std::vector<RegexId> made(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const SyntaxNode& node = nodes_[i];
      if (!fuel.Spend(static_cast<int64_t>(16 + 4 * node.parts.size() + 64 * node.characters.ranges().size()))) {
        return kNothing;
      }
      made[i] = Make(node, sides_[i], made);
    }
    return made.back();
  }

 private:
  // What is beside the parts of a node; refuses an anchor whose meaning that does not tell.
  std::optional<RegexRefusal> HandDown(size_t index) {
    const SyntaxNode& node = nodes_[index];
    switch (node.kind) {
      case SyntaxKind::kOr:
        for (const size_t part : node.parts) sides_[part] = sides_[index];
        return std::nullopt;
      case SyntaxKind::kConcat:
        return HandDownParts(node, sides_[index]);
      case SyntaxKind::kRepeat:
        if (!node.has_begin && !node.has_end) return std::nullopt;
        if (node.most != 1) return RegexRefusal{node.column, "an anchor inside what is repeated is not supported"};
        sides_[node.parts[0]] = sides_[index];
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }

  std::optional<RegexRefusal> HandDownParts(const SyntaxNode& node, Sides sides) {
    // Behind an anchor of the beginning it is still the beginning; behind what is never empty it is not; else there are two readings.
    Side left = sides.left;
    bool may_be_empty = false;
    for (const size_t part : node.parts) {
      const SyntaxNode& each = nodes_[part];
      if (may_be_empty && each.has_begin) {
        return RegexRefusal{each.column, "'^' behind what may be empty is not supported"};
      }
      sides_[part].left = left;
      if (each.kind == SyntaxKind::kBegin) {
        if (left == Side::kFree) left = Side::kAtEnd;
        continue;
      }
      may_be_empty = each.nullable && (may_be_empty || left != Side::kInside);
      left = Side::kInside;
    }
    Side right = sides.right;
    may_be_empty = false;
    for (size_t i = node.parts.size(); i-- > 0;) {
      const size_t part = node.parts[i];
      const SyntaxNode& each = nodes_[part];
      if (may_be_empty && each.has_end) {
        return RegexRefusal{each.column, "'$' before what may be empty is not supported"};
      }
      sides_[part].right = right;
      if (each.kind == SyntaxKind::kEnd) {
        if (right == Side::kFree) right = Side::kAtEnd;
        continue;
      }
      may_be_empty = each.nullable && (may_be_empty || right != Side::kInside);
      right = Side::kInside;
    }
    return std::nullopt;
  }

  RegexId Make(const SyntaxNode& node, Sides sides, const std::vector<RegexId>& made) {
    std::vector<RegexId> parts;
    for (const size_t part : node.parts) parts.push_back(made[part]);
    RegexId own = kEmptyText;
    switch (node.kind) {
      case SyntaxKind::kOr:
        return arena_.Or(std::move(parts));
      case SyntaxKind::kConcat:
        return arena_.Concat(parts);
      case SyntaxKind::kEmpty:
        break;
      case SyntaxKind::kClass:
        own = EncodedClass(arena_, node.characters, encoding_);
        break;
      case SyntaxKind::kBegin:
        own = sides.left == Side::kInside ? kNothing : kEmptyText;
        sides.left = Side::kAtEnd;
        break;
      case SyntaxKind::kEnd:
        own = sides.right == Side::kInside ? kNothing : kEmptyText;
        sides.right = Side::kAtEnd;
        break;
      case SyntaxKind::kRepeat:
        if (node.has_begin || node.has_end) {  // at most once: absent, or with the same sides
          if (node.least == 1) return parts[0];
          return arena_.Or({Beside(sides, kEmptyText), parts[0]});
        }
        own = arena_.Repeat(parts[0], node.least, node.most);
        break;
    }
    return Beside(sides, own);
  }
  RegexId Beside(Sides sides, RegexId own) {
    if (sides.right == Side::kFree) own = arena_.Concat(own, any_);
    return sides.left == Side::kFree ? arena_.Concat(any_, own) : own;
  }

  std::vector<SyntaxNode> nodes_;
  RegexArena& arena_;
  TextEncoding encoding_;
  std::vector<Sides> sides_;
  RegexId any_ = kEmptyText;
};

}  // namespace

std::variant<RegexId, RegexRefusal> ParseRegex(std::string_view pattern, RegexArena& arena, TextEncoding encoding,
                                               RegexExtent extent, Fuel& fuel) {
  if (!fuel.Spend(static_cast<int64_t>(16 * pattern.size()))) return kNothing;
  auto syntax = ReadRegexSyntax(pattern);
  if (auto* refusal = std::get_if<RegexRefusal>(&syntax)) return std::move(*refusal);
  return Lowering(std::move(std::get<0>(syntax)), arena, encoding).Run(extent, fuel);
}

}  // namespace hydrant::grammar
