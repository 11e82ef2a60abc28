// ReadsName takes the name of an enum's value as a flag. CLI::CheckedTransformer would print the values beside the names, which are bytes.
#ifndef HYDRANT_TESTS_BENCH_READS_NAME_H_
#define HYDRANT_TESTS_BENCH_READS_NAME_H_

#include <CLI/CLI.hpp>
#include <map>
#include <string>

namespace hydrant {

// In upper or lower case.
template <typename Enum>
CLI::Validator ReadsName(const std::map<std::string, Enum>& values) {
  std::string names;
  std::map<std::string, int> numbers;
  for (const auto& [name, value] : values) {
    names += (names.empty() ? "" : ", ") + name;
    numbers[CLI::ignore_case(name)] = static_cast<int>(value);
  }
  const auto read = [names, numbers](std::string& text) -> std::string {
    const auto found = numbers.find(CLI::ignore_case(text));
    if (found == numbers.end()) return text + " is none of " + names;
    text = std::to_string(found->second);
    return "";
  };
  return CLI::Validator(read, "{" + names + "}");
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_BENCH_READS_NAME_H_
