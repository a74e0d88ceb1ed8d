// The socket to a driver: a program that started this train-run as its child, follows the run, and
// may steer it (docs/driver.md). It never holds up training: what the driver does not read waits
// here, and a driver that lets kDriverBytesMax wait counts as gone. All on the executor's thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "launcher/cluster/run/worker_call.h"
#include "launcher/report/user_messages.h"
#include "lib/base/result.h"
#include "lib/net/notifier.h"
#include "lib/net/scope.h"
#include "lib/net/task.h"

namespace train {

inline constexpr std::size_t kDriverLineBytesMax = 1u << 20;  // of what it says
inline constexpr std::size_t kDriverBytesMax = 16u << 20;     // of what it has not read
/// How long the end of the run waits for a driver to read.
inline constexpr Duration kDriverEndMax = seconds(10);

/// Check that `fd` is a connected Unix stream socket, and keep it from all programs that this
/// process starts.
Result<Unit> check_driver_socket(int fd);

/// Tell the driver one short line before there is a DriverPort. A driver that does not take it is
/// not waited for.
void tell_driver(int fd, const std::string& line);

/// What a driver asks for.
struct DriverCommand {
  enum class Kind { Stop, Call, Acknowledge, Release } kind = Kind::Stop;
  std::int64_t id = 0;  // of a call: the driver's number for it
  WorkerCall call = {};
  std::string wrong = {};    // what is wrong with the call, which the driver waits for
  Attempt attempt = {};      // of an acknowledgement
  std::uint64_t rounds = 0;  // of the attempt, which the driver is done with
  Duration patience = {};    // of a release: with workers that stayed, before they are killed
};
/// Read one line of a driver: {"command": "stop"}, a call, an acknowledgement, or a release
/// (docs/driver.md).
/// The error says what is wrong with a line that cannot be answered.
Result<DriverCommand> parse_driver_command(std::string_view line);

/// Return the lines that tell a driver what came of its call: one for each rank, and a last one.
std::vector<std::string> called_lines(std::int64_t id, const CallAnswers& answers,
                                      std::chrono::system_clock::time_point now);

class DriverPort {
 public:
  struct Handlers {
    std::function<void(const DriverCommand&)> asked;
    /// The driver has closed its end, does not read, or speaks no JSON. Called once, with the
    /// reason.
    std::function<void(const std::string& why)> gone;
  };

  /// `fd`: see check_driver_socket(). Takes it over.
  DriverPort(asio::any_io_executor executor, int fd, Handlers handlers, UserMessages& messages);

  /// Read and write until the driver is gone.
  void begin(Scope& scope);
  /// Send a line with its newline. If it says all that the line before says (`newest`), and that
  /// has not left yet, it takes its place.
  void send(std::string line, bool newest);
  /// Wait until all lines have left, or the driver is gone.
  Task<Unit> sent();

 private:
  asio::awaitable<void> read();
  asio::awaitable<void> write();
  void lose(const std::string& why);

  asio::local::stream_protocol::socket socket_;
  const Handlers handlers_;
  UserMessages& messages_;
  Notifier changed_;
  struct Line {
    std::string text;
    bool newest;
  };
  std::deque<Line> lines_;  // the first is being written
  std::size_t bytes_ = 0;
  bool gone_ = false;
};

}  // namespace train
