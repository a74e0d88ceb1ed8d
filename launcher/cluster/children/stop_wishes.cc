#include "launcher/cluster/children/stop_wishes.h"

#include <signal.h>
#include <unistd.h>

#include "launcher/cluster/children/child_folder.h"
#include "lib/base/exit_code.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

constexpr int kSignalsMax = 2;
constexpr std::uint64_t kRequestBytesMax = 4096;

}  // namespace

std::optional<int> StopWishes::by_signal() {
  const int number = signals_.take();
  if (number == 0) return std::nullopt;
  const int code = number == SIGINT ? exit_code::kInterrupted : exit_code::kRequeue;
  if (++signals_taken_ > kSignalsMax) ::_exit(code);
  return code;
}

std::optional<int> StopWishes::by_file() const {
  PosixFileSystem files;
  const auto text = read_small_file(files, request_, kRequestBytesMax);
  if (text.has_error()) return std::nullopt;
  ::unlink(request_.c_str());
  return *text == stop_text(self_) ? std::optional(exit_code::kInterrupted) : std::nullopt;
}

}  // namespace train
