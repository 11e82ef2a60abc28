#include "model/jinja/parse/parser.h"

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "model/jinja/parse/expression_parser.h"
#include "model/jinja/parse/lexer.h"
#include "model/jinja/parse/token_stream.h"

namespace hydrant::jinja {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(Tokenize(source)), expressions_(tokens_) {}

  ParsedTemplate Run() {
    Body body = Statements({});
    if (tokens_.current().kind != Token::Kind::kEnd) tokens_.Unexpected("a statement");
    return {std::move(body), expressions_.TakeNames()};
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  template <typename Node>
  std::unique_ptr<const Statement> Make(int line, Node node) {
    auto statement = std::make_unique<Statement>();
    statement->line = line;
    statement->node = std::move(node);
    return statement;
  }

  // Up to a block tag that one of `ends` names, whose begin is taken and whose name is current.
  Body Statements(Names ends) {
    const ExpressionParser::Level level(expressions_);
    Body body;
    for (;;) {
      const Token& token = tokens_.current();
      const int line = token.line;
      if (token.kind == Token::Kind::kData) {
        Text text(token.text, Origin::kTemplate);
        body.push_back(Make(line, DataStatement{Value::Of(MakeObject<StringObject>(std::move(text)))}));
        tokens_.Skip();
      } else if (token.kind == Token::Kind::kPrintBegin) {
        tokens_.Skip();
        body.push_back(Make(line, PrintStatement{expressions_.Tuple()}));
        tokens_.Expect(Token::Kind::kPrintEnd);
      } else if (token.kind == Token::Kind::kBlockBegin) {
        tokens_.Skip();
        const std::string& name = tokens_.current().text;
        if (std::find(ends.begin(), ends.end(), name) != ends.end()) return body;
        body.push_back(Block());
      } else {
        if (ends.size() > 0) tokens_.Error("a block has no end");
        return body;
      }
    }
  }

  // A body, its end tag included.
  Body BodyUpTo(std::string_view end) {
    tokens_.Expect(Token::Kind::kBlockEnd);
    Body body = Statements({end});
    tokens_.ExpectName(end);
    tokens_.Expect(Token::Kind::kBlockEnd);
    return body;
  }

  std::unique_ptr<const Statement> Block() {
    const int line = tokens_.line();
    const std::string name = tokens_.TakeName();
    if (name == "if") return Make(line, If());
    if (name == "for") return Make(line, For());
    if (name == "set") return Make(line, Set());
    if (name == "macro") return Make(line, Macro());
    if (name == "call") return Make(line, Call());
    if (name == "with") return Make(line, With());
    if (name == "filter") {
      ExpressionPtr filter = expressions_.Filters(nullptr, true);
      return Make(line, FilterStatement{std::move(filter), BodyUpTo("endfilter")});
    }
    if (name == "generation") return Make(line, ScopeStatement{BodyUpTo("endgeneration")});
    if (name == "break" || name == "continue") {
      if (loops_ == 0) tokens_.Error("a loop control outside of a loop");
      tokens_.Expect(Token::Kind::kBlockEnd);
      return name == "break" ? Make(line, BreakStatement{}) : Make(line, ContinueStatement{});
    }
    if (name == "import" || name == "from" || name == "include" || name == "extends" || name == "block") {
      tokens_.Error(StrCat("'", name, "' is refused: a chat template stands alone"));
    }
    tokens_.Error(StrCat("unknown tag '", name, "'"));
  }

  IfStatement If() {
    IfStatement result;
    for (bool more = true; more;) {
      ExpressionPtr condition = expressions_.Tuple(false);
      tokens_.Expect(Token::Kind::kBlockEnd);
      result.branches.emplace_back(std::move(condition), Statements({"elif", "else", "endif"}));
      more = tokens_.SkipName("elif");
    }
    if (tokens_.SkipName("else")) {
      result.otherwise = BodyUpTo("endif");
    } else {
      tokens_.ExpectName("endif");
      tokens_.Expect(Token::Kind::kBlockEnd);
    }
    return result;
  }

  ForStatement For() {
    ForStatement result;
    result.target = expressions_.AssignmentTarget(true, false, "in");
    tokens_.ExpectName("in");
    result.sequence = expressions_.Tuple(false, "recursive");
    if (tokens_.SkipName("if")) result.condition = expressions_.Parse();
    result.is_recursive = tokens_.SkipName("recursive");
    tokens_.Expect(Token::Kind::kBlockEnd);
    ++loops_;
    result.body = Statements({"endfor", "else"});
    --loops_;
    if (tokens_.SkipName("else")) {
      result.otherwise = BodyUpTo("endfor");
    } else {
      tokens_.ExpectName("endfor");
      tokens_.Expect(Token::Kind::kBlockEnd);
    }
    return result;
  }

  SetStatement Set() {
    SetStatement result;
    result.target = expressions_.AssignmentTarget(true, true);
    if (tokens_.SkipOperator("=")) {
      result.value = expressions_.Tuple();
      tokens_.Expect(Token::Kind::kBlockEnd);
      return result;
    }
    result.filter = expressions_.Filters(nullptr, false);
    result.body = BodyUpTo("endset");
    return result;
  }

  Signature Callable(std::string_view end) {
    Signature result;
    Parameters(result);
    return FinishCallable(std::move(result), end);
  }

  void Parameters(Signature& result) {
    tokens_.ExpectOperator("(");
    while (!tokens_.SkipOperator(")")) {
      if (!result.parameters.empty()) tokens_.ExpectOperator(",");
      std::string name = tokens_.TakeName();
      ExpressionPtr fallback = tokens_.SkipOperator("=") ? expressions_.Parse() : nullptr;
      if (fallback == nullptr && !result.parameters.empty() && result.parameters.back().second != nullptr) {
        tokens_.Error("a parameter without a default behind one with");
      }
      result.parameters.emplace_back(std::move(name), std::move(fallback));
    }
  }

  Signature FinishCallable(Signature result, std::string_view end) {
    const ExpressionParser::MacroNames outside = expressions_.TakeMacroNames();
    // A loop control in a macro cannot end a loop around it.
    const int loops = std::exchange(loops_, 0);
    result.body = BodyUpTo(end);
    loops_ = loops;
    const ExpressionParser::MacroNames used = expressions_.TakeMacroNames();
    result.uses_caller = used.caller;
    result.uses_varargs = used.varargs;
    result.uses_kwargs = used.kwargs;
    expressions_.AddMacroNames(outside);
    expressions_.AddMacroNames(used);
    return result;
  }

  MacroStatement Macro() {
    MacroStatement result;
    result.name = tokens_.TakeName();
    result.signature = Callable("endmacro");
    return result;
  }

  CallStatement Call() {
    CallStatement result;
    if (tokens_.current().IsOperator("(")) Parameters(result.caller);
    result.call = expressions_.Parse();
    if (!std::holds_alternative<CallExpression>(result.call->node)) tokens_.Error("expected a call");
    result.caller = FinishCallable(std::move(result.caller), "endcall");
    return result;
  }

  WithStatement With() {
    WithStatement result;
    while (tokens_.current().kind != Token::Kind::kBlockEnd) {
      if (!result.values.empty()) tokens_.ExpectOperator(",");
      Target target = expressions_.AssignmentTarget(false, false);
      tokens_.ExpectOperator("=");
      result.values.emplace_back(std::move(target), expressions_.Parse());
    }
    result.body = BodyUpTo("endwith");
    return result;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int loops_ = 0;  // around the current statement
};

}  // namespace

ParsedTemplate ParseTemplate(std::string_view source) { return Parser(source).Run(); }

}  // namespace hydrant::jinja
