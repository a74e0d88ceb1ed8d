// SECURITY.md, S15: texts from others that harmed a terminal, a pager or a reader.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/utf8.h"

namespace train {

/// Return texts that harmed some terminal, pager or reader, and each character that may do so. An
/// octal escape ends after three digits, so a letter or digit can follow.
inline std::vector<std::string> hostile_texts() {
  std::vector<std::string> texts{"",
                                 "plain",
                                 "\x1b",
                                 "\x1b[",
                                 "\x1b[31mred\x1b[0m",
                                 "\x1b[2J\x1b[H",
                                 "\x1b[?1049h",
                                 "\x1b[6n",
                                 "\x1b]0;title\x07",
                                 "\x1b]2;title\x1b\\",
                                 "\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\",
                                 "\x1b]52;c;cm0gLXJmIH4=\x07",
                                 "\x1b]50;#1\x07",
                                 "\x1bP$q\"p\x1b\\",
                                 "\x1bX\x1b\\",
                                 "\x1b^pm\x1b\\",
                                 "\x1b_Ga=T\x1b\\",
                                 "\x1b(0lqk\x1b(B",
                                 "\x1b#8",
                                 "\033c",
                                 "\x1b[5i",
                                 "\x1b[1;31",
                                 "\x1b[\xff",
                                 "\x1b]0;no end",
                                 "\x1b]0;half\x1b",
                                 "\x1b]0;\x1b[31m\x07",
                                 "\x1b\x1b[31m",
                                 "\x1b[\x1b[31m",
                                 "\x1b\x9b",
                                 "a\xc2\x1b[0m\x9b",
                                 "\xc2\23331m",
                                 "\xc2\2350;t\xc2\x9c",
                                 "\xc2\x90q\xc2\x9c",
                                 "\xc2\x85",
                                 "\23331m",
                                 "\2350;t\x9c",
                                 "progress 10%\rprogress 100%",
                                 "hidden\x08\x08\x08\x08\x08\x08shown",
                                 "line\nforged: line",
                                 "line\r\nforged",
                                 "\x0b\x0c",
                                 "\016abc\x0f",
                                 "a\x7f",
                                 "\t",
                                 "\xe2\x80\256gpj.exe",
                                 "\xe2\x80\xad",
                                 "\xe2\x80\xaa\xe2\x80\xac",
                                 "\xe2\x81\xa6\xe2\x81\xa9",
                                 "\xd8\x9c",
                                 "\xe2\x80\250forged",
                                 "\xe2\x80\xa9",
                                 "\xe2\x80\x8e\xe2\x80\x8f",
                                 "\xe2\x81\xaa\xe2\x81\xaf",
                                 "\xff\xfe",
                                 "\xc0\x9b",
                                 "\xe0\x80\x9b",
                                 "\xed\xa0\x80",
                                 "\xf4\x90\x80\x80",
                                 "\xe2\x80",
                                 "\xf0\x9f\x98",
                                 "\xc3\xa9\xe4\xbd\xa0\xf0\x9f\x98\x80",
                                 "e\xcc\x81",
                                 std::string("nul\0byte", 8),
                                 "\\x1b[31m",
                                 "\\u202e",
                                 "^[[31m",
                                 "%n%s",
                                 "{} {0}",
                                 "<script>",
                                 std::string(3000, '\x1b'),
                                 std::string(3000, '\x9b')};
  for (unsigned c = 1; c < 0x20; ++c)
    texts.push_back(std::string("c") + static_cast<char>(c) + "0");
  for (unsigned c = 0x80; c < 0xA0; ++c)
    texts.push_back(std::string("c\xc2") + static_cast<char>(c) + "1");
  return texts;
}

/// Return whether it is UTF-8 without control characters, except tabs and, with `lines`, line ends.
inline bool steers_nothing(std::string_view text, bool lines = false) {
  while (!text.empty()) {
    const CodePoint next = read_code_point(text);
    const bool allowed = next.value == '\t' || (lines && next.value == '\n');
    if (!next.valid || (is_steering(next.value) && !allowed)) return false;
    text.remove_prefix(next.length);
  }
  return true;
}

}  // namespace train
