// Counted<T> is a vector whose memory counts towards the workspace of a render for as long as it is held: whatever a render
// gathers, it gathers in these, so that nothing that grows with a template's or a client's values escapes the limit.
//
// Thread: the one that renders; any for those that do not count.
#ifndef HYDRANT_MODEL_JINJA_CORE_COUNTED_H_
#define HYDRANT_MODEL_JINJA_CORE_COUNTED_H_

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

namespace hydrant::jinja {

class Workspace;

// Memory that counts. Holding more throws a Fault where the workspace has no room.
class Holding {
 public:
  // Null: it does not count (the constants of a template, the values that the client sent).
  explicit Holding(Workspace* workspace) : workspace_(workspace) {}
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;
  ~Holding() { Release(workspace_, bytes_); }

  void Grow(size_t bytes) {
    Hold(workspace_, bytes);
    bytes_ += bytes;
  }

  static void Hold(Workspace* workspace, size_t bytes);
  static void Release(Workspace* workspace, size_t bytes);

 private:
  Workspace* const workspace_;
  size_t bytes_ = 0;
};

template <typename T>
class CountingAllocator {
 public:
  using value_type = T;
  // A moved vector stays with the allocator that counted it; an assigned copy is counted by its target's.
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  CountingAllocator(Workspace& workspace) : workspace_(&workspace) {}
  CountingAllocator(std::nullptr_t) {}
  template <typename U>
  CountingAllocator(const CountingAllocator<U>& other) : workspace_(other.workspace()) {}
  // A copy names the workspace it counts in: the values of a client do not count, copies of them do.
  CountingAllocator select_on_container_copy_construction() const = delete;

  T* allocate(size_t count) {
    Holding::Hold(workspace_, count * sizeof(T));
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* memory, size_t count) {
    Holding::Release(workspace_, count * sizeof(T));
    std::allocator<T>().deallocate(memory, count);
  }
  Workspace* workspace() const { return workspace_; }
  bool operator==(const CountingAllocator& other) const { return workspace_ == other.workspace_; }

 private:
  Workspace* workspace_ = nullptr;
};

template <typename T>
using Counted = std::vector<T, CountingAllocator<T>>;

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_CORE_COUNTED_H_
