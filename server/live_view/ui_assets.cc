// The files of server/ui, taken in by the assembler: no copy of them as source, no step of the build.
#include "server/live_view/ui_routes.h"

// HYDRANT_UI_DIR is server/ui; the build depends on its files (server/CMakeLists.txt).
#define HYDRANT_UI_ASSET(symbol, file)                                                                                 \
  asm(".pushsection .rodata\n" #symbol ":\n.incbin \"" HYDRANT_UI_DIR "/" file "\"\n" #symbol "_end:\n.popsection\n"); \
  extern "C" const char symbol[];                                                                                      \
  extern "C" const char symbol##_end[];

HYDRANT_UI_ASSET(hydrant_ui_page, "index.html")
HYDRANT_UI_ASSET(hydrant_ui_icon, "icon.svg")
HYDRANT_UI_ASSET(hydrant_ui_colours, "colours.css")
HYDRANT_UI_ASSET(hydrant_ui_style, "style.css")
HYDRANT_UI_ASSET(hydrant_ui_chat_style, "chat.css")
HYDRANT_UI_ASSET(hydrant_ui_api, "api.js")
HYDRANT_UI_ASSET(hydrant_ui_chart, "chart.js")
HYDRANT_UI_ASSET(hydrant_ui_chat, "chat.js")
HYDRANT_UI_ASSET(hydrant_ui_curl, "curl.js")
HYDRANT_UI_ASSET(hydrant_ui_dom, "dom.js")
HYDRANT_UI_ASSET(hydrant_ui_format, "format.js")
HYDRANT_UI_ASSET(hydrant_ui_grid, "grid.js")
HYDRANT_UI_ASSET(hydrant_ui_main, "main.js")
HYDRANT_UI_ASSET(hydrant_ui_map, "map.js")
HYDRANT_UI_ASSET(hydrant_ui_memory, "memory.js")
HYDRANT_UI_ASSET(hydrant_ui_message, "message.js")
HYDRANT_UI_ASSET(hydrant_ui_patience, "patience.js")
HYDRANT_UI_ASSET(hydrant_ui_settings, "settings.js")
HYDRANT_UI_ASSET(hydrant_ui_store, "store.js")

namespace hydrant {
namespace {

constexpr std::string_view kHtml = "text/html; charset=utf-8";
constexpr std::string_view kCss = "text/css; charset=utf-8";
constexpr std::string_view kJs = "text/javascript; charset=utf-8";
constexpr std::string_view kSvg = "image/svg+xml";

std::string_view Between(const char* begin, const char* end) { return {begin, static_cast<size_t>(end - begin)}; }

}  // namespace

std::span<const UiAsset> UiAssets() {
  static const UiAsset kAssets[] = {
      {"", kHtml, Between(hydrant_ui_page, hydrant_ui_page_end)},
      {"icon.svg", kSvg, Between(hydrant_ui_icon, hydrant_ui_icon_end)},
      {"colours.css", kCss, Between(hydrant_ui_colours, hydrant_ui_colours_end)},
      {"style.css", kCss, Between(hydrant_ui_style, hydrant_ui_style_end)},
      {"chat.css", kCss, Between(hydrant_ui_chat_style, hydrant_ui_chat_style_end)},
      {"api.js", kJs, Between(hydrant_ui_api, hydrant_ui_api_end)},
      {"chart.js", kJs, Between(hydrant_ui_chart, hydrant_ui_chart_end)},
      {"chat.js", kJs, Between(hydrant_ui_chat, hydrant_ui_chat_end)},
      {"curl.js", kJs, Between(hydrant_ui_curl, hydrant_ui_curl_end)},
      {"dom.js", kJs, Between(hydrant_ui_dom, hydrant_ui_dom_end)},
      {"format.js", kJs, Between(hydrant_ui_format, hydrant_ui_format_end)},
      {"grid.js", kJs, Between(hydrant_ui_grid, hydrant_ui_grid_end)},
      {"main.js", kJs, Between(hydrant_ui_main, hydrant_ui_main_end)},
      {"map.js", kJs, Between(hydrant_ui_map, hydrant_ui_map_end)},
      {"memory.js", kJs, Between(hydrant_ui_memory, hydrant_ui_memory_end)},
      {"message.js", kJs, Between(hydrant_ui_message, hydrant_ui_message_end)},
      {"patience.js", kJs, Between(hydrant_ui_patience, hydrant_ui_patience_end)},
      {"settings.js", kJs, Between(hydrant_ui_settings, hydrant_ui_settings_end)},
      {"store.js", kJs, Between(hydrant_ui_store, hydrant_ui_store_end)},
  };
  return kAssets;
}

}  // namespace hydrant
