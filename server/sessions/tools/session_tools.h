// RunSessionTools carries out `hydrantd sessions WORD …`: what an operator does with sessions.
//
// Thread: one at a time; waits for disk and network.
#ifndef HYDRANT_SERVER_SESSIONS_TOOLS_SESSION_TOOLS_H_
#define HYDRANT_SERVER_SESSIONS_TOOLS_SESSION_TOOLS_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace hydrant {

inline constexpr const char* kSessionsCommand = "sessions";
// What is damaged, was refused or was left behind: the report says which.
inline constexpr int kExitIncomplete = 1;

struct ToolStreams {
  std::function<void(std::string_view text)> out;    // the result
  std::function<void(std::string_view line)> error;  // what is wrong, and how far it is; lines without their ends
};

// `arguments` without `hydrantd sessions`. Returns the exit code: 0, kExitIncomplete, or one of exit_codes.h.
int RunSessionTools(const std::vector<std::string>& arguments, const ToolStreams& streams);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_TOOLS_SESSION_TOOLS_H_
