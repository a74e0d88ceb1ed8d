#include "launcher/cluster/links/node_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "launcher/core/host_list.h"
#include "launcher/core/member.h"
#include "lib/base/file_descriptor.h"
#include "lib/base/host.h"
#include "lib/base/network_addresses.h"
#include "lib/base/thread.h"

namespace train {
namespace {

constexpr Duration kLookAgainAfter = milliseconds(500);
constexpr Duration kSayFirst = seconds(1), kSayAgain = std::chrono::minutes(1);

/// Read a plain file of bounded size: a FIFO would never end.
Result<std::string> read_list(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat found {};
  if (file.get() < 0 || ::fstat(file.get(), &found) != 0)
    return system_error(errno, fmt::format("the hosts file '{}'", path));
  if (!S_ISREG(found.st_mode))
    return Error{Errc::InvalidArgument, fmt::format("the hosts file '{}' is no file", path)};
  std::string text(kHostListBytesMax + 1, '\0');  // what is longer is refused
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = ::read(file.get(), text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(errno, fmt::format("the hosts file '{}'", path));
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  text.resize(size);
  return text;
}

Result<NodeNames> read_hosts_file(const std::string& path) {
  TRY(const std::string text, read_list(path));
  auto nodes = parse_hosts_file(text);
  if (!nodes)
    return std::move(nodes).error().with_context(fmt::format("the hosts file '{}'", path));
  if (nodes->empty())
    return Error{Errc::Unavailable, fmt::format("the hosts file '{}' names no host", path),
                 "write HOST or HOST:PORT, one on each line"};
  return nodes;
}

Result<NodeNames> look_up(const std::string& text) {
  TRY(const DnsName dns, parse_dns_name(text));
  TRY(NodeNames nodes, addresses_of(dns.name));
  for (std::string& node : nodes) node = node_address(node, dns.port);
  return nodes;
}

/// What comes from a thread of its own, which may hang. It is shared, because we may stop waiting.
template <class T>
class Answer {
 public:
  static std::shared_ptr<Answer> begin(std::function<Result<T>()> work) {
    auto answer = std::make_shared<Answer>();
    const auto started = start_unjoined_thread(
        "trainrun-nodes", [answer, work = std::move(work)] { answer->set(work()); });
    if (!started) answer->set(started.error());
    return answer;
  }
  /// Return it, once; nothing if it has not come by then.
  std::optional<Result<T>> take(TimePoint until) {
    std::unique_lock lock(mutex_);
    come_.wait_until(lock, until, [&] { return result_.has_value(); });
    return std::exchange(result_, std::nullopt);
  }

 private:
  void set(Result<T> result) {
    const std::lock_guard lock(mutex_);
    result_ = std::move(result);
    come_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable come_;
  std::optional<Result<T>> result_;
};

}  // namespace

std::string describe_node_source(const ClusterConfig& cluster) {
  return cluster.hosts_file.empty() ? fmt::format("the name {}", cluster.dns)
                                    : fmt::format("the hosts file '{}'", cluster.hosts_file);
}

Result<std::vector<std::string>> addresses_of(const std::string& name) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int failed = ::getaddrinfo(name.c_str(), nullptr, &hints, &found);
  const int error_number = errno;
  if (failed != 0)
    return Error{Errc::Unavailable,
                 fmt::format("the name {} has no address: {}", name,
                             failed == EAI_SYSTEM
                                 ? std::error_code(error_number, std::system_category()).message()
                                 : ::gai_strerror(failed))};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, ::freeaddrinfo);
  std::set<std::string> v4, v6;  // in one order, whatever that of the answer
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(entry->ai_addr, entry->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) == 0)
      (entry->ai_family == AF_INET ? v4 : v6).insert(text.data());
  }
  const std::set<std::string>& chosen = v4.empty() ? v6 : v4;
  std::vector<std::string> addresses(chosen.begin(), chosen.end());
  if (addresses.size() > kHostsMax) addresses.resize(kHostsMax);
  if (!addresses.empty()) return addresses;
  return Error{Errc::Unavailable, fmt::format("the name {} has no address", name)};
}

Result<NodeNames> read_node_source(const ClusterConfig& cluster) {
  return cluster.hosts_file.empty() ? look_up(cluster.dns) : read_hosts_file(cluster.hosts_file);
}

Result<NodeNames> wait_for_node_source(const ClusterConfig& cluster, Duration limit,
                                       const std::function<void(const std::string&)>& say) {
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const TimePoint until = now() + limit;
  TimePoint say_at = now() + kSayFirst;
  std::string why = fmt::format("{} cannot be read yet: no answer", describe_node_source(cluster));
  std::shared_ptr<Answer<NodeNames>> answer;
  while (now() < until) {
    if (!answer) answer = Answer<NodeNames>::begin([cluster] { return read_node_source(cluster); });
    auto read = answer->take(say ? std::min(until, now() + kLookAgainAfter) : until);
    if (read) {
      if (*read || read->error().code != Errc::Unavailable || !say) return std::move(*read);
      why = read->error().message;
      answer.reset();
      std::this_thread::sleep_for(std::min<Duration>(kLookAgainAfter, until - now()));
    }
    if (!say || now() < say_at) continue;
    say_at = now() + kSayAgain;
    say(fmt::format("waiting for nodes: {}", why));
  }
  return Error{Errc::Unavailable, fmt::format("{} (waited {})", why, format_duration(limit)),
               "start the nodes, or correct it"};
}

Result<ClusterConfig> with_found_nodes(ClusterConfig cluster, Duration limit) {
  if (!cluster.finds_nodes()) return cluster;
  TRY(cluster.nodes, wait_for_node_source(cluster, limit));
  return cluster;
}

Result<std::size_t> place_in(const NodeNames& nodes, Duration limit) {
  const auto search = [nodes]() -> Result<std::size_t> {
    const auto place = place_of_this_machine(nodes, host_name(), read_node_addresses(),
                                             [](const std::string& name) {
                                               auto found = addresses_of(name);
                                               return found ? *found : std::vector<std::string>();
                                             });
    if (place) return *place;
    return Error{
        Errc::NotFound,
        fmt::format("this machine is none of the {} hosts: it is {}, and has the addresses "
                    "{}",
                    nodes.size(), host_name(), fmt::join(read_node_addresses(), ", ")),
        "name it as one of these"};
  };
  auto found = Answer<std::size_t>::begin(search)->take(std::chrono::steady_clock::now() + limit);
  if (found) return std::move(*found);
  return Error{Errc::Timeout, fmt::format("the names of hosts could not be looked up within {}",
                                          format_duration(limit))};
}

}  // namespace train
