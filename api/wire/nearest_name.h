// NearestName finds the name that was probably meant by a mistyped one: "--max-num-seq" is nearest to "--max-num-seqs".
//
// Thread: any (pure functions).
#ifndef HYDRANT_API_WIRE_NEAREST_NAME_H_
#define HYDRANT_API_WIRE_NEAREST_NAME_H_

#include <span>
#include <string>
#include <string_view>

namespace hydrant {

// The name in `names` that takes the fewest edits (a character inserted, removed, replaced, or swapped with the next one)
// to become `typed`; the first of equals. A name that begins with `typed` counts as two edits, however long it is. Empty
// when none is near: more than one edit and a quarter of what was typed. Takes typed.size() x name.size() steps per name,
// and looks at no more than 64 characters of `typed`.
std::string_view NearestName(std::string_view typed, std::span<const std::string> names);

// What to do instead of giving a flag of other programs: no flag that is spelled like it does the same.
struct FlagAdvice {
  std::string_view flag;
  std::string_view advice;
};

// What is wrong with the first of a command line's `arguments` that begins with two dashes and is, up to an equals sign, none
// of the `known` flags; empty when there is none. Nothing after a lone "--" is a flag. `help` is the command that lists the
// flags. A value never is in the message: it may be a key. `advices` come before what is near.
std::string UnknownFlag(std::span<const std::string> arguments, std::span<const std::string> known,
                        std::string_view help, std::span<const FlagAdvice> advices = {});

}  // namespace hydrant

#endif  // HYDRANT_API_WIRE_NEAREST_NAME_H_
