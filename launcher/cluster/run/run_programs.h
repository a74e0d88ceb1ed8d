// The programs of the user's that run beside the controller: the run's setup, and callbacks. Main
// thread only, unless a member's comment says otherwise.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "launcher/cluster/links/run_identity.h"
#include "launcher/cluster/run/callback_programs.h"
#include "launcher/cluster/run/driver_events.h"
#include "launcher/cluster/run/event_file.h"
#include "launcher/cluster/run/run_setup.h"
#include "launcher/core/job_spec.h"
#include "launcher/report/user_messages.h"
#include "lib/storage/run_folder.h"

namespace train {

class RunPrograms {
 public:
  /// `env`: the workers'. All references must outlive this object.
  RunPrograms(boost::asio::any_io_executor executor, const JobSpec& spec, const RunIdentity& run,
              RunFolder folder, std::map<std::string, std::string> env, UserMessages& messages);

  /// Make the file of events, if there are callbacks to read it. Call it before any event. Blocks.
  void open(DriverEvents& events);
  struct Setup {
    bool commands = false;     // those of the spec are to run
    RunSetup::Last last = {};  // what comes after them
    // Its end is told to one of these, unless it was stopped.
    std::function<void()> succeeded;
    std::function<void(const SetupFailure&)> failed;
    std::function<void(const Error&)> last_failed;
  };
  /// Start the callbacks, and the setup if `sets_up`.
  void begin(bool sets_up, Setup setup);
  bool set_up_began() const { return setup_ != nullptr; }
  /// Ask the setup to end; a second time: kill it.
  void stop_setup();
  /// The run ends: the same, unless somebody has asked already.
  void end_setup();
  /// Wait until no setup runs. Blocks; any thread may call.
  void wait_for_setup();
  /// Wait until the callbacks have been told all events, and have ended. Blocks; any thread may
  /// call.
  void tell_callbacks();
  bool has_callbacks() const { return callbacks_ != nullptr; }

 private:
  const boost::asio::any_io_executor executor_;
  const JobSpec& spec_;
  const RunFolder folder_;
  std::map<std::string, std::string> environment_;
  UserMessages& messages_;
  std::unique_ptr<EventFile> events_;
  std::unique_ptr<CallbackPrograms> callbacks_;
  std::unique_ptr<RunSetup> setup_;
};

}  // namespace train
