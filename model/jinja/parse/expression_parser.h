// ExpressionParser reads the expressions of a template, with Jinja's precedences.
//
// Thread: any.
#ifndef HYDRANT_MODEL_JINJA_PARSE_EXPRESSION_PARSER_H_
#define HYDRANT_MODEL_JINJA_PARSE_EXPRESSION_PARSER_H_

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/jinja/core/ast.h"
#include "model/jinja/parse/token_stream.h"

namespace hydrant::jinja {

// Brackets inside brackets, blocks inscore blocks. Real templates stay below 16.
inline constexpr int kSyntaxNestingMax = 64;
// Operators applied to each other in a row, as in `a + b + …`: real templates stay below 64, and the tree is walked by
// recursion.
inline constexpr int kTreeDepthMax = 256;

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  ExpressionPtr Parse() { return Conditional(); }
  // `a, b` is a tuple, `a` is not. `end_name` ends it where a comma stands before; without `conditional` an `if` does too.
  ExpressionPtr Tuple(bool conditional = true, std::string_view end_name = "");
  // Filters without a subject, as of `{% filter upper|trim %}`; null where there is none.
  ExpressionPtr Filters(ExpressionPtr subject, bool starts_inline);
  Target AssignmentTarget(bool with_tuple, bool with_attribute, std::string_view end_name = "");

  // Which of the names that only macros know were read since the last call.
  struct MacroNames {
    bool caller = false, varargs = false, kwargs = false;
  };
  MacroNames TakeMacroNames() { return std::exchange(macro_names_, {}); }
  void AddMacroNames(const MacroNames& names);

  // All names that expressions read, those of the template's own among them.
  std::set<std::string, std::less<>> TakeNames() { return std::move(names_); }

  // One level of syntax, for as long as it lives.
  class Level {
   public:
    explicit Level(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.nesting_ > kSyntaxNestingMax) parser_.tokens_.Error("it nests too deep");
    }
    ~Level() { --parser_.nesting_; }

   private:
    ExpressionParser& parser_;
  };

 private:
  ExpressionPtr Conditional();
  ExpressionPtr Or();
  ExpressionPtr And();
  ExpressionPtr Not();
  ExpressionPtr Compare();
  ExpressionPtr Sum();
  ExpressionPtr Concat();
  ExpressionPtr Product();
  ExpressionPtr Power();
  ExpressionPtr Unary();
  ExpressionPtr Primary();
  ExpressionPtr Name();
  ExpressionPtr List();
  ExpressionPtr Dict();
  ExpressionPtr Postfix(ExpressionPtr node);
  ExpressionPtr Subscript(ExpressionPtr object);
  ExpressionPtr SubscriptKey();
  ExpressionPtr FiltersAndTests(ExpressionPtr node);
  ExpressionPtr Test(ExpressionPtr subject);
  CallArguments Arguments();
  bool AtTupleEnd(std::string_view end_name) const;

  // A node above `children`.
  template <typename Node>
  ExpressionPtr Make(int line, Node node, std::initializer_list<const Expression*> children = {}, int depth = 0);

  TokenStream& tokens_;
  int nesting_ = 0;
  MacroNames macro_names_;
  std::set<std::string, std::less<>> names_;
};

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_PARSE_EXPRESSION_PARSER_H_
