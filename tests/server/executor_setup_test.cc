#include "server/executor_setup.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

TEST(ExecutorSetup, TheImageLiesBesideTheModelOrWhereItIsAskedFor) {
  Config config;
  Sizing sizing;
  config.model_path = "/srv/models/big.gguf";
  EXPECT_EQ(ExecutorOptionsOf(config, sizing).stream.memory_bytes, 0) << "all weights lie in memory";
  EXPECT_EQ(ExecutorOptionsOf(config, sizing).stream.image, "");
  sizing.stream_bytes = 1000;
  EXPECT_EQ(ExecutorOptionsOf(config, sizing).stream.memory_bytes, 1000);
  EXPECT_EQ(ExecutorOptionsOf(config, sizing).stream.image, "/srv/models/big.gguf.hydrant-image");
  config.model_path = "folder//";
  EXPECT_EQ(ExecutorOptionsOf(config, sizing).stream.image, "folder.hydrant-image");
  config.weights_image_dir = "/var/cache/hydrant";
  EXPECT_EQ(ExecutorOptionsOf(config, sizing).stream.image, "/var/cache/hydrant/folder.hydrant-image");
  config.model_path = "big.gguf";
  EXPECT_EQ(ExecutorOptionsOf(config, sizing).stream.image, "/var/cache/hydrant/big.gguf.hydrant-image");
}

}  // namespace
}  // namespace hydrant
