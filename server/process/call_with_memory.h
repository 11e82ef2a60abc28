// CallWhenThereIsMemory is for what has to happen, such as the resumption of a coroutine for which nobody else would see.
//
// Thread: any that others may wait for; not the engine's.
#ifndef HYDRANT_SERVER_PROCESS_CALL_WITH_MEMORY_H_
#define HYDRANT_SERVER_PROCESS_CALL_WITH_MEMORY_H_

#include <chrono>
#include <new>
#include <thread>

namespace hydrant {

// Makes `call`, and makes it again a little later for as long as it throws std::bad_alloc: until the other threads have given some
// memory back.
template <typename Call>
void CallWhenThereIsMemory(const Call& call) {
  while (true) {
    try {
      call();
      return;
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PROCESS_CALL_WITH_MEMORY_H_
