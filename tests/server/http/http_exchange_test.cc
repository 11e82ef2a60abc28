// Responses and streams as clients see them are in http_connection_test.cc, over a socket.
#include "server/http/http_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(ErrorResponse, CarriesWhatTheClientIsToDoInFields) {
  const HttpResponse wrong = ErrorResponse(InvalidField("prompt", "It is wrong."));
  EXPECT_EQ(wrong.status, 400);
  EXPECT_THAT(wrong.fields, IsEmpty());
  EXPECT_NE(wrong.body.find(R"("param":"prompt")"), std::string::npos) << wrong.body;
  EXPECT_THAT(ErrorResponse(Overloaded("Later.", "queue_full", 7)).fields, ElementsAre(Pair("retry-after", "7")));
}

}  // namespace
}  // namespace hydrant
