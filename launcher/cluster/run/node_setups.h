// The launcher's side of per_node_setup: which nodes have run it, and the logs of what it printed.
// Main thread only.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "launcher/cluster/run/journal_writer.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/setup_history.h"
#include "launcher/report/user_messages.h"
#include "lib/base/ids.h"
#include "lib/storage/run_folder.h"
#include "lib/wire/attempt_messages.h"

namespace train {

class NodeSetups {
 public:
  /// `history`: what the journal knows. `on_disk` calls what it is given on a thread that storage
  /// may block.
  NodeSetups(SetupHistory history, RunFolder folder, JournalWriter& journal, UserMessages& messages,
             std::function<void(std::function<void()>)> on_disk)
      : history_(std::move(history)),
        folder_(std::move(folder)),
        journal_(journal),
        messages_(messages),
        on_disk_(std::move(on_disk)) {}

  /// Return the life of the node in which it has succeeded; empty: in none.
  std::string done_in(const std::string& node) const { return history_.life_of(node); }
  /// Record how it ended on a node, and keep what it printed. What is said again changes nothing.
  void ended(Attempt attempt, const std::string& node, NodeSetupEnded message);

 private:
  SetupHistory history_;
  const RunFolder folder_;
  JournalWriter& journal_;
  UserMessages& messages_;
  const std::function<void(std::function<void()>)> on_disk_;
  std::set<std::pair<Attempt, std::string>> heard_;
};

/// Add a text to a log, and make its folders. Blocks.
Result<Unit> add_to_log(const std::string& path, std::string_view text);

}  // namespace train
