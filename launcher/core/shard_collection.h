// Tracks which shards of checkpoints lie on nodes' own disks and are still being fetched. The
// controller is told about such a shard, and about the end of the group on its node, only once the
// shard is here. One collection serves one launcher and all its attempts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "launcher/core/placement.h"
#include "lib/base/ids.h"

namespace train {

class ShardCollection {
 public:
  using Source = std::pair<Attempt, NodeId>;  // a supervisor
  struct Shard {
    Attempt attempt;
    std::uint64_t checkpoint_seq = 0;
    Rank rank;
    auto operator<=>(const Shard&) const = default;
  };

  void attempt_begins(Attempt attempt, const Placement& placement);
  /// Record that all checkpoints up to `checkpoint_seq` are resolved, under an earlier launcher or
  /// according to a supervisor.
  void resolved(Attempt attempt, std::uint64_t checkpoint_seq);

  enum class Next {
    Tell,   // tell the controller now
    Bring,  // fetch it first, then call brought()
    Wait,   // it is being fetched; the node announced it again over a new link
  };
  /// Handle `node`'s report that it has written the shard. `brings`: to its own disk.
  Next written(const Shard& shard, NodeId node, bool brings);
  /// Record that the shard is here, or will never be. Return whether the controller must now be
  /// told that the node's group has ended, which was held back until now.
  bool brought(const Shard& shard, NodeId node, bool is_here);

  /// Record that no worker of the group is left on the node. Return whether to hold this back.
  bool group_gone(const Source& source);
  /// Record that nothing more will arrive from `source`.
  void lost(const Source& source);
  void attempt_ended(Attempt attempt);
  bool is_over(Attempt attempt) const { return over_ && attempt <= *over_; }
  /// Return the attempts that may still send something.
  std::set<Attempt> attempts() const;

  /// Return whether nobody will commit the checkpoint: its attempt is over, or no node will send
  /// any more shards and one is missing from it or from an earlier one. A failed group does not
  /// wait for such files.
  bool is_useless(Attempt attempt, std::uint64_t checkpoint_seq) const;

 private:
  struct Group {
    int world_size = 0, nodes = 0;                 // 0: not known
    std::map<std::uint64_t, std::set<Rank>> seen;  // by checkpoint: who has announced a shard
    std::uint64_t resolved = 0;
    std::set<NodeId> gone;  // no more shards will arrive from these
  };
  bool brings_from(const Source& source) const;

  std::map<Attempt, Group> groups_;
  std::map<Shard, NodeId> bringing_;
  std::set<Shard> here_;
  std::set<Source> held_;        // those whose end is held back
  std::optional<Attempt> over_;  // the newest attempt that is over
};

}  // namespace train
