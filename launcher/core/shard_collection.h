// Tracks which shards of checkpoints lie on nodes' own disks and are still being brought from
// there. The controller hears of such a shard, and of the end of the group on its node, once the
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
  /// All checkpoints up to `checkpoint_seq` are resolved, under an earlier launcher or according to
  /// a supervisor.
  void resolved(Attempt attempt, std::uint64_t checkpoint_seq);

  enum class Next {
    Tell,   // the controller is told now
    Bring,  // bring it first, then call brought()
    Wait,   // it is being brought; the node said so again over a new link
  };
  /// `node` says that it has written the shard. `brings`: it wrote it on its own disk.
  Next written(const Shard& shard, NodeId node, bool brings);
  /// The shard is here, or will not come. Return whether the end of the node's group, held back
  /// until now, has to be told.
  bool brought(const Shard& shard, NodeId node, bool is_here);

  /// No worker of the group is left on the node. Return whether its end is held back.
  bool group_gone(const Source& source);
  /// Nothing more comes from `source`.
  void lost(const Source& source);
  void attempt_ended(Attempt attempt);
  bool is_over(Attempt attempt) const { return over_ && attempt <= *over_; }
  /// Return the attempts from which something may come.
  std::set<Attempt> attempts() const;

  /// Return whether nobody will commit the checkpoint: its attempt is over, or no node brings any
  /// more shards and it, or an earlier one, lacks one. A group that failed does not wait for such
  /// files.
  bool is_useless(Attempt attempt, std::uint64_t checkpoint_seq) const;

 private:
  struct Group {
    int world_size = 0, nodes = 0;                 // 0: not known
    std::map<std::uint64_t, std::set<Rank>> seen;  // by checkpoint: whose shards were named
    std::uint64_t resolved = 0;
    std::set<NodeId> gone;  // no more shards come from there
  };
  bool brings_from(const Source& source) const;

  std::map<Attempt, Group> groups_;
  std::map<Shard, NodeId> bringing_;
  std::set<Shard> here_;
  std::set<Source> held_;        // whose end is held back
  std::optional<Attempt> over_;  // the newest attempt that is over
};

}  // namespace train
