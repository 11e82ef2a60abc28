# Asio, compiled once for every program that uses it; everything that includes it has to know that.
include_guard(GLOBAL)
add_library(hydrant_asio STATIC ${PROJECT_SOURCE_DIR}/server/asio.cc)
target_compile_definitions(hydrant_asio PUBLIC BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED)
target_link_libraries(hydrant_asio PUBLIC Boost::headers Threads::Threads PRIVATE hydrant_flags)
# g++ 12 inlines the two halves of a coroutine frame's allocation unevenly and then finds them mismatched (GCC bug 109224).
target_compile_options(hydrant_asio PUBLIC -Wno-mismatched-new-delete)
