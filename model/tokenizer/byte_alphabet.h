// ByteAlphabet is GPT-2's: it spells every byte as a printable character, most of Latin-1 as itself and the 68 others from
// U+0100 on. Vocabularies of byte-level tokenizers are written in it.
//
// Thread: any.
#ifndef HYDRANT_MODEL_TOKENIZER_BYTE_ALPHABET_H_
#define HYDRANT_MODEL_TOKENIZER_BYTE_ALPHABET_H_

#include <string>
#include <string_view>

namespace hydrant {

// Appends the bytes that `piece` spells; appends `piece` itself and returns false when a character is outside the alphabet.
bool AppendSpelledBytes(std::string_view piece, std::string& out);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TOKENIZER_BYTE_ALPHABET_H_
