#include "launcher/cluster/run/node_setups.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "lib/base/file_descriptor.h"
#include "lib/base/secrets.h"
#include "lib/base/utf8.h"
#include "lib/base/write_all.h"

namespace train {
namespace {

constexpr std::size_t kOutputBytesMax = 1u << 20;  // as much as a supervisor of ours sends
constexpr std::size_t kLifeBytesMax = 256;

}  // namespace

Result<Unit> add_to_log(const std::string& path, std::string_view text) {
  std::error_code ec;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ec);
  const FileDescriptor file(::open(
      path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
  if (file.get() < 0) return system_error(errno, "writing " + path);
  return write_all(file.get(), text, path);
}

void NodeSetups::ended(Attempt attempt, const std::string& node, NodeSetupEnded message) {
  if (!heard_.emplace(attempt, node).second) return;
  if (message.ok) {
    const auto record = node_setup_record(node, utf8_text(message.life, kLifeBytesMax));
    history_.add(record);
    journal_.remember(record);
  }
  const std::string path = folder_.node_setup_log(attempt, node);
  const bool stopped = !message.ok && message.error.empty();
  if (!message.ok && !stopped)
    messages_.warn(fmt::format("per_node_setup failed on {}; its output is in {}", node, path));
  std::string text = std::move(message.output);
  if (text.size() > kOutputBytesMax) text.erase(0, text.size() - kOutputBytesMax);
  if (!text.empty() && text.back() != '\n') text += '\n';
  text += fmt::format("[trainrun: {} after {}]\n",
                      message.ok ? "it succeeded"
                      : stopped  ? "it was stopped"
                                 : utf8_text(redacted(message.error), 1024),
                      format_duration(milliseconds(
                          std::clamp<std::int64_t>(message.took_ms, 0, 1'000'000'000'000))));
  // A supervisor tells it again to each launcher: the same text takes the place of the first.
  on_disk_([path, text = std::move(text)] {
    std::error_code none;
    std::filesystem::remove(path, none);
    (void)add_to_log(path, text);
  });
}

}  // namespace train
