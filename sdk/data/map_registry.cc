#include "sdk/data/map_registry.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>

#include "lib/model/built_in_maps.h"

namespace train {
namespace {

/// Never destroyed, as user threads may still read when main returns.
struct Registry {
  std::mutex mutex;
  std::map<std::string, sdk::RegisteredMap> by_name;
};
Registry& registry() {
  static Registry& all = *new Registry;
  return all;
}

/// Return whether a spec can have the name: launcher/spec's names.
bool is_name(const std::string& name) {
  constexpr std::string_view kAlphanumeric =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  return !name.empty() && name.size() <= 128 &&
         kAlphanumeric.find(name.front()) != std::string_view::npos &&
         name.find_first_not_of(std::string(kAlphanumeric) + "._-") == std::string::npos;
}

template <class Function>
void add(std::string_view registering, std::string name, Function map) {
  const auto refuse = [&](std::string_view why) {
    throw Failure("invalid_argument", fmt::format("{}(\"{}\"): {}", registering, name, why));
  };
  if (!is_name(name))
    refuse("use letters, digits, '.', '_' and '-', at most 128, a letter or digit first");
  if (built_in_map(name) != nullptr) refuse("a built-in map has this name");
  if (!map) refuse("the function is empty");
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (!all.by_name.try_emplace(name, std::move(map)).second)
    refuse("a map of this name is registered already");
}

}  // namespace

void register_map(std::string name, MapFunction map) {
  add("register_map", std::move(name), std::move(map));
}

void register_flat_map(std::string name, FlatMapFunction map) {
  add("register_flat_map", std::move(name), std::move(map));
}

namespace sdk {

RegisteredMap registered_map(const std::string& name) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_name.find(name);
  return found == all.by_name.end() ? RegisteredMap() : found->second;
}

std::vector<std::string> registered_maps() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::vector<std::string> names;
  for (const auto& [name, map] : all.by_name) names.push_back(name);
  return names;
}

void forget_maps() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.by_name.clear();
}

}  // namespace sdk
}  // namespace train
