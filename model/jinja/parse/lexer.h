// Lexer cuts a template into data and tokens, with the white-space rules of Jinja under trim_blocks and lstrip_blocks: the
// newline after a block tag and the blanks before one on its own line are dropped, `-` strips more, `+` nothing.
//
// Thread: any.
#ifndef HYDRANT_MODEL_JINJA_PARSE_LEXER_H_
#define HYDRANT_MODEL_JINJA_PARSE_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hydrant::jinja {

struct Token {
  enum class Kind : uint8_t {
    kData,
    kBlockBegin,
    kBlockEnd,
    kPrintBegin,
    kPrintEnd,
    kName,
    kString,
    kInt,
    kFloat,
    kOperator,
    kEnd
  };

  Kind kind = Kind::kEnd;
  std::string text;  // of data, names and operators as written; of strings decoded; of numbers without underscores
  int line = 1;

  bool Is(Kind other, std::string_view other_text) const { return kind == other && text == other_text; }
  bool IsName(std::string_view name) const { return Is(Kind::kName, name); }
  bool IsOperator(std::string_view name) const { return Is(Kind::kOperator, name); }
};

// Ends with a kEnd token. Throws a Fault of kind kSyntax.
std::vector<Token> Tokenize(std::string_view source);

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_PARSE_LEXER_H_
