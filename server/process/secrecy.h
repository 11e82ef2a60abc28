// These functions keep prompts, keys and weights inside the process: no core dump has them, and environment and command
// line no longer do.
//
// Thread: the main one, before there are others.
#ifndef HYDRANT_SERVER_PROCESS_SECRECY_H_
#define HYDRANT_SERVER_PROCESS_SECRECY_H_

#include <span>

namespace hydrant {

// From here on a crash writes no core, to a file or a handler, and no debugger of this user may attach.
void ForbidCoreDumps();

// Overwrites the values of these flags ("--name value" and "--name=value", with _ or - between words) where they stand among a
// program's arguments, which is what every user of the machine may read in /proc/PID/cmdline.
void ForgetArguments(std::span<char*> arguments, std::span<const char* const> flags);

// Takes a variable out of the environment and overwrites its value where it stood, which is what /proc/PID/environ shows.
void ForgetVariable(const char* name);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PROCESS_SECRECY_H_
