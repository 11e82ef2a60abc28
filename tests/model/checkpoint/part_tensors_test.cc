#include "model/checkpoint/part_tensors.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

std::vector<RawTensor> Named(const std::vector<std::string>& names) {
  std::vector<RawTensor> tensors;
  for (const std::string& name : names) tensors.push_back({.file = "m.safetensors", .name = name});
  return tensors;
}

std::vector<std::string> NamesOf(const std::vector<RawTensor>& tensors) {
  std::vector<std::string> names;
  for (const RawTensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

TEST(PartTensors, WhatWasTakenGoesAndMatricesStandBehindTheRest) {
  std::vector<RawTensor> tensors = Named({"a", "b", "c", "d"});
  PartTensors parts(tensors);
  EXPECT_TRUE(parts.Has("d"));
  EXPECT_FALSE(parts.Has("e"));
  parts.Take(0);
  EXPECT_EQ(parts.TryTake("e"), nullptr);
  EXPECT_EQ(parts.TryTake("c")->name, "c");
  EXPECT_EQ((*parts.Take("d", "other"))->name, "d");
  EXPECT_THAT(parts.Take("e", "other"), RefusedWith("other: ", "tensor 'e': is missing"));
  EXPECT_THAT(parts.Replace(Named({"whole"})), IsOk());
  EXPECT_EQ(NamesOf(tensors), (std::vector<std::string>{"b", "whole"}));
}

TEST(PartTensors, WithoutAMatrixTheConfigWasWrong) {
  std::vector<RawTensor> tensors = Named({"a"}), none;
  EXPECT_THAT(PartTensors(tensors).Replace({}), RefusedWith("m.safetensors", "no matrix is stored in the way"));
  EXPECT_EQ(NamesOf(tensors), (std::vector<std::string>{"a"}));
  EXPECT_THAT(PartTensors(none).Replace({}), IsOk());
}

}  // namespace
}  // namespace hydrant
