#include "api/flags/help_page.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace hydrant {
namespace {

TEST(HelpPage, HasGroupsUnitsDefaultsAndOneLineForEachFlag) {
  CLI::App app("Brews tea.", "kettle");
  std::string tea, file;
  int seconds = 90;
  bool milk = true;
  app.set_help_flag("-h,--help", "print this");
  app.formatter(std::make_shared<HelpPage>(std::set<std::string>{"--seconds", "--help"}));
  app.add_option("tea", tea, "");
  app.add_option("--seconds", seconds, "for how long")
      ->type_name("SECONDS")
      ->check(CLI::Range(1, 600))
      ->group("Brewing")
      ->capture_default_str();
  app.add_flag("--milk,!--no-milk", milk, "with milk")->group("Serving");
  app.add_option("--recipe", file, "what to do instead")->type_name("FILE")->group("Brewing");
  EXPECT_EQ(app.help(),
            "kettle TEA [flags]\n"
            "\n"
            "Brews tea.\n"
            "\n"
            "Brewing\n"
            "  --seconds SECONDS                   for how long (default: 90)\n"
            "\n"
            "General\n"
            "  --help                              print this\n"
            "\n"
            "kettle --help-all lists every flag.\n");
  EXPECT_EQ(app.help("", CLI::AppFormatMode::All),
            "kettle TEA [flags]\n"
            "\n"
            "Brews tea.\n"
            "\n"
            "Brewing\n"
            "  --seconds SECONDS                   for how long (default: 90)\n"
            "  --recipe FILE                       what to do instead\n"
            "\n"
            "Serving\n"
            "  --[no-]milk                         with milk\n"
            "\n"
            "General\n"
            "  --help                              print this\n");
}

}  // namespace
}  // namespace hydrant
