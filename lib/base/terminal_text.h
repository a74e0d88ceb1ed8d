// Text of others (workers' output, metric names, error texts) made fit for a terminal, and measured
// in its columns. Pure. What is printed goes through it on its way (print.h).
#pragma once

#include <string>
#include <string_view>

namespace train {

/// What steers a terminal is taken out or made visible: escape sequences (colours, cursor, titles)
/// are dropped, other control characters become ^A … ^_, marks of bidirectional writing and C1
/// become \u202e …, bytes that are not UTF-8 become U+FFFD. A tab stays a tab. `text` is one line.
/// A text that it made stays as it is.
std::string terminal_safe(std::string_view text);
/// Of each line; line ends stay.
std::string terminal_safe_lines(std::string_view text);

/// Columns of text that terminal_safe has made (a tab counts as one).
int columns_of(std::string_view text);

/// Cut to `columns_max`, ending with "..." where something was cut.
std::string cut_to_columns(std::string_view text, int columns_max);

}  // namespace train
