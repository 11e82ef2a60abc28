// Reads requests, one JSON object a line, and answers each with one line, so that another program can compare what Hydrant makes of
// chat templates:
//   {"source": str, "bos": str, "eos": str, "now": seconds, "messages": […], "tools": […] or null, "documents": […] or null,
//    "add_generation_prompt": bool} -> {"text": str} or {"error": str}
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "model/chat/chat_template.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;

Json Answer(const Json& request) {
  const auto text = [&](const char* name) { return request.at(name).get<std::string>(); };
  const auto parsed = ChatTemplate::Parse(text("source"), text("bos"), text("eos"));
  if (!parsed.ok()) return {{"error", parsed.status().ToString()}};
  const Json no_effort = nullptr;
  const auto prompt = parsed->Render({request.at("messages"), request.at("tools"), request.at("documents"), no_effort,
                                      request.at("add_generation_prompt").get<bool>(),
                                      /*continue_final_message=*/false, request.at("now").get<std::time_t>()});
  if (!prompt.ok()) return {{"error", prompt.status().ToString()}};
  return {{"text", prompt->text}};
}

int Main() {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) std::cout << Answer(Json::parse(line)).dump() << '\n';
  return 0;
}

}  // namespace
}  // namespace hydrant

int main() { return hydrant::Main(); }
