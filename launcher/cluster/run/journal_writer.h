// Writes the run's events to its journal on its own thread. Events queue up while one group is
// written and synced, and the next group takes all of them.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <string>
#include <vector>

#include "launcher/report/user_messages.h"
#include "lib/base/time.h"
#include "lib/net/notifier.h"
#include "lib/net/task.h"
#include "lib/storage/journal.h"

namespace train {

class JournalWriter {
 public:
  /// The user is warned when groups begin to fail, and about each event that is too long for the
  /// journal; the run continues.
  JournalWriter(asio::any_io_executor executor, Journal& journal, const Clock& clock,
                UserMessages& messages);

  void remember(boost::json::object event);
  /// Write nothing until `reached` returns true; each look_again() asks it. This lets an attempt's
  /// end wait for its reports: a later launcher that knows of the end drops the remaining reports.
  void hold_until(std::function<bool()> reached) { holds_.push_back(std::move(reached)); }
  void look_again() { changed_.notify(); }
  /// Wait until everything remembered before this call is on disk, or could not be written.
  Task<Unit> written();
  /// Write until cancelled.
  asio::awaitable<void> run();

 private:
  Journal& journal_;
  const Clock& clock_;
  UserMessages& messages_;
  Notifier changed_;
  std::vector<boost::json::object> queue_;
  std::uint64_t asked_ = 0, tried_ = 0;  // events; a disk that accepts none keeps nobody waiting
  bool fenced_ = false;  // the journal now belongs to another launcher: write no more
  std::vector<std::function<bool()>> holds_;
  asio::thread_pool disk_{1};
};

}  // namespace train
