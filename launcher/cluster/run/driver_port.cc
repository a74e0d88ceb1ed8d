#include "launcher/cluster/run/driver_port.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/json.hpp>
#include <limits>
#include <optional>
#include <utility>

namespace train {

Result<Unit> check_driver_socket(int fd) {
  int domain = 0, type = 0;
  socklen_t length = sizeof domain;
  const bool is_socket = ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 &&
                         ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0;
  if (!is_socket || domain != AF_UNIX || type != SOCK_STREAM)
    return Error{Errc::InvalidArgument,
                 fmt::format("--driver-fd: descriptor {} is no Unix stream socket", fd),
                 "a driver passes one end of socketpair(AF_UNIX, SOCK_STREAM) to train-run"};
  if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
    return system_error(errno, "keeping the driver's socket from other programs");
  return Unit{};
}

void tell_driver(int fd, const std::string& line) {
  (void)::send(fd, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

namespace {

constexpr std::int64_t kPatienceMsMax = 600'000;

/// Return a whole number from 0 to `max`, or nothing if the line has no such member.
std::optional<std::int64_t> number_in(const boost::json::object& line, std::string_view name,
                                      std::int64_t max) {
  const boost::json::value* value = line.if_contains(name);
  if (value == nullptr || !value->is_int64()) return std::nullopt;
  if (value->as_int64() < 0 || value->as_int64() > max) return std::nullopt;
  return value->as_int64();
}

std::optional<DriverCommand> parse_acknowledgement(const boost::json::object& line) {
  const auto attempt = number_in(line, "attempt", std::numeric_limits<std::uint32_t>::max());
  const auto round = number_in(line, "round", std::numeric_limits<std::int64_t>::max());
  if (!attempt || !round) return std::nullopt;
  DriverCommand command{DriverCommand::Kind::Acknowledge};
  command.attempt = Attempt{static_cast<std::uint32_t>(*attempt)};
  command.rounds = static_cast<std::uint64_t>(*round);
  return command;
}

}  // namespace

Result<DriverCommand> parse_driver_command(std::string_view line) {
  constexpr std::size_t kShown = 200;
  const auto wrong = [&](std::string_view why) {
    return Error{Errc::InvalidArgument,
                 fmt::format("{}: {}", why, line.substr(0, std::min(line.size(), kShown)))};
  };
  boost::system::error_code ec;
  const boost::json::value parsed = parse_call_text(line, ec);
  if (ec || !parsed.is_object()) return wrong("the driver sent a line that is no JSON object");
  const boost::json::value* command = parsed.as_object().if_contains("command");
  if (command == nullptr || !command->is_string())
    return wrong("the driver sent a line without a command");
  if (command->as_string() == "stop") return DriverCommand{DriverCommand::Kind::Stop};
  if (command->as_string() == "acknowledge") {
    const auto acknowledged = parse_acknowledgement(parsed.as_object());
    if (!acknowledged) return wrong("the driver sent an acknowledgement without attempt or round");
    return *acknowledged;
  }
  if (command->as_string() == "release") {
    const auto patience = number_in(parsed.as_object(), "patience_ms", kPatienceMsMax);
    if (!patience)
      return wrong(
          fmt::format("the driver sent a release without patience_ms, 0 to {}", kPatienceMsMax));
    DriverCommand command{DriverCommand::Kind::Release};
    command.patience = milliseconds(*patience);
    return command;
  }
  if (command->as_string() != "call") return wrong("the driver sent an unknown command");
  const boost::json::value* id = parsed.as_object().if_contains("id");
  if (id == nullptr || !id->is_int64()) return wrong("the driver sent a call without an id");
  auto call = parse_worker_call(parsed.as_object());
  if (!call)
    return DriverCommand{DriverCommand::Kind::Call, id->as_int64(), {}, call.error().message};
  return DriverCommand{DriverCommand::Kind::Call, id->as_int64(), std::move(*call)};
}

std::vector<std::string> called_lines(std::int64_t id, const CallAnswers& answers,
                                      std::chrono::system_clock::time_point now) {
  std::vector<std::string> lines;
  const std::string time = format_utc(now);
  for (const RankAnswer& answer : answers.ranks) {
    boost::json::object line{
        {"time", time}, {"event", "answer"}, {"id", id}, {"rank", answer.rank.value}};
    put_outcome(answer, line);
    lines.push_back(boost::json::serialize(line) + "\n");
  }
  boost::json::object last{{"time", time}, {"event", "called"}, {"id", id}};
  if (!answers.error.empty()) last["error"] = answers.error;
  if (answers.first_thrown) last["first_thrown"] = answers.first_thrown->value;
  lines.push_back(boost::json::serialize(last) + "\n");
  return lines;
}

DriverPort::DriverPort(asio::any_io_executor executor, int fd, Handlers handlers,
                       UserMessages& messages)
    : socket_(executor, asio::local::stream_protocol(), fd),
      handlers_(std::move(handlers)),
      messages_(messages),
      changed_(std::move(executor)) {}

void DriverPort::begin(Scope& scope) {
  scope.spawn("read driver", read());
  scope.spawn("write driver", write());
}

void DriverPort::send(std::string line, bool newest) {
  if (gone_) return;
  if (newest && lines_.size() > 1 && lines_.back().newest) {
    bytes_ -= lines_.back().text.size();
    lines_.pop_back();
  }
  bytes_ += line.size();
  lines_.push_back({std::move(line), newest});
  if (bytes_ > kDriverBytesMax)
    return lose(fmt::format("it has not read {} MiB of events", kDriverBytesMax >> 20));
  changed_.notify();
}

Task<Unit> DriverPort::sent() {
  while (!lines_.empty() && !gone_) {
    CO_TRY([[maybe_unused]] const bool woken, co_await changed_.wait_until(TimePoint::max()));
  }
  co_return Unit{};
}

asio::awaitable<void> DriverPort::write() {
  while (!gone_) {
    if (lines_.empty()) {
      const auto woken = co_await changed_.wait_until(TimePoint::max());
      if (woken.has_error()) co_return;
      continue;
    }
    boost::system::error_code ec;
    auto token = asio::redirect_error(asio::use_awaitable, ec);
    co_await asio::async_write(socket_, asio::buffer(lines_.front().text), token);
    if (gone_) co_return;
    if (ec) co_return lose("its end of the socket is closed");
    bytes_ -= lines_.front().text.size();
    lines_.pop_front();
    changed_.notify();
  }
}

asio::awaitable<void> DriverPort::read() {
  std::string pending;
  while (!gone_) {
    boost::system::error_code ec;
    auto token = asio::redirect_error(asio::use_awaitable, ec);
    const std::size_t length = co_await asio::async_read_until(
        socket_, asio::dynamic_buffer(pending, kDriverLineBytesMax), '\n', token);
    if (gone_) co_return;
    if (ec == asio::error::not_found)
      co_return lose(fmt::format("it sent a line of more than {} MiB", kDriverLineBytesMax >> 20));
    if (ec) co_return lose("its end of the socket is closed");
    const std::string line = pending.substr(0, length - 1);
    pending.erase(0, length);
    const auto command = parse_driver_command(line);
    if (command)
      handlers_.asked(*command);
    else
      messages_.warn(command.error().message);
  }
}

void DriverPort::lose(const std::string& why) {
  if (std::exchange(gone_, true)) return;
  boost::system::error_code ignored;
  (void)socket_.shutdown(asio::local::stream_protocol::socket::shutdown_both, ignored);
  changed_.notify();
  handlers_.gone(why);
}

}  // namespace train
