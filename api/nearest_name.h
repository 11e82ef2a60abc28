// NearestName finds what somebody meant who mistyped a name: "--max-num-seq" is nearest to "--max-num-seqs".
//
// Thread: any (a pure function).
#ifndef HYDRANT_API_NEAREST_NAME_H_
#define HYDRANT_API_NEAREST_NAME_H_

#include <span>
#include <string>
#include <string_view>

namespace hydrant {

// The name in `names` that takes the fewest edits (a character inserted, removed, replaced, or swapped with the next one)
// to become `typed`; the first of equals. A name that begins with `typed` counts as two edits, however long it is. Empty
// when none is near: more than one edit and a quarter of what was typed. Takes typed.size() x name.size() steps per name,
// and looks at no more than 64 characters of `typed`.
std::string_view NearestName(std::string_view typed, std::span<const std::string> names);

}  // namespace hydrant

#endif  // HYDRANT_API_NEAREST_NAME_H_
