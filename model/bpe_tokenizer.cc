#include "model/bpe_tokenizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cassert>
#include <deque>
#include <limits>
#include <span>
#include <utility>

#include "model/file_error.h"
#include "model/utf8.h"

namespace hydrant {
namespace {

// GPT-2's alphabet spells every byte as a printable character: most of Latin-1 as itself, the 68 others from U+0100 on.
constexpr uint32_t kAlphabetEnd = 0x144;

constexpr bool SpellsItself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

// By code point: the byte it spells, or -1.
constexpr std::array<int16_t, kAlphabetEnd> MakeAlphabet() {
  std::array<int16_t, kAlphabetEnd> bytes{};
  for (auto& byte : bytes) byte = -1;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) bytes[SpellsItself(byte) ? byte : next++] = static_cast<int16_t>(byte);
  return bytes;
}
constexpr auto kAlphabet = MakeAlphabet();

// Appends the bytes that `piece` spells; appends `piece` itself and returns false when a character is outside the alphabet.
bool AppendSpelledBytes(std::string_view piece, std::string& out) {
  const size_t before = out.size();
  for (std::string_view rest = piece; !rest.empty();) {
    const Utf8Unit unit = NextUtf8Unit(rest);
    if (unit.kind != Utf8Kind::kCharacter || unit.code_point >= kAlphabetEnd || kAlphabet[unit.code_point] < 0) {
      out.resize(before);
      out.append(piece);
      return false;
    }
    out += static_cast<char>(kAlphabet[unit.code_point]);
    rest.remove_prefix(unit.bytes);
  }
  return true;
}

// The matcher of the tokens that are looked for before, or after, normalisation; those after it are normalised themselves.
AddedTokenMatcher MakeMatcher(const TokenizerSpec& spec, bool normalized) {
  std::vector<AddedToken> selected;
  std::deque<std::string> contents;
  for (const AddedToken& token : spec.added) {
    if (token.normalized != normalized) continue;
    selected.push_back(token);
    if (!normalized || !spec.nfc || ValidUtf8Prefix(token.content) < token.content.size()) continue;
    selected.back().content = contents.emplace_back(NormalizeNfc(token.content));
  }
  return AddedTokenMatcher(selected);
}

// The parts of `ranges` inside `text`, counted from its beginning.
std::vector<TextRange> RangesWithin(std::span<const TextRange> ranges, TextRange text) {
  std::vector<TextRange> within;
  auto range = std::upper_bound(ranges.begin(), ranges.end(), text.begin,
                                [](size_t begin, const TextRange& candidate) { return begin < candidate.end; });
  for (; range != ranges.end() && range->begin < text.end; ++range) {
    within.push_back({std::max(range->begin, text.begin) - text.begin, std::min(range->end, text.end) - text.begin});
  }
  return within;
}

// Valid UTF-8 in form C, everything else as it is.
void AppendNfc(std::string_view text, std::string& out) {
  while (!text.empty()) {
    const size_t valid = ValidUtf8Prefix(text);
    out.append(NormalizeNfc(text.substr(0, valid)));
    text.remove_prefix(valid);
    if (text.empty()) break;
    const size_t invalid = NextUtf8Unit(text).bytes;
    out.append(text.substr(0, invalid));
    text.remove_prefix(invalid);
  }
}

}  // namespace

struct BpeTokenizer::Call {
  explicit Call(const TextSplitter& splitter) : scratch(splitter) {}
  TextSplitter::Scratch scratch;
  std::vector<int32_t> symbols;  // of the word at hand
  std::vector<int32_t> ids;      // the result
};

absl::StatusOr<std::shared_ptr<const BpeTokenizer>> BpeTokenizer::Create(const TokenizerSpec& spec,
                                                                         int32_t vocab_size_min) {
  HYDRANT_ASSIGN_OR_RETURN(TextSplitter splitter, TextSplitter::Create(spec.stages, spec.file));
  std::shared_ptr<BpeTokenizer> tokenizer(new BpeTokenizer(spec, std::move(splitter)));
  HYDRANT_RETURN_IF_ERROR(tokenizer->Fill(spec, vocab_size_min));
  HYDRANT_RETURN_IF_ERROR(tokenizer->AddMerges(spec));
  return tokenizer;
}

BpeTokenizer::BpeTokenizer(const TokenizerSpec& spec, TextSplitter splitter)
    : splitter_(std::move(splitter)),
      raw_added_(MakeMatcher(spec, false)),
      normalized_added_(MakeMatcher(spec, true)),
      nfc_(spec.nfc),
      ignore_merges_(spec.ignore_merges),
      fuse_unknown_(spec.fuse_unknown),
      unknown_id_(spec.unknown_id),
      prefix_ids_(spec.prefix_ids),
      suffix_ids_(spec.suffix_ids),
      merges_(spec.merges.size()) {}

absl::Status BpeTokenizer::Fill(const TokenizerSpec& spec, int32_t vocab_size_min) {
  size_t size = std::max(spec.pieces.size(), static_cast<size_t>(std::max(vocab_size_min, 0)));
  size_t text_bytes = 0;
  for (const std::string_view piece : spec.pieces) text_bytes += piece.size();
  for (const AddedToken& token : spec.added) {
    if (token.id < 0) return FileError(spec.file, "added token " + Quoted(token.content), "has id ", token.id);
    size = std::max(size, static_cast<size_t>(token.id) + 1);
    text_bytes += token.content.size();
  }
  constexpr size_t kVocabMax = 1 << 22;
  if (size > kVocabMax || text_bytes > std::numeric_limits<uint32_t>::max()) {
    return FileError(spec.file, "vocabulary", size, " ids; at most ", kVocabMax, " are supported");
  }
  pieces_.resize(size);
  bytes_.resize(size);
  special_.resize(size);
  byte_ids_.fill(-1);
  piece_text_.reserve(text_bytes);
  byte_text_.reserve(text_bytes);
  const auto add = [&](size_t id, std::string_view piece) {
    const auto piece_begin = static_cast<uint32_t>(piece_text_.size());
    const auto byte_begin = static_cast<uint32_t>(byte_text_.size());
    piece_text_.append(piece);
    const bool spelled = AppendSpelledBytes(piece, byte_text_);
    pieces_[id] = {piece_begin, static_cast<uint32_t>(piece.size())};
    bytes_[id] = {byte_begin, static_cast<uint32_t>(byte_text_.size() - byte_begin)};
    return spelled;
  };
  for (size_t id = 0; id < spec.pieces.size(); ++id) {
    const bool spelled = add(id, spec.pieces[id]);
    if (spelled && bytes_[id].length == 1)
      byte_ids_[static_cast<unsigned char>(byte_text_.back())] = static_cast<int32_t>(id);
    if (spelled && ignore_merges_ && bytes_[id].length > 0)
      words_.emplace(bytes_[id].In(byte_text_), static_cast<int32_t>(id));
  }
  for (const AddedToken& token : spec.added) {
    const auto id = static_cast<size_t>(token.id);
    if (pieces_[id].In(piece_text_) != token.content) add(id, token.content);
    if (token.special) special_[id] = true;
  }
  const auto outside = [&](int32_t id) { return id < -1 || id >= static_cast<int32_t>(size); };
  if (outside(unknown_id_) || std::any_of(prefix_ids_.begin(), prefix_ids_.end(), outside) ||
      std::any_of(suffix_ids_.begin(), suffix_ids_.end(), outside)) {
    return FileError(spec.file, "special token", "an id is not in the vocabulary");
  }
  return absl::OkStatus();
}

absl::Status BpeTokenizer::AddMerges(const TokenizerSpec& spec) {
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
    int32_t found[3];
    const std::string_view parts[3] = {left, right, joined};
    for (int i = 0; i < 3; ++i) {
      const auto id = ids.find(parts[i]);
      if (id == ids.end()) {
        return FileError(spec.file, Cat("merge ", rank), Quoted(parts[i]), " is not in the vocabulary");
      }
      found[i] = id->second;
    }
    merges_.Add(found[0], found[1], static_cast<uint32_t>(rank), found[2]);
  }
  return absl::OkStatus();
}

size_t BpeTokenizer::Index(int32_t id) const {
  assert(id >= 0 && static_cast<size_t>(id) < pieces_.size());
  return static_cast<size_t>(id);
}

std::vector<int32_t> BpeTokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  Call call(splitter_);
  const TextRange all{0, text.size()};
  const auto plain = options.parse_special_tokens ? options.plain : std::span(&all, 1);
  if (options.add_special_tokens) call.ids = prefix_ids_;
  if (raw_added_.empty()) {
    EncodeText(text, {plain.begin(), plain.end()}, call);
  } else {
    for (const auto& segment : raw_added_.Cut(text, plain)) {
      if (segment.id >= 0) {
        call.ids.push_back(segment.id);
        continue;
      }
      const auto begin = static_cast<size_t>(segment.text.data() - text.data());
      EncodeText(segment.text, RangesWithin(plain, {begin, begin + segment.text.size()}), call);
    }
  }
  if (options.add_special_tokens) call.ids.insert(call.ids.end(), suffix_ids_.begin(), suffix_ids_.end());
  return std::move(call.ids);
}

// Text in which no raw added token is left: normalised, cut at the normalised added tokens.
void BpeTokenizer::EncodeText(std::string_view text, std::vector<TextRange> plain, Call& call) const {
  std::string normalized;
  if (nfc_) {
    normalized = NormalizeNfc(text, plain);
    text = normalized;
  }
  if (normalized_added_.empty()) return EncodeSegment(text, call);
  for (const auto& segment : normalized_added_.Cut(text, plain)) {
    if (segment.id >= 0) {
      call.ids.push_back(segment.id);
    } else {
      EncodeSegment(segment.text, call);
    }
  }
}

// Text without added tokens: words, and runs of bytes that are not UTF-8.
void BpeTokenizer::EncodeSegment(std::string_view text, Call& call) const {
  while (!text.empty()) {
    const size_t valid = ValidUtf8Prefix(text);
    for (const std::string_view word : splitter_.Split(text.substr(0, valid), call.scratch)) EncodeWord(word, call);
    text.remove_prefix(valid);
    size_t invalid = 0;
    while (invalid < text.size()) {
      const Utf8Unit unit = NextUtf8Unit(text.substr(invalid));
      if (unit.kind == Utf8Kind::kCharacter) break;
      invalid += unit.bytes;
    }
    if (invalid > 0) EncodeWord(text.substr(0, invalid), call);
    text.remove_prefix(invalid);
  }
}

void BpeTokenizer::EncodeWord(std::string_view word, Call& call) const {
  if (ignore_merges_) {
    if (const auto found = words_.find(word); found != words_.end()) {
      call.ids.push_back(found->second);
      return;
    }
  }
  call.symbols.clear();
  bool after_unknown = false;
  for (const char c : word) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(c)];
    if (id >= 0) {
      call.symbols.push_back(id);
    } else if (unknown_id_ >= 0 && !(fuse_unknown_ && after_unknown)) {
      call.symbols.push_back(unknown_id_);
    }
    after_unknown = id < 0;
  }
  merges_.Apply(call.symbols);
  call.ids.insert(call.ids.end(), call.symbols.begin(), call.symbols.end());
}

std::string BpeTokenizer::Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (!(skip_special_tokens && IsSpecial(id))) bytes.append(TokenBytes(id));
  }
  std::string text;
  text.reserve(bytes.size());
  if (AppendUtf8Lossy(bytes, text) > 0) text.append(kReplacementCharacter);
  return text;
}

std::string NormalizeNfc(std::string_view text) {
  // Below U+0300 every character is its own form C and composes with nothing before it; 0xCC is the first lead byte above.
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0xCC; }))
    return std::string(text);
  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size());
  for (std::string_view rest = text; !rest.empty();) {
    const Utf8Unit unit = NextUtf8Unit(rest);
    utf8proc_int32_t decomposed[8];  // the longest canonical decomposition has four
    int last_boundary = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(unit.code_point), decomposed,
                                                           8, UTF8PROC_DECOMPOSE, &last_boundary);
    assert(count >= 1 && count <= 8);
    points.insert(points.end(), decomposed, decomposed + count);
    rest.remove_prefix(unit.bytes);
  }
  // Canonical order by a real sort: utf8proc's own ordering is quadratic in a run of marks, which a client could send.
  const auto mark_class = [](utf8proc_int32_t point) { return utf8proc_get_property(point)->combining_class; };
  for (auto begin = points.begin(); begin != points.end();) {
    if (mark_class(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(begin, points.end(), [&](utf8proc_int32_t point) { return mark_class(point) == 0; });
    std::stable_sort(begin, end, [&](utf8proc_int32_t a, utf8proc_int32_t b) { return mark_class(a) < mark_class(b); });
    begin = end;
  }
  const utf8proc_ssize_t composed =
      utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  assert(composed >= 0);
  std::string normalized;
  normalized.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < composed; ++i)
    AppendUtf8(static_cast<uint32_t>(points[static_cast<size_t>(i)]), normalized);
  return normalized;
}

std::string NormalizeNfc(std::string_view text, std::vector<TextRange>& ranges) {
  // Below U+0300 no character composes with what stands before it: text may be cut there.
  const auto may_cut = [&](size_t at) {
    if (at == 0 || at == text.size()) return true;
    const auto byte = static_cast<unsigned char>(text[at]);
    return byte < 0x80 || (byte >= 0xC2 && byte < 0xCC);
  };
  std::string normalized;
  std::vector<TextRange> moved;
  size_t done = 0;  // text before it is in `normalized`
  for (const TextRange& range : ranges) {
    if (range.begin == range.end || range.end <= done) continue;
    size_t begin = std::max(range.begin, done), end = range.end;
    while (begin > done && !may_cut(begin)) --begin;
    while (!may_cut(end)) ++end;
    AppendNfc(text.substr(done, begin - done), normalized);
    const size_t moved_begin = normalized.size();
    AppendNfc(text.substr(begin, end - begin), normalized);
    if (!moved.empty() && moved.back().end == moved_begin) {
      moved.back().end = normalized.size();
    } else {
      moved.push_back({moved_begin, normalized.size()});
    }
    done = end;
  }
  AppendNfc(text.substr(done), normalized);
  ranges = std::move(moved);
  return normalized;
}

}  // namespace hydrant
