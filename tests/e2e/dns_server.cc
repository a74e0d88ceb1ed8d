#include "tests/e2e/dns_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>

namespace train::e2e {
namespace {

constexpr std::size_t kHeaderBytes = 12;
constexpr const char* kHub = "10.83.0.1";

std::string two_bytes(unsigned value) {
  return {static_cast<char>(value >> 8), static_cast<char>(value & 0xff)};
}

/// Return the end of the question after the header: its name, its type and its class.
std::size_t end_of_question(const std::string& packet) {
  std::size_t at = kHeaderBytes;
  while (at < packet.size() && packet[at] != 0) at += 1 + static_cast<unsigned char>(packet[at]);
  return at + 5;
}

/// Open a UDP socket in another network namespace; the socket stays there.
int socket_in(const std::string& namespace_path) {
  int socket = -1;
  std::thread([&] {
    const int there = ::open(namespace_path.c_str(), O_RDONLY | O_CLOEXEC);
    if (there >= 0 && ::setns(there, CLONE_NEWNET) == 0)
      socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ::close(there);
  }).join();
  return socket;
}

}  // namespace

DnsServer::DnsServer(const Network& network, const std::string& folder) : folder_(folder) {
  const std::string words = network.on_hub().at(1);  // --net=PATH
  socket_ = socket_in(words.substr(words.find('=') + 1));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(53);
  ::inet_pton(AF_INET, kHub, &address.sin_addr);
  if (::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    ADD_FAILURE() << "no DNS server on the hub";
  std::ofstream(folder_ + "/resolv.conf") << fmt::format("nameserver {}\n", kHub);
  std::ofstream(folder_ + "/nsswitch.conf") << "hosts: files dns\npasswd: files\ngroup: files\n";
  thread_ = std::thread([this] { serve(); });
}

DnsServer::~DnsServer() {
  ending_ = true;
  thread_.join();
  ::close(socket_);
}

void DnsServer::set(std::vector<std::string> addresses) {
  const std::lock_guard lock(mutex_);
  addresses_ = std::move(addresses);
}

std::vector<std::string> DnsServer::used() const {
  return {"unshare",
          "--mount",
          "--propagation",
          "private",
          "sh",
          "-c",
          fmt::format("mount --bind {0}/resolv.conf /etc/resolv.conf && "
                      "mount --bind {0}/nsswitch.conf /etc/nsswitch.conf && exec \"$0\" \"$@\"",
                      folder_)};
}

std::string DnsServer::answer(const std::string& question) {
  const std::size_t end = end_of_question(question);
  if (end > question.size()) return "";
  std::string name;
  for (std::size_t at = kHeaderBytes; question[at] != 0;) {
    const auto length = static_cast<unsigned char>(question[at]);
    name += (name.empty() ? "" : ".") + question.substr(at + 1, length);
    at += 1 + length;
  }
  const bool is_a = question[end - 4] == 0 && question[end - 3] == 1;
  const std::lock_guard lock(mutex_);
  const bool known = name == kName && !addresses_.empty();
  const std::size_t count = known && is_a ? addresses_.size() : 0;
  std::string packet = question.substr(0, 2) + two_bytes(known ? 0x8580 : 0x8583) + two_bytes(1) +
                       two_bytes(static_cast<unsigned>(count)) + std::string(4, '\0') +
                       question.substr(kHeaderBytes, end - kHeaderBytes);
  for (std::size_t i = 0; i < count; ++i) {
    in_addr address{};
    ::inet_pton(AF_INET, addresses_[i].c_str(), &address);
    packet += two_bytes(0xc000 | kHeaderBytes) + two_bytes(1) + two_bytes(1) +
              std::string(4, '\0') + two_bytes(4) +
              std::string(reinterpret_cast<const char*>(&address), 4);
  }
  return packet;
}

void DnsServer::serve() {
  while (!ending_) {
    pollfd readable{socket_, POLLIN, 0};
    if (::poll(&readable, 1, 50) <= 0) continue;
    std::string question(512, '\0');
    sockaddr_in from{};
    socklen_t size = sizeof from;
    const ssize_t count = ::recvfrom(socket_, question.data(), question.size(), 0,
                                     reinterpret_cast<sockaddr*>(&from), &size);
    if (count < static_cast<ssize_t>(kHeaderBytes)) continue;
    question.resize(static_cast<std::size_t>(count));
    ++questions_;
    if (silent_) continue;
    const std::string packet = answer(question);
    (void)::sendto(socket_, packet.data(), packet.size(), 0,
                   reinterpret_cast<const sockaddr*>(&from), size);
  }
}

}  // namespace train::e2e
