#include "launcher/cluster/sweep/searcher.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>

#include <array>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <chrono>
#include <cmath>

#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr std::size_t kLineBytesMax = 1u << 20;
constexpr std::size_t kReadAtOnceMax = 4u << 20;  // then the trials have their turn
constexpr std::size_t kUnsentMax = 256u << 20;
constexpr int kStartsMax = 3;
constexpr Duration kLeavesWithin = seconds(5), kStopsWithin = seconds(2);

TimePoint now() { return std::chrono::steady_clock::now(); }

}  // namespace

Searcher::Searcher(Options options, const SearchController& search)
    : options_(std::move(options)), search_(search), log_(options_.log), lines_(kLineBytesMax) {}

Error Searcher::useless(const std::string& what) const {
  std::string text = fmt::format("the searcher {} {}", options_.command.front(), what);
  if (const std::string last = log_.last(); !last.empty()) text += ": " + last;
  return {Errc::Unavailable, text,
          fmt::format("what it said is in {}; the sweep can be resumed", options_.log)};
}

Result<Unit> Searcher::start() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return system_error(errno, "making a socket for the searcher");
  socket_.reset(ends[0]);
  const FileDescriptor theirs(ends[1]);
  TRY_VOID(log_.open());
  lines_ = JsonLines(kLineBytesMax);
  unsent_.clear();
  reported_.clear();
  closed_at_.reset();
  ++starts_;
  auto program = ChildProgram::start({.argv = options_.command,
                                      .folder = options_.folder,
                                      .environment = options_.environment,
                                      .input = theirs.get(),
                                      .answers = theirs.get(),
                                      .dies_with_us = true});
  if (!program) return useless(program.error().message);
  program_.emplace(std::move(*program));
  send(begin_message(search_, options_.sweep));
  if (asked_) send(ask_message(*asked_));
  return Unit{};
}

void Searcher::ask(int trial) {
  asked_ = trial;
  asked_at_ = now();
  send(ask_message(trial));
}

void Searcher::report(const TrialReported& report) {
  if (!std::isfinite(report.time)) return;
  const auto [told, first] = reported_.try_emplace(report.trial, report.time);
  if (!first && report.time <= told->second) return;
  told->second = report.time;
  send(report_message(report));
}

void Searcher::tell(int trial) {
  reported_.erase(trial);
  send(tell_message(trial, search_.trials()[static_cast<std::size_t>(trial)]));
}

void Searcher::send(const boost::json::object& message) {
  if (!program_ || unsent_.size() > kUnsentMax) return;
  unsent_ += boost::json::serialize(message) + '\n';
  flush();
}

void Searcher::flush() {
  std::size_t sent = 0;
  while (sent < unsent_.size()) {
    const ssize_t count = ::send(socket_.get(), unsent_.data() + sent, unsent_.size() - sent,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EAGAIN) {  // it has closed its input, as a rule by ending
      sent = unsent_.size();
      has_closed();
    }
    if (count <= 0) break;
    sent += static_cast<std::size_t>(count);
  }
  unsent_.erase(0, sent);
}

/// It is about to end; if it does not, it is of no more use.
void Searcher::has_closed() {
  if (!closed_at_) closed_at_ = now();
}

Result<Unit> Searcher::read_lines(std::vector<SearcherAnswer>& answers, std::size_t bytes_max) {
  for (const auto& line : lines_.take(socket_, bytes_max)) {
    if (!line) return useless("has written what is " + line.error().message);
    auto answer = read_answer(*line, search_.spec(), asked_);
    if (!answer) {
      Error error = useless(fmt::format("has written {}, which {}",
                                        utf8_text(boost::json::serialize(*line), 200),
                                        answer.error().message));
      error.hint = answer.error().hint;
      return error;
    }
    if (!std::holds_alternative<TrialPruned>(*answer)) asked_.reset();
    if (std::holds_alternative<TrialProposed>(*answer)) starts_ = 0;
    answers.push_back(std::move(*answer));
  }
  return Unit{};
}

Result<std::vector<SearcherAnswer>> Searcher::take() {
  std::vector<SearcherAnswer> answers;
  if (!program_) return answers;
  const bool ended = program_->look([&](std::string_view text) { log_.add(text); });
  if (unsent_.size() > kUnsentMax) return useless("does not read what it is told");
  flush();
  TRY_VOID(read_lines(answers, ended ? std::numeric_limits<std::size_t>::max() : kReadAtOnceMax));
  if (ended) {
    TRY_VOID(died(answers));
    return answers;
  }
  if (socket_.get() < 0) has_closed();
  if (closed_at_ && now() - *closed_at_ > kLeavesWithin) program_->signal(SIGKILL);
  return answers;
}

/// An exit code of 0 says that no more trials are wanted.
Result<Unit> Searcher::died(std::vector<SearcherAnswer>& answers) {
  program_->signal(SIGKILL);  // what it has left in its process group
  const ChildProgram::End end = program_->reap([&](std::string_view text) { log_.add(text); });
  program_.reset();
  socket_.reset();
  if (end.good()) {
    asked_.reset();
    answers.push_back(SearcherDone{});
    return Unit{};
  }
  if (starts_ >= kStartsMax) return useless(end_text(end));
  log_.add(fmt::format("[train-run: it {}, and is started again]\n", end_text(end)));
  return start();
}

void Searcher::add_to(std::vector<pollfd>& polled) const {
  if (!program_) return;
  const short waits = unsent_.empty() ? POLLIN : POLLIN | POLLOUT;
  if (socket_.get() >= 0) polled.push_back({socket_.get(), waits, 0});
  if (const int output = program_->output_handle(); output >= 0)
    polled.push_back({output, POLLIN, 0});
  polled.push_back({program_->end_handle(), POLLIN, 0});
}

Duration Searcher::thinks(TimePoint now) const {
  return program_ && asked_ ? now - asked_at_ : Duration{};
}

void Searcher::end() {
  if (!program_) return;
  socket_.reset();
  const auto take_output = [&](std::string_view text) { log_.add(text); };
  const auto within = [](Duration time) { return [until = now() + time] { return until; }; };
  if (!program_->wait(within(kLeavesWithin), take_output)) {
    program_->signal(SIGTERM);
    (void)program_->wait(within(kStopsWithin), take_output);
  }
  program_->signal(SIGKILL);
  // One that waits in the kernel cannot be killed: we do not wait for it.
  if (program_->wait(within(kStopsWithin), take_output)) (void)program_->reap(take_output);
  program_.reset();
}

}  // namespace train
