// PythonReader reads values as a Python program writes them, and JSON, which models mix with them: 'text', "text", 1, 1.5, True, None,
// [1, 2], (1, 2), {'a': 1}. What it reads becomes JSON text.
//
// Thread: any; one text.
#ifndef HYDRANT_MODEL_GRAMMAR_NOTATION_PYTHON_LITERAL_H_
#define HYDRANT_MODEL_GRAMMAR_NOTATION_PYTHON_LITERAL_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace hydrant::grammar {

// Whether a text is JSON by its signs alone: keys may repeat, numbers be too large, escapes be halves of characters.
bool IsJson(std::string_view text);

class PythonReader {
 public:
  // REQUIRES: `text` outlives the reader.
  explicit PythonReader(std::string_view text) : text_(text) {}

  // The value that begins here as JSON, behind white space; nullopt: there is none, or it is nested too deep.
  std::optional<std::string> Value();
  // Takes white space, and then `byte`; false: something else is here, and the white space is taken.
  bool Take(char byte);
  // A name, letters of ASCII, digits and underscores, dots and dashes, behind white space; empty: there is none.
  std::string_view Name();
  // Nothing is left but white space.
  bool AtEnd();

 private:
  void SkipSpace();
  bool AddValue(std::string& json, int depth);
  bool AddItems(std::string& json, char close, int depth);
  bool AddString(std::string& json);
  bool AddNumber(std::string& json);

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_NOTATION_PYTHON_LITERAL_H_
