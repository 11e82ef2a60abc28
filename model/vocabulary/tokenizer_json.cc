#include "model/vocabulary/tokenizer_json.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "model/files/file_error.h"
#include "model/vocabulary/tokenizer_pipeline.h"

namespace hydrant {
namespace {

// Ids may leave holes, for example between the vocabulary and the added tokens, but not at the price of memory.
constexpr int64_t kHolesMax = 65536;

class SpecReader {
 public:
  SpecReader(const JsonValue& root, const std::string& file) : root_(root) { spec_.file = file; }

  absl::StatusOr<TokenizerSpec> Run() {
    HYDRANT_ASSIGN_OR_RETURN(const JsonValue version, root_.At("version"));
    HYDRANT_ASSIGN_OR_RETURN(const std::string_view number, version.String());
    if (number != "1.0") return version.Error(Quoted(number), " is not supported ('1.0' is)");
    HYDRANT_RETURN_IF_ERROR(ReadModel());
    HYDRANT_RETURN_IF_ERROR(ReadAddedTokens());
    HYDRANT_RETURN_IF_ERROR(ReadTokenizerPipeline(root_, id_end_, spec_));
    return std::move(spec_);
  }

 private:
  static absl::StatusOr<std::string_view> TypeOf(const JsonValue& part) {
    HYDRANT_ASSIGN_OR_RETURN(const JsonValue type, part.At("type"));
    return type.String();
  }

  absl::Status ReadModel() {
    HYDRANT_ASSIGN_OR_RETURN(const JsonValue model, root_.At("model"));
    if (model.Find("type")) {
      HYDRANT_ASSIGN_OR_RETURN(const std::string_view type, TypeOf(model));
      if (type != "BPE") return model.Error("type ", Quoted(type), " is not supported ('BPE' is)");
    }
    for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const auto affix = model.Find(key);
      if (!affix) continue;
      HYDRANT_ASSIGN_OR_RETURN(const std::string_view text, affix->String());
      if (!text.empty()) return affix->Error(Quoted(text), " is not supported");
    }
    double dropout = 0;
    HYDRANT_RETURN_IF_ERROR(model.Read("dropout", dropout));
    if (dropout != 0) return model.Error("dropout ", dropout, " is not supported");
    HYDRANT_RETURN_IF_ERROR(model.Read("byte_fallback", spec_.byte_fallback));
    HYDRANT_RETURN_IF_ERROR(model.Read("fuse_unk", spec_.fuse_unknown));
    HYDRANT_RETURN_IF_ERROR(model.Read("ignore_merges", spec_.ignore_merges));
    HYDRANT_ASSIGN_OR_RETURN(const JsonValue vocab, model.At("vocab"));
    HYDRANT_RETURN_IF_ERROR(ReadVocabulary(vocab));
    HYDRANT_ASSIGN_OR_RETURN(const JsonValue merges, model.At("merges"));
    HYDRANT_RETURN_IF_ERROR(ReadMerges(merges));
    if (const auto unknown = model.Find("unk_token")) {
      HYDRANT_ASSIGN_OR_RETURN(const std::string_view piece, unknown->String());
      const auto found = std::find(spec_.pieces.begin(), spec_.pieces.end(), piece);
      // Hugging Face fails when it first needs the token; a byte-level vocabulary that lacks it never does.
      if (!piece.empty() && found != spec_.pieces.end())
        spec_.unknown_id = static_cast<int32_t>(found - spec_.pieces.begin());
    }
    return absl::OkStatus();
  }

  absl::Status ReadVocabulary(const JsonValue& vocab) {
    int64_t count = 0;
    HYDRANT_RETURN_IF_ERROR(vocab.ForEachMember([&](std::string_view, const JsonValue&) {
      ++count;
      return absl::OkStatus();
    }));
    vocabulary_size_ = count;
    id_end_ = count + kHolesMax;
    return vocab.ForEachMember([&](std::string_view piece, const JsonValue& value) -> absl::Status {
      HYDRANT_ASSIGN_OR_RETURN(const int64_t id, value.Int(0, id_end_ - 1));
      const auto index = static_cast<size_t>(id);
      if (piece.empty()) return absl::OkStatus();  // no text ever becomes it
      if (index >= spec_.pieces.size()) spec_.pieces.resize(index + 1);
      if (!spec_.pieces[index].empty()) return value.Error("id ", id, " is also that of ", Quoted(spec_.pieces[index]));
      spec_.pieces[index] = piece;
      return absl::OkStatus();
    });
  }

  // Either "left right" or ["left", "right"].
  absl::Status ReadMerges(const JsonValue& merges) {
    if (!merges.IsArray()) return merges.Error("is not an array");
    spec_.merges.reserve(merges.size());
    for (size_t i = 0; i < merges.size(); ++i) {
      const JsonValue merge = merges[i];
      if (merge.size() == 2) {
        HYDRANT_ASSIGN_OR_RETURN(const std::string_view left, merge[0].String());
        HYDRANT_ASSIGN_OR_RETURN(const std::string_view right, merge[1].String());
        if (left.empty() || right.empty()) return merge.Error("is not a pair");
        spec_.merges.emplace_back(left, right);
        continue;
      }
      HYDRANT_ASSIGN_OR_RETURN(const std::string_view pair, merge.String());
      const size_t space = pair.find(' ');
      if (space == pair.npos || space == 0 || space + 1 == pair.size() || pair.find(' ', space + 1) != pair.npos) {
        return merge.Error(Quoted(pair), " is not a pair");
      }
      spec_.merges.emplace_back(pair.substr(0, space), pair.substr(space + 1));
    }
    return absl::OkStatus();
  }

  absl::Status ReadAddedTokens() {
    const auto added = root_.Find("added_tokens");
    if (!added) return absl::OkStatus();
    if (!added->IsArray()) return added->Error("is not an array");
    id_end_ += static_cast<int64_t>(added->size());
    std::vector<JsonValue> entries;  // of spec_.added
    for (size_t i = 0; i < added->size(); ++i) {
      const JsonValue entry = (*added)[i];
      AddedToken token;
      HYDRANT_ASSIGN_OR_RETURN(const JsonValue id, entry.At("id"));
      HYDRANT_ASSIGN_OR_RETURN(const int64_t number, id.Int(0, id_end_ - 1));
      token.id = static_cast<int32_t>(number);
      HYDRANT_ASSIGN_OR_RETURN(const JsonValue content, entry.At("content"));
      HYDRANT_ASSIGN_OR_RETURN(token.content, content.String());
      if (token.content.size() > kLiteralBytesMax) {
        return content.Error("is longer than ", kLiteralBytesMax, " bytes");
      }
      HYDRANT_RETURN_IF_ERROR(entry.Read("special", token.special));
      HYDRANT_RETURN_IF_ERROR(entry.Read("single_word", token.single_word));
      HYDRANT_RETURN_IF_ERROR(entry.Read("lstrip", token.lstrip));
      HYDRANT_RETURN_IF_ERROR(entry.Read("rstrip", token.rstrip));
      token.normalized = !token.special;
      HYDRANT_RETURN_IF_ERROR(entry.Read("normalized", token.normalized));
      // An empty one is in no text. Hugging Face reads it and adds nothing, nor does it take an id.
      if (token.content.empty()) continue;
      spec_.added.push_back(token);
      entries.push_back(entry);
    }
    return CheckAddedIds(entries);
  }

  // Hugging Face does not go by an added token's `id`: one in the vocabulary has the id there, any other the next free one
  // after the vocabulary and the tokens added before it. A file that says something else is accepted there with a warning
  // and refused here: its rows were trained either way, and taking the wrong one shows in nothing but bad text. No sound
  // file is concerned, for Hugging Face writes the ids that it uses.
  absl::Status CheckAddedIds(const std::vector<JsonValue>& entries) const {
    absl::flat_hash_map<std::string_view, int64_t> in_vocabulary, ids;
    for (const AddedToken& token : spec_.added) in_vocabulary.emplace(token.content, -1);
    for (size_t id = 0; id < spec_.pieces.size(); ++id) {
      const auto entry = in_vocabulary.find(spec_.pieces[id]);
      if (entry != in_vocabulary.end()) entry->second = static_cast<int64_t>(id);
    }
    int64_t next = vocabulary_size_;
    for (size_t i = 0; i < entries.size(); ++i) {
      const AddedToken& token = spec_.added[i];
      const int64_t own = in_vocabulary[token.content];
      const auto [entry, fresh] = ids.emplace(token.content, own >= 0 ? own : next);
      const auto refuse = [&](const auto&... why) { return entries[i].Error(Quoted(token.content), " has ", why...); };
      if (!fresh && entry->second != token.id) return refuse("two ids, ", entry->second, " and ", token.id);
      if (own >= 0 && own != token.id) return refuse("id ", token.id, ", and ", own, " in the vocabulary");
      if (entry->second != token.id) {
        return refuse("id ", token.id, "; Hugging Face would give it the next free one, ", next);
      }
      // Where the vocabulary has holes, the next free id by count may be taken.
      if (own < 0 && static_cast<size_t>(token.id) < spec_.pieces.size() &&
          !spec_.pieces[static_cast<size_t>(token.id)].empty()) {
        return refuse("id ", token.id, ", which ", Quoted(spec_.pieces[static_cast<size_t>(token.id)]), " has as well");
      }
      next = std::max(next, entry->second + 1);
    }
    return absl::OkStatus();
  }

  JsonValue root_;
  TokenizerSpec spec_;
  int64_t vocabulary_size_ = 0, id_end_ = 0;
};

}  // namespace

absl::StatusOr<TokenizerSpec> ReadTokenizerJson(const JsonDocument& document, const std::string& file) {
  return SpecReader(document.root(), file).Run();
}

}  // namespace hydrant
