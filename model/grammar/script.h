// Script is what stands around values of JSON in an answer, and rules that call each other: nodes that read something and go on with
// another node. What is read is a text of an expression, free text up to a trigger, or a value of a shape.
//
// A node is named by its number. Building goes from the end to the front: each maker is told what comes next.
//
// Thread: the one that compiles; any once it is built.
#ifndef HYDRANT_MODEL_GRAMMAR_SCRIPT_H_
#define HYDRANT_MODEL_GRAMMAR_SCRIPT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/grammar/regex/fuel.h"
#include "model/grammar/regex/lazy_dfa.h"
#include "model/grammar/regex/trigger_table.h"
#include "model/grammar/shape.h"

namespace hydrant::grammar {

// What the bytes of an answer are to its reader. From kArguments on a call is named.
enum class Region : uint8_t {
  kText,       // the answer's own text
  kMarkup,     // what stands around names and arguments of tool calls
  kCall,       // markup with which a call begins
  kName,       // of the tool that is called
  kArguments,  // a JSON object
  kKey,        // an argument's name
  kString,     // an argument's value: the characters of a string as they are
  kValue,      // an argument's value: JSON
  kEnd,        // markup with which a call ends
};

using NodeId = int32_t;
inline constexpr NodeId kReturnNode = 0;  // the end of a rule, or of the answer
inline constexpr NodeId kNoNode = -1;

struct ScriptNode {
  enum class Kind : uint8_t {
    kReturn,
    kText,  // a text of the expression `what`
    kFree,  // any bytes until one of the triggers of table `what`; ways[i] goes on behind trigger i, or it must not come
    kValue,  // of shape `what`
    kCall,   // the rule that begins with node `what`
    kFork,   // one of `ways`
  };
  Kind kind = Kind::kReturn;
  Region region = Region::kText;
  int32_t what = 0;
  NodeId next = kNoNode;  // kFree: the text may end anywhere and go on like this, unless there is none
  std::vector<NodeId> ways;
};

inline constexpr size_t kScriptNodesMax = 20'000;

class Script {
 public:
  NodeId Text(RegexId lexeme, NodeId next, Region region = Region::kText);
  // `ways` by trigger; kNoNode: the trigger must not come.
  NodeId Free(TriggerTable triggers, std::vector<NodeId> ways, NodeId next, Region region = Region::kText);
  NodeId Free(const std::vector<std::string>& triggers, std::vector<NodeId> ways, NodeId next,
              Region region = Region::kText);
  NodeId Value(ShapeId shape, NodeId next, Region region = Region::kText);
  NodeId Call(NodeId rule, NodeId next);
  NodeId Fork(std::vector<NodeId> ways);
  // A fork whose ways are said later: for loops and for rules that call each other.
  NodeId Reserve() { return Fork({}); }
  void Fill(NodeId fork, std::vector<NodeId> ways) { nodes_[static_cast<size_t>(fork)].ways = std::move(ways); }

  // Takes out ways that no text goes to its end; false where the root is one of them. What is left can be ended from everywhere.
  bool Prune(LazyDfa& dfa, Fuel& fuel);

  bool empty() const { return root == kNoNode; }
  bool too_large() const { return nodes_.size() > kScriptNodesMax; }  // it must not be used then
  size_t size() const { return nodes_.size(); }
  size_t bytes() const;  // about what it takes in memory
  const ScriptNode& node(NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  const TriggerTable& triggers(const ScriptNode& node) const { return triggers_[static_cast<size_t>(node.what)]; }

  NodeId root = kNoNode;

 private:
  NodeId Add(ScriptNode node);

  std::vector<ScriptNode> nodes_ = {ScriptNode{}};
  std::vector<TriggerTable> triggers_;
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_SCRIPT_H_
