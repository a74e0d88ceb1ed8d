#include "daemon/supervisor/backends/pmi_conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace train {
namespace {

constexpr std::size_t kLineBytesMax = 4096;
constexpr std::size_t kUnreadBytesMax = 64u << 10;

/// Return the value of `name=` in a line of such words; "" if there is none.
std::string_view field(std::string_view line, std::string_view name) {
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(word.size() + 1, line.size()));
    if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=')
      return word.substr(name.size() + 1);
  }
  return {};
}

}  // namespace

Result<std::string> PmiConversation::received(std::string_view bytes) {
  unread_ += bytes;
  return answer_lines();
}

Result<std::string> PmiConversation::answer_lines() {
  std::string answers;
  std::size_t read = 0;
  while (!at_barrier_) {
    const std::size_t end = unread_.find('\n', read);
    if (end == std::string::npos) break;
    answers += answer(std::string_view(unread_).substr(read, end - read));
    read = end + 1;
  }
  unread_.erase(0, read);
  const bool line_too_long = !at_barrier_ && unread_.size() > kLineBytesMax;
  if (line_too_long || unread_.size() > kUnreadBytesMax)
    return Error{Errc::Protocol,
                 fmt::format("rank {} wrote {} bytes to PMI_FD that are no line of PMI-1", rank_,
                             unread_.size())};
  return answers;
}

std::string PmiConversation::answer(std::string_view line) {
  if (in_multi_line_ || line.starts_with("mcmd=")) {  // spawn: our groups do not grow by MPI
    in_multi_line_ = line != "endcmd";
    return in_multi_line_ ? "" : "cmd=spawn_result rc=-1 msg=not_supported\n";
  }
  const std::string_view command = field(line, "cmd");
  if (command == "init") {
    begun_ = true;
    const bool known = field(line, "pmi_version") == "1";
    return fmt::format("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc={}\n",
                       known ? 0 : -1);
  }
  if (command == "get_maxes")
    return fmt::format("cmd=maxes rc=0 kvsname_max={} keylen_max={} vallen_max={}\n",
                       kPmiNameBytesMax, kPmiKeyBytesMax, kPmiValueBytesMax);
  if (command == "get_appnum") return "cmd=appnum rc=0 appnum=0\n";
  if (command == "get_my_kvsname")
    return fmt::format("cmd=my_kvsname rc=0 kvsname={}\n", space_.name());
  if (command == "get_universe_size")
    return fmt::format("cmd=universe_size rc=0 size={}\n", space_.world_size());
  if (command == "put") return take_put(line);
  if (command == "get") return get(line);
  if (command == "barrier_in") {
    at_barrier_ = true;
    return "";
  }
  if (command == "finalize") return "cmd=finalize_ack rc=0\n";
  if (command == "abort") return "";  // the process ends itself next, with the code of MPI_Abort
  if (command == "publish_name") return "cmd=publish_result rc=-1 msg=not_supported\n";
  if (command == "unpublish_name") return "cmd=unpublish_result rc=-1 msg=not_supported\n";
  if (command == "lookup_name") return "cmd=lookup_result rc=-1 msg=not_supported\n";
  return "cmd=unknown_cmd rc=-1 msg=not_supported\n";
}

std::string PmiConversation::take_put(std::string_view line) {
  const std::string_view key = field(line, "key"), value = field(line, "value");
  const bool fits = !key.empty() && key.size() < kPmiKeyBytesMax &&
                    value.size() < kPmiValueBytesMax &&
                    put_.size() + key.size() + value.size() + 2 <= kPmiPutBytesMax;
  if (!fits) return "cmd=put_result rc=-1 msg=too_long\n";
  put_ += fmt::format("{} {}\n", key, value);
  return "cmd=put_result rc=0 msg=success\n";
}

std::string PmiConversation::get(std::string_view line) const {
  const auto value = space_.find(std::string(field(line, "key")));
  return value ? fmt::format("cmd=get_result rc=0 msg=success value={}\n", *value)
               : std::string("cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
}

Result<std::string> PmiConversation::end_barrier(const Result<Unit>& outcome) {
  at_barrier_ = false;
  put_.clear();
  TRY(const std::string next, answer_lines());
  return fmt::format("cmd=barrier_out rc={}\n", outcome.has_error() ? -1 : 0) + next;
}

}  // namespace train
