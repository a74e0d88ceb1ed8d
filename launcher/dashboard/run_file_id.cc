#include "launcher/dashboard/run_file_id.h"

#include <charconv>
#include <vector>

namespace train {
namespace {

std::vector<std::string_view> parts_of(std::string_view path, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = path.find(at);
    parts.push_back(path.substr(0, end));
    if (end == path.npos) return parts;
    path.remove_prefix(end + 1);
  }
}

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

bool is_plain_name(std::string_view name) {
  if (name.empty() || name.front() == '.') return false;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    if (!plain) return false;
  }
  return true;
}

/// Read "20261126-125036.038-hung.json" or "20261126-125036-rank-0003-cpu.folded".
void read_name(std::string_view name, RunFileId& id) {
  const std::vector<std::string_view> parts = parts_of(name, '-');
  for (std::size_t i = 2; i < parts.size(); ++i) {
    if (parts[i] == "rank" && i + 1 < parts.size()) {
      id.rank = number_in(parts[++i]);
      continue;
    }
    const std::string_view word = parts[i].substr(0, parts[i].find('.'));
    id.why += (id.why.empty() ? "" : "-") + std::string(word);
  }
}

std::optional<RunFileId> log_of_rank(std::string_view path,
                                     const std::vector<std::string_view>& parts) {
  const std::string_view name = parts[4];
  const bool out = name == "stdout.log" || name == "stdout.log.1" || name == "stdout.log.head";
  const bool err = name == "stderr.log" || name == "stderr.log.1" || name == "stderr.log.head";
  if (!out && !err) return std::nullopt;
  return RunFileId{std::string(path), "log", number_in(parts[1]), number_in(parts[3]),
                   out ? "out" : "err"};
}

}  // namespace

std::optional<RunFileId> parse_run_file_id(std::string_view path) {
  if (path == "train-run.log" || path == "launcher.log")
    return RunFileId{std::string(path), "log", {}, {}, "launcher"};
  const std::vector<std::string_view> parts = parts_of(path, '/');
  if (parts.size() < 4 || parts[0] != "attempts" || !number_in(parts[1])) return std::nullopt;
  if (parts.size() == 5 && parts[2] == "ranks" && number_in(parts[3]))
    return log_of_rank(path, parts);
  if (parts.size() != 4 || !is_plain_name(parts[3])) return std::nullopt;
  if (parts[2] != "stacks" && parts[2] != "profiles") return std::nullopt;
  RunFileId id{
      std::string(path), parts[2] == "stacks" ? "stacks" : "profile", number_in(parts[1]), {}, {}};
  read_name(parts[3], id);
  return id;
}

}  // namespace train
