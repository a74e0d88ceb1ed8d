#include "lib/observe/log.h"

#include <signal.h>
#include <spdlog/async.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lib/base/json_text.h"
#include "lib/base/secrets.h"
#include "lib/base/time.h"

namespace train {
namespace {

constexpr std::array<std::pair<std::string_view, LogLevel>, 6> kLevels = {
    {{"debug", LogLevel::Debug},
     {"info", LogLevel::Info},
     {"warn", LogLevel::Warn},
     {"error", LogLevel::Error},
     {"off", LogLevel::Off},
     {"warning", LogLevel::Warn}}};

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::Debug:
      return spdlog::level::debug;
    case LogLevel::Info:
      return spdlog::level::info;
    case LogLevel::Warn:
      return spdlog::level::warn;
    case LogLevel::Error:
      return spdlog::level::err;
    case LogLevel::Off:
      break;
  }
  return spdlog::level::off;
}

bool needs_quotes(std::string_view text) {
  if (text.empty()) return true;
  return std::any_of(text.begin(), text.end(), [](unsigned char c) {
    return c <= ' ' || c == '"' || c == '=' || c == '\\' || c >= 0x7F;
  });
}

void append_logfmt(std::string& line, std::string_view name, const MetricValue& value) {
  if (!line.empty()) line += ' ';
  line += name;
  line += '=';
  const auto* text = std::get_if<std::string>(&value);
  if (text != nullptr && !needs_quotes(*text)) {
    line += *text;
  } else {
    append_json_value(line, value);
  }
}

}  // namespace

Result<LogLevel> parse_log_level(std::string_view text) {
  for (const auto& [name, level] : kLevels) {
    if (name == text) return level;
  }
  return Error{Errc::InvalidArgument, "unknown log level \"" + std::string(text) + "\"",
               "use debug, info, warn, error or off"};
}

std::string_view to_string(LogLevel level) {
  for (const auto& [name, known] : kLevels) {
    if (known == level) return name;
  }
  return "info";
}

std::string format_log_line(LogFormat format, std::chrono::system_clock::time_point wall,
                            LogLevel level, const LogContext& context, std::string_view message,
                            std::initializer_list<LogField> fields) {
  std::string line;
  JsonWriter json;
  json.object();
  const auto put = [&](std::string_view name, const MetricValue& value) {
    if (format == LogFormat::Json) {
      json.member(name, value);
    } else {
      append_logfmt(line, name, value);
    }
  };
  put("ts", format_utc(wall));
  put("level", std::string(to_string(level)));
  if (!context.component.empty()) put("component", context.component);
  if (!context.node.empty()) put("node", context.node);
  if (!context.run.empty()) put("run", context.run);
  put("msg", std::string(message));
  for (const LogField& field : fields) {
    const auto* text = std::get_if<std::string>(&field.value);
    if (text == nullptr || !text->empty()) put(field.name, field.value);
  }
  json.end();
  return format == LogFormat::Json ? std::move(json).take() : line;
}

struct Log::Output {
  std::shared_ptr<spdlog::logger> logger;
  // Of a log in the background. It is destroyed before the logger: its thread then ends while we
  // still own the logger, which its last lines refer to.
  std::shared_ptr<spdlog::details::thread_pool> writer;
  LogFormat format;
  LogContext context;  // of the log that was opened

  ~Output() {
    const std::size_t dropped = writer == nullptr ? 0 : writer->overrun_counter();
    if (dropped == 0) return;
    logger->warn(spdlog::string_view_t(
        format_log_line(format, std::chrono::system_clock::now(), LogLevel::Warn, context,
                        "lines were dropped: the disk was slower than the log",
                        {{"lines", static_cast<std::int64_t>(dropped)}})));
  }
};

namespace {

constexpr std::size_t kWaitingLinesMax = 2048;

/// Block signals on this thread: they are for the program's own threads.
void block_signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

/// Check the log file: a named pipe would keep us waiting, and a link may lead elsewhere.
void check_log_file(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    throw spdlog::spdlog_ex("it exists and is not a regular file");
}

spdlog::sink_ptr file_sink(const Log::Options& options) {
  spdlog::file_event_handlers handlers;
  handlers.before_open = check_log_file;
  return std::make_shared<spdlog::sinks::rotating_file_sink_mt>(
      options.path, options.file_bytes_max, options.files_max - 1, false, handlers);
}

}  // namespace

Result<Log> Log::open(const Options& options, LogContext context) {
  spdlog::sink_ptr sink;
  if (options.path.empty()) {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } else {
    try {
      sink = file_sink(options);
    } catch (const spdlog::spdlog_ex& failed) {
      return Error{Errc::Io, "opening the log " + options.path + ": " + failed.what()};
    }
  }
  Log log;
  log.output_ = std::make_shared<Output>();
  log.output_->format = options.format;
  log.output_->context = context;
  if (options.in_background) {
    log.output_->writer =
        std::make_shared<spdlog::details::thread_pool>(kWaitingLinesMax, 1, block_signals);
    log.output_->logger =
        std::make_shared<spdlog::async_logger>("trainrun", std::move(sink), log.output_->writer,
                                               spdlog::async_overflow_policy::overrun_oldest);
  } else {
    log.output_->logger = std::make_shared<spdlog::logger>("trainrun", std::move(sink));
  }
  log.output_->logger->set_formatter(std::make_unique<spdlog::pattern_formatter>("%v"));
  log.output_->logger->set_level(spdlog_level(options.level));
  // What a full disk does not take is lost; spdlog would write into the terminal's live line.
  if (!options.path.empty()) log.output_->logger->set_error_handler([](const std::string&) {});
  log.output_->logger->flush_on(
      spdlog::level::debug);  // a crash of ours must not eat its own last words
  log.context_ = std::move(context);
  return log;
}

Log Log::as(LogContext context) const {
  Log other = *this;
  other.context_ = std::move(context);
  return other;
}

bool Log::enabled(LogLevel level) const {
  return output_ != nullptr && level != LogLevel::Off &&
         output_->logger->should_log(spdlog_level(level));
}

void Log::write(LogLevel level, std::string_view message,
                std::initializer_list<LogField> fields) const {
  if (!enabled(level)) return;
  const auto wall = std::chrono::system_clock::now();
  const std::string line =
      redacted(format_log_line(output_->format, wall, level, context_, message, fields));
  output_->logger->log(spdlog_level(level), spdlog::string_view_t(line));
}

void Log::debug(std::string_view message, std::initializer_list<LogField> fields) const {
  write(LogLevel::Debug, message, fields);
}
void Log::info(std::string_view message, std::initializer_list<LogField> fields) const {
  write(LogLevel::Info, message, fields);
}
void Log::warn(std::string_view message, std::initializer_list<LogField> fields) const {
  write(LogLevel::Warn, message, fields);
}
void Log::error(std::string_view message, std::initializer_list<LogField> fields) const {
  write(LogLevel::Error, message, fields);
}

}  // namespace train
