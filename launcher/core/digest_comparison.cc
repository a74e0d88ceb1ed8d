#include "launcher/core/digest_comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace train {
namespace {

constexpr std::size_t kGroupsMax = 32;  // the last one has all others, too
constexpr std::size_t kShownMax = 6;    // of names, and of differences

std::string some(const std::vector<std::string>& texts, std::string_view between) {
  const std::size_t shown = std::min(texts.size(), kShownMax);
  std::string text = fmt::format(
      "{}", fmt::join(texts.begin(), texts.begin() + static_cast<long>(shown), between));
  if (texts.size() > shown) text += fmt::format("{}{} more", between, texts.size() - shown);
  return text;
}

std::map<std::string, std::string> by_name(const NodeDigests& digests) {
  std::map<std::string, std::string> files;
  for (const FileDigest& file : digests.files) files.emplace(file.name, file.digest);
  return files;
}

void compare_versions(std::vector<std::string>& differences, std::string_view what,
                      const std::string& there, const std::string& usual) {
  if (there == usual) return;
  const auto shown = [](const std::string& version) { return version.empty() ? "none" : version; };
  differences.push_back(fmt::format("{} {}, not {}", what, shown(there), shown(usual)));
}

/// Return "./train is another file", ….
std::vector<std::string> differences_of(const NodeDigests& there, const NodeDigests& usual) {
  std::vector<std::string> differences;
  const auto theirs = by_name(there), ours = by_name(usual);
  for (const auto& [name, digest] : theirs) {
    const auto other = ours.find(name);
    if (other == ours.end())
      differences.push_back(fmt::format("{} is only there", name));
    else if (other->second != digest)
      differences.push_back(fmt::format("{} is another one", name));
  }
  for (const auto& [name, digest] : ours)
    if (!theirs.contains(name)) differences.push_back(fmt::format("{} is not there", name));
  compare_versions(differences, "NVIDIA's driver is", there.driver, usual.driver);
  compare_versions(differences, "NCCL is", there.nccl, usual.nccl);
  return differences;
}

}  // namespace

void DigestComparison::add(NodeId node, const std::string& name, NodeDigests digests) {
  if (digests.files.empty()) {  // it does not know
    silent_.emplace_back(node, name);
    return;
  }
  for (FileDigest& file : digests.files) file.path.clear();  // it may be elsewhere
  auto group = std::find_if(groups_.begin(), groups_.end(),
                            [&](const Group& one) { return one.digests == digests; });
  if (group == groups_.end() && groups_.size() < kGroupsMax)
    group = groups_.insert(group, Group{std::move(digests), {}});
  if (group == groups_.end()) --group;
  group->nodes.emplace_back(node, name);
}

/// Nothing is known of a node whose files could not be read: it may run anything.
void DigestComparison::add_silent(Finding& finding, DigestCheck check) const {
  const bool alone = groups_.empty() && silent_.size() == 1;
  const bool all = groups_.empty() && check != DigestCheck::Refuse;
  if (silent_.empty() || alone || all) return;
  std::vector<std::string> names;
  for (const auto& [node, name] : silent_) names.push_back(name);
  finding.node = std::min_element(silent_.begin(), silent_.end())->first;
  finding.texts.push_back(
      fmt::format("{} did not tell what {} would run: the program is not there, or its files could "
                  "not be read in time",
                  some(names, ", "), names.size() == 1 ? "it" : "they"));
}

DigestComparison::Finding DigestComparison::finding(DigestCheck check) const {
  Finding finding;
  add_silent(finding, check);
  if (groups_.empty()) return finding;
  const auto first = [](const Group& group) {
    return std::min_element(group.nodes.begin(), group.nodes.end())->first;
  };
  std::vector<const Group*> groups;
  for (const Group& group : groups_) groups.push_back(&group);
  std::sort(groups.begin(), groups.end(),
            [&](const Group* a, const Group* b) { return first(*a) < first(*b); });
  const Group& usual = **std::max_element(
      groups.begin(), groups.end(),
      [](const Group* a, const Group* b) { return a->nodes.size() < b->nodes.size(); });
  for (const Group* group : groups) {
    std::vector<std::string> names, lacks;
    for (const auto& [node, name] : group->nodes) names.push_back(name);
    for (const MissingLibrary& missing : group->digests.missing)
      lacks.push_back(fmt::format("{}, which {} needs", missing.soname, missing.needed_by));
    std::string text;
    if (group != &usual)
      text = fmt::format("{} would not run the same as {}: {}", some(names, ", "),
                         usual.nodes.front().second,
                         some(differences_of(group->digests, usual.digests), ", "));
    if (!lacks.empty())
      text += fmt::format("{}{} {} not have {}", text.empty() ? "" : "; ", some(names, ", "),
                          names.size() == 1 ? "does" : "do", some(lacks, ", "));
    if (text.empty()) continue;
    if (finding.texts.empty()) finding.node = first(*group);
    finding.texts.push_back(std::move(text));
  }
  return finding;
}

}  // namespace train
