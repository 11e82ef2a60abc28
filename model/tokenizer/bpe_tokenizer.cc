#include "model/tokenizer/bpe_tokenizer.h"

#include <algorithm>
#include <cassert>
#include <deque>
#include <limits>
#include <span>
#include <utility>

#include "absl/strings/string_view.h"
#include "model/files/file_error.h"
#include "model/text/str_cat.h"
#include "model/text/utf8.h"
#include "model/tokenizer/byte_alphabet.h"
#include "model/tokenizer/word_cache.h"

namespace hydrant {
namespace {

// NFKC, lower case and a space mark for every space together make text at most 50 times as long.
constexpr double kGrowthMax = 256;

// The parts of `ranges` inside `text`, counted from its beginning.
std::vector<ByteRange> RangesWithin(std::span<const ByteRange> ranges, ByteRange text) {
  std::vector<ByteRange> within;
  auto range = std::upper_bound(ranges.begin(), ranges.end(), text.begin,
                                [](size_t begin, const ByteRange& candidate) { return begin < candidate.end; });
  for (; range != ranges.end() && range->begin < text.end; ++range) {
    within.push_back({std::max(range->begin, text.begin) - text.begin, std::min(range->end, text.end) - text.begin});
  }
  return within;
}

// The end of the part of `word` that no merge crosses when none goes from another character to a space mark.
size_t MarkedEnd(std::string_view word) {
  size_t at = 0;
  while (word.substr(at).starts_with(kSpaceMark)) at += kSpaceMark.size();
  return std::min(word.find(kSpaceMark, at), word.size());
}

// Whether a space mark stands after another character.
bool HasInnerMark(std::string_view piece) { return MarkedEnd(piece) < piece.size(); }

size_t Characters(std::string_view text) {
  size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(NextUtf8Unit(text).bytes);
  return count;
}

// The piece that is one character, or -1.
int64_t OneCharacter(std::string_view piece) {
  if (piece.empty()) return -1;
  const Utf8Unit unit = NextUtf8Unit(piece);
  return unit.kind == Utf8Kind::kCharacter && unit.bytes == piece.size() ? int64_t{unit.code_point} : -1;
}

}  // namespace

struct BpeTokenizer::Call {
  Call(const TextSplitter& splitter, size_t text_bytes, size_t ids_max_in)
      : scratch(splitter), cache(text_bytes), ids_max(ids_max_in) {}
  bool HasEnough() const { return ids.size() > ids_max; }
  TextSplitter::Scratch scratch;
  WordCache cache;
  std::vector<int32_t> symbols;  // of the word at hand
  std::vector<int32_t> ids;      // the result
  const size_t ids_max;
};

absl::StatusOr<std::shared_ptr<const BpeTokenizer>> BpeTokenizer::Create(const TokenizerSpec& spec,
                                                                         int32_t vocab_size_min) {
  HYDRANT_ASSIGN_OR_RETURN(Normalizer normalizer, Normalizer::Create(spec.normalizer, spec.file));
  HYDRANT_ASSIGN_OR_RETURN(TextSplitter splitter, TextSplitter::Create(spec.stages, spec.file));
  HYDRANT_ASSIGN_OR_RETURN(const TokenDecoder decoder, TokenDecoder::Create(spec.decoder, spec.file));
  std::shared_ptr<BpeTokenizer> tokenizer(new BpeTokenizer(spec, std::move(normalizer), std::move(splitter)));
  const double growth = tokenizer->normalizer_.growth() * tokenizer->splitter_.growth();
  if (growth > kGrowthMax) {
    return FileError(spec.file, "normalizer", "makes text up to ", growth, " times as long before it is cut; at most ",
                     kGrowthMax, " times is supported");
  }
  tokenizer->text_rules_ = decoder.text_rules();
  HYDRANT_RETURN_IF_ERROR(tokenizer->MakeMatchers(spec));
  HYDRANT_RETURN_IF_ERROR(tokenizer->Fill(spec, decoder, vocab_size_min));
  tokenizer->FillAlphabet(spec);
  HYDRANT_RETURN_IF_ERROR(tokenizer->AddMerges(spec));
  tokenizer->MeasureIds(spec);
  return tokenizer;
}

BpeTokenizer::BpeTokenizer(const TokenizerSpec& spec, Normalizer normalizer, TextSplitter splitter)
    : normalizer_(std::move(normalizer)),
      splitter_(std::move(splitter)),
      byte_level_(spec.byte_level),
      byte_fallback_(spec.byte_fallback),
      ignore_merges_(spec.ignore_merges),
      fuse_unknown_(spec.fuse_unknown),
      unknown_id_(spec.unknown_id),
      prefix_ids_(spec.prefix_ids),
      suffix_ids_(spec.suffix_ids),
      merges_(spec.merges.size()) {
  byte_ids_.fill(-1);
  ascii_ids_.fill(-1);
}

// What text spells a piece of more than one character, or of more than one byte where merges begin with bytes; empty for
// others, and for those that no text spells.
std::string_view BpeTokenizer::MultiCharacterText(std::string_view piece, std::string& spelled) const {
  spelled.assign(piece);
  if (byte_level_) {
    spelled.clear();
    if (!AppendSpelledBytes(piece, spelled)) spelled.assign(piece);
    return spelled.size() > 1 ? spelled : std::string_view();
  }
  return OneCharacter(piece) >= 0 || ByteOfPiece(piece) >= 0 ? std::string_view() : spelled;
}

// Added tokens, those by configuration among them, are looked for before normalisation or after it; the latter are
// normalised themselves.
absl::Status BpeTokenizer::MakeMatchers(const TokenizerSpec& spec) {
  std::vector<AddedToken> tokens[2] = {};  // [normalized]
  std::deque<std::string> contents;
  const auto controls = [&](int32_t id) {
    return std::find(spec.control_ids.begin(), spec.control_ids.end(), id) != spec.control_ids.end();
  };
  for (AddedToken token : spec.added) {
    token.special = token.special || controls(token.id);
    if (token.normalized && !normalizer_.empty()) {
      std::vector<ByteRange> no_ranges;
      token.content = contents.emplace_back(normalizer_.Apply(token.content, no_ranges));
    }
    tokens[token.normalized ? 1 : 0].push_back(token);
  }
  for (const int32_t id : spec.control_ids) {
    if (id < 0 || static_cast<size_t>(id) >= spec.pieces.size()) continue;
    AddedToken token;
    token.id = id;
    token.content = MultiCharacterText(spec.pieces[static_cast<size_t>(id)], contents.emplace_back());
    token.special = true;
    // If two have the same content, the first counts.
    tokens[0].push_back(token);
  }
  for (const std::vector<AddedToken>& added : tokens) {
    for (const AddedToken& token : added) {
      if (token.content.size() > kLiteralBytesMax) {
        return FileError(spec.file, StrCat("token ", token.id), "is looked for in text and has ", token.content.size(),
                         " bytes; at most ", kLiteralBytesMax, " are supported");
      }
    }
  }
  raw_added_ = AddedTokenMatcher(tokens[0]);
  normalized_added_ = AddedTokenMatcher(tokens[1]);
  return absl::OkStatus();
}

absl::Status BpeTokenizer::Fill(const TokenizerSpec& spec, const TokenDecoder& decoder, int32_t vocab_size_min) {
  size_t size = std::max(spec.pieces.size(), static_cast<size_t>(std::max(vocab_size_min, 0)));
  size_t text_bytes = 0;
  for (const std::string_view piece : spec.pieces) text_bytes += piece.size();
  for (const AddedToken& token : spec.added) {
    if (token.id < 0) return FileError(spec.file, "added token " + Quoted(token.content), "has id ", token.id);
    size = std::max(size, static_cast<size_t>(token.id) + 1);
    text_bytes += token.content.size();
  }
  constexpr size_t kVocabMax = 1 << 22;
  constexpr size_t kTextBytesMax = size_t{64} << 20;
  // Published decoders make nothing longer; the extents count in 32 bits.
  constexpr double kDecodedBytesMax = 4 * kTextBytesMax;
  if (size > kVocabMax || text_bytes > kTextBytesMax) {
    return FileError(spec.file, "vocabulary", size, " ids of ", text_bytes, " bytes; at most ", kVocabMax, " of ",
                     kTextBytesMax, " bytes are supported");
  }
  const double decoded_bytes = static_cast<double>(text_bytes) * decoder.growth() * (decoder.first_differs() ? 2 : 1);
  if (decoded_bytes > kDecodedBytesMax) {
    return FileError(spec.file, "decoder", "makes up to ", decoded_bytes, " bytes of the vocabulary's ", text_bytes,
                     "; at most ", kDecodedBytesMax, " are supported");
  }
  pieces_.resize(size);
  bytes_.resize(size);
  if (decoder.first_differs()) first_bytes_.resize(size);
  special_.resize(size);
  piece_text_.reserve(text_bytes);
  byte_text_.reserve(text_bytes);
  const auto append_bytes = [&](std::string_view piece, bool first) {
    const auto begin = static_cast<uint32_t>(byte_text_.size());
    decoder.AppendBytes(piece, first, byte_text_);
    return Extent{begin, static_cast<uint32_t>(byte_text_.size() - begin)};
  };
  const auto add = [&](size_t id, std::string_view piece) {
    pieces_[id] = {static_cast<uint32_t>(piece_text_.size()), static_cast<uint32_t>(piece.size())};
    piece_text_.append(piece);
    bytes_[id] = append_bytes(piece, false);
    if (decoder.first_differs()) first_bytes_[id] = append_bytes(piece, true);
  };
  for (size_t id = 0; id < spec.pieces.size(); ++id) add(id, spec.pieces[id]);
  for (const AddedToken& token : spec.added) {
    const auto id = static_cast<size_t>(token.id);
    if (pieces_[id].In(piece_text_) != token.content) add(id, token.content);
    if (token.special) special_[id] = true;
  }
  std::string spelled;
  for (const int32_t id : spec.control_ids) {
    if (id < 0 || static_cast<size_t>(id) >= size) continue;
    const bool added = std::any_of(spec.added.begin(), spec.added.end(), [&](const auto& t) { return t.id == id; });
    const auto index = static_cast<size_t>(id);
    if (added || !MultiCharacterText(pieces_[index].In(piece_text_), spelled).empty()) special_[index] = true;
  }
  const auto outside = [&](int32_t id) { return id < -1 || id >= static_cast<int32_t>(size); };
  if (outside(unknown_id_) || std::any_of(prefix_ids_.begin(), prefix_ids_.end(), outside) ||
      std::any_of(suffix_ids_.begin(), suffix_ids_.end(), outside)) {
    return FileError(spec.file, "special token", "an id is not in the vocabulary");
  }
  return absl::OkStatus();
}

// The tokens that merges begin with, and the words that are tokens whatever the merges say. No word is a special token.
void BpeTokenizer::FillAlphabet(const TokenizerSpec& spec) {
  for (size_t index = 0; index < spec.pieces.size(); ++index) {
    const std::string_view piece = spec.pieces[index];
    const auto id = static_cast<int32_t>(index);
    if (piece.empty()) continue;
    if (byte_level_) {
      std::string spelled;
      if (!AppendSpelledBytes(piece, spelled)) continue;
      if (spelled.size() == 1) byte_ids_[static_cast<unsigned char>(spelled[0])] = id;
      if (ignore_merges_ && !special_[index]) words_.emplace(std::move(spelled), id);
      continue;
    }
    if (ignore_merges_ && !special_[index]) words_.emplace(piece, id);
    const int64_t character = OneCharacter(piece);
    if (character >= 128) character_ids_.emplace(static_cast<uint32_t>(character), id);
    if (character >= 0 && character < 128) ascii_ids_[static_cast<size_t>(character)] = id;
    if (byte_fallback_ && IsBytePiece(piece)) byte_ids_[static_cast<size_t>(ByteOfPiece(piece))] = id;
  }
}

// Where no byte that has a token can go without a trace: over bytes, with nothing that drops, shortens or swallows them.
void BpeTokenizer::MeasureIds(const TokenizerSpec& spec) {
  const bool swallows =
      std::any_of(spec.added.begin(), spec.added.end(), [](const auto& token) { return token.lstrip || token.rstrip; });
  const bool drops = std::any_of(spec.stages.begin(), spec.stages.end(), [](const SplitStage& stage) {
    return stage.behavior == SplitStage::Behavior::kRemoved || stage.kind == SplitStage::Kind::kMetaspace;
  });
  if (!byte_level_ || !normalizer_.empty() || swallows || drops) return;
  size_t longest = 1;
  std::string spelled;
  for (const std::string_view piece : spec.pieces) {
    spelled.clear();
    longest = std::max(longest, AppendSpelledBytes(piece, spelled) ? spelled.size() : piece.size());
  }
  for (const AddedToken& token : spec.added) longest = std::max(longest, token.content.size());
  bytes_per_id_max_ = longest;
}

size_t BpeTokenizer::ids_min(std::string_view text) const {
  if (bytes_per_id_max_ == 0) return 0;
  const auto bytes = std::count_if(text.begin(), text.end(),
                                   [this](char byte) { return byte_ids_[static_cast<unsigned char>(byte)] >= 0; });
  return static_cast<size_t>(bytes) / bytes_per_id_max_;
}

absl::Status BpeTokenizer::AddMerges(const TokenizerSpec& spec) {
  cuts_at_marks_ = !byte_level_ && !ignore_merges_ && OneCharacter(kSpaceMark) >= 0 &&
                   CharacterId(static_cast<uint32_t>(OneCharacter(kSpaceMark))) >= 0;
  if (spec.merges.empty()) return absl::OkStatus();
  absl::flat_hash_map<std::string_view, int32_t> ids;
  ids.reserve(spec.pieces.size());
  for (size_t id = 0; id < spec.pieces.size(); ++id) {
    if (!spec.pieces[id].empty()) ids.emplace(spec.pieces[id], static_cast<int32_t>(id));
  }
  std::string joined;
  for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const auto& [left, right] = spec.merges[rank];
    joined.assign(left).append(right);
    if (HasInnerMark(joined)) cuts_at_marks_ = false;
    int32_t found[3];
    const std::string_view parts[3] = {left, right, joined};
    for (int i = 0; i < 3; ++i) {
      const auto id = ids.find(parts[i]);
      if (id == ids.end()) {
        return FileError(spec.file, StrCat("merge ", rank), Quoted(parts[i]), " is not in the vocabulary");
      }
      found[i] = id->second;
    }
    // Text is never merged into a special token: only what may be parsed as one becomes one.
    if (special_[static_cast<size_t>(found[2])]) continue;
    merges_.Add(found[0], found[1], static_cast<uint32_t>(rank), found[2]);
    // Every symbol spells a character or more, and a merged one is spelled by its parts.
    symbols_per_id_max_ = std::max(symbols_per_id_max_, Characters(joined));
  }
  return absl::OkStatus();
}

size_t BpeTokenizer::Index(int32_t id) const {
  assert(id >= 0 && static_cast<size_t>(id) < pieces_.size());
  return static_cast<size_t>(id);
}

std::vector<int32_t> BpeTokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  Call call(splitter_, text.size(), options.ids_max);
  const ByteRange all{0, text.size()};
  const auto client_ranges = options.parse_special_tokens ? options.client_ranges : std::span(&all, 1);
  if (options.add_special_tokens) call.ids = prefix_ids_;
  // Prose has a token per four bytes.
  call.ids.reserve(std::min(text.size() / 4, options.ids_max) + prefix_ids_.size() + suffix_ids_.size() + 1);
  for (const auto& segment : raw_added_.Cut(text, client_ranges)) {
    if (call.HasEnough()) break;
    if (segment.id >= 0) {
      call.ids.push_back(segment.id);
      continue;
    }
    const auto begin = static_cast<size_t>(segment.text.data() - text.data());
    EncodeText(segment.text, begin == 0, RangesWithin(client_ranges, {begin, begin + segment.text.size()}), call);
  }
  if (options.add_special_tokens) call.ids.insert(call.ids.end(), suffix_ids_.begin(), suffix_ids_.end());
  return std::move(call.ids);
}

// Text in which no raw added token is left: normalised, cut at the normalised added tokens.
void BpeTokenizer::EncodeText(std::string_view text, bool first, std::vector<ByteRange> client_ranges,
                              Call& call) const {
  std::string normalized;
  if (!normalizer_.empty()) {
    normalized = normalizer_.Apply(text, client_ranges);
    text = normalized;
  }
  for (const auto& segment : normalized_added_.Cut(text, client_ranges)) {
    if (call.HasEnough()) return;
    if (segment.id >= 0) {
      call.ids.push_back(segment.id);
    } else {
      EncodeSegment(segment.text, first && segment.text.data() == text.data(), call);
    }
  }
}

// Text without added tokens: words, and runs of bytes that are not UTF-8.
void BpeTokenizer::EncodeSegment(std::string_view text, bool first, Call& call) const {
  while (!text.empty()) {
    const size_t valid = ValidUtf8Prefix(text);
    for (std::string_view word : splitter_.Split(text.substr(0, valid), first, call.scratch)) {
      if (call.HasEnough()) return;
      while (cuts_at_marks_ && word.size() > kSpaceMark.size()) {
        const size_t end = MarkedEnd(word);
        if (end == word.size()) break;
        EncodeWord(word.substr(0, end), call);
        word.remove_prefix(end);
      }
      EncodeWord(word, call);
    }
    first = false;
    text.remove_prefix(valid);
    size_t invalid = 0;
    while (invalid < text.size()) {
      const Utf8Unit unit = NextUtf8Unit(text.substr(invalid));
      if (unit.kind == Utf8Kind::kCharacter) break;
      invalid += unit.bytes;
    }
    if (invalid > 0) EncodeNewWord(text.substr(0, invalid), call);
    text.remove_prefix(invalid);
  }
}

void BpeTokenizer::EncodeWord(std::string_view word, Call& call) const {
  if (call.cache.Append(word, call.ids)) return;
  const size_t before = call.ids.size();
  EncodeNewWord(word, call);
  call.cache.Remember(word, std::span(call.ids).subspan(before));
}

void BpeTokenizer::EncodeNewWord(std::string_view word, Call& call) const {
  if (ignore_merges_) {
    if (const auto found = words_.find(absl::string_view(word.data(), word.size())); found != words_.end()) {
      call.ids.push_back(found->second);
      return;
    }
  }
  call.symbols.clear();
  if (byte_level_) {
    AppendByteSymbols(word, call.symbols);
  } else {
    AppendCharacterSymbols(word, call.symbols);
  }
  // Megabytes without a space are one word. Where merging cannot make it short enough, only how long it is at least counts.
  const size_t ids_min = call.symbols.size() / symbols_per_id_max_;
  if (ids_min > call.ids_max) {
    call.symbols.resize(ids_min);
  } else {
    merges_.Apply(call.symbols);
  }
  call.ids.insert(call.ids.end(), call.symbols.begin(), call.symbols.end());
}

void BpeTokenizer::AppendByteSymbols(std::string_view word, std::vector<int32_t>& symbols) const {
  bool after_unknown = false;
  for (const char c : word) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(c)];
    if (id >= 0) {
      symbols.push_back(id);
    } else if (unknown_id_ >= 0 && !(fuse_unknown_ && after_unknown)) {
      symbols.push_back(unknown_id_);
    }
    after_unknown = id < 0;
  }
}

int32_t BpeTokenizer::CharacterId(uint32_t code_point) const {
  if (code_point < ascii_ids_.size()) return ascii_ids_[code_point];
  const auto found = character_ids_.find(code_point);
  return found == character_ids_.end() ? -1 : found->second;
}

// In Hugging Face the unknown token waits for the next character that has a token, or for another unknown one when these are
// not fused; the bytes of characters in between go before it.
void BpeTokenizer::AppendCharacterSymbols(std::string_view word, std::vector<int32_t>& symbols) const {
  bool unknown_waits = false;
  for (std::string_view rest = word; !rest.empty();) {
    const Utf8Unit unit = NextUtf8Unit(rest);
    const std::string_view bytes = rest.substr(0, unit.bytes);
    rest.remove_prefix(unit.bytes);
    if (const int32_t id = unit.kind == Utf8Kind::kCharacter ? CharacterId(unit.code_point) : -1; id >= 0) {
      if (unknown_waits) symbols.push_back(unknown_id_);
      unknown_waits = false;
      symbols.push_back(id);
      continue;
    }
    const auto byte_id = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
    if (byte_fallback_ && std::all_of(bytes.begin(), bytes.end(), [&](char byte) { return byte_id(byte) >= 0; })) {
      for (const char byte : bytes) symbols.push_back(byte_id(byte));
    } else if (unknown_id_ >= 0) {
      if (unknown_waits && !fuse_unknown_) symbols.push_back(unknown_id_);
      unknown_waits = true;
    }
  }
  if (unknown_waits) symbols.push_back(unknown_id_);
}

std::string BpeTokenizer::Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const {
  Detokenizer detokenizer(*this, skip_special_tokens);
  std::string text;
  for (const int32_t id : ids) detokenizer.PushTo(id, text);
  return text + detokenizer.Finish();
}

}  // namespace hydrant
