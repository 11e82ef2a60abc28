#include "loadgen/report_html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hydrant {
namespace {

using testing::HasSubstr;
using testing::Not;

Measured Some() {
  Measured measured;
  RequestRecord record;
  record.first_s = 0.5;
  record.last_s = record.end_s = 1;
  record.gaps_s = {0.5f};
  record.output_tokens = 2;
  measured.run.records = {record};
  measured.run.duration_s = 1;
  measured.head = {.title = "<t>", .base_url = "http://a", .model = "m"};
  measured.head.configuration = {{"seed", "7"}};
  measured.summary = Summarise(measured.run, {TenantSpec()}, {});
  return measured;
}

TEST(ReportHtml, IsOneFileWithPlots) {
  const std::string html = ReportHtml({Some()}, {}, {}, {TenantSpec()});
  EXPECT_THAT(html, HasSubstr("<!DOCTYPE html>"));
  EXPECT_THAT(html, HasSubstr("&lt;t&gt;, m"));
  EXPECT_THAT(html, HasSubstr("<td>seed</td><td>7</td>"));
  EXPECT_THAT(html, HasSubstr("Time to first token"));
  for (const char* outside : {"<script", "<link", "src=", "@import", "url("})
    EXPECT_THAT(html, Not(HasSubstr(outside)));
  EXPECT_THAT(html, Not(HasSubstr("did not keep up")));
}

TEST(ReportHtml, SaysThatTheClientWasLate) {
  Measured late = Some();
  late.summary.kept_up = false;
  EXPECT_THAT(ReportHtml({late}, {}, {}, {TenantSpec()}), HasSubstr("did not keep up"));
}

TEST(ReportHtml, ShowsBothServers) {
  Measured other = Some();
  other.head.base_url = "http://b";
  const std::string html =
      ReportHtml({Some(), other}, CompareServers({{Some().run, other.run}}, 1), {}, {TenantSpec()});
  EXPECT_THAT(html, HasSubstr("B in terms of A"));
  EXPECT_THAT(html, HasSubstr("mean TTFT (ms)"));
  EXPECT_THAT(html, HasSubstr("Output of B"));
}

}  // namespace
}  // namespace hydrant
