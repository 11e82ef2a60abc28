// The TLS part of Asio, compiled once (BOOST_ASIO_SEPARATE_COMPILATION).
#include <boost/asio/ssl/impl/src.hpp>
