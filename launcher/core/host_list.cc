#include "launcher/core/host_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "launcher/core/ssh_hosts.h"

namespace train {
namespace {

constexpr std::size_t kShownBytesMax = 253;  // of a word that is refused
constexpr std::size_t kSocketPathBytesMax = 107;
constexpr std::string_view kSpace = " \t\r\n,";

Error wrong(std::string_view why) { return {Errc::InvalidArgument, std::string(why)}; }

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

/// Return a node as cluster.nodes has it.
Result<std::string> read_node(std::string_view word) {
  constexpr std::string_view kUnix = "unix:";
  if (word.starts_with(kUnix)) {
    const std::string_view path = word.substr(kUnix.size());
    if (!path.starts_with('/') || !is_plain(path)) return wrong("has no absolute path");
    if (path.size() > kSocketPathBytesMax) return wrong("has a path too long for a socket");
    return std::string(word);
  }
  if (word.starts_with(kSshPrefix)) {
    TRY_VOID(parse_ssh_host(word.substr(kSshPrefix.size())));
    return std::string(word);
  }
  TRY(const SshHost host, parse_ssh_host(word));
  if (!host.user.empty()) return wrong("has a user: write ssh:USER@HOST to reach it by ssh");
  return node_address(host.host, host.port == 0 ? kTraindPort : host.port);
}

}  // namespace

std::string node_address(const std::string& host, std::uint16_t port) {
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

Result<std::vector<std::string>> read_host_words(
    std::string_view text, std::size_t line_bytes_max,
    const std::function<Result<std::string>(std::string_view)>& read) {
  if (text.size() > kHostListBytesMax)
    return wrong(fmt::format("it has more than {} bytes", kHostListBytesMax));
  std::vector<std::string> hosts;
  std::set<std::string, std::less<>> known;
  for (int number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.size() > line_bytes_max)
      return wrong(fmt::format("line {} has more than {} bytes", number, line_bytes_max));
    line = line.substr(0, line.find('#'));
    for (;;) {
      line.remove_prefix(std::min(line.size(), line.find_first_not_of(kSpace)));
      if (line.empty()) break;
      const std::string_view word = line.substr(0, line.find_first_of(kSpace));
      line.remove_prefix(word.size());
      if (word.find('=') != std::string_view::npos) continue;  // slots=4
      auto host = read(word);
      if (!host)
        return wrong(fmt::format("'{}' {}", word.substr(0, kShownBytesMax), host.error().message));
      if (!known.insert(*host).second) continue;
      if (hosts.size() == kHostsMax)
        return wrong(fmt::format("it has more than {} hosts", kHostsMax));
      hosts.push_back(std::move(*host));
    }
  }
  return hosts;
}

Result<std::vector<std::string>> parse_hosts_file(std::string_view text) {
  return read_host_words(text, kHostLineBytesMax, read_node);
}

Result<DnsName> parse_dns_name(std::string_view text) {
  TRY(const SshHost host, parse_ssh_host(text));
  if (!host.user.empty()) return wrong("has a user");
  if (host.host.find(':') != std::string::npos) return wrong("is an address, not a name");
  return DnsName{host.host, host.port == 0 ? kTraindPort : host.port};
}

}  // namespace train
