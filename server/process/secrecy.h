// What keeps prompts, keys and weights inside the process: no core dump has them, and the environment no longer does.
//
// Thread: the main one, before there are others.
#ifndef HYDRANT_SERVER_PROCESS_SECRECY_H_
#define HYDRANT_SERVER_PROCESS_SECRECY_H_

namespace hydrant {

// From here on a crash writes no core, to a file or a handler, and no debugger of this user may attach.
void ForbidCoreDumps();

// Takes a variable out of the environment and overwrites its value where it stood, which is what /proc/PID/environ shows.
void ForgetVariable(const char* name);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PROCESS_SECRECY_H_
