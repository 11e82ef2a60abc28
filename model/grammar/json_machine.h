// JsonMachine reads an answer byte by byte: JSON against shapes, and what a script has around it. What may come next is a set of
// configurations: one for each way in which the bytes so far can be read. A configuration is a few numbers; the objects and arrays
// that are open, and the places to which rules of a script return, are frames, each of which is kept once and shared by all that stand
// inside it.
//
// Invariant: from every configuration some text leads to the end, but for the limit of depth.
//
// Thread: one at a time.
#ifndef HYDRANT_MODEL_GRAMMAR_JSON_MACHINE_H_
#define HYDRANT_MODEL_GRAMMAR_JSON_MACHINE_H_

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/grammar/regex/fuel.h"
#include "model/grammar/regex/lazy_dfa.h"
#include "model/grammar/regex/marker_bytes.h"
#include "model/grammar/regex/seen_keys.h"
#include "model/grammar/regex/steady_map.h"
#include "model/grammar/script.h"
#include "model/grammar/shape.h"

namespace hydrant::grammar {

// Shapes, and what the machine looks up about them.
struct JsonPlan {
  struct Keys {
    std::vector<std::string> sorted;
    std::vector<int32_t> order;          // the property's place, by the place among the sorted
    std::vector<int32_t> required_from;  // by place: how many required properties come from there on, [properties + 1]
    std::vector<int32_t> possible_from;  // and how many that have a value
  };
  ShapeSet shapes;
  std::vector<Keys> keys;  // by object
  Script script;           // empty: the answer is the root's value
  // In a row between two tokens of JSON: this many bytes of white space or one more than four times the depth, if that is more.
  // 0: none at all.
  int white_space_max = 8;
  // Keys of an object are not told apart: whoever reads what is written already remembers none of them.
  bool keys_may_repeat = false;

  explicit JsonPlan(ShapeSet set);
  size_t bytes() const;  // about what it takes in memory
};

enum class Phase : uint8_t {
  kValue,        // before a value of shape `target`
  kScalar,       // inside a scalar, `lexeme` is left of it
  kObjectBegin,  // behind '{'
  kKeyBegin,     // behind ',' in an object
  kPropertyKey,  // inside the key of a property: those from `lexeme` to `target` among the sorted fit, `depth` bytes of them are read
  kExtraKey,    // inside another key, `lexeme` is left of it; `target`: which kind of extra
  kColon,       // behind a key whose value has shape `target`
  kArrayBegin,  // behind '['
  kAfter,       // behind a value in the frame
  kDone,        // behind the whole text
  // In a script, at its node `target`:
  kText,  // inside a text, `lexeme` is left of it
  kFree,  // inside free text; `lexeme` is the state of the triggers
  kOpen,  // before an object or array
};

// To whom a byte belongs, as far as it is known when it comes.
struct ByteRegion {
  static constexpr int32_t kAsBefore = -1;

  Region region = Region::kText;
  // So many bytes at the end, this one included, may still turn out to be text or not. Those that no longer may are of `region` if it
  // is kText or kString; else they are what they were when they came, but for free text, which was the beginning of a trigger: markup.
  // kAsBefore: what was undecided still is, and so is this byte, of `region` if it is no text.
  int32_t undecided = 0;
};

using FrameId = int32_t;
inline constexpr FrameId kNoFrame = -1;

struct Configuration {
  FrameId frame = kNoFrame;
  Phase phase = Phase::kDone;
  uint8_t space = 0;  // bytes of white space just read
  int32_t depth = 0;
  int32_t lexeme = 0, target = 0;
  uint64_t key_hash = 0;  // of the bytes of an extra key

  auto operator<=>(const Configuration&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const Configuration& c) {
    return H::combine(std::move(h), c.frame, c.phase, c.space, c.depth, c.lexeme, c.target, c.key_hash);
  }
};
using Configurations = std::vector<Configuration>;  // sorted, each once

inline constexpr size_t kConfigurationsMax = kAlternativesMax;
inline constexpr int32_t kNestingMax = 200;
inline constexpr int32_t kCallsMax = 1000;  // rules inside rules

class JsonMachine {
 public:
  // REQUIRES: the root is a shape. `dfa` holds its expressions.
  JsonMachine(std::shared_ptr<const JsonPlan> plan, LazyDfa dfa);

  // All ways to begin, unless the fuel ends.
  Configurations Begin(Fuel& fuel);
  Configurations Begin() {
    Fuel fuel;
    return Begin(fuel);
  }
  // What `byte` makes of `from`: empty where it is not allowed. With `region` it says whose byte that is.
  void Step(const Configurations& from, uint8_t byte, Fuel& fuel, Configurations& to, ByteRegion* region = nullptr);
  // Whether no more texts than these may be left of a key of which `left` is: all of them may have been there.
  static constexpr int32_t kFewTexts = 64;
  bool HasFewTexts(RegexId left, Fuel& fuel) { return !FewTexts(left, fuel).empty(); }
  // In a script behind a text or value that ends here, or behind a trigger of free text. REQUIRES: phase kText, or kFree.
  Configurations BehindText(const Configuration& from, Fuel& fuel);
  Configurations BehindTrigger(const Configuration& from, int32_t trigger, Fuel& fuel);
  bool Accepts(const Configurations& configurations) const;
  // Whether all ways to read it stand in free text that is the answer's own, at the script's top, or behind its end.
  bool InText(const Configurations& configurations) const;
  // Whether all of them stand inside the arguments of a call, or behind them, up to its end.
  bool InArguments(const Configurations& configurations) const;
  // Whether a byte that led the triggers of free text to `state` may be one of it: bytes of markers are none of a text's, but of triggers.
  static bool MayBeFree(const TriggerTable& triggers, int32_t state, uint8_t byte) {
    return !IsMarkerByte(byte) || triggers.Depth(state) > 0;
  }

  // The hash of a key's bytes behind one more; that of none is kNoKeyHash.
  static uint64_t KeyHash(uint64_t hash, uint8_t byte) { return (hash ^ byte) * 0x100000001b3u; }
  static constexpr uint64_t kNoKeyHash = 0xcbf29ce484222325u;

  // The least number of bytes with which the text may end: 0 exactly where it may end here, and one byte that is allowed always makes it
  // less by one. Nothing where that is not known: an object that needs several keys of its own choice, or the fuel ends.
  std::optional<int64_t> BytesToEnd(const Configurations& configurations, Fuel& fuel);
  // The same of what is left of a scalar, to where it may end.
  int64_t BytesInside(RegexId lexeme, Fuel& fuel) { return BytesOf(lexeme, fuel); }

  // Frames and keys made since are taken back. REQUIRES: no configuration that is still in use has one.
  struct Mark {
    size_t frames, seen;
  };
  Mark Here() const { return {frames_.size(), seen_.size()}; }
  void BackTo(const Mark& mark);

  LazyDfa& dfa() { return dfa_; }
  const JsonPlan& plan() const { return *plan_; }
  // How much is remembered beyond what was there at the beginning.
  size_t states() const {
    return dfa_.arena().size() - base_ + frames_.size() + seen_.size() + few_left_bytes_ / kBytesOfState;
  }
  // About what it takes in memory, and how much of that was not there at the beginning.
  size_t remembered_bytes() const { return std::max(bytes(), base_bytes_) - base_bytes_; }
  size_t bytes() const { return dfa_.bytes() + frames_.size() * 3 * sizeof(Frame) + seen_.bytes() + few_left_bytes_; }
  // The same configurations in this machine, of another one with the same plan that began with the same expressions; not all of them
  // where `fuel` ends. A frame, a key and a state of an expression cost kImportFuel units each; each key one more, whether it is here
  // or not. What was moved of keys when the fuel ended stays, and another try goes on from there.
  static constexpr int64_t kImportFuel = 12;
  Configurations Import(const JsonMachine& from, const Configurations& configurations, Fuel& fuel);

 private:
  enum class FrameKind : uint8_t { kObject, kArray, kScript };
  struct Frame {
    FrameId parent = kNoFrame;
    int32_t shape = 0;  // object, or array; the node that comes behind what is inside the frame
    FrameKind kind = FrameKind::kObject;
    int32_t place = 0;  // property or item that may come next; the region of what is inside
    int32_t count = 0;  // members, as far as limits make a difference; frames of a script around this one and itself
    int32_t seen = SeenKeys::kNone;  // extra keys
    int32_t depth = 1;
    auto operator<=>(const Frame&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Frame& f) {
      return H::combine(std::move(h), f.parent, f.shape, f.kind, f.place, f.count, f.seen, f.depth);
    }
  };

  // json_end.cc. kFar: no end, or not known.
  static constexpr int64_t kFar = int64_t{1} << 60;
  int64_t BytesOf(RegexId lexeme, Fuel& fuel);
  std::optional<int64_t> BytesByParts(RegexId lexeme);
  int64_t BytesOfRest(const Frame& frame, bool first) const;
  int64_t BytesOfObjectRest(const Frame& frame, bool first) const;
  int64_t BytesOfMember(const Frame& frame, int32_t property) const;  // behind its key
  int64_t BytesOfKey(const Frame& frame, int32_t first, int32_t last, size_t read) const;
  int64_t BytesOfExtra(const Frame& frame, size_t extra) const;
  int64_t BytesFrom(const Configuration& from, Fuel& fuel);
  int64_t BytesInScript(const Configuration& from, Fuel& fuel);
  void MeasureShapes(Fuel& fuel);
  void MeasureScript(Fuel& fuel);

  FrameId Intern(const Frame& frame);
  FrameId ImportFrame(const JsonMachine& from, FrameId id, SteadyMap<FrameId, FrameId>& known, Fuel& fuel);
  const Frame& frame(FrameId id) const { return frames_[static_cast<size_t>(id)]; }
  const ObjectShape& object(const Frame& frame) const {
    return plan_->shapes.objects[static_cast<size_t>(frame.shape)];
  }
  const ArrayShape& array(const Frame& frame) const { return plan_->shapes.arrays[static_cast<size_t>(frame.shape)]; }

  void StepOne(const Configuration& from, uint8_t byte, Fuel& fuel, Configurations& to);
  void BeginValue(const Configuration& from, uint8_t byte, Fuel& fuel, Configurations& to);
  void StepScalar(const Configuration& from, uint8_t byte, Fuel& fuel, Configurations& to);
  void StepAfter(const Configuration& from, uint8_t byte, Fuel& fuel, Configurations& to);
  void BeginKeys(const Configuration& from, Configurations& to);
  void StepPropertyKey(const Configuration& from, uint8_t byte, Configurations& to);
  void StepExtraKey(const Configuration& from, uint8_t byte, Fuel& fuel, Configurations& to);
  bool MaySpace(const Configuration& from, uint8_t byte) const;
  Configuration Ended(FrameId frame) const;  // behind a value in it. REQUIRES: none of a script
  void BeginBrackets(const Configuration& from, const ValueShape& value, uint8_t byte, Configurations& to);

  // script_steps.cc
  const ScriptNode& node(NodeId id) const { return plan_->script.node(id); }
  void End(FrameId frame, Fuel& fuel, Configurations& to);  // adds what comes behind a value in it
  // Adds all places at which something is read next, from the beginning of a node on.
  void Enter(NodeId node, FrameId frame, Fuel& fuel, Configurations& to);
  void StepText(const Configuration& from, uint8_t byte, Fuel& fuel, Configurations& to);
  void StepFree(const Configuration& from, uint8_t byte, Fuel& fuel, Configurations& to);
  void StepOpen(const Configuration& from, uint8_t byte, Configurations& to);
  FrameId Return(FrameId parent, const ScriptNode& node);  // kNoFrame: too deep
  // The region of what is read there, free text aside: a trigger may end that.
  Region RegionAt(const Configuration& from) const;
  ByteRegion RegionOf(const Configuration& from, uint8_t byte) const;

  bool MayTake(const Frame& frame, int32_t property) const;
  bool MayTakeExtra(const Frame& frame) const;
  bool MayTakeAny(const Frame& frame) const;
  bool MayClose(const Frame& frame) const;
  bool FitsSome(const Frame& frame, int32_t first, int32_t last) const;  // of sorted keys
  Frame WithMember(Frame frame, int32_t next_place) const;
  ShapeId NextItem(const Frame& frame) const;  // kNoShape: none may come
  Frame WithItem(Frame frame) const;
  // Whether a key whose bytes so far have `hash`, and which goes on with `left`, can still be one that is not seen.
  bool CanBeUnseen(RegexId left, uint64_t hash, int32_t seen, Fuel& fuel);
  // All of them, or none where they are many or the fuel ends. Valid until the next call.
  const std::vector<std::string>& FewTexts(RegexId left, Fuel& fuel);

  std::shared_ptr<const JsonPlan> plan_;
  LazyDfa dfa_;
  bool measured_ = false;                          // the next two are whole, and those of scripts
  std::vector<int64_t> value_bytes_;               // the shortest value of each shape
  std::vector<std::vector<int64_t>> extra_bytes_;  // the shortest key of each kind, by object
  SteadyMap<RegexId, int64_t> lexeme_bytes_;
  std::vector<int64_t> node_bytes_;               // from each node of the script to where it returns
  std::vector<std::vector<int64_t>> free_bytes_;  // the same by state of the triggers, of free text
  std::vector<std::pair<NodeId, FrameId>> entered_;
  size_t base_;
  std::vector<Frame> frames_;
  SteadyMap<Frame, FrameId> frame_ids_;
  // All that may be left of a key where that is few texts; none where it is many.
  SteadyMap<RegexId, std::vector<std::string>> few_left_;
  size_t few_left_bytes_ = 0;
  static constexpr size_t kBytesOfState = 1024;  // as many as transitions of a state take
  SeenKeys seen_;
  size_t base_bytes_;  // made last, when all that counts is there
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_JSON_MACHINE_H_
