#include "launcher/cluster/run/stack_requests.h"

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>

#include "lib/base/time.h"
#include "lib/net/within.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

namespace fs = std::filesystem;
constexpr Duration kLookEvery = milliseconds(500);
constexpr std::size_t kRequestBytesMax = 1u << 20;  // more than 65,536 ranks take

bool is_id(std::string_view text) {
  return !text.empty() && text.size() <= kStackRequestIdBytesMax &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-';
         });
}

/// Return the request's text. Whoever may write to the folder may put anything there: a FIFO is not
/// waited for, nor a huge file read.
std::string read_request(const std::string& path) {
  PosixFileSystem files;
  const auto text = read_small_file(files, path, kRequestBytesMax);
  return text ? *text : std::string();
}

/// Return the ranks that a request names. A request that is none of ours names none: all.
std::vector<Rank> ranks_of(const std::string& text) {
  std::vector<Rank> ranks;
  boost::system::error_code error;
  const auto value = boost::json::parse(text, error);
  const auto* list = error ? nullptr : value.if_array();
  if (list == nullptr) return ranks;
  for (const auto& item : *list) {
    const auto* rank = item.if_int64();
    if (rank != nullptr && *rank >= 0 && *rank < (1 << 24))
      ranks.push_back(Rank{static_cast<std::int32_t>(*rank)});
  }
  return ranks;
}

}  // namespace

std::string stack_request_text(const std::vector<Rank>& ranks) {
  boost::json::array list;
  for (const Rank rank : ranks) list.push_back(rank.value);
  return boost::json::serialize(list);
}

asio::awaitable<void> watch_stack_requests(std::string folder,
                                           std::function<void(const StacksAsked&)> asked) {
  const std::string_view prefix = kStackRequestPrefix;
  for (;;) {
    std::error_code error;
    std::vector<StacksAsked> found;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      if (!name.starts_with(prefix) || !is_id(std::string_view(name).substr(prefix.size())))
        continue;
      found.push_back({"request-" + name.substr(prefix.size()),
                       ranks_of(read_request(entry->path().string()))});
      std::error_code ignored;  // then it is answered again
      fs::remove(entry->path(), ignored);
    }
    for (const StacksAsked& request : found) asked(request);
    const auto woken = co_await pause_for(kLookEvery);
    if (!woken) co_return;
  }
}

}  // namespace train
