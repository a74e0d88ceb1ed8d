#include "launcher/cluster/run/run_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lib/base/overloaded.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr std::size_t kErrorBytesMax = 2u << 10;  // of a worker's text

std::string seconds_text(Duration duration) {
  return fmt::format("{:.1f} s", std::chrono::duration<double>(duration).count());
}

std::string end_text(const WorkerEnd& end) {
  return fmt::format("{} {}{}", end.signaled ? "signal" : "exit code", end.status,
                     end.oom_killed ? ", out of memory" : "");
}

/// Return the level for a worker's end: a requested end is normal, any other death is an error.
LogLevel level_of(const WorkerEnd& end) {
  return end.clean() || end.stop_requested ? LogLevel::Info : LogLevel::Error;
}

}  // namespace

Result<Log> open_run_log(const RunFolder& folder, const std::string& run, std::string_view level,
                         LogFormat format) {
  TRY(const LogLevel from, parse_log_level(level));
  return Log::open({.level = from, .format = format, .path = folder.log(), .in_background = true},
                   {"train-run", run, ""});
}

std::function<void()> RunLog::close() {
  return [log = std::make_shared<Log>(std::exchange(log_, Log()))] { *log = Log(); };
}

void RunLog::event(const RunEvent& event) const {
  const bool debug = log_.enabled(LogLevel::Debug);  // these are frequent
  std::visit(
      Overloaded{
          [&](const NodeUp& e) {
            log_.info("node attached", {{"node", name_(e.capacity.node)},
                                        {"address", e.address},
                                        {"attempts", e.attempts.size()}});
          },
          [&](const NodeDown& e) {
            log_.warn("node lost", {{"node", name_(e.node)}, {"reason", e.reason}});
          },
          [&](const NodeFound& e) {
            log_.info("node found", {{"node", name_(e.node)}});
          },
          [&](const NodeVanished& e) {
            log_.info("node is not listed any more, and dead", {{"node", name_(e.node)}});
          },
          [&](const NodeDrain& e) {
            log_.warn(
                "node is draining",
                {{"node", name_(e.node)}, {"grace", seconds_text(e.grace)}, {"reason", e.reason}});
          },
          [&](const SupervisorAttached& e) {
            log_.info("supervisor attached", {{"attempt", e.attempt.value},
                                              {"node", name_(e.node)},
                                              {"workers", e.ranks.size()}});
          },
          [&](const AttemptPrepared& e) {
            if (debug)
              log_.debug("node prepared", {{"attempt", e.attempt.value},
                                           {"node", name_(e.node)},
                                           {"master_port", e.master_port}});
          },
          [&](const AttemptStarted& e) {
            for (const auto& [rank, pid] : e.pids)
              log_.info("worker started", {{"attempt", e.attempt.value},
                                           {"rank", rank.value},
                                           {"node", name_(e.node)},
                                           {"pid", pid}});
          },
          [&](const StartRefused& e) {
            log_.error("worker did not start", {{"attempt", e.attempt.value},
                                                {"rank", e.rank.value},
                                                {"node", name_(e.node)},
                                                {"error", e.error.describe()}});
          },
          [&](const RankJoined& e) {
            if (debug)
              log_.debug("worker joined", {{"attempt", e.attempt.value}, {"rank", e.rank.value}});
          },
          [&](const RankExited& e) {
            log_.write(level_of(e.end), "worker ended",
                       {{"attempt", e.attempt.value},
                        {"rank", e.rank.value},
                        {"end", end_text(e.end)},
                        {"error", utf8_text(e.end.error ? e.end.error->what : "", kErrorBytesMax)},
                        {"reports", e.end.last_report_seq}});
          },
          [&](const NodeGroupGone& e) {
            if (debug)
              log_.debug("all workers of the node have ended",
                         {{"attempt", e.attempt.value}, {"node", name_(e.node)}});
          },
          [&](const SupervisorLost& e) {
            log_.write(
                e.standby ? LogLevel::Info : LogLevel::Error, "supervisor lost",
                {{"attempt", e.attempt.value}, {"node", name_(e.node)}, {"reason", e.reason}});
          },
          [&](const RankReported& e) {
            if (debug)
              log_.debug(
                  "report",
                  {{"attempt", e.attempt.value}, {"rank", e.rank.value}, {"report", e.report_seq}});
          },
          [](const RanksSampled&) {},   // one each second and node
          [](const DatasetsRead&) {},   // likewise
          [](const IngestSampled&) {},  // likewise
          [&](const IngestServes& e) {
            log_.info("ingest worker serves", {{"attempt", e.attempt.value},
                                               {"node", name_(e.node)},
                                               {"name", e.place.name},
                                               {"socket", e.place.socket},
                                               {"flight", e.place.flight}});
          },
          [&](const IngestGone& e) {
            log_.write(e.stopped ? LogLevel::Info : LogLevel::Warn, "ingest worker ended",
                       {{"attempt", e.attempt.value},
                        {"node", name_(e.node)},
                        {"name", e.name},
                        {"why", e.why},
                        {"deaths", e.deaths}});
          },
          [&](const StacksAsked& e) {
            log_.info("stacks asked for", {{"why", e.why}});
          },
          [&](const StacksCollected& e) {
            log_.info("stacks", {{"attempt", e.attempt.value},
                                 {"path", e.path},
                                 {"classes", e.classes},
                                 {"error", e.error}});
          },
          [&](const CheckpointAsked& e) {
            log_.info("checkpoint asked for", {{"id", e.id}});
          },
          [&](const CheckpointPositionTold& e) {
            if (debug)
              log_.debug("position for a checkpoint", {{"attempt", e.attempt.value},
                                                       {"rank", e.rank.value},
                                                       {"request", e.request},
                                                       {"reports", e.reports},
                                                       {"calls", e.calls},
                                                       {"error", e.error}});
          },
          [&](const RankPaused& e) {
            if (debug)
              log_.debug("worker paused", {{"attempt", e.attempt.value},
                                           {"rank", e.rank.value},
                                           {"report", e.report_seq},
                                           {"arrived", e.arrived}});
          },
          [&](const ShardStaged& e) {
            log_.write(e.shard.error.empty() ? LogLevel::Debug : LogLevel::Warn,
                       "shard of a checkpoint written",
                       {{"attempt", e.attempt.value},
                        {"rank", e.shard.rank.value},
                        {"checkpoint", e.shard.checkpoint_seq},
                        {"error", e.shard.error}});
          },
          [&](const CommitFinished& e) {
            if (e.checkpoint)
              log_.info("checkpoint committed",
                        {{"attempt", e.attempt.value}, {"path", e.checkpoint->path}});
            else
              log_.warn("checkpoint not committed", {{"attempt", e.attempt.value},
                                                     {"checkpoint", e.checkpoint_seq},
                                                     {"error", e.error}});
          },
          [&](const ValidationFinished& e) {
            log_.info("checkpoint validated", {{"checkpoint", e.number}});
          },
          [&](const CollectiveJoined& e) {
            if (debug)
              log_.debug("collective joined", {{"attempt", e.attempt.value},
                                               {"rank", e.rank.value},
                                               {"sequence", e.sequence},
                                               {"name", utf8_text(e.name, kErrorBytesMax)}});
          },
          [&](const CollectiveResolved& e) {
            if (debug)
              log_.debug("collective answered earlier",
                         {{"attempt", e.attempt.value}, {"sequence", e.sequence}});
          },
          [&](const StopAsked& e) {
            log_.info("stop asked for", {{"reason", e.reason}});
          },
          [&](const RunSetUp&) { log_.info("the run is set up"); },
          [](const Tick&) {},
      },
      event);
}

void RunLog::action(const RunAction& action) const {
  const bool debug = log_.enabled(LogLevel::Debug);
  std::visit(
      Overloaded{
          [&](const Prepare& a) {
            if (debug)
              log_.debug("prepare", {{"attempt", a.attempt.value},
                                     {"node", name_(a.placed.node)},
                                     {"workers", a.placed.local_world_size},
                                     {"standby", a.standby}});
          },
          [&](const KeepRoom& a) {
            if (debug)
              log_.debug("keep room", {{"node", name_(a.node)},
                                       {"workers_here", a.workers_here},
                                       {"workers", a.workers},
                                       {"waits", !a.place.placed},
                                       {"share", a.place.share}});
          },
          [&](const Start& a) {
            if (debug)
              log_.debug("start", {{"attempt", a.attempt.value},
                                   {"node", name_(a.placed.node)},
                                   {"workers", a.placed.local_world_size}});
          },
          [&](const StandBy& a) {
            if (debug)
              log_.debug(
                  "start standby workers",
                  {{"attempt", a.attempt.value}, {"node", name_(a.node)}, {"workers", a.workers}});
          },
          [&](const StopGroup& a) {
            log_.info("stop workers", {{"attempt", a.attempt.value},
                                       {"node", name_(a.node)},
                                       {"grace", seconds_text(a.grace)},
                                       {"reason", a.reason}});
          },
          [&](const Pause& a) {
            if (debug)
              log_.debug("pause workers", {{"attempt", a.attempt.value},
                                           {"node", name_(a.node)},
                                           {"step", to_string(a.step)},
                                           {"report", a.report_seq},
                                           {"reason", a.reason}});
          },
          [&](const Release& a) {
            if (debug)
              log_.debug("release", {{"attempt", a.attempt.value}, {"node", name_(a.node)}});
          },
          [&](const SendCollective& a) {
            if (debug)
              log_.debug("answer collective", {{"attempt", a.attempt.value},
                                               {"node", name_(a.node)},
                                               {"sequence", a.sequence},
                                               {"error", a.error}});
          },
          [&](const TellCheckpoint& a) {
            if (debug)
              log_.debug("tell of checkpoint", {{"attempt", a.attempt.value},
                                                {"node", name_(a.node)},
                                                {"checkpoint", a.checkpoint_seq},
                                                {"error", a.error}});
          },
          [&](const Commit& a) {
            if (debug)
              log_.debug("commit", {{"attempt", a.attempt.value},
                                    {"checkpoint", a.checkpoint_seq},
                                    {"number", a.number},
                                    {"ranks", a.shards.size()}});
          },
          [&](const GiveUpCommit& a) {
            log_.warn("checkpoint given up", {{"attempt", a.attempt.value},
                                              {"checkpoint", a.checkpoint_seq},
                                              {"reason", a.reason}});
          },
          [&](const Validate& a) {
            log_.info("validate", {{"attempt", a.attempt.value},
                                   {"node", name_(a.node)},
                                   {"path", a.checkpoint.path}});
          },
          [&](const CollectStacks& a) {
            if (debug)
              log_.debug("collect stacks",
                         {{"attempt", a.attempt.value}, {"nodes", a.nodes.size()}, {"why", a.why}});
          },
          [&](const OrderCheckpoint& a) {
            if (debug)
              log_.debug("order checkpoint", {{"attempt", a.attempt.value},
                                              {"node", name_(a.node)},
                                              {"request", a.order.request},
                                              {"step", to_string(a.order.step)},
                                              {"report", a.order.report_seq},
                                              {"call", a.order.call}});
          },
          [&](const CheckpointAnswered& a) {
            log_.info("answer to who asked for a checkpoint",
                      {{"id", a.id}, {"checkpoint", a.number}, {"error", a.error}});
          },
          [&](const KeepIngest& a) {
            log_.info("ingest worker ordered", {{"attempt", a.attempt.value},
                                                {"node", name_(a.node)},
                                                {"dataset", a.dataset},
                                                {"slot", a.slot}});
          },
          [&](const EndIngest& a) {
            log_.info("ingest worker not needed", {{"attempt", a.attempt.value},
                                                   {"node", name_(a.node)},
                                                   {"dataset", a.dataset},
                                                   {"slot", a.slot}});
          },
          [&](const SendRoster& a) {
            if (debug)
              log_.debug("roster of ingest workers", {{"attempt", a.attempt.value},
                                                      {"node", name_(a.node)},
                                                      {"version", a.roster->version},
                                                      {"workers", a.roster->endpoints.size()}});
          },
          [](const IngestChanged&) {},  // the orders and news say the same
          [](const HangFound&) {},      // a note, or the attempt's end, says the same
          [&](const Note& a) {
            if (a.level == NoteLevel::Info) log_.info(a.text);  // the others are logged as warnings
          },
          [&](const StragglerChanged& a) {
            if (!a.slow) log_.info(a.text);  // the others are logged as warnings
          },
          [&](const NodeStateChanged& a) {
            log_.info(a.state == NodeState::Up ? "node may be used" : "node may not be used",
                      {{"node", a.node}, {"reason", a.reason}});
          },
          [&](const StateChanged& a) {
            log_.info("state", {{"from", to_string(a.from)},
                                {"to", to_string(a.to)},
                                {"trigger", to_string(a.trigger)},
                                {"attempt", a.attempt.value},
                                {"reason", a.reason}});
          },
          [&](const AttemptBegun& a) {
            log_.info("attempt begins", {{"attempt", a.attempt.value},
                                         {"world_size", a.placement.world_size},
                                         {"nodes", fmt::format("{}", fmt::join(a.node_names, ","))},
                                         {"restored_from", a.restore ? a.restore->path : ""},
                                         {"restarts", a.restart_count}});
          },
          [&](const AttemptEnded& a) {
            log_.write(a.failed ? LogLevel::Error : LogLevel::Info, "attempt ended",
                       {{"attempt", a.attempt.value},
                        {"cause", a.cause},
                        {"rank", a.root_rank ? a.root_rank->value : -1},
                        {"node", a.root_node},
                        {"deaths_that_followed", a.collateral}});
          },
          [&](const RunEnded& a) {
            log_.write(a.outcome == RunState::Errored ? LogLevel::Error : LogLevel::Info,
                       "run ended", {{"outcome", to_string(a.outcome)}, {"reason", a.reason}});
          },
      },
      action);
}

}  // namespace train
