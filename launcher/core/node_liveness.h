// The rules of one link to a traind: how long a connection may be silent, when to redial, and when
// the node counts as lost. Silence makes a node suspect, then dead. A refused or reset connection
// shows that the machine responds and only traind is away. Its workers continue, and traind may
// stay away for as long as they wait for it.
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
  /// `has_workers`: the node has workers of an earlier launcher, so its silence counts from the
  /// start.
  NodeLiveness(const LivenessLimits& limits, bool has_workers, TimePoint now);

  // ---- connecting
  void dialling(TimePoint now) { dialled_at_ = now; }
  /// Return whether the node has, or had, workers of the run. If so, a refusal is no reason to give
  /// them up.
  bool known() const { return known_; }
  /// Return how long a connection, and then its handshake, may take. The limit is short for a node
  /// that was silent: the wait for a stalled SYN would outlast the verdict. It doubles with each
  /// unanswered try, because the node may only be far away, but no such try outlasts the verdict.
  Duration connect_limit() const;
  std::optional<Duration> handshake_limit() const;

  // ---- one connection
  void connected(TimePoint now);
  void heard(TimePoint now) { last_heard_ = frame_at_ = now; }
  /// Record that the daemon has accepted the run: from now on it can be lost.
  void attached();
  /// Beat: send a heartbeat. Close: nothing has arrived for too long.
  enum class Next { Wait, Beat, Close };
  Next tick(TimePoint now);
  /// Return when to call tick() at the latest.
  TimePoint next_deadline() const;
  /// Return whether tick() has closed the connection.
  bool fell_silent() const { return silent_; }

  // ---- its end
  enum class Cause { Away, Silent };
  struct Verdict {
    Duration silent{};   // how long nothing has arrived, as far as it counts
    bool lost = false;   // the node counts as lost from now on; set only once
    Duration dial_in{};  // how long to wait before the next try
  };
  /// Record that no connection could be made, or that it has ended.
  Verdict disconnected(Cause cause, TimePoint now);
  bool lost() const { return lost_; }

 private:
  LivenessLimits limits_;
  Duration redial_max_;  // several times between suspicion and verdict
  Duration redial_;
  Duration try_limit_;
  TimePoint dialled_at_;
  TimePoint last_heard_;  // over any connection
  TimePoint away_at_;     // when it was last found to be away, which is not silence
  TimePoint frame_at_;    // over this connection, or when it was made
  TimePoint beat_at_;     // when the next heartbeat is due
  bool known_;
  bool silent_ = false;
  bool lost_;  // or there is nothing to lose yet
};

}  // namespace train
