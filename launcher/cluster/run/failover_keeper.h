// Keeps nodes ready to take over this controller if its machine dies: gives them their orders
// (PrepareFailover), and notes in the run's folder who they are. FailoverNodes chooses them. Main
// thread; it writes on the disk thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <string>

#include "launcher/cluster/links/cluster_links.h"
#include "launcher/cluster/links/run_identity.h"
#include "launcher/cluster/run/failover_note.h"
#include "launcher/cluster/run/journal_writer.h"
#include "launcher/core/failover_nodes.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/run_events.h"
#include "launcher/report/user_messages.h"
#include "lib/net/notifier.h"
#include "lib/storage/run_folder.h"
#include "lib/wire/daemon_messages.h"

namespace train {

struct FailoverOptions {
  PrepareFailover order;  // for the first node; the n-th one waits n times as long
  int nodes = 0;
  std::string run_id;
  Generation generation;
  RunFolder folder;
  /// Returns whether the run has workers on this machine.
  std::function<bool()> trains_here;
};

/// `order`: what the nodes are to run. The rest of the order follows from the run.
FailoverOptions failover_options(PrepareFailover order, const FailureConfig& config,
                                 const RunIdentity& run, const RunFolder& folder,
                                 std::function<bool()> trains_here);

class FailoverKeeper {
 public:
  /// All references must outlive this object.
  FailoverKeeper(FailoverOptions options, ClusterLinks& links, JournalWriter& journal,
                 UserMessages& messages, asio::thread_pool& disk, const Clock& clock);

  void saw(const RunEvent& event);
  void answered(NodeId node, const FailoverAnswer& answer);
  /// Give orders and write notes until cancelled or ended.
  asio::awaitable<void> run();
  /// The run ends: write nothing any more.
  void end() { ended_ = true; }

 private:
  void perform(const FailoverNodes::Change& change);
  void tell_ready();
  void warn(const std::string& text);
  FailoverNote make_note() const;

  const FailoverOptions options_;
  ClusterLinks& links_;
  JournalWriter& journal_;
  UserMessages& messages_;
  asio::thread_pool& disk_;
  const Clock& clock_;
  FailoverNodes nodes_;
  std::string told_;     // the newest message
  bool warned_ = false;  // that no node can
  bool note_is_old_ = false, ended_ = false;
};

}  // namespace train
