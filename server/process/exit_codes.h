// The exit codes of hydrantd, as sysexits.h numbers them.
#ifndef HYDRANT_SERVER_PROCESS_EXIT_CODES_H_
#define HYDRANT_SERVER_PROCESS_EXIT_CODES_H_

namespace hydrant {

inline constexpr int kExitOk = 0;
inline constexpr int kExitUsage = 64;      // the command line
inline constexpr int kExitInternal = 70;   // the program
inline constexpr int kExitResources = 75;  // port taken, not enough memory
inline constexpr int kExitConfig = 78;     // the model or the configuration file

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PROCESS_EXIT_CODES_H_
