# Scheduler plus executor, without the rest of the server: what the simulator and the benches link.
include_guard(GLOBAL)
hydrant_library(hydrant_engine_core
  SOURCES ${PROJECT_SOURCE_DIR}/server/engine_core.cc ${PROJECT_SOURCE_DIR}/server/logit_shaper.cc
    ${PROJECT_SOURCE_DIR}/server/prefix_sharing.cc
  DEPS hydrant_scheduler absl::flat_hash_map absl::status absl::statusor absl::strings)
