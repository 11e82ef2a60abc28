#include "server/prefill_pacer.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

// A device that takes `fixed_us` and `token_us` per prompt token, and `decode_us` when there are decodes.
struct Device {
  int64_t fixed_us = 1000;
  int64_t token_us = 100;
  int64_t decode_us = 0;
  bool several_tenants = false;

  // `limited`: there were more tokens to compute.
  StepReport Step(int32_t prefill_tokens, bool limited) const {
    StepReport report;
    report.rows = 1;
    report.prefill_tokens = prefill_tokens;
    report.prefill_limited = limited;
    report.several_tenants = several_tenants;
    report.decode_tokens = decode_us > 0 ? 8 : 0;
    report.device_us = fixed_us + prefill_tokens * token_us + decode_us;
    return report;
  }
};

int32_t Settle(PrefillPacer& pacer, const Device& device, int steps = 50) {
  for (int i = 0; i < steps; ++i)
    pacer.Observe(device.Step(device.decode_us > 0 ? pacer.beside_decodes() : pacer.alone(), true));
  return pacer.alone();
}

TEST(PrefillPacer, AFullStepComesToHalfASecondOnAnyDevice) {
  const struct {
    int64_t token_us;
    int32_t low, high;  // tokens
  } cases[] = {{1, 8192, 8192}, {100, 4900, 5000}, {1000, 480, 500}, {10'000, 45, 50}, {1'000'000, 16, 16}};
  for (const auto& test : cases) {
    PrefillPacer pacer(8192);
    const int32_t alone = Settle(pacer, {.token_us = test.token_us});
    EXPECT_GE(alone, test.low) << test.token_us;
    EXPECT_LE(alone, test.high) << test.token_us;
    EXPECT_GE(pacer.beside_decodes(), 16);
    EXPECT_LE(pacer.beside_decodes(), alone);
  }
}

TEST(PrefillPacer, ShortPromptsSayNothingAboutLongOnes) {
  PrefillPacer pacer(8192);
  const int32_t before = pacer.alone();
  Device cold{.fixed_us = 400'000};
  for (int i = 0; i < 20; ++i) pacer.Observe(cold.Step(16, false));
  EXPECT_EQ(pacer.alone(), before);
}

TEST(PrefillPacer, OneSlowStepIsNotBelievedAndSoonMadeUpFor) {
  PrefillPacer pacer(4096);
  const Device device{.token_us = 200};
  const int32_t before = Settle(pacer, device);
  pacer.Observe({.rows = 1, .prefill_tokens = before, .device_us = 60'000'000});
  EXPECT_GE(pacer.alone(), before / 4);
  EXPECT_GE(Settle(pacer, device, 3), before * 9 / 10);
}

TEST(PrefillPacer, SlowDecodesDoNotStarveThePrefillBesideThem) {
  PrefillPacer pacer(4096);
  Settle(pacer, {.token_us = 1000});
  EXPECT_GE(pacer.alone(), 480);
  Settle(pacer, {.token_us = 1000, .decode_us = 2'000'000});
  EXPECT_GE(pacer.beside_decodes(), 45) << "50 ms of prompt";
  EXPECT_GE(pacer.alone(), 480) << "decodes say nothing about steps without them";
}

TEST(PrefillPacer, AStepBesideDecodesTakesSoLongInAll) {
  PrefillPacer pacer(4096);
  Settle(pacer, {.token_us = 1000});
  Settle(pacer, {.token_us = 1000, .decode_us = 100'000});
  EXPECT_NEAR(pacer.beside_decodes(), 100, 8) << "the decodes take half of the time";
  Settle(pacer, {.token_us = 1000, .decode_us = 10'000});
  EXPECT_NEAR(pacer.beside_decodes(), 190, 8) << "and it grows again";
}

TEST(PrefillPacer, WithSeveralTenantsAStepIsShorter) {
  PrefillPacer pacer(4096);
  Settle(pacer, {.token_us = 1000});
  Settle(pacer, {.token_us = 1000, .decode_us = 50'000, .several_tenants = true});
  EXPECT_NEAR(pacer.beside_decodes(), 100, 8) << "of 150 ms";
}

TEST(PrefillPacer, ItAlsoGrowsWhenNoStepIsEverWithoutDecodes) {
  PrefillPacer pacer(8192);
  Settle(pacer, {.fixed_us = 100, .token_us = 1, .decode_us = 1000});
  EXPECT_EQ(pacer.alone(), 8192);
}

TEST(PrefillPacer, TheConfiguredMostIsKept) {
  PrefillPacer pacer(100);
  EXPECT_EQ(pacer.alone(), 100);
  EXPECT_EQ(Settle(pacer, {.token_us = 0}), 100);
}

}  // namespace
}  // namespace hydrant
