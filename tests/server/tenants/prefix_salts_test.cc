#include "server/tenants/prefix_salts.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

TEST(PrefixSalts, AreEqualForOneTenantAndSaltOnly) {
  const PrefixSalts salts;
  EXPECT_EQ(salts.Of("anna", ""), salts.Of("anna", ""));
  EXPECT_EQ(salts.Of("anna", "s"), salts.Of("anna", "s"));
  EXPECT_NE(salts.Of("anna", ""), salts.Of("bert", ""));
  EXPECT_NE(salts.Of("anna", "s"), salts.Of("anna", ""));
  EXPECT_NE(salts.Of("anna", "b"), salts.Of("annab", "")) << "what belongs to whom is not lost";
  EXPECT_NE(salts.Of("", "x"), salts.Of("x", ""));
  EXPECT_EQ(salts.Of("anna", "s", "a"), salts.Of("anna", "s", "a"));
  EXPECT_NE(salts.Of("anna", "s", "a"), salts.Of("anna", "s"));
  EXPECT_NE(salts.Of("anna", "s", "a"), salts.Of("anna", "s", "b"));
  EXPECT_NE(salts.Of("anna", "", "s"), salts.Of("anna", "s", ""));
}

TEST(PrefixSalts, DifferFromServerToServer) { EXPECT_NE(PrefixSalts().Of("anna", ""), PrefixSalts().Of("anna", "")); }

}  // namespace
}  // namespace hydrant
