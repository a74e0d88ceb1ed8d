// The types of all messages. Each message has one struct, in link_messages.h, daemon_messages.h,
// attempt_messages.h, worker_messages.h or pmix_messages.h; PROTOCOL.md defines who sends which and
// when. A message travels as a MessagePack map. Receivers skip unknown fields, and missing fields
// keep their defaults, so that both sides may add fields.
#pragma once

#include <cstdint>

#include "lib/model/fields.h"
#include "lib/wire/frame.h"

namespace train {

inline constexpr std::uint32_t kProtocolMin = 3;
inline constexpr std::uint32_t kProtocolMax = 3;

enum class MessageType : std::uint16_t {
  // the link: launcher ↔ traind, traind ↔ supervisor
  Hello = 0x01,
  HelloReply = 0x02,
  Refused = 0x04,
  Heartbeat = 0x05,
  HeartbeatAck = 0x06,
  AttachRun = 0x10,
  NodeOffer = 0x11,
  PrepareAttempt = 0x12,
  AttemptLost = 0x13,
  DetachRun = 0x14,
  LauncherState = 0x15,
  SupervisorHello = 0x16,
  NodeDraining = 0x17,
  DrainNode = 0x18,
  DetachController = 0x19,
  DetachedController = 0x1a,
  ControllerEnded = 0x1b,
  NodeStatus = 0x1c,
  ClaimRoom = 0x1d,
  KeptWorkers = 0x1e,
  PrepareFailover = 0x1f,
  FailoverAnswer = 0x20,
  CancelFailover = 0x21,
  AskLauncher = 0x22,
  LauncherTold = 0x23,
  // launcher ↔ supervisor, relayed by traind by the frame's attempt
  Prepared = 0x100,
  StartWorkers = 0x101,
  WorkersStarted = 0x102,
  StartFailed = 0x103,
  WorkerJoined = 0x104,
  WorkerExited = 0x105,
  GroupGone = 0x106,
  StopWorkers = 0x107,
  PauseWorkers = 0x108,
  WorkerPaused = 0x109,
  ReportBatch = 0x10a,
  AckReports = 0x10b,
  ShardWritten = 0x10c,
  CheckpointOutcome = 0x10d,
  OutputChunk = 0x10e,
  AckOutput = 0x10f,
  CollectiveJoin = 0x110,
  CollectiveResult = 0x111,
  WorkerResult = 0x112,
  ReleaseAttempt = 0x113,
  AttemptSnapshot = 0x114,
  CollectiveAnswered = 0x115,
  StorageTrouble = 0x116,
  WorkerSamples = 0x118,
  TakeStacks = 0x119,
  StacksTaken = 0x11a,
  TakeProfile = 0x11c,
  ProfileTaken = 0x11d,
  RequestCheckpoint = 0x11e,
  CheckpointPosition = 0x11f,
  RunValidation = 0x120,
  ValidationEnded = 0x121,
  AskCheckpoints = 0x122,
  ReportedCheckpoints = 0x123,
  DataSamples = 0x124,
  CallWorkers = 0x126,
  WorkerAnswered = 0x127,
  NodeSetupEnded = 0x125,
  ReadFile = 0x130,
  FileBytes = 0x131,
  KeepShard = 0x132,
  ShardKept = 0x133,
  StartIngest = 0x140,
  StopIngest = 0x141,
  IngestUp = 0x142,
  IngestLoad = 0x143,
  IngestEnded = 0x144,
  IngestRoster = 0x145,
  // supervisor ↔ worker
  WorkerHello = 0x200,
  Welcome = 0x201,
  CheckpointStaged = 0x202,
  OnceBegin = 0x203,
  OnceReply = 0x204,
  OnceEnd = 0x205,
  WorkerError = 0x206,
  WorkerGoodbye = 0x207,
  GoodbyeAck = 0x208,
  TakeMemoryProfile = 0x209,
  AllocationStacks = 0x20a,
  // supervisor ↔ trainrun-pmix
  ServePmix = 0x300,
  PmixServed = 0x301,
  PmixFence = 0x302,
  PmixFenceOver = 0x303,
  PmixNotice = 0x304,
};

/// Return whether traind relays frames of this type by their attempt alone, without decoding them.
constexpr bool is_relayed(MessageType type) {
  return static_cast<std::uint16_t>(type) >= 0x100 && static_cast<std::uint16_t>(type) < 0x200;
}

}  // namespace train
