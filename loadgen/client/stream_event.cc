#include "loadgen/client/stream_event.h"

#include "loadgen/client/json_scan.h"

namespace hydrant {
namespace {

std::string_view StringOrNothing(std::string_view value) {
  return value.size() >= 2 && value.front() == '"' ? value.substr(1, value.size() - 2) : std::string_view();
}

// Deltas carry text under several names: a reasoning model's thoughts are tokens as well, but no part of the answer.
void ReadDelta(std::string_view delta, StreamEvent* event, bool* names_role, bool* has_more) {
  ScanMembers(delta, [&](std::string_view key, std::string_view value) {
    if (key == "content") {
      event->text = StringOrNothing(value);
    } else if (key == "role") {
      *names_role = true;
    } else if (value != "null" && value != "\"\"" && value != "[]") {
      *has_more = true;
    }
  });
}

void ReadChoice(std::string_view choice, StreamEvent* event) {
  bool names_role = false;
  bool has_more = false;
  ScanMembers(choice, [&](std::string_view key, std::string_view value) {
    if (key == "text") {
      event->text = StringOrNothing(value);
    } else if (key == "delta") {
      ReadDelta(value, event, &names_role, &has_more);
    } else if (key == "finish_reason") {
      event->finish_reason = StringOrNothing(value);
    }
  });
  const bool only_role = names_role && !has_more && event->text.empty() && event->finish_reason.empty();
  event->kind = only_role ? StreamEvent::Kind::kRole : StreamEvent::Kind::kOutput;
}

void ReadUsage(std::string_view usage, StreamEvent* event) {
  ScanMembers(usage, [&](std::string_view key, std::string_view value) {
    if (key == "prompt_tokens") {
      event->prompt_tokens = ScanInteger(value);
    } else if (key == "completion_tokens") {
      event->completion_tokens = ScanInteger(value);
    } else if (key == "prompt_tokens_details") {
      ScanMembers(value, [&](std::string_view name, std::string_view count) {
        if (name == "cached_tokens") event->cached_tokens = ScanInteger(count);
      });
    }
  });
}

}  // namespace

StreamEvent ReadStreamEvent(std::string_view data) {
  StreamEvent event;
  if (data == "[DONE]") {
    event.kind = StreamEvent::Kind::kDone;
    return event;
  }
  bool failed = false;
  bool has_choice = false;
  const bool whole = ScanMembers(data, [&](std::string_view key, std::string_view value) {
    if (key == "choices") {
      ScanElements(value, [&](std::string_view choice) {
        if (!has_choice) ReadChoice(choice, &event);
        has_choice = true;
      });
    } else if (key == "usage") {
      ReadUsage(value, &event);
    } else if (key == "error" && value != "null") {
      failed = true;
      event.error = StringOrNothing(value);
      ScanMembers(value, [&](std::string_view name, std::string_view message) {
        if (name == "message") event.error = StringOrNothing(message);
      });
    }
  });
  if (!whole) {
    event = StreamEvent();
  } else if (failed) {
    event.kind = StreamEvent::Kind::kError;
  } else if (!has_choice) {
    event.kind = StreamEvent::Kind::kNoChoices;
  }
  return event;
}

}  // namespace hydrant
