// CRC-32C (Castagnoli, RFC 3720 appendix B.4), by the processor's instruction where there is one. Debian's absl has none.
//
// Thread: any (pure).
#ifndef HYDRANT_SERVER_SESSIONS_JOURNAL_CRC32C_H_
#define HYDRANT_SERVER_SESSIONS_JOURNAL_CRC32C_H_

#include <cstdint>
#include <string_view>

namespace hydrant {

uint32_t Crc32c(std::string_view bytes);
// The same from a table, whatever the processor has.
uint32_t Crc32cByTable(std::string_view bytes);

// That of two texts, one behind the other, from what each of them has. `second_bytes`: of the second text.
uint32_t Crc32cOfBoth(uint32_t first, uint32_t second, uint64_t second_bytes);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_JOURNAL_CRC32C_H_
