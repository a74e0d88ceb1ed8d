#include "launcher/core/start_watch.h"

#include <fmt/format.h>

#include <algorithm>

namespace train {
namespace {

constexpr std::size_t kNodesShown = 4;

}  // namespace

std::vector<NodeId> StartWatch::late_nodes() const {
  std::vector<NodeId> late;
  group_.hosts.for_each_there([&](NodeId node) {
    const bool ready = preparing() ? group_.hosts.is_prepared(node)
                                   : group_.hosts.unanswered_order(node) == nullptr;
    if (!ready) late.push_back(node);
  });
  return late;
}

std::string StartWatch::who(const std::vector<NodeId>& nodes) const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(nodes.size(), kNodesShown); ++i)
    names.push_back(run_.nodes.name(nodes[i]));
  const std::string text = fmt::format("{}", fmt::join(names, ", "));
  return nodes.size() <= kNodesShown ? text : fmt::format("{}, … ({} nodes)", text, nodes.size());
}

std::string StartWatch::task() const {
  if (preparing())
    return fmt::format("start a supervisor{} look at '{}'{}{}", sets_up() || ships() ? "," : " and",
                       run_.spec.run_config.storage_path,
                       !ships()    ? ""
                       : sets_up() ? ", fetch the code"
                                   : " and fetch the code",
                       sets_up() ? " and run per_node_setup" : "");
  const BackendConfig& config = run_.spec.backend_config;
  const bool hooks =
      run_.spec.backend == Backend::Custom &&
      !(config.publish.empty() && config.on_start.empty() && config.on_training_start.empty());
  const std::string processes =
      fmt::format("{}start its processes in '{}'",
                  hooks ? "run the commands of backend_config and " : "", run_.spec.working_dir);
  return group_.restored ? fmt::format("bring the checkpoint '{}' there and {}",
                                       group_.restored->path, processes)
                         : processes;
}

std::optional<Duration> StartWatch::limit() const {
  const Duration setup = preparing() && sets_up() ? run_.spec.per_node_setup.timeout : Duration{0};
  const Duration given = run_.spec.run_config.failure_config.start_timeout;
  if (given > Duration{0}) return given + setup;
  if (!preparing() && group_.restored) return std::nullopt;
  return kStartTimeout + setup;
}

std::optional<AttemptCause::Failure> StartWatch::advance() {
  const TimePoint now = run_.progress.now();
  if (step_ != run_.progress.state()) {
    step_ = run_.progress.state();
    since_ = now;
    note_after_ = kStartNoteAfter;
  }
  if (now < *next_deadline()) return std::nullopt;
  const std::vector<NodeId> late = late_nodes();
  if (late.empty()) return std::nullopt;
  const auto most = limit();
  if (most && now >= since_ + *most)
    return AttemptCause::Failure{.kind = FailureKind::Start,
                                 .cause = fmt::format("{} did not {} within {} (start_timeout)",
                                                      who(late), task(), format_duration(*most)),
                                 .node = late.front()};
  if (now >= since_ + note_after_) {
    run_.progress.note(NoteLevel::Warning,
                       fmt::format("still waiting after {} for {} to {}",
                                   format_duration(now - since_), who(late), task()));
    while (now >= since_ + note_after_) note_after_ *= 2;
  }
  return std::nullopt;
}

std::optional<TimePoint> StartWatch::next_deadline() const {
  if (!step_ || step_ != run_.progress.state()) return std::nullopt;
  const auto most = limit();
  return since_ + (most ? std::min(*most, note_after_) : note_after_);
}

}  // namespace train
