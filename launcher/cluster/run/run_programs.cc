#include "launcher/cluster/run/run_programs.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace train {

RunPrograms::RunPrograms(boost::asio::any_io_executor executor, const JobSpec& spec,
                         const RunIdentity& run, RunFolder folder,
                         std::map<std::string, std::string> env, UserMessages& messages)
    : executor_(std::move(executor)),
      spec_(spec),
      folder_(std::move(folder)),
      environment_(std::move(env)),
      messages_(messages) {
  environment_.erase("TRAINRUN_WAIT_FOR_DEBUGGER");
  environment_["TRAINRUN_RUN_NAME"] = run.name;
  environment_["TRAINRUN_RUN_ID"] = run.run_id;
  environment_["TRAINRUN_RUN_PATH"] = folder_.path();
}

void RunPrograms::open(DriverEvents& events) {
  const auto& commands = spec_.run_config.callback_commands;
  if (commands.empty()) return;
  const auto say = [this](const std::string& text) {
    boost::asio::post(executor_, [this, text] { messages_.warn(text); });
  };
  auto opened = EventFile::open(folder_.callback_events(), say);
  if (!opened) return messages_.warn("callbacks are told nothing: " + opened.error().describe());
  events_ = std::move(*opened);
  events.add([this](const std::string& line, bool newest) { events_->add(line, newest); });
  callbacks_ =
      std::make_unique<CallbackPrograms>(CallbackPrograms::Options{.commands = commands,
                                                                   .working_dir = spec_.working_dir,
                                                                   .environment = environment_,
                                                                   .folder = folder_,
                                                                   .say = say});
}

void RunPrograms::begin(bool sets_up, Setup setup) {
  if (callbacks_) callbacks_->begin();
  if (!sets_up) return;
  RunSetup::Handlers handlers{.begins = [this](const std::string& text) { messages_.phase(text); },
                              .succeeded = std::move(setup.succeeded),
                              .failed = std::move(setup.failed),
                              .last_failed = std::move(setup.last_failed)};
  RunSetup::Order order{.folder = spec_.working_dir,
                        .environment = environment_,
                        .log = folder_.setup_log(),
                        .run_id = environment_["TRAINRUN_RUN_ID"],
                        .last = std::move(setup.last)};
  if (setup.commands) order.commands = spec_.setup;
  setup_ = std::make_unique<RunSetup>(executor_, std::move(order), std::move(handlers));
  setup_->begin();
}

void RunPrograms::stop_setup() {
  if (setup_) setup_->stop();
}

void RunPrograms::end_setup() {
  if (setup_) setup_->end();
}

void RunPrograms::wait_for_setup() {
  if (setup_) setup_->wait();
}

void RunPrograms::tell_callbacks() {
  if (!callbacks_) return;
  events_->finish();
  callbacks_->finish();
}

}  // namespace train
