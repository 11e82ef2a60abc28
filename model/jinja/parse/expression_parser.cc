#include "model/jinja/parse/expression_parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "model/jinja/core/numbers.h"

namespace hydrant::jinja {
namespace {

constexpr std::array<std::pair<std::string_view, Comparison>, 6> kComparisons = {{{"==", Comparison::kEqual},
                                                                                  {"!=", Comparison::kUnequal},
                                                                                  {"<", Comparison::kLess},
                                                                                  {"<=", Comparison::kLessOrEqual},
                                                                                  {">", Comparison::kGreater},
                                                                                  {">=", Comparison::kGreaterOrEqual}}};

Value ConstantString(std::string bytes) {
  return Value::Of(MakeObject<StringObject>(Text(std::move(bytes), Origin::kTemplate)));
}

int DeepestOf(const std::vector<ExpressionPtr>& nodes) {
  int depth = 0;
  for (const ExpressionPtr& node : nodes) depth = std::max(depth, node->depth);
  return depth;
}

int DeepestOf(const CallArguments& arguments) {
  int depth = DeepestOf(arguments.positional);
  for (const auto& [name, value] : arguments.named) depth = std::max(depth, value->depth);
  if (arguments.more_positional) depth = std::max(depth, arguments.more_positional->depth);
  if (arguments.more_named) depth = std::max(depth, arguments.more_named->depth);
  return depth;
}

}  // namespace

template <typename Node>
ExpressionPtr ExpressionParser::Make(int line, Node node, std::initializer_list<const Expression*> children,
                                     int depth) {
  for (const Expression* child : children) {
    if (child != nullptr) depth = std::max(depth, child->depth);
  }
  if (depth >= kTreeDepthMax) tokens_.Error("an expression is too long");
  auto expression = std::make_unique<Expression>();
  expression->line = line;
  expression->depth = depth + 1;
  expression->node = std::move(node);
  return expression;
}

void ExpressionParser::AddMacroNames(const MacroNames& names) {
  macro_names_.caller |= names.caller;
  macro_names_.varargs |= names.varargs;
  macro_names_.kwargs |= names.kwargs;
}

ExpressionPtr ExpressionParser::Conditional() {
  const Level level(*this);
  ExpressionPtr node = Or();
  while (tokens_.current().IsName("if")) {
    const int line = tokens_.line();
    tokens_.Skip();
    ExpressionPtr condition = Or();
    ExpressionPtr otherwise = tokens_.SkipName("else") ? Conditional() : nullptr;
    const std::initializer_list<const Expression*> children = {node.get(), condition.get(), otherwise.get()};
    node = Make(line, ConditionalExpression{std::move(condition), std::move(node), std::move(otherwise)}, children);
  }
  return node;
}

ExpressionPtr ExpressionParser::Or() {
  ExpressionPtr left = And();
  while (tokens_.SkipName("or")) {
    ExpressionPtr right = And();
    const std::initializer_list<const Expression*> children = {left.get(), right.get()};
    left = Make(tokens_.line(), LogicExpression{false, std::move(left), std::move(right)}, children);
  }
  return left;
}

ExpressionPtr ExpressionParser::And() {
  ExpressionPtr left = Not();
  while (tokens_.SkipName("and")) {
    ExpressionPtr right = Not();
    const std::initializer_list<const Expression*> children = {left.get(), right.get()};
    left = Make(tokens_.line(), LogicExpression{true, std::move(left), std::move(right)}, children);
  }
  return left;
}

ExpressionPtr ExpressionParser::Not() {
  int count = 0;
  while (tokens_.SkipName("not")) {
    if (++count > kTreeDepthMax) tokens_.Error("an expression is too long");
  }
  ExpressionPtr node = Compare();
  for (; count > 0; --count) {
    const Expression* child = node.get();
    node = Make(tokens_.line(), UnaryExpression{UnaryOperator::kNot, std::move(node)}, {child});
  }
  return node;
}

ExpressionPtr ExpressionParser::Compare() {
  const int line = tokens_.line();
  CompareExpression compare{Sum(), {}};
  int depth = compare.first->depth;
  for (;;) {
    const Token& token = tokens_.current();
    std::optional<Comparison> comparison;
    for (const auto& [text, candidate] : kComparisons) {
      if (token.IsOperator(text)) comparison = candidate;
    }
    if (token.IsName("in")) comparison = Comparison::kIn;
    if (token.IsName("not") && tokens_.next().IsName("in")) {
      tokens_.Skip();
      comparison = Comparison::kNotIn;
    }
    if (!comparison) break;
    tokens_.Skip();
    compare.rest.emplace_back(*comparison, Sum());
    depth = std::max(depth, compare.rest.back().second->depth);
  }
  if (compare.rest.empty()) return std::move(compare.first);
  return Make(line, std::move(compare), {}, depth);
}

ExpressionPtr ExpressionParser::Sum() {
  ExpressionPtr left = Concat();
  for (;;) {
    const bool add = tokens_.current().IsOperator("+");
    if (!add && !tokens_.current().IsOperator("-")) return left;
    const int line = tokens_.line();
    tokens_.Skip();
    ExpressionPtr right = Concat();
    const std::initializer_list<const Expression*> children = {left.get(), right.get()};
    const BinaryOperator op = add ? BinaryOperator::kAdd : BinaryOperator::kSubtract;
    left = Make(line, BinaryExpression{op, std::move(left), std::move(right)}, children);
  }
}

ExpressionPtr ExpressionParser::Concat() {
  const int line = tokens_.line();
  ConcatExpression concat;
  concat.parts.push_back(Product());
  while (tokens_.SkipOperator("~")) concat.parts.push_back(Product());
  if (concat.parts.size() == 1) return std::move(concat.parts.front());
  const int depth = DeepestOf(concat.parts);
  return Make(line, std::move(concat), {}, depth);
}

ExpressionPtr ExpressionParser::Product() {
  static constexpr std::array<std::pair<std::string_view, BinaryOperator>, 4> kProducts = {
      {{"*", BinaryOperator::kMultiply},
       {"/", BinaryOperator::kDivide},
       {"//", BinaryOperator::kFloorDivide},
       {"%", BinaryOperator::kModulo}}};
  ExpressionPtr left = Power();
  for (;;) {
    const auto found = std::find_if(kProducts.begin(), kProducts.end(),
                                    [&](const auto& entry) { return tokens_.current().IsOperator(entry.first); });
    if (found == kProducts.end()) return left;
    const int line = tokens_.line();
    tokens_.Skip();
    ExpressionPtr right = Power();
    const std::initializer_list<const Expression*> children = {left.get(), right.get()};
    left = Make(line, BinaryExpression{found->second, std::move(left), std::move(right)}, children);
  }
}

ExpressionPtr ExpressionParser::Power() {
  ExpressionPtr left = Unary();
  while (tokens_.current().IsOperator("**")) {
    const int line = tokens_.line();
    tokens_.Skip();
    ExpressionPtr right = Unary();
    const std::initializer_list<const Expression*> children = {left.get(), right.get()};
    left = Make(line, BinaryExpression{BinaryOperator::kPower, std::move(left), std::move(right)}, children);
  }
  return left;
}

// A sign binds looser than attributes, calls and subscripts, and closer than filters: -x|abs is (-x)|abs.
ExpressionPtr ExpressionParser::Unary() {
  std::vector<UnaryOperator> signs;
  for (;; tokens_.Skip()) {
    if (tokens_.current().IsOperator("-")) {
      signs.push_back(UnaryOperator::kNegate);
    } else if (tokens_.current().IsOperator("+")) {
      signs.push_back(UnaryOperator::kPlus);
    } else {
      break;
    }
    if (signs.size() > kTreeDepthMax) tokens_.Error("an expression is too long");
  }
  ExpressionPtr node = Postfix(Primary());
  for (; !signs.empty(); signs.pop_back()) {
    const Expression* child = node.get();
    node = Make(tokens_.line(), UnaryExpression{signs.back(), std::move(node)}, {child});
  }
  return FiltersAndTests(std::move(node));
}

ExpressionPtr ExpressionParser::Name() {
  const int line = tokens_.line();
  std::string name = tokens_.TakeName();
  if (name == "true" || name == "True") return Make(line, ConstantExpression{Value::Bool(true)});
  if (name == "false" || name == "False") return Make(line, ConstantExpression{Value::Bool(false)});
  if (name == "none" || name == "None") return Make(line, ConstantExpression{Value::None()});
  macro_names_.caller |= name == "caller";
  macro_names_.varargs |= name == "varargs";
  macro_names_.kwargs |= name == "kwargs";
  names_.insert(name);
  return Make(line, NameExpression{std::move(name)});
}

ExpressionPtr ExpressionParser::Primary() {
  const Token& token = tokens_.current();
  const int line = token.line;
  switch (token.kind) {
    case Token::Kind::kName:
      return Name();
    case Token::Kind::kString: {
      std::string text;
      for (; tokens_.current().kind == Token::Kind::kString; tokens_.Skip()) text += tokens_.current().text;
      return Make(line, ConstantExpression{ConstantString(std::move(text))});
    }
    case Token::Kind::kInt:
    case Token::Kind::kFloat: {
      const std::optional<Value> number =
          token.kind == Token::Kind::kInt ? ParseInt(token.text, 0) : ParseFloat(token.text);
      if (!number) tokens_.Error("a number that is too large");
      tokens_.Skip();
      return Make(line, ConstantExpression{*number});
    }
    default:
      break;
  }
  if (tokens_.SkipOperator("(")) {
    const Level level(*this);
    if (tokens_.SkipOperator(")")) return Make(line, SequenceExpression{Sequence::Kind::kTuple, {}});
    ExpressionPtr node = Tuple();
    tokens_.ExpectOperator(")");
    return node;
  }
  if (tokens_.SkipOperator("[")) return List();
  if (tokens_.SkipOperator("{")) return Dict();
  tokens_.Unexpected("an expression");
}

bool ExpressionParser::AtTupleEnd(std::string_view end_name) const {
  const Token& token = tokens_.current();
  return token.kind == Token::Kind::kBlockEnd || token.kind == Token::Kind::kPrintEnd || token.IsOperator(")") ||
         (!end_name.empty() && token.IsName(end_name));
}

ExpressionPtr ExpressionParser::Tuple(bool conditional, std::string_view end_name) {
  const int line = tokens_.line();
  SequenceExpression tuple{Sequence::Kind::kTuple, {}};
  bool is_tuple = false;
  do {
    if (is_tuple && AtTupleEnd(end_name)) break;
    tuple.items.push_back(conditional ? Conditional() : Or());
    is_tuple |= tokens_.current().IsOperator(",");
  } while (tokens_.SkipOperator(","));
  if (!is_tuple) return std::move(tuple.items.front());
  const int depth = DeepestOf(tuple.items);
  return Make(line, std::move(tuple), {}, depth);
}

ExpressionPtr ExpressionParser::List() {
  const int line = tokens_.line();
  SequenceExpression list{Sequence::Kind::kList, {}};
  while (!tokens_.SkipOperator("]")) {
    if (!list.items.empty()) {
      tokens_.ExpectOperator(",");
      if (tokens_.SkipOperator("]")) break;
    }
    list.items.push_back(Parse());
  }
  const int depth = DeepestOf(list.items);
  return Make(line, std::move(list), {}, depth);
}

ExpressionPtr ExpressionParser::Dict() {
  const int line = tokens_.line();
  DictExpression dict;
  int depth = 0;
  while (!tokens_.SkipOperator("}")) {
    if (!dict.entries.empty()) {
      tokens_.ExpectOperator(",");
      if (tokens_.SkipOperator("}")) break;
    }
    ExpressionPtr key = Parse();
    tokens_.ExpectOperator(":");
    ExpressionPtr value = Parse();
    depth = std::max({depth, key->depth, value->depth});
    dict.entries.emplace_back(std::move(key), std::move(value));
  }
  return Make(line, std::move(dict), {}, depth);
}

ExpressionPtr ExpressionParser::Postfix(ExpressionPtr node) {
  for (;;) {
    if (tokens_.current().IsOperator(".") || tokens_.current().IsOperator("[")) {
      node = Subscript(std::move(node));
    } else if (tokens_.current().IsOperator("(")) {
      const int line = tokens_.line();
      const Expression* callee = node.get();
      CallArguments arguments = Arguments();
      const int depth = DeepestOf(arguments);
      node = Make(line, CallExpression{std::move(node), std::move(arguments)}, {callee}, depth);
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::Subscript(ExpressionPtr object) {
  const int line = tokens_.line();
  const Expression* below = object.get();
  if (tokens_.SkipOperator(".")) {
    if (tokens_.current().kind != Token::Kind::kInt) {
      return Make(line, AttributeExpression{std::move(object), tokens_.TakeName()}, {below});
    }
    ExpressionPtr key = Primary();
    return Make(line, SubscriptExpression{std::move(object), std::move(key)}, {below});
  }
  tokens_.ExpectOperator("[");
  ExpressionPtr key = SubscriptKey();
  if (tokens_.current().IsOperator(",")) {
    SequenceExpression tuple{Sequence::Kind::kTuple, {}};
    tuple.items.push_back(std::move(key));
    while (tokens_.SkipOperator(",")) tuple.items.push_back(SubscriptKey());
    const int depth = DeepestOf(tuple.items);
    key = Make(line, std::move(tuple), {}, depth);
  }
  tokens_.ExpectOperator("]");
  const Expression* key_below = key.get();
  return Make(line, SubscriptExpression{std::move(object), std::move(key)}, {below, key_below});
}

ExpressionPtr ExpressionParser::SubscriptKey() {
  const int line = tokens_.line();
  SliceExpression slice;
  if (!tokens_.current().IsOperator(":")) {
    ExpressionPtr key = Parse();
    if (!tokens_.current().IsOperator(":")) return key;
    slice.begin = std::move(key);
  }
  const auto at_end = [&] { return tokens_.current().IsOperator("]") || tokens_.current().IsOperator(","); };
  tokens_.ExpectOperator(":");
  if (!at_end() && !tokens_.current().IsOperator(":")) slice.end = Parse();
  if (tokens_.SkipOperator(":") && !at_end()) slice.step = Parse();
  const std::initializer_list<const Expression*> children = {slice.begin.get(), slice.end.get(), slice.step.get()};
  return Make(line, std::move(slice), children);
}

ExpressionPtr ExpressionParser::FiltersAndTests(ExpressionPtr node) {
  for (;;) {
    if (tokens_.current().IsOperator("|")) {
      node = Filters(std::move(node), false);
    } else if (tokens_.current().IsName("is")) {
      node = Test(std::move(node));
    } else if (tokens_.current().IsOperator("(")) {
      node = Postfix(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::Filters(ExpressionPtr subject, bool starts_inline) {
  while (starts_inline || tokens_.SkipOperator("|")) {
    starts_inline = false;
    const int line = tokens_.line();
    std::string name = tokens_.TakeName();
    while (tokens_.SkipOperator(".")) name += "." + tokens_.TakeName();
    const Expression* below = subject.get();
    CallArguments arguments;
    if (tokens_.current().IsOperator("(")) arguments = Arguments();
    const int depth = DeepestOf(arguments);
    subject = Make(line, FilterExpression{std::move(subject), std::move(name), std::move(arguments)}, {below}, depth);
  }
  return subject;
}

ExpressionPtr ExpressionParser::Test(ExpressionPtr subject) {
  const int line = tokens_.line();
  tokens_.ExpectName("is");
  const bool negated = tokens_.SkipName("not");
  std::string name = tokens_.TakeName();
  const Expression* below = subject.get();
  CallArguments arguments;
  const Token& token = tokens_.current();
  const bool is_word = token.kind == Token::Kind::kName;
  const bool is_end = token.IsName("else") || token.IsName("or") || token.IsName("and");
  if (token.IsOperator("(")) {
    arguments = Arguments();
  } else if ((is_word && !is_end) || token.kind == Token::Kind::kString || token.kind == Token::Kind::kInt ||
             token.kind == Token::Kind::kFloat || token.IsOperator("[") || token.IsOperator("{")) {
    if (token.IsName("is")) tokens_.Error("tests cannot be chained");
    const Level level(*this);
    arguments.positional.push_back(Postfix(Primary()));
  }
  const int depth = DeepestOf(arguments);
  ExpressionPtr node =
      Make(line, TestExpression{std::move(subject), std::move(name), std::move(arguments)}, {below}, depth);
  if (!negated) return node;
  const Expression* child = node.get();
  return Make(line, UnaryExpression{UnaryOperator::kNot, std::move(node)}, {child});
}

CallArguments ExpressionParser::Arguments() {
  tokens_.ExpectOperator("(");
  CallArguments arguments;
  const auto require = [&](bool condition) {
    if (!condition) tokens_.Error("arguments in an order that no call has");
  };
  for (bool first = true; !tokens_.SkipOperator(")"); first = false) {
    if (!first) {
      tokens_.ExpectOperator(",");
      if (tokens_.SkipOperator(")")) break;
    }
    if (tokens_.SkipOperator("*")) {
      require(arguments.more_positional == nullptr && arguments.more_named == nullptr);
      arguments.more_positional = Parse();
    } else if (tokens_.SkipOperator("**")) {
      require(arguments.more_named == nullptr);
      arguments.more_named = Parse();
    } else if (tokens_.current().kind == Token::Kind::kName && tokens_.next().IsOperator("=")) {
      require(arguments.more_named == nullptr);
      std::string name = tokens_.TakeName();
      tokens_.Skip();
      arguments.named.emplace_back(std::move(name), Parse());
    } else {
      require(arguments.more_positional == nullptr && arguments.more_named == nullptr && arguments.named.empty());
      arguments.positional.push_back(Parse());
    }
  }
  return arguments;
}

Target ExpressionParser::AssignmentTarget(bool with_tuple, bool with_attribute, std::string_view end_name) {
  const Level level(*this);
  Target tuple;
  do {
    if (tuple.is_tuple && (AtTupleEnd(end_name) || tokens_.current().IsOperator("="))) break;
    Target target;
    if (with_tuple && tokens_.SkipOperator("(")) {
      target = AssignmentTarget(with_tuple, with_attribute);
      tokens_.ExpectOperator(")");
    } else {
      target.name = tokens_.TakeName();
      if (target.name == "true" || target.name == "false" || target.name == "none")
        tokens_.Error("cannot assign to it");
      if (with_attribute && tokens_.SkipOperator(".")) target.attribute = tokens_.TakeName();
    }
    tuple.items.push_back(std::move(target));
    tuple.is_tuple |= with_tuple && tokens_.current().IsOperator(",");
  } while (with_tuple && tokens_.SkipOperator(","));
  if (tuple.is_tuple) return tuple;
  return std::move(tuple.items.front());
}

}  // namespace hydrant::jinja
