#include "daemon/server/remote_start.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "lib/base/network_addresses.h"
#include "lib/net/hmac.h"

namespace train {
namespace {

/// Wipes the text at its end. It never grows beyond what it has reserved, which would leave a copy.
struct TokenLine {
  TokenLine() { text.reserve(kTokenBytesMax + 1); }
  ~TokenLine() { wipe(text.data(), text.size()); }
  TokenLine(const TokenLine&) = delete;
  TokenLine& operator=(const TokenLine&) = delete;
  std::string text;
};

Error no_token(const char* why) {
  return {Errc::InvalidArgument, fmt::format("--token-stdin: {}", why),
          "write the token and a line end to its standard input, and keep that open"};
}

}  // namespace

// One byte at a time: what follows is not ours to read.
Result<Token> read_token_line(int fd, Duration limit) {
  const TimePoint until = std::chrono::steady_clock::now() + limit;
  TokenLine line;
  for (;;) {
    const Duration left = until - std::chrono::steady_clock::now();
    if (left <= Duration{0})
      return Error{Errc::Timeout, "--token-stdin: no token came",
                   "write it and a line end to the standard input"};
    pollfd input{fd, POLLIN, 0};
    const int wait = static_cast<int>(std::chrono::ceil<milliseconds>(left).count());
    if (::poll(&input, 1, wait) <= 0) continue;
    char byte = 0;
    const ssize_t size = ::read(fd, &byte, 1);
    if (size < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (size < 0) return system_error(errno, "--token-stdin");
    if (size == 0) return no_token("the input ended before the token did");
    if (byte == '\n') break;
    if (line.text.size() >= kTokenBytesMax) return no_token("the token is too long");
    line.text.push_back(byte);
  }
  if (line.text.size() < kTokenBytesMin) return no_token("the token is too short");
  return Token(line.text);
}

Result<std::string> listen_towards_launcher() {
  const char* launcher = std::getenv("SLURM_LAUNCH_NODE_IPADDR");
  const std::string address = launcher == nullptr ? "" : own_address_towards(launcher);
  if (!address.empty()) return Endpoint::tcp(address, 0).text();
  if (launcher != nullptr)
    return Error{
        Errc::InvalidArgument,
        fmt::format("--announce: no address of this node leads to {}, where srun runs", launcher),
        "name the address with --listen"};
  return Error{Errc::InvalidArgument, "--announce: srun has not started this traind",
               "name an address with --listen HOST:0"};
}

Result<PrivateFolders> make_remote_folders() { return make_private_folders(random_bytes(5)); }

std::string announcement(const std::string& node_name, const Endpoint& endpoint) {
  return fmt::format("traind-announce 1 {} {}\n", node_name, endpoint.text());
}

}  // namespace train
