#include "launcher/cluster/run/time_notes.h"

#include <boost/asio/post.hpp>
#include <boost/json.hpp>
#include <filesystem>

#include "launcher/core/run_history.h"
#include "launcher/report/goodput_text.h"
#include "lib/net/within.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

constexpr Duration kWriteEvery = seconds(5);
constexpr int kWritesMax = 2;

}  // namespace

asio::awaitable<void> TimeNotes::run() {
  for (;;) {
    const auto woken = co_await pause_for(kWriteEvery);
    if (!woken) co_return;
    const TimeAccounts time = controller_.attempt_time(clock_.now());
    if (time.total() > Duration{}) write(controller_.attempt(), time);
  }
}

void TimeNotes::attempt_ended(const AttemptEnded& ended) { write(ended.attempt, ended.time); }

// Not synced, and a write that fails is left out: the journal has the accounts of attempts that
// have ended.
void TimeNotes::write(Attempt attempt, const TimeAccounts& of_attempt) {
  if (*writing_ >= kWritesMax) return;
  ++*writing_;
  std::string text = goodput_json(attempt.value, controller_.world_size(), of_attempt,
                                  controller_.worker_time(clock_.now()), clock_.wall());
  asio::post(disk_, [writing = writing_, folder = folder_.attempt(attempt),
                     path = folder_.goodput_json(attempt), text = std::move(text)] {
    std::error_code ec;
    std::filesystem::create_directories(folder, ec);
    (void)replace_private_file(path, text);
    --*writing;
  });
}

std::optional<NotedTime> read_time_note(const RunFolder& folder, const LivingAttempt& living) {
  constexpr std::size_t kBytesMax = 64u << 10;
  PosixFileSystem files;
  const auto text = read_small_file(files, folder.goodput_json(living.id), kBytesMax);
  if (!text) return std::nullopt;
  boost::system::error_code ec;
  const auto json = boost::json::parse(*text, ec);
  if (ec || !json.is_object()) return std::nullopt;
  const auto* size = json.as_object().if_contains("world_size");
  if (size == nullptr || *size != living.placement.world_size) return std::nullopt;
  return NotedTime{time_in(json.as_object()), living.placement.world_size};
}

}  // namespace train
