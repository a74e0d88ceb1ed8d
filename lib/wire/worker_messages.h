// Messages between a supervisor and its workers. Those that continue to the launcher are in
// attempt_messages.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/model/allocation_stack.h"
#include "lib/model/ingest_roster.h"
#include "lib/model/job_context.h"
#include "lib/model/user_error.h"
#include "lib/model/worker_ranks.h"
#include "lib/wire/message_type.h"

namespace train {

struct WorkerHello {
  static constexpr MessageType kType = MessageType::WorkerHello;
  std::uint32_t protocol_min = kProtocolMin, protocol_max = kProtocolMax;
  std::string build;
  std::int32_t rank = 0;
  std::uint32_t attempt = 0;
  std::int64_t pid = 0;
  std::int32_t standby = -1;         // TRAINRUN_STANDBY of a worker on standby; −1: it has `rank`
  bool stays = false;                // it had `rank` in a run that has ended, and waits for another
  bool checkpoint_requests = false;  // it knows RequestCheckpoint; an older SDK drops its link
  bool memory_profiles = false;      // it knows TakeMemoryProfile, likewise
  bool ingest_rosters = false;       // it knows IngestRoster, likewise
  bool calls = false;                // it knows CallWorkers, likewise
  std::string ingest = {};           // TRAINRUN_INGEST of an ingest worker; empty: it is none
  TRAIN_FIELDS(protocol_min, protocol_max, build, rank, attempt, pid, standby, stays,
               checkpoint_requests, memory_profiles, ingest_rosters, calls, ingest)
};

struct Welcome {
  static constexpr MessageType kType = MessageType::Welcome;
  std::uint32_t protocol = 0;
  std::uint32_t attempt = 0;
  WorkerRanks ranks;
  JobContext run;
  std::string run_dir, staging_dir;
  std::int32_t master_listen_fd = -1;  // the number under which rank 0 inherits it
  // The variables of a worker's environment that a worker on standby lacks.
  std::map<std::string, std::string> env;
  IngestRole ingest = {};  // of an ingest worker, which has no rank
  TRAIN_FIELDS(protocol, attempt, ranks, run, run_dir, staging_dir, master_listen_fd, env, ingest)
};

struct CheckpointStaged {  // the folder is complete, and belongs to the supervisor from now on
  static constexpr MessageType kType = MessageType::CheckpointStaged;
  std::uint64_t checkpoint_seq = 0, report_seq = 0;
  std::string dir;  // absolute
  std::string metadata_json, metrics_json;
  std::string error;          // set if the worker could not write it
  std::string error_code;     // to_string(Errc), if known
  std::uint64_t request = 0;  // the RequestCheckpoint that it was made for; 0: none
  TRAIN_FIELDS(checkpoint_seq, report_seq, dir, metadata_json, metrics_json, error, error_code,
               request)
};

struct OnceBegin {
  static constexpr MessageType kType = MessageType::OnceBegin;
  std::string name;
  TRAIN_FIELDS(name)
};

struct OnceReply {
  static constexpr MessageType kType = MessageType::OnceReply;
  std::string name, verdict;  // run | done | failed
  std::string error;
  TRAIN_FIELDS(name, verdict, error)
};

struct OnceEnd {
  static constexpr MessageType kType = MessageType::OnceEnd;
  std::string name, error;
  TRAIN_FIELDS(name, error)
};

struct WorkerError {
  static constexpr MessageType kType = MessageType::WorkerError;
  UserError error;
  TRAIN_FIELDS(error)
};

struct WorkerGoodbye {  // the loop has ended, and everything was handed over before this frame
  static constexpr MessageType kType = MessageType::WorkerGoodbye;
  bool told_to_stop = false;  // should_stop() has returned true
  bool stays = false;         // the process does not end: it waits for the next run
  TRAIN_FIELDS(told_to_stop, stays)
};

struct GoodbyeAck {
  static constexpr MessageType kType = MessageType::GoodbyeAck;
  TRAIN_FIELDS()
};

// supervisor → those workers that know it (WorkerHello::memory_profiles): note what is allocated
struct TakeMemoryProfile {
  static constexpr MessageType kType = MessageType::TakeMemoryProfile;
  std::uint64_t request = 0;  // chosen by the supervisor; the answer has it
  std::uint32_t time_ms = 0;
  bool names = false;  // the supervisor knows AllocationStacks::names
  TRAIN_FIELDS(request, time_ms, names)
};

struct AllocationStacks {  // worker → supervisor: the answer, in as many messages as are needed
  static constexpr MessageType kType = MessageType::AllocationStacks;
  std::uint64_t request = 0;
  std::vector<AllocationStack> stacks = {};
  bool last = false;           // nothing more comes for this request
  AllocationFacts facts = {};  // in the last one
  std::string error = {};      // why there is none
  // If a profiler of the program's language took it, such as memray: its name, and the names of
  // frames, whose indices (over all messages of the answer) stand in place of addresses.
  std::string engine = {};
  std::vector<std::string> names = {};
  std::string note = {};  // in the last one: why no such profiler took it
  TRAIN_FIELDS(request, stacks, last, facts, error, engine, names, note)
};

}  // namespace train
