// This file makes text of others (workers' output, metric names, error texts) fit for a terminal,
// and measures it in columns. Pure. All that is printed passes through it (print.h).
#pragma once

#include <string>
#include <string_view>

namespace train {

/// Remove from `text`, or make visible, what steers a terminal: escape sequences (colours, cursor,
/// titles) are dropped, other control characters become ^A … ^_, marks of bidirectional writing and
/// C1 become \u202e …, and bytes that are not UTF-8 become U+FFFD. A tab stays a tab. `text` is one
/// line. Text that this function returned is left unchanged.
std::string terminal_safe(std::string_view text);
/// Apply terminal_safe to each line; line ends stay.
std::string terminal_safe_lines(std::string_view text);

/// Return the number of columns of a text that terminal_safe has made (a tab counts as one).
int columns_of(std::string_view text);

/// Cut the text to `columns_max` columns; it then ends with "..." if something was cut.
std::string cut_to_columns(std::string_view text, int columns_max);

}  // namespace train
