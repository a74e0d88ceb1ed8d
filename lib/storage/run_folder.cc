#include "lib/storage/run_folder.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/storage/manifest.h"

namespace train {
namespace {

constexpr std::size_t kNameBytesMax = 128;
constexpr int kSuffixMax = 10'000;

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

std::string RunFolder::attempt(Attempt id) const {
  return in(fmt::format("attempts/{:03}", id.value));
}
std::string RunFolder::rank(Attempt id, Rank number) const {
  return fmt::format("{}/ranks/{:04}", attempt(id), number.value);
}
std::string RunFolder::stdout_log(Attempt id, Rank number) const {
  return join_path(rank(id, number), "stdout.log");
}
std::string RunFolder::stderr_log(Attempt id, Rank number) const {
  return join_path(rank(id, number), "stderr.log");
}
std::string RunFolder::output_times(Attempt id) const {
  return join_path(attempt(id), "output.times");
}
std::string RunFolder::error_json(Attempt id, Rank number) const {
  return join_path(rank(id, number), "error.json");
}
std::string RunFolder::cause_json(Attempt id) const { return join_path(attempt(id), "cause.json"); }
std::string RunFolder::goodput_json(Attempt id) const {
  return join_path(attempt(id), "goodput.json");
}
std::string RunFolder::stacks(Attempt id) const { return join_path(attempt(id), "stacks"); }
std::string RunFolder::profiles(Attempt id) const { return join_path(attempt(id), "profiles"); }
std::string RunFolder::cores(Attempt id) const { return join_path(attempt(id), "cores"); }

std::string RunFolder::node_setup_log(Attempt id, std::string_view node) const {
  std::string name(node.substr(0, kNameBytesMax));
  for (char& c : name)
    if (!is_letter_or_digit(c) && c != '.' && c != '_' && c != '-') c = '_';
  if (name.empty() || name.front() == '.') name.insert(name.begin(), '_');
  return fmt::format("{}/nodes/{}/setup.log", attempt(id), name);
}

Result<Unit> check_run_name(std::string_view name) {
  const bool fits =
      !name.empty() && name.size() <= kNameBytesMax && is_letter_or_digit(name.front()) &&
      std::all_of(name.begin(), name.end(),
                  [](char c) { return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-'; });
  if (fits) return Unit{};
  return Error{
      Errc::InvalidArgument,
      fmt::format("'{}' cannot be the name of a run", escape_name(name.substr(0, kNameBytesMax))),
      "use letters, digits, '.', '_' and '-', a letter or digit first, at most 128 characters"};
}

Result<RunFolder> create_run_folder(FileSystem& fs, const std::string& storage_path,
                                    const std::string& name) {
  TRY_VOID(check_run_name(name));
  TRY_VOID(make_folders(fs, storage_path));
  RunFolder run(join_path(storage_path, name));
  TRY_VOID(fs.make_folder(run.path()));
  TRY_VOID(fs.sync_folder(storage_path));
  return run;
}

Result<RunFolder> create_unique_run_folder(FileSystem& fs, const std::string& storage_path,
                                           const std::string& name) {
  TRY_VOID(make_folders(fs, storage_path));
  for (int n = 1; n <= kSuffixMax; ++n) {
    auto made = create_run_folder(fs, storage_path, n == 1 ? name : fmt::format("{}-{}", name, n));
    if (!made.has_error() || made.error().code != Errc::AlreadyExists) return made;
  }
  return Error{Errc::ResourceExhausted,
               fmt::format("'{}' and {} names after it are taken in '{}'", name, kSuffixMax - 1,
                           storage_path),
               "give the run a name"};
}

}  // namespace train
