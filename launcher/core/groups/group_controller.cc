#include "launcher/core/groups/group_controller.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/exit_code.h"

namespace train {
namespace {

constexpr Duration kFirstWait = milliseconds(250), kWaitMax = seconds(5);

/// Return how long to wait before the lighthouse is started again after so many deaths in a row.
Duration wait_before(int deaths) {
  Duration wait = deaths <= 1 ? Duration{} : kFirstWait;
  for (int i = 2; i < deaths && wait < kWaitMax; ++i) wait *= 2;
  return std::min(wait, kWaitMax);
}

std::string with_cause(std::string text, const std::string& cause) {
  return cause.empty() ? text : text + ": " + cause;
}

}  // namespace

GroupController::GroupController(GroupsSpec spec)
    : spec_(std::move(spec)), groups_(static_cast<std::size_t>(spec_.groups)) {
  for (const int group : spec_.finished) groups_[static_cast<std::size_t>(group)].at = At::Finished;
}

int GroupController::count(At at) const {
  return static_cast<int>(std::count_if(groups_.begin(), groups_.end(),
                                        [at](const Group& one) { return one.at == at; }));
}

void GroupController::tell(GroupsActions& actions, GroupNews news, int group,
                           std::string text) const {
  actions.push_back(TellGroups{news, group, std::move(text)});
}

void GroupController::start(int group, GroupNews news, std::string text, TimePoint now,
                            GroupsActions& actions) {
  Group& one = groups_[static_cast<std::size_t>(group)];
  one.at = At::Running;
  one.started = now;
  actions.push_back(StartReplicaGroup{group});
  if (!text.empty()) tell(actions, news, group, std::move(text));
}

GroupsActions GroupController::begin(TimePoint now) {
  GroupsActions actions;
  if (count(At::Waiting) == 0) {
    look_at_the_rest(actions);
    return actions;
  }
  if (!spec_.lighthouse) {
    light_ = Light::Off;
    begun_ = true;
    for (int group = 0; group < spec_.groups; ++group)
      if (groups_[static_cast<std::size_t>(group)].at == At::Waiting)
        start(group, GroupNews::Started, "", now, actions);
    return actions;
  }
  light_ = Light::Starting;
  light_at_ = now;
  actions.push_back(StartLighthouse{});
  return actions;
}

GroupsActions GroupController::handle(const LighthouseReady&, TimePoint now) {
  GroupsActions actions;
  if (light_ != Light::Starting || ended_ || stopping_) return actions;
  light_ = Light::Up;
  light_at_ = now;
  if (begun_) {
    tell(actions, GroupNews::Lighthouse, -1, "the lighthouse is up again");
    return actions;
  }
  begun_ = true;
  for (int group = 0; group < spec_.groups; ++group)
    if (groups_[static_cast<std::size_t>(group)].at == At::Waiting)
      start(group, GroupNews::Started, "", now, actions);
  return actions;
}

GroupsActions GroupController::handle(const LighthouseEnded& event, TimePoint now) {
  GroupsActions actions;
  const bool soon = light_ != Light::Up || now - light_at_ < kSoonDead;
  light_ = Light::Off;
  if (ended_ || (stopping_ && count(At::Running) == 0)) return actions;
  if (!begun_) {
    ended_ = true;
    actions.push_back(EndGroups{exit_code::kUnavailable, "the lighthouse " + event.how});
    return actions;
  }
  light_deaths_ = soon ? light_deaths_ + 1 : 1;
  if (light_deaths_ >= kLighthouseDeathsMax) {
    const std::string cause = fmt::format("the lighthouse ended {} times in a row; at last it {}",
                                          light_deaths_, event.how);
    if (!end_) end_ = EndGroups{exit_code::kUnavailable, cause};
    tell(actions, GroupNews::Stopping, -1, cause + ": the groups are stopped");
    stop_all(actions);
    return actions;
  }
  const Duration wait = wait_before(light_deaths_);
  light_ = Light::Waiting;
  light_at_ = now + wait;
  tell(actions, GroupNews::Lighthouse, -1,
       fmt::format("the lighthouse {}: it is started again{}", event.how,
                   wait == Duration{} ? "" : " in " + format_duration(wait)));
  for (GroupsAction& next : tick(now)) actions.push_back(std::move(next));
  return actions;
}

GroupsActions GroupController::tick(TimePoint now) {
  GroupsActions actions;
  if (ended_) return actions;
  if (light_ == Light::Waiting && now >= light_at_) {
    light_ = Light::Starting;
    light_at_ = now;
    actions.push_back(StartLighthouse{});
  } else if (light_ == Light::Starting && now >= light_at_ + kLighthouseStartMax) {
    light_at_ = now;  // the end comes
    actions.push_back(KillLighthouse{});
  }
  return actions;
}

std::optional<TimePoint> GroupController::next_deadline() const {
  if (ended_ || light_ == Light::Off || light_ == Light::Up) return std::nullopt;
  return light_ == Light::Waiting ? light_at_ : light_at_ + kLighthouseStartMax;
}

void GroupController::stop_all(GroupsActions& actions) {
  stopping_ = true;
  for (int group = 0; group < spec_.groups; ++group)
    if (groups_[static_cast<std::size_t>(group)].at == At::Running)
      actions.push_back(StopReplicaGroup{group});
}

GroupsActions GroupController::handle(const GroupsStopAsked& event, TimePoint) {
  GroupsActions actions;
  if (ended_) return actions;
  if (!stopping_) {
    one_was_stopped_ = false;
    end_ = EndGroups{event.code, event.cause};
    tell(actions, GroupNews::Stopping, -1,
         fmt::format("stopping: {} groups make their checkpoints", count(At::Running)));
  }
  stop_all(actions);
  if (count(At::Running) == 0) {
    ended_ = true;
    actions.push_back(*end_);
  }
  return actions;
}

GroupsActions GroupController::handle(const GroupAttemptFailed& event, TimePoint) {
  GroupsActions actions;
  Group& group = groups_[static_cast<std::size_t>(event.group)];
  if (group.at != At::Running || stopping_ || group.given_up) return actions;
  group.soon_failed = event.by_itself && event.lived < kSoonFailed ? group.soon_failed + 1 : 0;
  if (!spec_.endless || group.soon_failed < kSoonFailedMax) {
    tell(actions, GroupNews::Restarts, event.group, "an attempt failed: " + event.cause);
    return actions;
  }
  group.given_up = event;
  group.given_up->cause +=
      fmt::format(" ({} times in a row, within {} of its start: a restart would end the same way)",
                  group.soon_failed, format_duration(kSoonFailed));
  actions.push_back(StopReplicaGroup{event.group});
  return actions;
}

void GroupController::failed(int group, int code, const std::string& cause,
                             GroupsActions& actions) {
  groups_[static_cast<std::size_t>(group)].at = At::Failed;
  const std::string text = with_cause("failed", cause);
  if (!end_ || one_was_stopped_)
    end_ = EndGroups{code, fmt::format("group {} {}", group, text), group};
  one_was_stopped_ = false;
  tell(actions, GroupNews::Failed, group, text);
}

GroupsActions GroupController::handle(const GroupEnded& event, TimePoint now) {
  GroupsActions actions;
  Group& group = groups_[static_cast<std::size_t>(event.group)];
  if (group.at != At::Running) return actions;
  const bool stopped = event.code == exit_code::kRequeue || event.code == exit_code::kInterrupted;
  if (group.given_up) {
    failed(event.group, group.given_up->code, group.given_up->cause, actions);
  } else if (event.killed && !stopping_) {
    group.soon_dead = now - group.started < kSoonDead ? group.soon_dead + 1 : 1;
    if (group.soon_dead < kGroupDeathsMax) {
      start(event.group, GroupNews::Resumed,
            fmt::format("its train-run was killed by signal {}: it goes on", event.code - 128), now,
            actions);
      return actions;
    }
    failed(event.group, event.code,
           fmt::format("its train-run was killed by signal {}, {} times in a row", event.code - 128,
                       group.soon_dead),
           actions);
  } else if (event.code == exit_code::kOk) {
    group.at = At::Finished;
    tell(actions, GroupNews::Finished, event.group, "has finished");
  } else if (stopped || event.killed) {
    group.at = At::Stopped;
    if (!stopping_) {
      tell(actions, GroupNews::Stopped, event.group, "was stopped");
      one_was_stopped_ = one_was_stopped_ || !end_;
      if (!end_)
        end_ = EndGroups{event.code, fmt::format("group {} was stopped", event.group), event.group};
    }
  } else {
    failed(event.group, event.code, event.cause, actions);
  }
  look_at_the_rest(actions);
  return actions;
}

/// Decide what becomes of the groups that are left.
void GroupController::look_at_the_rest(GroupsActions& actions) {
  const int running = count(At::Running);
  if (running == 0) {
    ended_ = true;
    if (count(At::Finished) == spec_.groups) end_.reset();  // a stop came too late
    actions.push_back(end_.value_or(EndGroups{}));
    return;
  }
  if (stopping_ || count(At::Failed) + count(At::Stopped) == 0) return;
  const std::string left =
      fmt::format("{} of {} groups {} left", running, spec_.groups, running == 1 ? "is" : "are");
  if (running >= spec_.min_groups) {
    tell(actions, GroupNews::Left, -1, left + ", and go on");
    return;
  }
  tell(actions, GroupNews::Stopping, -1,
       fmt::format("{}, and backend_config.min_replicas is {}: they are stopped", left,
                   spec_.min_groups));
  stop_all(actions);
}

}  // namespace train
