#include "daemon/server/controller_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iterator>
#include <sstream>

#include "lib/base/text_file.h"
#include "lib/storage/posix_file_system.h"
#include "lib/wire/codec.h"
#include "lib/wire/daemon_messages.h"

namespace train {
namespace {

constexpr std::string_view kPrefix = "c-", kSuffix = ".detached";
constexpr std::size_t kTailBytes = 16u << 10;

}  // namespace

ControllerFiles controller_files(const std::string& runtime_dir, const std::string& tag) {
  return {fmt::format("{}/{}{}{}", runtime_dir, kPrefix, tag, kSuffix),
          fmt::format("{}/{}{}.log", runtime_dir, kPrefix, tag)};
}

std::vector<std::string> list_controller_tags(const std::string& runtime_dir) {
  std::vector<std::string> tags;
  PosixFileSystem files;
  const auto entries = files.list(runtime_dir);
  if (!entries) return tags;
  for (const FolderEntry& entry : *entries) {
    const std::string& name = entry.name;
    if (name.starts_with(kPrefix) && name.ends_with(kSuffix))
      tags.push_back(name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size()));
  }
  return tags;
}

void remove_controller_files(const ControllerFiles& files) {
  ::unlink(files.note.c_str());
  ::unlink(files.log.c_str());
}

// The note is a line of words, then the request as it was received. Its mode is 0600: the
// environment may hold secrets.
Result<Unit> write_note(const std::string& path, const DetachedNote& note) {
  std::string line =
      fmt::format("{} {} {}", note.pid, note.pid_start.empty() ? "-" : note.pid_start,
                  note.exit_at_detach.empty() ? "-" : note.exit_at_detach);
  if (note.takeover != DetachedNote::Takeover::None)
    line += note.takeover == DetachedNote::Takeover::Begun ? " begun" : " done";
  if (note.uid) line += fmt::format(" {}", *note.uid);
  return replace_private_file(path, line + "\n" + encode(note.request).payload);
}

std::optional<DetachedNote> read_note(const std::string& path) {
  const std::string text = read_text(path);
  const auto newline = text.find('\n');
  if (newline == std::string::npos) return std::nullopt;
  DetachedNote note;
  std::istringstream words(text.substr(0, newline));
  if (!(words >> note.pid >> note.pid_start >> note.exit_at_detach)) return std::nullopt;
  if (std::string takeover; words >> takeover)
    note.takeover =
        takeover == "done" ? DetachedNote::Takeover::Done : DetachedNote::Takeover::Begun;
  if (uid_t uid = 0; words >> uid) note.uid = uid;
  for (std::string* word : {&note.pid_start, &note.exit_at_detach}) {
    if (*word == "-") word->clear();
  }
  auto request = decode<DetachController>(
      Frame{DetachController::kType, kNoAttempt, text.substr(newline + 1)});
  if (!request || request->resume_argv.empty()) return std::nullopt;
  note.request = std::move(*request);
  return note;
}

std::string exit_mark(const std::string& run_dir, const std::optional<UserAccount>& account) {
  const ActAs as(account);
  struct stat status {};
  if (::stat((run_dir + "/exit.json").c_str(), &status) != 0) return "";
  return fmt::format("{}:{}.{}", status.st_ino, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

std::string tail_of(const std::string& path) {
  const std::string text = read_text(path);
  return text.size() <= kTailBytes ? text : text.substr(text.size() - kTailBytes);
}

}  // namespace train
