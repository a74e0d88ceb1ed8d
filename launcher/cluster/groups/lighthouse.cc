#include "launcher/cluster/groups/lighthouse.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>

#include "launcher/core/peer_ports.h"

namespace train {
namespace {

constexpr Duration kStopsWithin = seconds(2);
constexpr int kConnectsWithinMs = 100;

TimePoint now() { return std::chrono::steady_clock::now(); }

/// Return whether somebody listens at the address of this machine.
bool somebody_listens(const std::string& host, std::uint16_t port) {
  sockaddr_storage address{};
  socklen_t size = 0;
  auto* in4 = reinterpret_cast<sockaddr_in*>(&address);
  auto* in6 = reinterpret_cast<sockaddr_in6*>(&address);
  if (::inet_pton(AF_INET, host.c_str(), &in4->sin_addr) == 1) {
    in4->sin_family = AF_INET;
    in4->sin_port = htons(port);
    size = sizeof *in4;
  } else {
    (void)::inet_pton(AF_INET6, host.c_str(), &in6->sin6_addr);
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    size = sizeof *in6;
  }
  const FileDescriptor probe(
      ::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0) return true;
  if (errno != EINPROGRESS) return false;
  pollfd ready{probe.get(), POLLOUT, 0};
  int error = 0;
  socklen_t error_size = sizeof error;
  return ::poll(&ready, 1, kConnectsWithinMs) == 1 &&
         ::getsockopt(probe.get(), SOL_SOCKET, SO_ERROR, &error, &error_size) == 0 && error == 0;
}

}  // namespace

Lighthouse::Lighthouse(Options options) : options_(std::move(options)), log_(options_.log) {}

Result<Unit> Lighthouse::open() {
  auto held = HeldPort::bind(options_.host, options_.port);
  if (!held && options_.port != 0) held = HeldPort::bind(options_.host);
  if (!held) return held.error();
  port_.emplace(std::move(*held));
  return log_.open();
}

std::string Lighthouse::address() const { return host_and_port(options_.host, port_->port()); }

std::string Lighthouse::url() const { return "http://" + address(); }

Result<Unit> Lighthouse::start() {
  std::vector<std::string> words = options_.command;
  words.insert(words.end(),
               {"--min_replicas", fmt::format("{}", options_.min_groups), "--bind", address()});
  up_ = false;
  TRY(auto program, ChildProgram::start({.argv = std::move(words),
                                         .folder = options_.folder,
                                         .environment = options_.environment,
                                         .dies_with_us = true}));
  program_.emplace(std::move(program));
  return Unit{};
}

bool Lighthouse::came_up() {
  if (!is_coming_up() || !somebody_listens(options_.host, port_->port())) return false;
  up_ = true;
  return true;
}

std::optional<std::string> Lighthouse::ended() {
  const auto take = [&](std::string_view text) { log_.add(text); };
  if (!program_ || !program_->look(take)) return std::nullopt;
  program_->signal(SIGKILL);  // what it has left in its process group
  const ChildProgram::End end = program_->reap(take);
  program_.reset();
  const std::string last = log_.last();
  return end_text(end) + (last.empty() ? "" : fmt::format(" (it said: {})", last));
}

void Lighthouse::kill() const {
  if (program_) program_->signal(SIGKILL);
}

void Lighthouse::add_to(std::vector<pollfd>& polled) const {
  if (!program_) return;
  if (const int output = program_->output_handle(); output >= 0)
    polled.push_back({output, POLLIN, 0});
  polled.push_back({program_->end_handle(), POLLIN, 0});
}

void Lighthouse::end() {
  if (!program_) return;
  const auto take = [&](std::string_view text) { log_.add(text); };
  const auto within = [](Duration time) { return [until = now() + time] { return until; }; };
  program_->signal(SIGTERM);
  (void)program_->wait(within(kStopsWithin), take);
  program_->signal(SIGKILL);
  // One that waits in the kernel cannot be killed: we do not wait for it.
  if (program_->wait(within(kStopsWithin), take)) (void)program_->reap(take);
  program_.reset();
}

}  // namespace train
