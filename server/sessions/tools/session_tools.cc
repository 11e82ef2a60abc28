#include "server/sessions/tools/session_tools.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/flags/command_line.h"
#include "api/wire/nearest_name.h"
#include "server/process/ascii_text.h"
#include "server/process/clock.h"
#include "server/process/exit_codes.h"
#include "server/process/secret_file.h"
#include "server/sessions/tools/directory_place.h"
#include "server/sessions/tools/handover.h"
#include "server/sessions/tools/http_place.h"
#include "server/sessions/tools/session_report.h"
#include "server/sessions/tools/state_files.h"

namespace hydrant {
namespace {

struct ToolOptions {
  std::string session_dir;
  std::string session_key_path;
  std::string url;
  std::string api_key_path, admin_key_path;  // of files
  std::string from, to;                      // handover: a URL, or a directory
  double wait_s = 30;
  std::string tenant;
  std::string output;
  std::vector<std::string> names;  // ids, or files
  bool all = false;
  bool json = false;
  bool kv = false;
};

constexpr int64_t kKeyFileBytesMax = 4096;

bool IsUrl(std::string_view where) {
  return where.starts_with("http://") || where.starts_with("https://") || where.starts_with("unix:");
}

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
  absl::Status HandOver(SessionPlace& from);
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
  std::set<std::string> ids;  // one that is named twice is meant once
  for (const std::string& id : options_.names) {
    if (!ids.insert(id).second) continue;
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
  int64_t written = 0, with_kv = 0;
  for (const PlacedSession& session : *sessions) {
    const absl::StatusOr<MovingSession> state = options_.kv
                                                    ? place.ExportState(session.tenant, session.id)
                                                    : place.SessionPlace::ExportState(session.tenant, session.id);
    if (!state.ok()) {
      Fail(absl::StrCat("session ", session.id), state.status());
      continue;
    }
    if (!state->kv_lost.empty()) {
      streams_.error(absl::StrCat("session ", session.id, ": is exported without its KV: ", state->kv_lost));
    }
    if (options_.output == "-") {
      streams_.out(state->Head());
      if (state->kv == nullptr) continue;
      const absl::Status status = state->kv->Read([this](std::string_view piece) {
        streams_.out(piece);
        return absl::OkStatus();
      });
      if (!status.ok()) return status;
      continue;
    }
    if (absl::Status status = files->Write(session, *state); !status.ok()) return status;
    ++written;
    with_kv += state->kv != nullptr ? 1 : 0;
  }
  if (options_.output != "-")
    streams_.error(absl::StrCat("exported ", written, " of ", sessions->size(), " sessions",
                                options_.kv ? absl::StrCat(", ", with_kv, " with KV") : ""));
  return absl::OkStatus();
}

absl::Status Tool::Import(SessionPlace& place) {
  if (options_.names.empty()) return absl::InvalidArgumentError("name the files, or the directory, to read");
  const absl::StatusOr<std::vector<std::string>> paths = StateFiles::ToRead(options_.names);
  if (!paths.ok()) return paths.status();
  int64_t imported = 0, present = 0, fleeting = 0;
  for (const std::string& path : *paths) {
    const absl::StatusOr<MovingSession> state = StateFiles::Read(path);
    if (!state.ok()) {
      Fail(path, state.status());
      continue;
    }
    const absl::StatusOr<ImportReport> report = ImportOnce(place, options_.tenant, *state, /*replaces=*/false);
    if (!report.ok()) {
      Fail(path, report.status());
      continue;
    }
    const ImportOutcome outcome = report->outcome;
    const bool came = outcome == ImportOutcome::kImported || outcome == ImportOutcome::kNotDurable;
    came ? ++imported : ++present;
    if (state->kv != nullptr && came && report->kv != "taken") {
      streams_.error(
          absl::StrCat(path, ": is there without its KV: ", report->kv.empty() ? "nobody takes it" : report->kv));
    }
    const bool is_kept = outcome == ImportOutcome::kImported || outcome == ImportOutcome::kPresent;
    fleeting += is_kept ? 0 : 1;
  }
  streams_.error(absl::StrCat("imported ", imported, " of ", paths->size(), " sessions; ", present,
                              " were there already, and the same"));
  if (fleeting > 0)
    streams_.error(absl::StrCat(fleeting, " of them are not durable: a restart of the server loses them"));
  return absl::OkStatus();
}

absl::Status Tool::Forget(SessionPlace& place) {
  if (options_.names.empty()) return absl::InvalidArgumentError("name the sessions to be forgotten");
  const absl::StatusOr<std::vector<PlacedSession>> sessions = Named(place);
  if (!sessions.ok()) return sessions.status();
  std::vector<const PlacedSession*> forgotten;
  for (const PlacedSession& session : *sessions) {
    const absl::StatusOr<bool> durable = place.Forget(session.tenant, session.id, 0);
    if (!durable.ok()) {
      Fail(absl::StrCat("session ", session.id), durable.status());
    } else if (!*durable) {
      Fail(absl::StrCat("session ", session.id), absl::UnavailableError("a restart of the server may bring it back"));
    } else {
      forgotten.push_back(&session);
    }
  }
  // Once all of them are gone, so that the files are written anew once.
  int64_t purged = 0;
  for (const PlacedSession* session : forgotten) {
    const absl::Status status = place.Purge(session->tenant, session->id);
    if (!status.ok()) Fail(absl::StrCat("session ", session->id), status);
    purged += status.ok() ? 1 : 0;
  }
  streams_.error(absl::StrCat("forgot ", forgotten.size(), " of ", sessions->size(),
                              " sessions; no file has the text of ", purged));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SessionPlace>> OpenPlace(const std::string& where, bool is_directory,
                                                        const ToolOptions& options);

absl::Status Tool::HandOver(SessionPlace& from) {
  absl::StatusOr<std::unique_ptr<SessionPlace>> to = OpenPlace(options_.to, !IsUrl(options_.to), options_);
  if (!to.ok()) return to.status();
  HandoverOptions options;
  options.tenant = options_.tenant;
  options.wait_s = options_.wait_s;
  options.clock = MonotonicUs;
  options.sleep = [](double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); };
  options.say = streams_.error;
  const absl::StatusOr<HandoverReport> report = hydrant::HandOver(from, **to, options);
  const absl::Status closed = (*to)->Close();
  if (!report.ok()) return report.status();
  streams_.out(options_.json ? HandoverJson(*report) : HandoverText(*report));
  incomplete_ = !report->complete();
  return closed;
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
    {"handover", "moves all sessions to another server: --from WHERE --to WHERE", &Tool::HandOver},
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
  const std::string_view name = row.name;
  if (name == "handover") {
    word->add_option("--from", options->from, "http://HOST:PORT, unix:PATH, or a directory")->type_name("WHERE");
    word->add_option("--to", options->to, "likewise")->type_name("WHERE");
    word->add_option("--wait", options->wait_s, "how long turns in progress are waited for (default: 30)")
        ->type_name("SECONDS")
        ->check(CLI::Range(0.0, 86400.0));
  } else {
    word->add_option("--session-dir", options->session_dir, "the directory of a server that is stopped")
        ->type_name("DIRECTORY");
    word->add_option("--url", options->url, "a server that runs: http://HOST:PORT, or unix:PATH of its admin socket")
        ->type_name("URL");
  }
  word->add_option("--session-key-file", options->session_key_path,
                   "file with the key of a directory that is encrypted")
      ->type_name("FILE");
  word->add_option("--api-key-file", options->api_key_path, "file with a tenant's key (or HYDRANT_API_KEY)")
      ->type_name("FILE");
  word->add_option("--admin-api-key-file", options->admin_key_path,
                   "file with the operator's key, for the admin listener (or HYDRANT_ADMIN_KEY)")
      ->type_name("FILE");
  word->add_option("--tenant", options->tenant, "of this tenant alone; import: into it (default: as the file says)")
      ->type_name("NAME");
  if (name == "list" || name == "verify" || name == "handover") word->add_flag("--json", options->json, "as JSON");
  if (name == "export") {
    word->add_option("--output", options->output, "file, directory for several, or - for standard output")
        ->type_name("PATH");
    word->add_flag("--all", options->all, "every session");
    word->add_flag("--kv", options->kv, "with KV, where a server that runs has it: its next turn computes no history");
  }
  if (name == "export" || name == "forget") word->add_option("id", options->names, "ids of sessions");
  if (name == "import") word->add_option("file", options->names, "files, or directories of them");
}

// The first key of a file, or else of the environment.
absl::StatusOr<std::string> KeyOf(const std::string& path, const char* variable) {
  if (path.empty()) {
    const char* key = std::getenv(variable);
    return std::string(key == nullptr ? "" : key);
  }
  absl::StatusOr<std::string> text = ReadSecretFile(path, kKeyFileBytesMax);
  if (!text.ok()) return text.status();
  std::string key(Trim(std::string_view(*text).substr(0, text->find('\n'))));
  if (key.empty() || key.find_first_of("\r\n") != std::string::npos) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": has no key in its first line"));
  }
  return key;
}

absl::StatusOr<std::unique_ptr<SessionPlace>> OpenPlace(const std::string& where, bool is_directory,
                                                        const ToolOptions& options) {
  if (is_directory) {
    std::shared_ptr<const SessionKeys> keys;
    if (!options.session_key_path.empty()) {
      absl::StatusOr<std::shared_ptr<const SessionKeys>> loaded = SessionKeys::Load(options.session_key_path);
      if (!loaded.ok()) return loaded.status();
      keys = *std::move(loaded);
    }
    absl::StatusOr<std::unique_ptr<DirectoryPlace>> place = DirectoryPlace::Open(where, std::move(keys));
    if (!place.ok()) return place.status();
    return *std::move(place);
  }
  if (!options.api_key_path.empty() && !options.admin_key_path.empty()) {
    return absl::InvalidArgumentError("--api-key-file, --admin-api-key-file: give one of them");
  }
  absl::StatusOr<HttpClient> client = HttpClient::To(where);
  if (!client.ok()) return client.status();
  absl::StatusOr<std::string> admin_key = std::string();
  if (options.api_key_path.empty()) admin_key = KeyOf(options.admin_key_path, "HYDRANT_ADMIN_KEY");
  if (!admin_key.ok()) return admin_key.status();
  if (client->is_unix() || !admin_key->empty()) {
    return std::make_unique<HttpPlace>(*std::move(client), *std::move(admin_key), /*is_admin=*/true);
  }
  absl::StatusOr<std::string> key = KeyOf(options.api_key_path, "HYDRANT_API_KEY");
  if (!key.ok()) return key.status();
  return std::make_unique<HttpPlace>(*std::move(client), *std::move(key), /*is_admin=*/false);
}

absl::Status RunWord(const WordRow& row, const ToolOptions& options, const ToolStreams& streams, bool* incomplete) {
  const bool moves = std::string_view(row.name) == "handover";
  if (moves && (options.from.empty() || options.to.empty())) {
    return absl::InvalidArgumentError("--from WHERE --to WHERE: say from where to where");
  }
  if (!moves && options.session_dir.empty() == options.url.empty()) {
    return absl::InvalidArgumentError("--session-dir DIRECTORY, or else --url URL: say whose sessions");
  }
  const std::string& where = moves ? options.from : options.url.empty() ? options.session_dir : options.url;
  const bool is_directory = moves ? !IsUrl(where) : options.url.empty();
  absl::StatusOr<std::unique_ptr<SessionPlace>> place = OpenPlace(where, is_directory, options);
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
  for (const WordRow& row : kWords) {
    if (arguments.front() != row.name) continue;
    const std::string wrong =
        WrongFlag(*app.get_subcommand(row.name), arguments, absl::StrCat("hydrantd sessions ", row.name, " --help"));
    if (wrong.empty()) break;
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
