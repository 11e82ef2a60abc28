// What --speculative-config says, in vLLM's words.
#ifndef HYDRANT_SERVER_SPECULATIVE_CONFIG_H_
#define HYDRANT_SERVER_SPECULATIVE_CONFIG_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "server/drafts/ngram_drafter.h"

namespace hydrant {

// Reads it from `json`, an object. Returns what is wrong with it, or nothing.
std::string ParseSpeculativeConfig(std::string_view json, NgramOptions* options);

// The same as an object again; empty where nothing is guessed.
std::string SpeculativeConfigText(const NgramOptions& options);

// Drafts of one step.
constexpr int32_t DraftsPerStep(const NgramOptions& options) { return kDraftRowsMax * options.tokens; }

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SPECULATIVE_CONFIG_H_
