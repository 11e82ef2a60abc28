#include "loadgen/report/report_html.h"

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
  EXPECT_THAT(html, Not(HasSubstr("<pre class=\"late\">")));
}

TEST(ReportHtml, SaysThatTheClientWasLate) {
  Measured late = Some();
  late.summary.kept_up = false;
  const std::string html = ReportHtml({late}, {}, {}, {TenantSpec()});
  EXPECT_THAT(html, HasSubstr("<pre class=\"late\">"));
  EXPECT_THAT(html, HasSubstr("DID NOT KEEP UP"));
}

TEST(ReportHtml, PlotsWhatTheTableCounts) {
  Measured failed = Some();
  RequestRecord broken = failed.run.records[0];
  broken.error = RequestError::kProtocol;
  broken.gaps_s = {0.9f, 0.9f};
  failed.run.records.push_back(broken);
  const auto plots = [](const Measured& measured) {
    const std::string html = ReportHtml({measured}, {}, {}, {TenantSpec()});
    const size_t begin = html.find("Between two tokens");
    return html.substr(begin, html.find("</svg>", begin) - begin);
  };
  EXPECT_EQ(plots(failed), plots(Some()));
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
