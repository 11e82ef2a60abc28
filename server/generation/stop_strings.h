// StopStrings are the strings that end a text, as an automaton that reads the text byte by byte (Aho and Corasick, "Efficient
// string matching", 1975). The work is linear in the text, however long the strings are and however often they overlap
// with themselves: an engine thread reads the texts of many requests.
//
// Thread: any; immutable. All samples of a request share one.
#ifndef HYDRANT_SERVER_GENERATION_STOP_STRINGS_H_
#define HYDRANT_SERVER_GENERATION_STOP_STRINGS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hydrant {

class StopStrings {
 public:
  // REQUIRES: no string is empty.
  explicit StopStrings(std::vector<std::string> strings);

  // What is known of a text: its longest end that begins one of the strings.
  using State = int32_t;
  static constexpr State kStart = 0;

  // The state one byte later. Adds to *visited (may be null) the states it looked at: over a whole text at most four per
  // byte and string, on average.
  State Next(State state, char byte, int64_t* visited = nullptr) const;

  // Bytes of that longest end.
  size_t depth(State state) const { return static_cast<size_t>(nodes_[static_cast<size_t>(state)].depth); }
  // The longest string that the text ends with, an index; -1: none.
  int32_t match(State state) const { return nodes_[static_cast<size_t>(state)].match; }

  const std::string& operator[](int32_t index) const { return strings_[static_cast<size_t>(index)]; }

 private:
  // A beginning of a string. Its children are a list: there are no more of them than strings.
  struct Node {
    State first_child = -1;
    State next_sibling = -1;
    State shorter = kStart;  // its own longest proper end that begins a string
    int32_t depth = 0;
    int32_t match = -1;
    char byte = 0;  // the last
  };

  State ChildOf(State state, char byte, int64_t* visited) const;
  void Insert(int32_t index);
  void LinkEnds();

  const std::vector<std::string> strings_;
  std::vector<Node> nodes_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_GENERATION_STOP_STRINGS_H_
