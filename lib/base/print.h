// Our programs write text to stdout and stderr only through this file; architecture_test enforces
// that. Text that others may have written (names, error texts, workers' output) passes through
// terminal_safe first, even if the stream is not a terminal: a pipe may lead to one.
//
// A failed write to stdout is reported once on stderr and changes the final exit code
// (finish_output); nothing throws. Text that cannot be written to stderr is lost.
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

/// An argument of several lines, each with its line end. Line ends are kept; everything else that
/// steers a terminal is made safe.
struct Lines {
  std::string_view text;
};

/// Write `text` unchanged. It must be whole lines composed by us, possibly with colours and cursor
/// moves, in which any text from others has already been made safe.
void write_screen(std::FILE* stream, std::string_view text);

/// Open /dev/null in place of each standard stream that is closed, in the mode that makes its use
/// fail. Otherwise a file that we open could get that number, and our output would go into it. Call
/// this first in main().
void hold_standard_streams();

/// Flush stdout, for a reader who waits for the output.
void flush_out();
/// Call flush_out(); meant for the end of main(). Return `code`, or kOutputFailed instead of 0 if
/// some output could not be written.
int finish_output(int code);
/// Return whether stdout has failed: nobody reads it any more, or its disk is full. A program that
/// only prints can then stop.
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

/// Print to stdout. Each text in `args` is one line: a line end in it becomes ^J.
template <class... Args>
void print_out(fmt::format_string<print_detail::Shown<std::decay_t<const Args&>>...> format,
               const Args&... args) {
  write_screen(stdout,
               fmt::format(format, print_detail::shown<std::decay_t<const Args&>>(args)...));
}

/// Print to stderr in the same way, with secrets redacted. Workers' output never goes there.
template <class... Args>
void print_err(fmt::format_string<print_detail::Shown<std::decay_t<const Args&>>...> format,
               const Args&... args) {
  write_screen(stderr, redacted(fmt::format(
                           format, print_detail::shown<std::decay_t<const Args&>>(args)...)));
}

/// Print JSON text and a line end. A DEL in it, which JSON writers leave as it is, becomes \u007f.
void print_json(std::string_view json);

/// Print what went wrong, and what to do about it, to stderr.
void print_error(std::string_view program, const Error& error);

}  // namespace train
