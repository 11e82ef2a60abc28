// Memory of the host that runs out. Linking failing_new.cc replaces the program's operator new.
//
// Thread: one counts; allocations of all threads do.
#ifndef HYDRANT_TESTS_ENGINE_FAILING_NEW_H_
#define HYDRANT_TESTS_ENGINE_FAILING_NEW_H_

namespace hydrant {

// Inside of a MemoryRunsOut `calls` allocations succeed, then one throws std::bad_alloc.
void FailNewAfter(int calls);
// Whether it has. From now on none does.
bool NewFailed();

// On the thread that calls it `calls` more allocations succeed, and the `fails` after them throw. Of no other thread, and
// without a MemoryRunsOut.
void FailNewHere(int calls, int fails);
// How many allocations of this thread have failed for that.
int NewFailedHere();

// Only what is allocated while there is one counts.
class MemoryRunsOut {
 public:
  MemoryRunsOut();
  ~MemoryRunsOut();
  MemoryRunsOut(const MemoryRunsOut&) = delete;
  MemoryRunsOut& operator=(const MemoryRunsOut&) = delete;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_ENGINE_FAILING_NEW_H_
