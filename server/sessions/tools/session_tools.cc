#include "server/sessions/tools/session_tools.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/flags/command_line.h"
#include "api/wire/nearest_name.h"
#include "server/process/exit_codes.h"
#include "server/sessions/tools/directory_place.h"
#include "server/sessions/tools/session_report.h"
#include "server/sessions/tools/state_files.h"

namespace hydrant {
namespace {

struct ToolOptions {
  std::string session_dir;
  std::string tenant;
  std::string output;
  std::vector<std::string> names;  // ids, or files
  bool all = false;
  bool json = false;
};

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kFailedPrecondition:
      return kExitConfig;
    case absl::StatusCode::kUnavailable:
      return kExitResources;
    default:
      return kExitIncomplete;
  }
}

class Tool {
 public:
  Tool(const ToolOptions& options, const ToolStreams& streams) : options_(options), streams_(streams) {}

  absl::Status List(SessionPlace& place) {
    const absl::StatusOr<std::vector<PlacedSession>> sessions = place.List(options_.tenant);
    if (!sessions.ok()) return sessions.status();
    streams_.out(options_.json ? SessionsJson(*sessions) : SessionsTable(*sessions));
    return absl::OkStatus();
  }
  absl::Status Verify(SessionPlace& place) {
    const absl::StatusOr<VerifyReport> report = place.Verify(options_.tenant);
    if (!report.ok()) return report.status();
    streams_.out(options_.json ? VerifyJson(*report) : VerifyText(*report));
    incomplete_ = report->damaged > 0;
    return absl::OkStatus();
  }
  absl::Status Export(SessionPlace& place);
  absl::Status Import(SessionPlace& place);
  absl::Status Forget(SessionPlace& place);

  bool incomplete() const { return incomplete_; }

 private:
  // The sessions that the command line names, of one tenant each.
  absl::StatusOr<std::vector<PlacedSession>> Named(SessionPlace& place);
  void Fail(const std::string& what, const absl::Status& status) {
    incomplete_ = true;
    streams_.error(absl::StrCat(what, ": ", std::string(status.message())));
  }

  const ToolOptions& options_;
  const ToolStreams& streams_;
  bool incomplete_ = false;
};

absl::StatusOr<std::vector<PlacedSession>> Tool::Named(SessionPlace& place) {
  if (options_.all != options_.names.empty()) return absl::InvalidArgumentError("name sessions, or else say --all");
  absl::StatusOr<std::vector<PlacedSession>> sessions = place.List(options_.tenant);
  if (!sessions.ok() || options_.all) return sessions;
  std::vector<PlacedSession> named;
  for (const std::string& id : options_.names) {
    const size_t before = named.size();
    for (const PlacedSession& session : *sessions) {
      if (session.id == id) named.push_back(session);
    }
    if (named.size() == before) return absl::NotFoundError(absl::StrCat(place.name(), " has no session ", id));
    if (named.size() > before + 1) {
      return absl::InvalidArgumentError(absl::StrCat("several tenants have a session ", id, ": say --tenant NAME"));
    }
  }
  return named;
}

absl::Status Tool::Export(SessionPlace& place) {
  if (options_.output.empty()) return absl::InvalidArgumentError("--output: say which file, or directory, to write");
  const absl::StatusOr<std::vector<PlacedSession>> sessions = Named(place);
  if (!sessions.ok()) return sessions.status();
  if (options_.output == "-" && sessions->size() != 1) {
    return absl::InvalidArgumentError("--output -: takes one session");
  }
  const absl::StatusOr<StateFiles> files = StateFiles::ToWrite(options_.output, options_.all || sessions->size() > 1);
  if (!files.ok()) return files.status();
  int64_t written = 0;
  for (const PlacedSession& session : *sessions) {
    const absl::StatusOr<std::string> bytes = place.Export(session.tenant, session.id);
    if (!bytes.ok()) {
      Fail(absl::StrCat("session ", session.id), bytes.status());
      continue;
    }
    if (options_.output == "-") {
      streams_.out(*bytes);
      continue;
    }
    if (absl::Status status = files->Write(session, *bytes); !status.ok()) return status;
    ++written;
  }
  if (options_.output != "-") streams_.error(absl::StrCat("exported ", written, " of ", sessions->size(), " sessions"));
  return absl::OkStatus();
}

absl::Status Tool::Import(SessionPlace& place) {
  if (options_.names.empty()) return absl::InvalidArgumentError("name the files, or the directory, to read");
  const absl::StatusOr<std::vector<std::string>> paths = StateFiles::ToRead(options_.names);
  if (!paths.ok()) return paths.status();
  int64_t imported = 0, present = 0;
  for (const std::string& path : *paths) {
    const absl::StatusOr<std::string> bytes = StateFiles::Read(path);
    if (!bytes.ok()) {
      Fail(path, bytes.status());
      continue;
    }
    const absl::StatusOr<ImportOutcome> outcome = ImportOnce(place, options_.tenant, *bytes);
    if (!outcome.ok()) {
      Fail(path, outcome.status());
      continue;
    }
    *outcome == ImportOutcome::kPresent ? ++present : ++imported;
    if (*outcome == ImportOutcome::kNotDurable) {
      Fail(path, absl::UnavailableError("is there, and a restart of the server will lose it"));
    }
  }
  streams_.error(absl::StrCat("imported ", imported, " of ", paths->size(), " sessions; ", present,
                              " were there already, and the same"));
  return absl::OkStatus();
}

absl::Status Tool::Forget(SessionPlace& place) {
  if (options_.names.empty()) return absl::InvalidArgumentError("name the sessions to be forgotten");
  const absl::StatusOr<std::vector<PlacedSession>> sessions = Named(place);
  if (!sessions.ok()) return sessions.status();
  for (const PlacedSession& session : *sessions) {
    const absl::StatusOr<bool> durable = place.Forget(session.tenant, session.id, 0);
    if (!durable.ok()) {
      Fail(absl::StrCat("session ", session.id), durable.status());
    } else if (!*durable) {
      Fail(absl::StrCat("session ", session.id), absl::UnavailableError("a restart of the server may bring it back"));
    }
  }
  if (absl::Status status = place.Purge(); !status.ok()) Fail("purge", status);
  if (!incomplete_) streams_.error(absl::StrCat("forgot ", sessions->size(), " sessions; no file has their text"));
  return absl::OkStatus();
}

using Word = absl::Status (Tool::*)(SessionPlace& place);
struct WordRow {
  const char* name;
  const char* text;
  Word word;
};
constexpr WordRow kWords[] = {
    {"list", "lists sessions", &Tool::List},
    {"verify", "reads everything and says what is not what was written; exit code 1 then", &Tool::Verify},
    {"export", "writes sessions into files: ID …, or --all", &Tool::Export},
    {"import", "reads files that export wrote: FILE …, or a directory of them", &Tool::Import},
    {"forget", "ends sessions, and has their text leave the files: ID …", &Tool::Forget},
};

// What is wrong with the first argument, which says what to do, or nothing.
std::string WrongWord(const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  for (const WordRow& row : kWords) words.emplace_back(row.name);
  if (arguments.empty()) return absl::StrCat("say what to do: ", absl::StrJoin(words, ", "), "; or --help");
  const std::string& word = arguments.front();
  if (word.starts_with("-") || std::find(words.begin(), words.end(), word) != words.end()) return "";
  const std::string_view nearest = NearestName(word, words);
  return absl::StrCat("there is no '", word, "'", nearest.empty() ? "" : ": did you mean ", std::string(nearest),
                      nearest.empty() ? "" : "?");
}

void AddWord(CLI::App& app, const WordRow& row, ToolOptions* options) {
  CLI::App* word = app.add_subcommand(row.name, row.text);
  word->add_option("--session-dir", options->session_dir, "the directory of a server that is stopped")
      ->type_name("DIRECTORY");
  word->add_option("--tenant", options->tenant, "of this tenant alone; import: into it (default: as the file says)")
      ->type_name("NAME");
  const std::string_view name = row.name;
  if (name == "list" || name == "verify") word->add_flag("--json", options->json, "as JSON");
  if (name == "export") {
    word->add_option("--output", options->output, "file, directory for several, or - for standard output")
        ->type_name("PATH");
    word->add_flag("--all", options->all, "every session");
  }
  if (name == "export" || name == "forget") word->add_option("id", options->names, "ids of sessions");
  if (name == "import") word->add_option("file", options->names, "files, or directories of them");
}

absl::Status RunWord(const WordRow& row, const ToolOptions& options, const ToolStreams& streams, bool* incomplete) {
  if (options.session_dir.empty()) {
    return absl::InvalidArgumentError("--session-dir DIRECTORY: say whose sessions");
  }
  absl::StatusOr<std::unique_ptr<DirectoryPlace>> place = DirectoryPlace::Open(options.session_dir);
  if (!place.ok()) return place.status();
  Tool tool(options, streams);
  absl::Status status = (tool.*row.word)(**place);
  absl::Status closed = (*place)->Close();
  *incomplete = tool.incomplete();
  return status.ok() ? closed : status;
}

}  // namespace

int RunSessionTools(const std::vector<std::string>& arguments, const ToolStreams& streams) {
  ToolOptions options;
  CLI::App app("What an operator does with sessions (docs/sessions.md).", "hydrantd sessions");
  app.require_subcommand(1);
  for (const WordRow& row : kWords) AddWord(app, row, &options);
  if (const std::string wrong = WrongWord(arguments); !wrong.empty()) {
    streams.error(absl::StrCat("hydrantd sessions: ", wrong));
    return kExitUsage;
  }
  try {
    ParseArguments(app, arguments);
  } catch (const CLI::Success& request) {
    streams.out(AnswerOf(app, request) + "\n");
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    streams.error(absl::StrCat("hydrantd sessions: ", OneLine(error.what())));
    return kExitUsage;
  }
  for (const WordRow& row : kWords) {
    if (!app.got_subcommand(row.name)) continue;
    bool incomplete = false;
    const absl::Status status = RunWord(row, options, streams, &incomplete);
    if (!status.ok()) {
      streams.error(absl::StrCat("hydrantd sessions ", row.name, ": ", std::string(status.message())));
      return ExitCodeOf(status);
    }
    return incomplete ? kExitIncomplete : kExitOk;
  }
  return kExitUsage;
}

}  // namespace hydrant
