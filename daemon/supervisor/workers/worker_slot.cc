#include "daemon/supervisor/workers/worker_slot.h"

#include <fmt/format.h>

#include <boost/json.hpp>

#include "daemon/supervisor/group_messages.h"
#include "lib/base/utf8.h"
#include "lib/model/pause_step.h"
#include "lib/progress/progress_clock.h"
#include "lib/progress/progress_reader.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

constexpr std::size_t kErrorFileBytesMax = 1u << 20;
// Errors must fit into a frame (4 MiB) and into the journal.
constexpr std::size_t kErrorTextBytesMax = 64u << 10;
constexpr std::size_t kErrorStackBytesMax = 256u << 10;

UserError cut(const UserError& error) {
  return {utf8_text(error.what, kErrorTextBytesMax), utf8_text(error.type, kErrorTextBytesMax),
          utf8_text(error.stack, kErrorStackBytesMax)};
}

std::string text_at(const boost::json::object& object, std::string_view key) {
  const boost::json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : "";
}

}  // namespace

std::string WorkerSlot::group() const {
  return standby ? standby->group : fmt::format("rank-{:04}", ranks.rank);
}

void pause_passed_on(WorkerSlot& slot, const PauseWorkers& message) {
  if (message.step == to_string(PauseStep::Finish) && !slot.said_goodbye) slot.told_to_stop = true;
}

WorkerExited exit_message(const WorkerSlot& slot) {
  const TellExited& exit = *slot.exit;
  WorkerExited message;
  message.rank = slot.ranks.rank;
  message.pid = exit.pid;
  WorkerEnd& end = message.end = end_of(exit, slot.reaped_at, slot.reports.last_report_seq());
  end.oom_killed = slot.out_of_memory && !exit.stop_requested;
  if (end.oom_killed) end.memory = *slot.out_of_memory;
  end.pids_limit_hit = slot.pids_limit_hit;
  end.told_to_stop = slot.told_to_stop;
  end.last_lines = slot.last_lines.lines();
  if (slot.error) end.error = cut(*slot.error);
  end.crashed_in = slot.crash.place;
  end.core = slot.crash.core;
  if (!slot.error && !slot.crash.frames.empty()) end.error = cut({"", "", slot.crash.frames});
  if (slot.progress) message.progress = read_progress(slot.progress->page(), slot.reaped_ns);
  message.ended_us = static_cast<std::int64_t>((progress_now() - slot.reaped_ns) / 1000);
  return message;
}

std::optional<UserError> read_error_file(const std::string& path) {
  PosixFileSystem files;  // never waits, and never reads more than the limit
  const auto text = read_small_file(files, path, kErrorFileBytesMax);
  if (!text || text->empty()) return std::nullopt;
  boost::system::error_code ec;
  const boost::json::value json = boost::json::parse(*text, ec);
  if (ec || !json.is_object()) return std::nullopt;
  const boost::json::value* message = json.as_object().if_contains("message");
  if (message == nullptr) return std::nullopt;
  if (message->is_string()) return UserError{std::string(message->as_string()), "", ""};
  if (!message->is_object()) return std::nullopt;
  UserError error{text_at(message->as_object(), "message"), "", ""};
  if (const auto* extra = message->as_object().if_contains("extraInfo");
      extra != nullptr && extra->is_object()) {
    error.stack = text_at(extra->as_object(), "py_callstack");
  }
  return error;
}

}  // namespace train
