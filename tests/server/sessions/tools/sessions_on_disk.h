// A directory of sessions as a server left it.
#ifndef HYDRANT_TESTS_SERVER_SESSIONS_TOOLS_SESSIONS_ON_DISK_H_
#define HYDRANT_TESTS_SERVER_SESSIONS_TOOLS_SESSIONS_ON_DISK_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/process/clock.h"
#include "server/sessions/journal/session_journal.h"
#include "server/sessions/journal/session_keys.h"
#include "server/sessions/past_codec.h"
#include "server/sessions/tools/session_tools.h"
#include "tests/support/temp_dir.h"

namespace hydrant {

inline constexpr ModelId kDiskModel = {1, 2, 3};

inline SessionPast PastThatSays(const std::string& text) {
  SessionPast past;
  for (const char c : text) past.tokens.push_back(static_cast<uint8_t>(c));
  past.computed = static_cast<int32_t>(text.size()) - 1;
  past.text = text;
  past.prompt_bytes = text.size();
  return past;
}

class SessionsOnDisk {
 public:
  // `key_path`: a key file; empty: what is written is not sealed.
  explicit SessionsOnDisk(std::string path, std::string key_path = "")
      : path_(std::move(path)), key_path_(std::move(key_path)) {
    Open();
  }
  ~SessionsOnDisk() { Stop(); }

  void Open() {
    SessionJournal::Options options;
    options.clock = MonotonicUs;
    options.wall_clock = [] { return int64_t{1'700'000'000}; };
    options.any_file_system = true;  // tests may run in a container's own layer
    if (!key_path_.empty()) options.keys = *SessionKeys::Load(key_path_);
    auto journal = SessionJournal::Open(path_, std::move(options));
    ASSERT_TRUE(journal.ok()) << journal.status();
    journal_ = *std::move(journal);
  }
  void Stop() {
    if (journal_ != nullptr) journal_->Stop();
    journal_.reset();
  }
  // A session of so many turns, each of which added its text to the one before.
  void Add(const std::string& tenant, const std::string& id, const std::vector<std::string>& turns,
           uint8_t policy = 0) {
    SessionPast before;
    std::string text;
    for (size_t i = 0; i < turns.size(); ++i) {
      text += turns[i];
      const SessionPast past = PastThatSays(text);
      LogRecord record;
      record.type = i == 0 ? RecordType::kReplace : RecordType::kTurn;
      record.name = names_[tenant + "/" + id] = journal_->NameOf(tenant, id);
      record.turn = i + 1;
      record.turn_before = i;
      record.wall_s = 1'700'000'000 + static_cast<int64_t>(i);
      record.facts = {tenant, id, 1'699'999'000, static_cast<int32_t>(past.tokens.size()), 0, policy};
      record.body = EncodePast(past, i == 0 ? nullptr : &before, kDiskModel);
      before = past;
      std::promise<bool> durable;
      journal_->Commit(std::move(record), [&](bool is) { durable.set_value(is); });
      EXPECT_TRUE(durable.get_future().get());
    }
  }
  const std::string& path() const { return path_; }
  // What the disk calls one that was added.
  SessionName NameOf(const std::string& tenant, const std::string& id) const { return names_.at(tenant + "/" + id); }

 private:
  const std::string path_, key_path_;
  std::unique_ptr<SessionJournal> journal_;
  std::map<std::string, SessionName> names_;
};

// All the bytes of a directory's files.
inline std::string BytesBelow(const std::string& path) {
  std::string bytes;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    bytes.append(std::istreambuf_iterator<char>(file), {});
  }
  return bytes;
}

struct ToolRun {
  int exit_code = 0;
  std::string out;
  std::string error;
};

inline ToolRun RunTool(const std::vector<std::string>& arguments) {
  ToolRun run;
  const ToolStreams streams = {[&](std::string_view text) { run.out.append(text); },
                               [&](std::string_view line) { run.error.append(line).append("\n"); }};
  run.exit_code = RunSessionTools(arguments, streams);
  return run;
}

inline ToolRun On(const std::string& path, const std::string& word, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {word, "--session-dir", path};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return RunTool(arguments);
}

inline constexpr const char* kCanary = "the-canary-sings-in-the-coal-mine";

// `hydrantd sessions` on a directory with three sessions of two tenants, whose server is stopped.
class DirectoryTools : public testing::Test {
 protected:
  void SetUp() override {
    disk_.Add("acme", "a", {"Hello.", " Who?", std::string(" Me: ") + kCanary});
    disk_.Add("acme", "b", {"Good day."});
    disk_.Add("other", "a", {"Bye."});
    disk_.Stop();
  }
  ToolRun Run(const std::string& word, std::vector<std::string> more = {}) { return On(disk_.path(), word, more); }

  const TempDir temp_;
  SessionsOnDisk disk_{temp_.File("d")};
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SERVER_SESSIONS_TOOLS_SESSIONS_ON_DISK_H_
