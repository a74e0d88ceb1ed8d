// profile: has the train-run that controls a run take a profile of a rank, prints where the time
// went, and says where the flame graph is.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cmd/train-run/ask_run.h"
#include "cmd/train-run/commands.h"
#include "cmd/train-run/run_life.h"
#include "lib/base/print.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

constexpr auto kAnswerWithin = std::chrono::seconds(60);  // after the last sample
constexpr std::uint64_t kFileBytesMax = 512u << 20;

/// Return the ending of a file that a profile can have, "" if it is none of them.
std::string ending_of(const std::string& file) {
  const auto found = std::find_if(kProfileEndings.begin(), kProfileEndings.end(),
                                  [&](const char* ending) { return file.ends_with(ending); });
  return found == kProfileEndings.end() ? "" : *found;
}

/// Return the path of the file beside the text, with another ending.
std::string beside(std::string text_path, const std::string& ending) {
  text_path.resize(text_path.size() - std::string_view(kProfileEndings[0]).size());
  return text_path + ending;
}

Result<Unit> copy(const std::string& from, const std::string& to) {
  PosixFileSystem files;
  TRY(const std::string text, read_small_file(files, from, kFileBytesMax));
  return replace_private_file(to, text);
}

Result<Unit> show(const std::string& path, const ProfileCommand& options) {
  PosixFileSystem files;
  TRY(const std::string text, read_small_file(files, path, kFileBytesMax));
  print_lines(text);
  if (!options.file.empty()) TRY_VOID(copy(beside(path, ending_of(options.file)), options.file));
  print_out("\nflame graph: {}\n", beside(path, ".html"));
  return Unit{};
}

}  // namespace

int profile_command(const RunReference& reference, const ProfileCommand& options) {
  if (!options.file.empty() && ending_of(options.file).empty()) {
    print_error({Errc::InvalidArgument, fmt::format("-o {}: its name says no format", options.file),
                 fmt::format("let it end with {}", fmt::join(kProfileEndings, ", "))});
    return exit_code::kUsage;
  }
  const auto folder = folder_to_ask(reference);
  if (!folder) return not_answered(folder.error());
  const ProfileRequest wanted{.rank = Rank{options.rank},
                              .kind = profile_kind(options.kind).value_or(ProfileKind::Cpu),
                              .time = milliseconds(std::llround(options.seconds * 1000))};
  auto request = PendingRequest::leave(*folder, wanted);
  if (!request) return not_answered(request.error());
  const auto within = std::chrono::duration_cast<milliseconds>(wanted.time) + kAnswerWithin;
  const auto path = answer_of(std::move(*request), *folder, within, "profile");
  if (!path) return not_answered(path.error());
  const auto shown = show(*path, options);
  return shown ? 0 : failed(shown.error());
}

}  // namespace train
