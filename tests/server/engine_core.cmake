hydrant_test(engine_core_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/engine_core_test.cc
  DEPS hydrant_engine_core)
