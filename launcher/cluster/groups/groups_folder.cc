#include "launcher/cluster/groups/groups_folder.h"

#include <fmt/format.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <filesystem>

#include "launcher/cluster/children/child_folder.h"
#include "launcher/core/job_spec.h"
#include "lib/observe/append_file.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

constexpr std::uint64_t kNoteBytesMax = 4096;

int whole_in(const boost::json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  if (value == nullptr || !value->is_int64()) return 0;
  return value->as_int64() < 0 || value->as_int64() > kReplicaGroupsMax
             ? 0
             : static_cast<int>(value->as_int64());
}

}  // namespace

std::string GroupsFolder::group_name(int group) { return fmt::format("{:03}", group); }

Result<Unit> write_note(const GroupsFolder& folder, const GroupsNote& note) {
  return replace_file(folder.groups_json(),
                      boost::json::serialize(boost::json::object{{"replica_groups", note.groups},
                                                                 {"min_replicas", note.min_groups},
                                                                 {"lighthouse", note.lighthouse}}) +
                          "\n");
}

std::optional<GroupsNote> read_note(const GroupsFolder& folder) {
  PosixFileSystem files;
  const auto text = read_small_file(files, folder.groups_json(), kNoteBytesMax);
  boost::system::error_code ec;
  const auto json = boost::json::parse(text ? *text : "", ec);
  if (ec || !json.is_object()) return std::nullopt;
  GroupsNote note{.groups = whole_in(json.as_object(), "replica_groups"),
                  .min_groups = whole_in(json.as_object(), "min_replicas"),
                  .lighthouse = {}};
  const auto* lighthouse = json.as_object().if_contains("lighthouse");
  if (lighthouse != nullptr && lighthouse->is_string()) note.lighthouse = lighthouse->as_string();
  if (note.groups == 0) return std::nullopt;
  return note;
}

bool has_groups(const std::string& path) {
  std::error_code ec;
  return std::filesystem::is_regular_file(GroupsFolder(path).groups_json(), ec);
}

bool holds_groups(const std::string& storage_path) {
  return storage_path.ends_with("/groups") && has_groups(parent_path(storage_path));
}

std::optional<std::string> find_groups(std::string given, const std::string& storage_path) {
  return find_parent(std::move(given), storage_path, &has_groups);
}

std::optional<std::string> find_group(const std::string& given, const std::string& storage_path) {
  if (const auto run = find_groups(given, storage_path)) return GroupsFolder(*run).group(0);
  const auto name = child_name(given);
  if (!name) return std::nullopt;
  const auto run = find_groups(name->parent, storage_path);
  return run ? std::optional(GroupsFolder(*run).group(name->number)) : std::nullopt;
}

}  // namespace train
