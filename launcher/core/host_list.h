// Lists of hosts that others write: hosts files, host files of batch systems, a name for DNS. Pure.
// Whoever wrote them may be hostile: sizes have limits, and a name is neither an option of a
// program nor anything to a shell.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace train {

inline constexpr std::size_t kHostsMax = 16'384;
inline constexpr std::size_t kHostListBytesMax = 1u << 20;
inline constexpr std::size_t kHostLineBytesMax = 4096;  // of a hosts file
/// The port of a traind that is named without one.
inline constexpr std::uint16_t kTraindPort = 7070;

/// Read the words of a list: one or several a line, between spaces or commas, '#' begins a comment,
/// and what has a '=' (slots=4) is skipped. Return what `read` makes of each word, in order, each
/// once: PBS, LSF and host files of MPI repeat a host for each of its slots. An empty list is none
/// of its errors. InvalidArgument beyond the limits, or for a word that `read` refuses.
Result<std::vector<std::string>> read_host_words(
    std::string_view text, std::size_t line_bytes_max,
    const std::function<Result<std::string>(std::string_view)>& read);

/// Return the nodes of a hosts file as cluster.nodes has them: "gpu-1" and "gpu-1:7070" are both
/// "gpu-1:7070"; "unix:/PATH" and "ssh:HOST" stay. Empty if it names none.
Result<std::vector<std::string>> parse_hosts_file(std::string_view text);

struct DnsName {
  std::string name;
  std::uint16_t port = kTraindPort;
  bool operator==(const DnsName&) const = default;
};
/// Parse NAME[:PORT]. InvalidArgument, with what is wrong about it, such as "has no host".
Result<DnsName> parse_dns_name(std::string_view text);

/// Return HOST:PORT, with brackets around an IPv6 address.
std::string node_address(const std::string& host, std::uint16_t port);

}  // namespace train
