// Messages between the launcher and traind, between traind and a supervisor, and over traind's
// control socket.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/model/process_limits.h"
#include "lib/model/resources.h"
#include "lib/wire/message_type.h"

namespace train {

struct AttachRun {  // the launcher takes, or renews, its lease on this node for one run
  static constexpr MessageType kType = MessageType::AttachRun;
  std::string run_id, run_name;
  std::uint64_t generation = 0;  // fencing: daemons refuse older ones
  std::int64_t heartbeat_ms = 1000, dead_after_ms = 10000, orphan_timeout_ms = 600000;
  std::string owner_public_key, owner_signature;  // lib/net/run_owner.h: whose the run is
  std::string user;  // the account that the run's workers run as here; empty: traind chooses
  TRAIN_FIELDS(run_id, run_name, generation, heartbeat_ms, dead_after_ms, orphan_timeout_ms,
               owner_public_key, owner_signature, user)
};

struct NodeOffer {  // traind's answer to AttachRun, sent again when what is free changes
  static constexpr MessageType kType = MessageType::NodeOffer;
  std::string node_name, host;
  std::vector<std::string> addresses;   // numeric, best first; how other nodes may reach this one
  Resources total, free;                // free: for this run, its own claims not subtracted
  std::vector<std::uint32_t> attempts;  // of this run, whose supervisors live here
  bool draining = false;                // nothing is free here any more: NodeDraining says why
  TRAIN_FIELDS(node_name, host, addresses, total, free, attempts, draining)
};

struct PrepareAttempt {  // spawn a supervisor for the frame's attempt
  static constexpr MessageType kType = MessageType::PrepareAttempt;
  std::int32_t node_rank = 0, local_world_size = 0;
  Resources per_worker;
  ProcessLimits limits;
  bool bind_master = false;  // node rank 0: hold the master port
  std::string bind_address;  // for it, and what other nodes reach: "127.0.0.1" where all workers
                             // are on one node
  std::uint64_t generation = 0;  // under which the attempt was begun; names its pending checkpoints
  std::string run_dir;           // in storage, a path or an URL; shards go there
  std::string storage_marker;    // what the launcher left there; empty: nothing
  std::map<std::string, std::string> storage_env;  // how to reach an object store; holds secrets
  bool may_relay = false;  // where that is not there, checkpoints go by ReadFile
  bool no_access = false;  // and it was not there for an attempt before: do not wait for it
  std::int64_t stop_grace_ms = 30000;
  std::int64_t upload_timeout_ms = 600000;  // for a part of a checkpoint; then it is given up
  std::int32_t replicas = 0;  // checkpoints stay on the disks of so many nodes; 0: in storage
  std::uint64_t output_bytes_max = 256u << 20;  // spool limit, a rank and stream
  bool standby =
      false;  // only for workers that wait; the attempt is asked for again once it begins
  // what is granted: traind fills it in, and the supervisor reports it to a restarted traind
  Resources claimed;
  std::vector<std::int32_t> gpu_ids;
  TRAIN_FIELDS(node_rank, local_world_size, per_worker, bind_master, bind_address, generation,
               run_dir, stop_grace_ms, output_bytes_max, standby, claimed, gpu_ids, storage_marker,
               storage_env, may_relay, no_access, upload_timeout_ms, replicas, limits)
};

struct AttemptLost {  // its supervisor ended without being released; its workers are dead
  static constexpr MessageType kType = MessageType::AttemptLost;
  std::string reason;
  bool standby = false;  // only workers that waited were there
  TRAIN_FIELDS(reason, standby)
};

struct DetachRun {  // the run is over for this launcher: release what it holds here
  static constexpr MessageType kType = MessageType::DetachRun;
  bool keep_data = false;  // checkpoints that are nowhere else
  TRAIN_FIELDS(keep_data)
};

inline constexpr std::int64_t kKeepOrphanTimeoutMs = -1;
struct LauncherState {  // traind → supervisor; starts and stops the orphan clock
  static constexpr MessageType kType = MessageType::LauncherState;
  bool present = true;
  std::uint64_t generation = 0;
  std::int64_t orphan_timeout_ms =
      600000;  // kKeepOrphanTimeoutMs: a traind that knows no lease of the run cannot say
  TRAIN_FIELDS(present, generation, orphan_timeout_ms)
};

struct SupervisorHello {  // supervisor → traind, each time a traind connects to its socket
  static constexpr MessageType kType = MessageType::SupervisorHello;
  std::string run_id;
  std::uint32_t attempt = 0;
  std::int64_t pid = 0;
  Resources claimed;
  std::vector<std::int32_t> gpu_ids;
  std::string build;
  std::uint64_t generation =
      0;                 // the highest that it has heard of: a restarted traind fences with it
  bool standby = false;  // its attempt has not begun
  TRAIN_FIELDS(run_id, attempt, pid, claimed, gpu_ids, build, generation, standby)
};

struct NodeDraining {  // traind → launchers: checkpoint and leave this node; what is still here
                       // when the grace is over is stopped
  static constexpr MessageType kType = MessageType::NodeDraining;
  std::int64_t grace_ms = 0;  // from now on
  std::string reason;
  TRAIN_FIELDS(grace_ms, reason)
};

struct DrainNode {  // `traind drain` → traind, over its control socket
  static constexpr MessageType kType = MessageType::DrainNode;
  std::int64_t grace_ms = 0;
  std::string reason;
  TRAIN_FIELDS(grace_ms, reason)
};

struct DetachController {  // `train-run --detach` → traind, over its control socket
  static constexpr MessageType kType = MessageType::DetachController;
  std::vector<std::string> argv;
  std::vector<std::string> resume_argv;  // in its place when it dies, once run_dir is there
  std::string working_dir;
  std::map<std::string, std::string> env;  // the whole of it
  std::string run_dir;
  TRAIN_FIELDS(argv, resume_argv, working_dir, env, run_dir)
};

struct DetachedController {  // traind's answer, and again when it has started another one
  static constexpr MessageType kType = MessageType::DetachedController;
  std::int64_t pid = 0;
  TRAIN_FIELDS(pid)
};

struct ControllerEnded {  // and is not started again
  static constexpr MessageType kType = MessageType::ControllerEnded;
  std::int32_t exit_code = 0;  // 128 + signal
  std::string said;            // if it ended before it owned the run: why
  TRAIN_FIELDS(exit_code, said)
};

}  // namespace train
