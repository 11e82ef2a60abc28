// Bodies that their handler reads piece by piece: a session's state is one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "server/sessions/transfer/session_file.h"
#include "tests/server/test_server.h"

namespace hydrant {
namespace {

using testing::HasSubstr;

std::string HeadOf(size_t bytes, const std::string& more = "") {
  return "PUT /v1/sessions/s/state HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: *\r\n" + more +
         "Content-Length: " + std::to_string(bytes) + "\r\n\r\n";
}

TEST(HttpConnectionBody, APieceHasToComeAtARateAndNotWithinATime) {
  const auto with_grace = [](double grace_s) {
    TestServerOptions options;
    options.http.limits.body_timeout_s = 0.1;
    options.http.limits.body_grace_s = grace_s;
    options.http.limits.body_bytes_per_s_min = 10'000;
    return options;
  };
  TestServer server(with_grace(0.3));
  RawClient slow(server.port());
  slow.Send(HeadOf(1000) + "{");
  EXPECT_EQ(slow.ReadResponse().status, 408);
  slow.ReadAll();
  EXPECT_TRUE(slow.closed());
  TestServer patient(with_grace(30));
  RawClient steady(patient.port());
  steady.Send(HeadOf(40'000));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(steady.ReadUntil("nothing comes", 0.05), "") << "longer in all than a body may take that is read at once";
    steady.Send(std::string(10'000, 'x'));
  }
  EXPECT_THAT(steady.ReadResponse().body, HasSubstr("this is not a session's file"));
  // Who was fast has not earned hours.
  RawClient stalls(server.port());
  const std::string file = WriteSessionFile({});
  stalls.Send(HeadOf(900'000) + file.substr(0, 40) + std::string(400'000, 'x'));
  EXPECT_EQ(stalls.ReadResponse().status, 408) << "400 kB at once are 40 s of the rate";
}

TEST(HttpConnectionBody, WhoLeavesLeavesNothingAndTheNextRequestFollows) {
  TestServer server;
  {
    RawClient leaves(server.port());
    leaves.Send(HeadOf(5'000'000) + WriteSessionFile({}).substr(0, 40));
    leaves.Close(/*reset=*/true);
  }
  RawClient client(server.port());
  client.Send(HeadOf(5, "Expect: 100-continue\r\n"));
  EXPECT_THAT(client.ReadUntil("\r\n\r\n"), HasSubstr("100 Continue"));
  client.Send("hello");
  EXPECT_EQ(client.ReadResponse().status, 400);
  EXPECT_EQ(client.Ask(Get("/v1/sessions/s")).status, 404) << "on the same connection";
}

TEST(HttpConnectionBody, WhatWasSaidStaysWithinTheLimitOfBodiesHoweverLongTheFile) {
  TestServerOptions options;
  options.http.limits.body_bytes_max = 1000;
  TestServer server(std::move(options));
  SessionFile file;
  file.facts.id = "s";
  file.turn = 1;
  file.past.resize(1001);
  const std::string bytes = WriteSessionFile(file);
  EXPECT_THAT(RawClient(server.port()).Ask(HeadOf(bytes.size()) + bytes).body, HasSubstr("payload_too_large"));
  EXPECT_EQ(RawClient(server.port()).Ask(HeadOf(size_t{2} << 40)).status, 413) << "before its body";
}

}  // namespace
}  // namespace hydrant
