// The live view: GET /ui, one page with its style sheets and scripts, all of them in the program. It needs no key and holds no
// data: the page asks the same endpoints as any other client.
//
// Thread: built once; handlers run on any strand.
#ifndef HYDRANT_SERVER_LIVE_VIEW_UI_ROUTES_H_
#define HYDRANT_SERVER_LIVE_VIEW_UI_ROUTES_H_

#include <span>
#include <string_view>
#include <vector>

#include "server/http/listener_context.h"

namespace hydrant {

// A file of server/ui as it was when the program was built.
struct UiAsset {
  std::string_view path;  // below /ui/; the page itself: empty
  std::string_view content_type;
  std::string_view content;
};

std::span<const UiAsset> UiAssets();

// What the page may do, as browsers read it: run its own scripts, ask its own server, and nothing else.
inline constexpr char kUiSecurityPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

// One open route per asset. Browsers keep them and ask with If-None-Match whether they still hold: 304.
void AddUiRoutes(std::vector<HttpRoute>* routes);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_LIVE_VIEW_UI_ROUTES_H_
