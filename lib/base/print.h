// Our programs write text to stdout and stderr only through this file; a test of the architecture
// enforces that. Text that others may have written (names, error texts, workers' output) passes
// through terminal_safe on the way, whether or not the stream is a terminal: a pipe may end at one.
//
// A failed write to stdout is reported once on stderr, and changes the exit code at the end
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

/// An argument of several lines, each with its line end. Line ends stay; everything else that
/// steers a terminal is made safe.
struct Lines {
  std::string_view text;
};

/// Write `text` as it is. It consists of whole lines of our own making, with colours and cursor
/// moves, in which all that others wrote has already been made safe.
void write_screen(std::FILE* stream, std::string_view text);

/// Reopen those of stdin, stdout and stderr that the caller closed, in such a way that writing to
/// them fails. Otherwise a file of ours could get such a number, and our texts with it. Call it
/// first in main().
void hold_standard_streams();

/// Flush stdout, for a reader who waits for what was printed.
void flush_out();
/// Call flush_out(), at the end of main(). Return `code`, or kOutputFailed in place of 0 if not
/// everything could be written.
int finish_output(int code);
/// Return whether stdout has failed: nobody reads it any more, or its disk is full. A program that
/// only prints may then stop.
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

/// Print to stderr in the same way, with secrets redacted. No worker's output goes there.
template <class... Args>
void print_err(fmt::format_string<print_detail::Shown<std::decay_t<const Args&>>...> format,
               const Args&... args) {
  write_screen(stderr, redacted(fmt::format(
                           format, print_detail::shown<std::decay_t<const Args&>>(args)...)));
}

/// Print JSON from any writer, and a line end. Characters that steer a terminal are escaped the
/// JSON way.
void print_json(std::string_view json);

/// Print what went wrong, and what to do about it, to stderr.
void print_error(std::string_view program, const Error& error);

}  // namespace train
