// The way of our programs' texts to stdout and stderr: the only one, which a test of the
// architecture holds. What others may have written (names, error texts, workers' output) goes
// through terminal_safe on the way, whether or not a terminal is there: a pipe may end at one.
//
// A write to stdout that fails is said once on stderr, and changes the exit code at the end
// (finish_output); nothing is thrown. What cannot be written to stderr is lost.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>

#include "lib/base/error.h"
#include "lib/base/secrets.h"
#include "lib/base/terminal_text.h"

namespace train {

inline constexpr int kOutputFailed = 74;  // EX_IOERR of sysexits.h

/// An argument of several lines, each with its line end: those stay, and nothing else that steers.
struct Lines {
  std::string_view text;
};

/// Write as it is: whole lines of our own making, with colours and moves of the cursor, of which
/// all that others wrote has been made safe.
void write_screen(std::FILE* stream, std::string_view text);

/// Open what the caller closed of stdin, stdout and stderr, such that writing to it fails: no file
/// of ours gets its number, and with it our texts. First of all in main().
void hold_standard_streams();

/// What was printed is out, where somebody waits for it.
void flush_out();
/// At the end of main(): flush_out(). Gives `code`, or kOutputFailed in place of 0 where not all
/// could be written.
int finish_output(int code);
/// Nobody reads stdout any more, or its disk is full: whoever only prints may stop.
bool output_has_failed();

namespace print_detail {

template <class T>
using Shown = std::conditional_t<std::is_arithmetic_v<T>, T, std::string>;

template <class T>
Shown<T> shown(const T& value) {
  if constexpr (std::is_same_v<T, Lines>) {
    return terminal_safe_lines(value.text);
  } else if constexpr (std::is_arithmetic_v<T>) {
    return value;
  } else {
    return terminal_safe(value);
  }
}

}  // namespace print_detail

/// To stdout. Texts in `args` are one line each: a line end of theirs becomes ^J.
template <class... Args>
void print_out(fmt::format_string<print_detail::Shown<std::decay_t<const Args&>>...> format,
               const Args&... args) {
  write_screen(stdout,
               fmt::format(format, print_detail::shown<std::decay_t<const Args&>>(args)...));
}

/// The same to stderr, without what is secret: no worker's output goes there.
template <class... Args>
void print_err(fmt::format_string<print_detail::Shown<std::decay_t<const Args&>>...> format,
               const Args&... args) {
  write_screen(stderr, redacted(fmt::format(
                           format, print_detail::shown<std::decay_t<const Args&>>(args)...)));
}

/// JSON of any writer, and a line end: what steers a terminal is escaped, as JSON can.
void print_json(std::string_view json);

/// What went wrong, and what to do, on stderr.
void print_error(std::string_view program, const Error& error);

}  // namespace train
