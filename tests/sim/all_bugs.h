// What tests of planted bugs have in common: the list of them, and the search for an episode that sees one.
#ifndef HYDRANT_TESTS_SIM_ALL_BUGS_H_
#define HYDRANT_TESTS_SIM_ALL_BUGS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

namespace hydrant::sim {

// Every bug but the first, which is none.
template <typename Bug>
std::vector<Bug> AllBugs(Bug last) {
  std::vector<Bug> bugs;
  for (int32_t i = 1; i <= static_cast<int32_t>(last); ++i) bugs.push_back(static_cast<Bug>(i));
  return bugs;
}

// Expects that one of the seeds 1 to `tries` fails; failure_of(seed) is empty where everything held. `how` describes the run.
template <typename FailureOf>
void ExpectCaught(const std::string& bug, uint64_t tries, const std::string& how, const FailureOf& failure_of) {
  std::string caught;
  uint64_t seed = 1;
  for (; seed <= tries && caught.empty(); ++seed) caught = failure_of(seed);
  EXPECT_NE(caught, "") << bug << " went unseen" << how;
  std::cout << "episode " << seed - 1 << how << ": " << caught << "\n";
}

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_ALL_BUGS_H_
