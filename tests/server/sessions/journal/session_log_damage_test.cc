// Directories of a log that has lived, each with damage of its own: bits that flipped, a file that ends too early, a page of
// zeros or of another file, a file that is not there or in the place of another. What is read then is what the session once said, to a
// turn that was acknowledged, or nothing; and a session without a record where the damage is, is as it was. A thousand of them; ten
// thousand others with --gtest_random_seed=1 to 10.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/sessions/journal/session_log.h"
#include "tests/server/sessions/journal/model_disk.h"

namespace hydrant {
namespace {

// What a session has said, by turn; turn 0: nothing.
using History = std::map<uint64_t, std::vector<std::string>>;
using Bytes = std::map<std::string, std::string>;  // of the files

struct Lived {
  Bytes files;
  std::map<std::string, History> said;    // by id
  std::map<std::string, uint64_t> turns;  // the last; 0: it was forgotten
};

class SessionLogDamage : public testing::Test {
 protected:
  static constexpr int kSessionCount = 12;
  static inline std::shared_ptr<const SessionKeys> keys;  // null: nothing is sealed

  static SessionName Named(std::string_view tenant, std::string_view id) {
    SessionName name{};
    const std::string text = std::string(tenant) + "/" + std::string(id);
    std::copy_n(text.begin(), std::min(text.size(), name.size()), name.begin());
    return name;
  }
  static std::string TenantOf(const std::string& id) { return id.back() % 2 == 0 ? "even" : "odd"; }
  static SessionLogOptions Options() {
    SessionLogOptions options;
    options.directory.fill(3);
    options.name_of = Named;
    options.segment_bytes = 3000;
    options.purge_s = 50;
    options.retry_s = 0;
    options.keys = keys;
    return options;
  }

  static bool Say(SessionLog& log, Lived* lived, const std::string& id, RecordType type, const std::string& body,
                  int64_t wall_s) {
    LogRecord record;
    record.type = type;
    record.name = Named(TenantOf(id), id);
    record.turn_before = lived->turns[id];
    record.turn = record.turn_before + 1;
    record.wall_s = wall_s;
    if (type != RecordType::kForget) record.facts = {.tenant = TenantOf(id), .id = id};
    record.body = body;
    if (!log.Write(std::vector{record}, wall_s).front()) return false;
    std::vector<std::string> bodies;
    if (type == RecordType::kTurn) bodies = lived->said[id][record.turn_before];
    bodies.push_back(body);
    lived->turns[id] = type == RecordType::kForget ? 0 : record.turn;
    if (type != RecordType::kForget) lived->said[id][record.turn] = std::move(bodies);
    return true;
  }

  // Turns, ends and cleaning, and a start in the middle; what a machine has after months, small.
  static Lived Live(uint32_t seed) {
    ModelDisk disk;
    Lived lived;
    std::mt19937 random(seed);
    for (int life = 0; life < 2; ++life) {
      auto log = SessionLog::Open(disk.Mount(), Options());
      EXPECT_TRUE(log.ok()) << log.status();
      for (int step = 0; step < 120; ++step) {
        const std::string id = "s" + std::to_string(random() % kSessionCount);
        const int64_t wall_s = 1000 + life * 120 + step;
        // Who has ended does not begin anew: a turn's number has one meaning.
        if (lived.turns[id] == 0 && lived.said.contains(id)) continue;
        RecordType type = lived.turns[id] == 0 || random() % 9 == 0 ? RecordType::kReplace : RecordType::kTurn;
        if (id < "s2" && step % 50 > 40 && lived.turns[id] > 0) type = RecordType::kForget;
        std::string body = id + " says " + std::to_string(life * 120 + step) + std::string(random() % 60, 'x');
        EXPECT_TRUE(Say(**log, &lived, id, type, body, wall_s));
        while (random() % 3 == 0 && (*log)->Clean(wall_s)) {
        }
      }
      if (life == 0) (*log)->Checkpoint();
    }
    for (const auto& [name, file] : disk.names) lived.files[name] = file->bytes;
    return lived;
  }

  // Names with a record in [from, to) of a segment.
  static std::set<SessionName> Owners(const std::string& name, const std::string& bytes, size_t from, size_t to) {
    std::set<SessionName> owners;
    const auto number = LogFileNumber(name, kSegmentSuffix);
    if (!number.has_value()) return owners;
    ScanRecords(bytes, *number, [&](const ScannedRecord& record) {
      const size_t begin = record.place.offset, end = begin + kRecordHeaderBytes + record.header.payload_bytes;
      if (begin < to && from < end) owners.insert(record.header.name);
    });
    return owners;
  }

  // Damages `files`. Returns whose records it may have hit, and says in `what` what it did.
  static std::set<SessionName> Damage(std::mt19937& random, Bytes* files, std::string* what) {
    auto at = files->begin();
    std::advance(at, random() % files->size());
    const auto& [name, whole] = *at;
    const size_t place = random() % whole.size();
    std::string bytes = whole;
    std::set<SessionName> hit;
    switch (random() % 8) {
      case 0:
      case 1:
        bytes[place] = static_cast<char>(bytes[place] ^ (1 << (random() % 8)));
        hit = Owners(name, whole, place, place + 1);
        *what = "a bit of byte " + std::to_string(place);
        break;
      case 2:
        bytes.resize(place);
        hit = Owners(name, whole, place, whole.size());
        *what = "cut at " + std::to_string(place);
        break;
      case 3: {
        const size_t count = std::min<size_t>(1 + random() % 512, bytes.size() - place);
        std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(place), count, '\0');
        hit = Owners(name, whole, place, place + count);
        *what = "zeros from " + std::to_string(place);
        break;
      }
      case 4: {  // a part of another file, as a disk writes to the wrong place
        auto from = files->begin();
        std::advance(from, random() % files->size());
        const size_t count = std::min({size_t{1} + random() % 512, bytes.size() - place, from->second.size()});
        bytes.replace(place, count, from->second.substr(from->second.size() - count));
        hit = Owners(name, whole, place, place + count);
        *what = "a part of " + from->first + " at " + std::to_string(place);
        break;
      }
      case 5: {  // another file in the place of this one
        auto from = files->begin();
        std::advance(from, random() % files->size());
        bytes = from->second;
        if (bytes != whole) hit = Owners(name, whole, 0, whole.size());
        *what = from->first + " in the place";
        break;
      }
      case 6:
        hit = Owners(name, whole, 0, whole.size());
        *what = "no " + name;
        files->erase(at);
        return hit;
      default:
        bytes.insert(place, std::string(1 + random() % 100, 'z'));
        hit = Owners(name, whole, place, whole.size());
        *what = "something between, at " + std::to_string(place);
    }
    *what += " of " + name;
    (*files)[name] = bytes;
    return hit;
  }

  static std::string Wrong(const SessionLog& log, const Lived& lived, const std::set<SessionName>& hit) {
    for (const auto& [id, last] : lived.turns) {
      const SessionName name = Named(TenantOf(id), id);
      const auto read = log.Read(name);
      const uint64_t turn = read.ok() ? read->session.turn : 0;
      if (read.ok()) {
        const auto said = lived.said.at(id).find(turn);
        if (said == lived.said.at(id).end() || said->second != read->bodies) return id + " has said something else";
        if (read->session.facts.id != id || read->session.facts.tenant != TenantOf(id)) return id + " is another's";
      }
      if (!hit.contains(name) && turn != last) {
        return id + ", which was not hit, is at turn " + std::to_string(turn) + ", not " + std::to_string(last);
      }
    }
    return "";
  }
};

TEST_F(SessionLogDamage, AThousandDamagesGiveNoSessionAnythingThatItDidNotSay) {
  int64_t hurt = 0, noticed = 0;
  const auto first = static_cast<uint32_t>(GTEST_FLAG_GET(random_seed)) * 10;
  for (uint32_t seed = first; seed < first + 10; ++seed) {
    keys = seed % 2 == 0 ? nullptr : *SessionKeys::Parse(std::string(64, 'a'), "keys");
    const Lived lived = Live(seed);
    ASSERT_GE(lived.files.size(), 3u);
    std::mt19937 random(seed);
    for (int damage = 0; damage < 100; ++damage) {
      ModelDisk disk;
      Bytes files = lived.files;
      std::string what;
      std::set<SessionName> hit = Damage(random, &files, &what);
      if (random() % 8 == 0) hit.merge(Damage(random, &files, &what));
      for (const auto& [name, bytes] : files) {
        disk.names[name] = std::make_shared<ModelDisk::File>();
        disk.names[name]->bytes = disk.names[name]->synced = bytes;
      }
      disk.synced_names = disk.names;
      SCOPED_TRACE("seed " + std::to_string(seed) + ", damage " + std::to_string(damage) + ": " + what);
      auto log = SessionLog::Open(disk.Mount(), Options());
      ASSERT_TRUE(log.ok()) << log.status();
      ASSERT_EQ(Wrong(**log, lived, hit), "");
      // It goes on: others are not hurt by what is made of the rest.
      Lived after = lived;
      for (auto& [id, turn] : after.turns) {
        const auto read = (*log)->Read(Named(TenantOf(id), id));
        hurt += static_cast<int64_t>(!read.ok() && turn > 0);
        turn = read.ok() ? read->session.turn : 0;
        const RecordType type = read.ok() ? RecordType::kTurn : RecordType::kReplace;
        if (random() % 2 == 0) Say(**log, &after, id, type, "goes on", 2000);
      }
      for (int i = 0; i < 100 && (*log)->Clean(3000); ++i) {
      }
      ASSERT_EQ(Wrong(**log, after, {}), "") << "after more turns";
      noticed += static_cast<int64_t>((*log)->counts().damaged > 0);
      (*log)->Checkpoint();
      log->reset();
      log = SessionLog::Open(disk.Mount(), Options());
      ASSERT_TRUE(log.ok()) << log.status();
      ASSERT_EQ(Wrong(**log, after, {}), "") << "after a start";
    }
  }
  EXPECT_GT(hurt, 50) << "of a thousand damages some do hit";
  EXPECT_GT(noticed, 200);
}

}  // namespace
}  // namespace hydrant
