// The rules of one link to a traind: how long a connection may be silent, when to dial again, and
// when the node counts as lost. Silence makes a node suspect, then dead. A refused or reset
// connection shows that the machine answers and only traind is away. Its workers go on, and traind
// may stay away for as long as they wait for it.
#pragma once

#include <optional>

#include "lib/base/time.h"

namespace train {

struct LivenessLimits {
  Duration suspect_after = seconds(3);  // of silence: the connection is given up
  Duration dead_after = seconds(10);    // of silence: the node is lost
  Duration away_limit{};                // of a traind that is away: as long as workers wait for it
  Duration heartbeat_every = seconds(1);
};

class NodeLiveness {
 public:
  /// `has_workers`: those of an earlier launcher. Then its silence counts from the start.
  NodeLiveness(const LivenessLimits& limits, bool has_workers, TimePoint now);

  // ---- connecting
  void dialling(TimePoint now) { dialled_at_ = now; }
  /// Return whether workers of the run are, or were, on the node. If so, a refusal is no reason to
  /// give them up.
  bool known() const { return known_; }
  /// Return how long a connection, and then its handshake, may take. The limit is short for a node
  /// that was silent: a stalled SYN would wait past the verdict. It doubles with each try that gets
  /// no answer, for the node may only be far away, but no such try lasts past the verdict.
  Duration connect_limit() const;
  std::optional<Duration> handshake_limit() const;

  // ---- one connection
  void connected(TimePoint now);
  void heard(TimePoint now) { last_heard_ = frame_at_ = now; }
  /// The daemon has accepted the run: from now on it can be lost.
  void attached();
  enum class Next { Wait, Beat, Close };  // send a heartbeat; nothing has come for too long
  Next tick(TimePoint now);
  /// Return when to call tick() at the latest.
  TimePoint next_deadline() const;
  /// Return whether tick() has closed the connection.
  bool fell_silent() const { return silent_; }

  // ---- its end
  enum class Cause { Away, Silent };
  struct Verdict {
    Duration silent{};   // for how long nothing has come, as far as it counts
    bool lost = false;   // the node counts as lost from now on; said once
    Duration dial_in{};  // then the next try
  };
  /// No connection could be made, or it has ended.
  Verdict disconnected(Cause cause, TimePoint now);
  bool lost() const { return lost_; }

 private:
  LivenessLimits limits_;
  Duration redial_max_;  // several times between suspicion and verdict
  Duration redial_;
  Duration try_limit_;
  TimePoint dialled_at_;
  TimePoint last_heard_;  // over any connection
  TimePoint away_at_;     // when it was last found away, which is no silence
  TimePoint frame_at_;    // over this connection, or when it was made
  TimePoint beat_at_;     // when the next heartbeat is due
  bool known_;
  bool silent_ = false;
  bool lost_;  // also: nothing there to lose yet
};

}  // namespace train
