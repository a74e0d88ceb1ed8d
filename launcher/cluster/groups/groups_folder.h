// The paths in the folder of a run with replica groups (docs/backends.md, "torchft"), and how such
// a run or one of its groups is found. Calls block.
#pragma once

#include <optional>
#include <string>

#include "lib/base/result.h"

namespace train {

/// Only computes paths; creates and reads nothing.
class GroupsFolder {
 public:
  explicit GroupsFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string lock() const { return path_ + "/.lock"; }
  /// `train-run stop` makes this file; the owner of the run removes it. See stop_text().
  std::string stop_request() const { return path_ + "/.stop"; }
  std::string daemon_note() const { return path_ + "/.daemon"; }
  std::string resolved_spec() const { return path_ + "/spec.resolved.yaml"; }
  /// The number of groups, and the lighthouse's address: what makes the folder one of groups.
  std::string groups_json() const { return path_ + "/groups.json"; }
  std::string exit_json() const { return path_ + "/exit.json"; }
  std::string lighthouse_log() const { return path_ + "/lighthouse.log"; }
  std::string groups() const { return path_ + "/groups"; }
  static std::string group_name(int group);  // "003"
  std::string group(int number) const { return groups() + "/" + group_name(number); }

 private:
  std::string path_;
};

/// What groups.json says.
struct GroupsNote {
  int groups = 0, min_groups = 0;
  std::string lighthouse;  // http://127.0.0.1:29510
};
Result<Unit> write_note(const GroupsFolder& folder, const GroupsNote& note);
/// Return none if there is none.
std::optional<GroupsNote> read_note(const GroupsFolder& folder);

/// Return whether the folder is that of a run with replica groups.
bool has_groups(const std::string& path);
/// Return whether runs that are stored there are replica groups.
bool holds_groups(const std::string& storage_path);

/// Return the folder of the run with groups that a user names, by its path or by its name below
/// `storage_path`; none if there is no such run.
std::optional<std::string> find_groups(std::string given, const std::string& storage_path);
/// Return the folder of the group that RUN/1 names, and of group 0 for RUN; none if that is not
/// what `given` is.
std::optional<std::string> find_group(const std::string& given, const std::string& storage_path);

}  // namespace train
