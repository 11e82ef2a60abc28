#include "model/text/unicode_class.h"

#include <utf8proc.h>

namespace hydrant {
namespace {

utf8proc_category_t Category(uint32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

}  // namespace

SplitClass SplitClassOf(uint32_t code_point) {
  switch (Category(code_point)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return SplitClass::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return SplitClass::kNumber;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return SplitClass::kSpace;
    default:
      return (code_point >= '\t' && code_point <= '\r') || code_point == 0x85 ? SplitClass::kSpace : SplitClass::kOther;
  }
}

bool IsWhiteSpace(uint32_t code_point) {
  if (code_point < 0x80) return code_point == ' ' || (code_point >= '\t' && code_point <= '\r');
  return SplitClassOf(code_point) == SplitClass::kSpace;
}

bool IsNumber(uint32_t code_point) {
  if (code_point < 0x80) return code_point >= '0' && code_point <= '9';
  return SplitClassOf(code_point) == SplitClass::kNumber;
}

bool IsMark(uint32_t code_point) {
  const utf8proc_category_t category = Category(code_point);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
}

bool IsPunctuation(uint32_t code_point) {
  switch (Category(code_point)) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return true;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
      return code_point < 0x80;
    default:
      return false;
  }
}

bool IsWordCharacter(uint32_t code_point) {
  const utf8proc_category_t category = Category(code_point);
  return SplitClassOf(code_point) == SplitClass::kLetter || IsMark(code_point) || category == UTF8PROC_CATEGORY_ND ||
         category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_PC;
}

}  // namespace hydrant
