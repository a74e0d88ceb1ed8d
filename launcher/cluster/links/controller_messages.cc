#include "launcher/cluster/links/controller_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <type_traits>
#include <utility>

#include "launcher/report/failure_text.h"
#include "lib/base/overloaded.h"
#include "lib/base/secrets.h"
#include "lib/base/utf8.h"
#include "lib/model/ingest_flight.h"

namespace train {
namespace {

/// Return the highest rank that the message names, or a negative one if it names one.
template <class Message>
std::int32_t highest_rank(const Message& message) {
  const auto named = [](const auto& one) { return Rank(one.rank).value; };
  const auto highest = [&](const auto& all) {
    std::int32_t rank = 0;
    for (const auto& one : all) {
      if (named(one) < 0) return named(one);
      rank = std::max(rank, named(one));
    }
    return rank;
  };
  if constexpr (requires { message.rank; }) return named(message);
  if constexpr (requires { message.workers; }) return highest(message.workers);
  if constexpr (requires { message.alive; }) return highest(message.alive);
  if constexpr (requires { message.ranks; }) return highest(message.ranks);
  return 0;
}

constexpr std::int64_t kSampledMax = std::int64_t{1} << 50;  // 35 years in µs, or 1 PiB

/// Bring what another machine measured into a range that can be computed with.
template <class Fields>
void clamp_numbers(Fields& fields) {
  const auto clamp = [](auto& number) {
    if constexpr (std::is_same_v<std::decay_t<decltype(number)>, std::int64_t>)
      number = std::clamp<std::int64_t>(number, 0, kSampledMax);
  };
  fields.visit_fields([&](auto&... all) { (clamp(all), ...); });
}

void keep_in_range(WorkerProgress& progress) {
  clamp_numbers(progress);
  progress.intervals.resize(kPhases.size());
  for (PhaseIntervals& intervals : progress.intervals) {
    clamp_numbers(intervals);
    intervals.count = std::min<std::uint64_t>(intervals.count, kSampledMax);
  }
  if (progress.handed_over.size() > kHandedOverMax) progress.handed_over.resize(kHandedOverMax);
  for (HandedOverCheckpoint& one : progress.handed_over) clamp_numbers(one);
}

void keep_in_range(RankSample& sample) {
  clamp_numbers(sample.process);
  keep_in_range(sample.progress);
}

/// Return the end as people and files may see it: without secrets and within their limits.
WorkerEnd shown(WorkerEnd end) {
  for (std::string& line : end.last_lines) line = redacted(line);
  end.crashed_in = utf8_text(redacted(end.crashed_in), kCrashPlaceBytesMax);
  end.core = utf8_text(redacted(end.core), kCorePathBytesMax);
  if (end.error)
    end.error = UserError{.what = utf8_text(redacted(end.error->what), kErrorWhatBytesMax),
                          .type = utf8_text(redacted(end.error->type), kErrorTypeBytesMax),
                          .stack = utf8_text(redacted(end.error->stack), kErrorStackBytesMax)};
  return end;
}

/// Return digests as people may see them, and no more than a node of ours tells.
NodeDigests shown(NodeDigests digests) {
  constexpr std::size_t kMissingMax = 64, kNameBytesMax = 256;
  const auto shorten = [](std::string& text) { text = utf8_text(redacted(text), kNameBytesMax); };
  digests.files.resize(std::min(digests.files.size(), kDigestFilesMax));
  digests.missing.resize(std::min(digests.missing.size(), kMissingMax));
  for (FileDigest& file : digests.files)
    for (std::string* text : {&file.name, &file.path, &file.digest}) shorten(*text);
  for (MissingLibrary& library : digests.missing)
    for (std::string* text : {&library.soname, &library.needed_by}) shorten(*text);
  for (std::string* text : {&digests.driver, &digests.nccl}) shorten(*text);
  return digests;
}

constexpr std::uint64_t kRosterVersionMax = std::uint64_t{1} << 60;
constexpr std::size_t kIngestLinesMax = 20;
constexpr std::int64_t kAgainMsMax = 3'600'000;

/// Ranks get these texts: they must not be longer than our own.
bool is_plausible(const IngestPlace& place) {
  return place.name.size() <= kIngestAddressBytesMax &&
         place.socket.size() <= kIngestAddressBytesMax &&
         place.flight.size() <= kIngestFlightBytesMax;
}

}  // namespace

Result<NodeMessage> decode_node_message(const Frame& frame, int ranks) {
  TRY(auto message, decode_any<NodeMessage>(frame));
  const std::int32_t rank =
      std::visit([](const auto& known) { return highest_rank(known); }, message);
  if (rank >= 0 && rank < std::max(ranks, 1)) return message;
  return Error{Errc::Protocol, fmt::format("{} names rank {}, but the number of ranks is {}",
                                           to_string(frame.type), rank, ranks)};
}

AttemptPrepared to_event(const Sender& from, const Prepared& message) {
  return {from.attempt, from.node, message.master_port, shown(message.digests), message.ports};
}

AttemptStarted to_event(const Sender& from, const WorkersStarted& message) {
  AttemptStarted event{from.attempt, from.node, {}, message.from_standby};
  for (const StartedWorker& worker : message.workers)
    event.pids.emplace_back(Rank{worker.rank}, worker.pid);
  return event;
}

StartRefused to_event(const Sender& from, const StartFailed& message) {
  return {from.attempt, from.node, Rank{message.rank},
          Error{errc_of(message.code), redacted(message.message), redacted(message.hint)},
          message.busy};
}

RankJoined to_event(const Sender& from, const WorkerJoined& message) {
  return {from.attempt, Rank{message.rank}};
}

RankExited to_event(const Sender& from, const WorkerExited& message) {
  WorkerProgress progress = message.progress;
  keep_in_range(progress);
  progress.name.clear();
  progress.text.clear();
  const std::int64_t ago = std::clamp<std::int64_t>(message.ended_us, 0, kSampledMax);
  return {from.attempt, Rank{message.rank}, shown(message.end), std::move(progress),
          std::chrono::microseconds(ago)};
}

NodeGroupGone to_event(const Sender& from, const GroupGone& message) {
  return {from.attempt, from.node, message.stay};
}

RankPaused to_event(const Sender& from, const WorkerPaused& message) {
  return {from.attempt,           Rank{message.rank}, message.report_seq,
          message.checkpoint_seq, message.arrived,    message.checkpoint_pending};
}

RankReported to_event(const Sender& from, const ReportBatch& message) {
  return {from.attempt, Rank{message.rank}, message.first_report_seq + message.count - 1};
}

RanksSampled to_event(const Sender& from, WorkerSamples message) {
  for (RankSample& sample : message.ranks) {
    keep_in_range(sample);
    for (std::string* text : {&sample.progress.name, &sample.progress.text})
      if (!text->empty()) *text = redacted(*text);
  }
  return {from.attempt, std::move(message.ranks)};
}

ShardStaged to_event(const Sender& from, const StagedShard& message) {
  ShardStaged event{from.attempt, message};
  event.shard.error = redacted(message.error);
  return event;
}

CheckpointPositionTold to_event(const Sender& from, const CheckpointPosition& message) {
  return {from.attempt,  Rank{message.rank},   message.request,        message.reports,
          message.calls, message.has_function, redacted(message.error)};
}

CollectiveJoined to_event(const Sender& from, const CollectiveJoin& message) {
  return {from.attempt, Rank{message.rank}, message.sequence, message.name, message.data};
}

CollectiveResolved to_event(const Sender& from, const CollectiveAnswered& message) {
  return {from.attempt, message.sequence, message.parts, message.error};
}

SupervisorAttached to_event(const Sender& from, const AttemptSnapshot& message) {
  SupervisorAttached event{from.attempt, from.node,
                           message.phase != "spawned" && message.phase != "prepared"};
  for (const LivingWorker& worker : message.alive)
    event.ranks.push_back({Rank{worker.rank}, worker.joined, worker.reported});
  event.resolved_checkpoint = message.resolved_checkpoint;
  const RequestCheckpoint& request = message.checkpoint_request;
  if (const auto step = parse_checkpoint_step(request.step))
    event.checkpoint_order = {request.request, *step, request.report_seq, request.call};
  for (const IngestPlace& place : message.ingest)
    if (is_plausible(place)) event.ingest.push_back(place);
  // One that no launcher can have given leaves room for those to come.
  event.roster_version = std::min(message.roster_version, kRosterVersionMax);
  event.kept = message.kept > 0 && message.phase == "spawned";
  return event;
}

SupervisorLost to_event(const Sender& from, const AttemptLost& message) {
  return {from.attempt, from.node, redacted(message.reason), message.standby};
}

IngestServes to_event(const Sender& from, const IngestUp& message) {
  IngestServes event{from.attempt, from.node, {}};
  event.place = {.dataset = message.dataset,
                 .slot = message.slot,
                 .name = message.name,
                 .socket = message.socket,
                 .flight = message.flight};
  if (!is_plausible(event.place)) event.place.slot = 0;  // there is no such place
  return event;
}

IngestSampled to_event(const Sender& from, const IngestLoad& message) {
  const auto cpu = std::clamp<std::int64_t>(message.cpu_us, 0, kSampledMax);
  return {from.attempt, from.node,    message.dataset,
          message.slot, message.name, std::chrono::microseconds(cpu)};
}

IngestGone to_event(const Sender& from, const IngestEnded& message) {
  const auto again = std::clamp<std::int64_t>(message.again_ms, 0, kAgainMsMax);
  IngestGone event{from.attempt,
                   from.node,
                   message.dataset,
                   message.slot,
                   message.name,
                   message.stopped,
                   utf8_text(redacted(message.why), kErrorWhatBytesMax),
                   message.deaths,
                   milliseconds(again),
                   message.often};
  for (const std::string& line : message.last_lines) {
    if (event.last_lines.size() == kIngestLinesMax) break;
    event.last_lines.push_back(utf8_text(redacted(line), kErrorWhatBytesMax));
  }
  return event;
}

DatasetsRead to_event(const Sender& from, const DataSamples& message) {
  const auto us = [](std::int64_t value) {
    return std::chrono::microseconds(std::clamp<std::int64_t>(value, 0, kSampledMax));
  };
  DatasetsRead event{from.attempt, {}, us(message.taken_us)};
  for (const RankData& data : message.ranks)
    for (const DataOperator& one : data.operators)
      if (one.kind == OperatorKind::Loop)
        event.readers.push_back({data.rank, one.dataset, us(one.input_us)});
  return event;
}

NodeDrain to_event(const Sender& from, const NodeDraining& message) {
  return {from.node, milliseconds(message.grace_ms), redacted(message.reason)};
}

StopWorkers message_of(const StopGroup& action) {
  return {std::chrono::duration_cast<milliseconds>(action.grace).count(), action.reason};
}

PauseWorkers message_of(const Pause& action) {
  return {std::string(to_string(action.step)), action.report_seq, action.reason,
          action.at_checkpoint};
}

RequestCheckpoint message_of(const OrderCheckpoint& action) {
  const CheckpointOrder& order = action.order;
  return {order.request, std::string(to_string(order.step)), order.report_seq, order.call};
}

CollectiveResult message_of(const SendCollective& action) {
  return {action.sequence, *action.parts, action.error};
}

const Frame& CollectiveFrames::of(const SendCollective& action) {
  const bool again = newest_ && newest_->attempt == action.attempt &&
                     newest_->sequence == action.sequence && newest_->error == action.error &&
                     &*newest_->parts == &*action.parts;
  if (!again) frame_ = encode(message_of(action), action.attempt);
  newest_ = action;
  return frame_;
}

StopIngest message_of(const EndIngest& action) { return {action.dataset, action.slot}; }

TellIngestRoster message_of(const SendRoster& action) { return {*action.roster}; }

CheckpointOutcome message_of(const TellCheckpoint& action, const std::vector<std::string>& keep) {
  return {action.checkpoint_seq, action.path, action.error, keep};
}

}  // namespace train
