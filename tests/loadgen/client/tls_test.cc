// https, against a server of Asio's with a certificate made here.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <memory>
#include <string>
#include <thread>

#include "loadgen/client/http_get.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// A context whose certificate nobody has signed but itself.
asio::ssl::context SelfSigned() {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  asio::ssl::context context(asio::ssl::context::tls_server);
  SSL_CTX_use_certificate(context.native_handle(), certificate.get());
  SSL_CTX_use_PrivateKey(context.native_handle(), key.get());
  return context;
}

// Asks a server with such a certificate once.
absl::StatusOr<std::string> Ask(bool verify) {
  asio::io_context io;
  tcp::acceptor acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  asio::ssl::context context = SelfSigned();
  const std::string url = "https://127.0.0.1:" + std::to_string(acceptor.local_endpoint().port());
  absl::StatusOr<Peer> peer = ResolvePeer(*ParseUrl(url), verify, 10);
  std::thread server([&] {
    error_code error;
    asio::ssl::stream<tcp::socket> stream(acceptor.accept(), context);
    stream.handshake(asio::ssl::stream_base::server, error);
    std::string request;
    if (!error) asio::read_until(stream, asio::dynamic_buffer(request), "\r\n\r\n", error);
    const std::string reply = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret";
    if (!error) asio::write(stream, asio::buffer(reply), error);
  });
  absl::StatusOr<std::string> answer = HttpGet(&*peer, "/", "", {}, 10);
  server.join();
  return answer;
}

TEST(Tls, CarriesARequest) {
  const absl::StatusOr<std::string> answer = Ask(false);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, "secret");
}

TEST(Tls, RefusesACertificateNobodyVouchesFor) { EXPECT_EQ(Ask(true).status().code(), absl::StatusCode::kUnavailable); }

}  // namespace
}  // namespace hydrant
