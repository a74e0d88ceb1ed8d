// This file makes text from others (workers' output, metric names, error texts) safe for a
// terminal, and measures it in columns. Pure. Everything that we print passes through it (print.h).
#pragma once

#include <string>
#include <string_view>

namespace train {

/// Remove or make visible everything in `text`, one line, that steers a terminal: escape sequences
/// (colours, cursor, titles) disappear, other control characters become ^A … ^_, C1 and marks of
/// bidirectional writing become \u202e …, and bytes that are not UTF-8 become U+FFFD. Tabs stay.
/// Text that this function has returned does not change when passed again.
std::string terminal_safe(std::string_view text);
/// Apply terminal_safe to each line; keep the line ends.
std::string terminal_safe_lines(std::string_view text);

/// Return `text` as one word of a command that a user may paste into a POSIX shell, in quotes if it
/// needs them.
std::string shell_word(std::string_view text);

/// Return the number of columns of a text that terminal_safe has returned (a tab counts as one).
int columns_of(std::string_view text);

/// Cut the text to `columns_max` columns; if something was cut, it ends with "...".
std::string cut_to_columns(std::string_view text, int columns_max);

}  // namespace train
