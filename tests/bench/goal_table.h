// The table of a bench whose lines may have a goal.
#ifndef HYDRANT_TESTS_BENCH_GOAL_TABLE_H_
#define HYDRANT_TESTS_BENCH_GOAL_TABLE_H_

#include <cstdio>

namespace hydrant {

// Prints it line by line, values with so many digits behind the point.
class GoalTable {
 public:
  explicit GoalTable(int digits) : digits_(digits) {
    std::printf("%-44s %10s %-8s %8s\n", "what", "value", "unit", "goal");
  }
  void Line(const char* what, double value, const char* unit, const char* goal = "") const {
    std::printf("%-44s %10.*f %-8s %8s\n", what, digits_, value, unit, goal);
  }

 private:
  const int digits_;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_BENCH_GOAL_TABLE_H_
