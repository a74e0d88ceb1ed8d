// What a run's journal says about the run: a fold over its records, one after the other, so that a
// longer journal costs only its new records. Pure. Any text may be in the records: the journal may
// belong to another user.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/ingest_history.h"
#include "lib/model/time_accounts.h"
#include "lib/storage/journal_format.h"

namespace train {

/// Workers of a role beside the one that trains, on a node.
struct RolePlace {
  std::int64_t role = 0, workers = 0, first_rank = 0;  // role: in AttemptView::roles
  bool operator==(const RolePlace&) const = default;
};

struct NodePlace {
  std::string name;
  std::int64_t workers = 0, first_rank = 0;  // of those that train
  std::vector<RolePlace> others = {};
  bool operator==(const NodePlace&) const = default;
};

struct AttemptView {
  std::int64_t attempt = 0, world_size = 0;
  std::int64_t workers = 0;             // of all roles
  std::vector<std::string> roles = {};  // their names, if there are several
  std::vector<NodePlace> nodes = {};
  std::string began = {}, ended = {};  // RFC 3339; ended: empty while it may live
  bool failed = false;
  std::string cause = {}, failure = {};  // failure: its kind
  std::optional<std::int64_t> root_rank = {};
  std::string restored = {};  // the name of a checkpoint
  std::int64_t checkpoints = 0;
  std::int64_t checkpoint_report = 0;  // the report that its newest checkpoint came with
  std::string checkpoint_at = {};
  TimeAccounts time = {};  // what its workers' time was used for; zero while it may live

  /// Return the node of the rank, or nullptr.
  const NodePlace* node_of(std::int64_t rank) const;
  /// Return where the rank is among the workers of its role there.
  std::int64_t local_rank(const NodePlace& node, std::int64_t rank) const;
  /// Return the name of the rank's role, or "" in a job of one role.
  std::string role_of(std::int64_t rank) const;
};

/// A rank that is slower than the others for long.
struct StragglerView {
  double behind = 0;  // the median, as a share of the time that the median needs for its own part
  std::string phase = {}, since = {};  // since: RFC 3339
};

/// Why a node is not used.
struct NodeStateView {
  std::string state = {};               // drained, quarantined, …
  std::string reason = {}, since = {};  // since: RFC 3339
  bool operator==(const NodeStateView&) const = default;
};

struct RunView {
  static constexpr std::size_t kHangEventsMax = 64, kAttemptsMax = 10'000, kNodesMax = 16'384;
  static constexpr std::int64_t kWorkersMax = 1 << 20;  // of an attempt

  std::string run_id = {}, host = {}, build = {};
  std::int64_t pid = 0;
  std::uint64_t generation = 0, last_seq = 0;
  std::string began = {}, launcher_began = {}, ended = {};  // RFC 3339; ended: empty while it lives
  std::string state = "unknown", state_since = {}, reason = {};
  std::int64_t restarts = 0, checkpoints = 0;
  /// Counted over all launchers of the run: `attempts` forgets the oldest.
  std::int64_t attempts_begun = 0, attempts_failed = 0;
  std::string checkpoint = {};                  // the newest that was committed
  std::vector<std::string> cluster_nodes = {};  // addresses of the newest launcher's nodes
  std::vector<AttemptView> attempts = {};
  std::map<std::string, std::int64_t> node_failures = {};
  std::map<std::string, NodeStateView> unused_nodes = {};  // of the newest launcher, by name
  std::vector<JournalRecord> hangs = {};  // the newest records about hangs and stragglers
  std::map<std::int64_t, StragglerView> stragglers = {};  // of the newest attempt, by rank
  IngestHistory ingest = {};

  void add(const JournalRecord& record);
  /// Return the attempt, or nullptr.
  const AttemptView* find(std::int64_t attempt) const;
  const AttemptView* newest() const { return attempts.empty() ? nullptr : &attempts.back(); }

 private:
  void launcher_took_it(const JournalRecord& record);
  void state_changed(const JournalRecord& record);
  void attempt_began(const JournalRecord& record);
  void attempt_ended(const JournalRecord& record);
  void checkpoint_committed(const JournalRecord& record);
  void node_changed(const JournalRecord& record);
  void stragglers_changed(const JournalRecord& record, bool slow);
};

/// Return whether a run in this state has ended.
bool is_end_state(const std::string& state);

}  // namespace train
