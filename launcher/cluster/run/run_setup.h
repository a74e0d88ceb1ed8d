// Does what comes before the first attempt: runs the commands of the spec's `setup` on this
// machine, one after the other, and then makes a copy of the code for the nodes. All of it happens
// on a thread of its own; the commands end with us.
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/time.h"

namespace train {

/// The longest setup.log; what is written after that is lost, but for the last lines.
inline constexpr std::uint64_t kSetupLogBytesMax = 256u << 20;
/// How long a command may take to end once it is asked to.
inline constexpr Duration kSetupStopMax = seconds(5);

/// Why a setup failed.
struct SetupFailure {
  std::string cause = {};               // in one line: the command, how it ended, its last line
  std::vector<std::string> lines = {};  // its last ones
};

class RunSetup {
 public:
  using Last = std::function<Result<Unit>(const std::function<bool()>& stopped)>;
  struct Order {
    std::vector<std::vector<std::string>> commands = {};
    std::string folder = {};  // where they start
    std::map<std::string, std::string> environment = {};
    std::string log = {};
    /// Marks the commands' processes, in their environment. Those of a launcher that was killed,
    /// which ended with it only as far as it had started them itself, are ended first.
    std::string run_id = {};
    /// What comes last, on the setup's thread; may be empty. It ends soon once `stopped()` is true.
    Last last = {};
  };
  struct Handlers {
    std::function<void(const std::string& text)> begins;  // a command
    std::function<void()> succeeded;
    // Not if it was stopped:
    std::function<void(const SetupFailure&)> failed;  // a command
    std::function<void(const Error&)> last_failed;    // what comes last
  };
  /// The handlers are called on `executor`.
  RunSetup(boost::asio::any_io_executor executor, Order order, Handlers handlers)
      : executor_(std::move(executor)), order_(std::move(order)), handlers_(std::move(handlers)) {}
  RunSetup(const RunSetup&) = delete;
  RunSetup& operator=(const RunSetup&) = delete;
  ~RunSetup();

  void begin();
  /// Ask what runs to end, and kill it after kSetupStopMax; a second time: kill it at once.
  void stop();
  /// The run ends: ask it to stop, unless somebody has.
  void end();
  /// Wait until nothing runs. Blocks.
  void wait();

 private:
  void run();
  void end_leftovers() const;
  Result<Unit> run_command(const std::vector<std::string>& command, SetupFailure& failure);
  void tell(std::function<void()> what);

  boost::asio::any_io_executor executor_;
  const Order order_;
  const Handlers handlers_;
  std::uint64_t logged_ = 0;
  std::atomic<int> stops_ = 0;
  std::thread thread_;
};

/// Return a command as a message shows it: "./prepare.sh --fast"; of a line for a shell, the line.
std::string shown_command(const std::vector<std::string>& command);

}  // namespace train
