// The programs' own log (not the workers' output): one line per event, as logfmt or JSON, to stderr
// or to a bounded file.
//
//   ts=2026-11-21T09:38:00.123456Z level=info component=traind node=gpu-1 msg="lease granted"
//
// Only log.cc uses spdlog. Lines are written immediately, unless the log was opened
// `in_background`. Cores never log; shells do.
#pragma once

#include <chrono>
#include <concepts>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/metrics.h"
#include "lib/base/result.h"

namespace train {

enum class LogLevel { Debug, Info, Warn, Error, Off };
enum class LogFormat { Logfmt, Json };

/// Parse "debug", "info", "warn", "error" or "off"; "warning" is accepted too.
Result<LogLevel> parse_log_level(std::string_view text);
std::string_view to_string(LogLevel level);

/// One more fact about an event: {"rank", 3}.
struct LogField {
  std::string_view name;
  MetricValue value;
  LogField(std::string_view n, std::string_view text) : name(n), value(std::string(text)) {}
  LogField(std::string_view n, const char* text) : name(n), value(std::string(text)) {}
  LogField(std::string_view n, const std::string& text) : name(n), value(text) {}
  LogField(std::string_view n, bool flag) : name(n), value(flag) {}
  LogField(std::string_view n, double number) : name(n), value(number) {}
  LogField(std::string_view n, std::integral auto number)
      : name(n), value(static_cast<std::int64_t>(number)) {}
};

/// Who writes the line. Empty fields are left out.
struct LogContext {
  std::string component, run, node;
};

/// Return the text of a line, without the newline. Leaves out fields with an empty text. Pure.
std::string format_log_line(LogFormat format, std::chrono::system_clock::time_point wall,
                            LogLevel level, const LogContext& context, std::string_view message,
                            std::initializer_list<LogField> fields);

class Log {
 public:
  struct Options {
    LogLevel level = LogLevel::Info;
    LogFormat format = LogFormat::Logfmt;
    std::string path = {};  // empty: stderr; on a full disk, lines are lost
    std::size_t file_bytes_max = 16u << 20;
    std::size_t files_max = 4;  // the file and its predecessors, path.1 …
    /// Let the log's own thread write the lines, so that nobody waits for a hanging disk. If more
    /// than 2,048 lines wait, the oldest are dropped, and the log's last line tells how many. The
    /// thread ends when the last copy of the log is destroyed, which blocks until all lines are
    /// written.
    bool in_background = false;
  };
  /// Make a log that drops everything.
  Log() = default;
  static Result<Log> open(const Options& options, LogContext context);

  /// Return the same log under another name: `log.as({.component = "supervisor", …})`.
  Log as(LogContext context) const;
  bool enabled(LogLevel level) const;
  void write(LogLevel level, std::string_view message,
             std::initializer_list<LogField> fields = {}) const;
  void debug(std::string_view message, std::initializer_list<LogField> fields = {}) const;
  void info(std::string_view message, std::initializer_list<LogField> fields = {}) const;
  void warn(std::string_view message, std::initializer_list<LogField> fields = {}) const;
  void error(std::string_view message, std::initializer_list<LogField> fields = {}) const;

 private:
  struct Output;

  // Shared by all copies; any thread may use it.
  std::shared_ptr<Output> output_;
  LogContext context_;
};

}  // namespace train
