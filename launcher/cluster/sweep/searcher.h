// The searcher of a sweep: a program of the user's that proposes the trials' values and may stop
// trials (docs/sweep.md, "A searcher of your own"). It reads and writes JSON lines; what it writes
// to stderr goes into a log. If it dies, it is started again and told what there has been. It dies
// with this process. Only end() blocks.
#pragma once

#include <poll.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cluster/children/capped_log.h"
#include "launcher/cluster/children/json_lines.h"
#include "launcher/cluster/run/child_program.h"
#include "launcher/core/search/searcher_messages.h"
#include "lib/base/file_descriptor.h"
#include "lib/base/time.h"

namespace train {

class Searcher {
 public:
  struct Options {
    std::vector<std::string> command = {};
    std::string folder = {};  // where it starts
    std::map<std::string, std::string> environment = {};
    std::string sweep = {};  // the sweep's folder
    std::string log = {};    // the file for what it writes to stderr
  };
  /// `search`: of the sweep; it must outlive this.
  Searcher(Options options, const SearchController& search);
  ~Searcher() { end(); }
  Searcher(const Searcher&) = delete;
  Searcher& operator=(const Searcher&) = delete;

  /// Start it, and tell it what there has been so far.
  Result<Unit> start();
  void ask(int trial);
  /// Tell it a report, unless it has been told one of this or a later time of the trial.
  void report(const TrialReported& report);
  /// Tell it how the trial has ended.
  void tell(int trial);

  /// Return what it has answered. The error says why it is of no use: it writes what makes no
  /// sense, does not read, or dies each time that it is started.
  Result<std::vector<SearcherAnswer>> take();
  /// Add what take() waits for.
  void add_to(std::vector<pollfd>& polled) const;
  /// Return how long it has been thinking about a proposal.
  Duration thinks(TimePoint now) const;

  /// Let it leave: at the end of its input it has some seconds for that.
  void end();

 private:
  void send(const boost::json::object& message);
  void flush();
  void has_closed();
  Result<Unit> read_lines(std::vector<SearcherAnswer>& answers, std::size_t bytes_max);
  Result<Unit> died(std::vector<SearcherAnswer>& answers);
  Error useless(const std::string& what) const;

  const Options options_;
  const SearchController& search_;
  std::optional<ChildProgram> program_;
  FileDescriptor socket_;
  CappedLog log_;
  JsonLines lines_;
  std::string unsent_;
  std::map<int, double> reported_;  // by trial: the time of the last report that it was told
  std::optional<int> asked_;        // it has not proposed this trial yet
  TimePoint asked_at_ = {};
  std::optional<TimePoint> closed_at_;  // it reads or writes no more
  int starts_ = 0;                      // since it has proposed a trial
};

}  // namespace train
