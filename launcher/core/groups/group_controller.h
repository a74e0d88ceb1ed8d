// Decides what the train-run of a run with replica groups (backend: torchft) does next: when the
// groups' child runs start, go on and stop, when the lighthouse is started again, and how all of it
// ends. The groups find each other by the lighthouse; a group that is away costs the others a
// moment. Pure.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lib/base/time.h"

namespace train {

struct GroupsSpec {
  int groups = 1;
  int min_groups = 1;         // with fewer, nobody trains
  bool lighthouse = true;     // we start it; else the user has one
  bool endless = true;        // groups restart any number of times
  std::vector<int> finished;  // in an earlier train-run: they are not started again
};

// ---- events

/// It accepts connections.
struct LighthouseReady {};
struct LighthouseEnded {
  std::string how;  // "exited with 1: address in use"
};
/// A group's attempt has failed.
struct GroupAttemptFailed {
  int group = 0;
  Duration lived = {};    // since its workers were started
  bool by_itself = true;  // a worker ended with an error; no signal has killed it
  int code = 1;           // the run's exit code if this were its end
  std::string cause;      // "rank 0 exited with 1"
};
/// A group's train-run has ended.
struct GroupEnded {
  int group = 0;
  int code = 0;         // 128 + the signal that killed it
  bool killed = false;  // by a signal: its run may go on
  std::string cause;
};
struct GroupsStopAsked {
  int code = 0;
  std::string cause = {};  // "": somebody asked for it
};

// ---- actions

struct StartLighthouse {
  bool operator==(const StartLighthouse&) const = default;
};
/// It does not come up: kill it. LighthouseEnded follows.
struct KillLighthouse {
  bool operator==(const KillLighthouse&) const = default;
};
/// Start the group's train-run, or let it go on with what an earlier one has left.
struct StartReplicaGroup {
  int group = 0;
  bool operator==(const StartReplicaGroup&) const = default;
};
/// Have the group make its checkpoint and stop. GroupEnded follows.
struct StopReplicaGroup {
  int group = 0;
  bool operator==(const StopReplicaGroup&) const = default;
};
enum class GroupNews {
  Started,
  Resumed,
  Finished,
  Failed,
  Stopped,
  Restarts,
  Left,
  Lighthouse,
  Stopping
};
inline constexpr std::array<std::string_view, 9> kGroupNews{
    "group_started",  "group_resumed", "group_finished", "group_failed", "group_stopped",
    "group_restarts", "groups_left",   "lighthouse",     "stopping"};
/// For people. `group` −1: it is about all.
struct TellGroups {
  GroupNews news = GroupNews::Started;
  int group = -1;
  std::string text;
  bool operator==(const TellGroups&) const = default;
};
/// Nothing runs any more: stop the lighthouse, and exit.
struct EndGroups {
  int code = 0;
  std::string cause = {};  // "group 1 failed: rank 0 exited with 3"
  int group = -1;          // whose end it is
  bool operator==(const EndGroups&) const = default;
};
using GroupsAction = std::variant<StartLighthouse, KillLighthouse, StartReplicaGroup,
                                  StopReplicaGroup, TellGroups, EndGroups>;
using GroupsActions = std::vector<GroupsAction>;

// ----

inline constexpr Duration kLighthouseStartMax =
    seconds(120);  // Python, with PyTorch, from a slow disk
/// A lighthouse, or a group's train-run, that lived for less dies of something that stays.
inline constexpr Duration kSoonDead = seconds(60);
inline constexpr int kLighthouseDeathsMax = 10;  // soon, in a row
inline constexpr int kGroupDeathsMax = 3;        // of a group's train-run: soon, in a row
/// So many attempts of a group in a row that fail by themselves in less time show a program that is
/// wrong, where its restarts have no limit.
inline constexpr Duration kSoonFailed = seconds(10);
inline constexpr int kSoonFailedMax = 5;

class GroupController {
 public:
  explicit GroupController(GroupsSpec spec);

  GroupsActions begin(TimePoint now);
  GroupsActions handle(const LighthouseReady& event, TimePoint now);
  GroupsActions handle(const LighthouseEnded& event, TimePoint now);
  GroupsActions handle(const GroupAttemptFailed& event, TimePoint now);
  GroupsActions handle(const GroupEnded& event, TimePoint now);
  GroupsActions handle(const GroupsStopAsked& event, TimePoint now);
  GroupsActions tick(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

  bool stopping() const { return stopping_; }

 private:
  enum class At { Waiting, Running, Finished, Failed, Stopped };
  struct Group {
    At at = At::Waiting;
    TimePoint started = {};
    int soon_dead = 0, soon_failed = 0;
    std::optional<GroupAttemptFailed> given_up = {};  // its end will be this
  };
  enum class Light { Off, Starting, Up, Waiting };

  int count(At at) const;
  void start(int group, GroupNews news, std::string text, TimePoint now, GroupsActions& actions);
  void stop_all(GroupsActions& actions);
  void failed(int group, int code, const std::string& cause, GroupsActions& actions);
  void look_at_the_rest(GroupsActions& actions);
  void tell(GroupsActions& actions, GroupNews news, int group, std::string text) const;

  const GroupsSpec spec_;
  std::vector<Group> groups_;
  Light light_ = Light::Off;
  TimePoint light_at_ = {};  // since when it is so, or until when it waits
  int light_deaths_ = 0;
  bool begun_ = false;     // the groups were started
  bool stopping_ = false;  // all of them
  bool ended_ = false;
  std::optional<EndGroups> end_;  // the first reason for one that is not good
  bool one_was_stopped_ = false;  // which is that reason: a failure counts more
};

}  // namespace train
