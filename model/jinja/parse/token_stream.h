// TokenStream hands the tokens of a template to its parsers.
//
// Thread: any.
#ifndef HYDRANT_MODEL_JINJA_PARSE_TOKEN_STREAM_H_
#define HYDRANT_MODEL_JINJA_PARSE_TOKEN_STREAM_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/jinja/core/fault.h"
#include "model/jinja/parse/lexer.h"
#include "model/text/str_cat.h"

namespace hydrant::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  int line() const { return current().line; }
  void Skip() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  bool SkipName(std::string_view name) {
    if (!current().IsName(name)) return false;
    Skip();
    return true;
  }
  bool SkipOperator(std::string_view name) {
    if (!current().IsOperator(name)) return false;
    Skip();
    return true;
  }
  void ExpectName(std::string_view name) {
    if (!SkipName(name)) Unexpected(name);
  }
  void ExpectOperator(std::string_view name) {
    if (!SkipOperator(name)) Unexpected(name);
  }
  void Expect(Token::Kind kind) {
    if (current().kind != kind) Unexpected("the end of the tag");
    Skip();
  }
  std::string TakeName() {
    if (current().kind != Token::Kind::kName) Unexpected("a name");
    std::string name = current().text;
    Skip();
    return name;
  }

  [[noreturn]] void Error(std::string_view what) const {
    throw Fault{FaultKind::kSyntax, StrCat(what, " (line ", line(), ")")};
  }
  [[noreturn]] void Unexpected(std::string_view wanted) const {
    Error(StrCat("expected ", wanted, ", not ",
                 current().text.empty() ? "the end of the tag" : StrCat("'", current().text, "'")));
  }

 private:
  const std::vector<Token> tokens_;  // ends with kEnd
  size_t at_ = 0;
};

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_PARSE_TOKEN_STREAM_H_
