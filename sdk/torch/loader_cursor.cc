#include "sdk/torch/loader_cursor.h"

#include <train/checkpoint.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "sdk/client/session.h"
#include "sdk/torch/failure.h"

namespace train::sdk {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::size_t kNameMax = 64;

/// The names of this process. Like the session, there is one for all. Never destroyed, because
/// loaders may live until the process ends.
struct Names {
  struct Entry {
    bool taken = false;
    std::optional<SamplerState> last = {};  // a later loader of the name continues there
    std::shared_ptr<const Dict> order = {};
  };
  std::mutex mutex;
  std::map<std::string, Entry> entries;
};
Names& names() {
  static Names& all = *[] {
    at_run_end(forget_loader_cursors);
    return new Names;
  }();
  return all;
}

std::string key_of(const std::string& name) { return "loader/" + name; }

void check_name(const std::string& name) {
  const bool fits = name.size() <= kNameMax && std::all_of(name.begin(), name.end(), [](char c) {
                      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                             (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
                    });
  if (fits) return;
  raise(Error{Errc::InvalidArgument,
              "a loader's name is \"" + name.substr(0, kNameMax) +
                  "\", and must be at most 64 letters, digits, '_', '-' and '.'"});
}

Dict order_of(const SamplerState& at) {
  return {{"version", kVersion},
          {"rows", static_cast<std::int64_t>(at.rows)},
          {"shuffle", at.shuffle},
          {"seed", static_cast<std::int64_t>(at.seed)}};
}

std::size_t count_in(const Config& entry, const std::string& key) {
  const auto count = entry.get<std::int64_t>(key);
  if (count < 0) throw Failure("corrupt", key + " is " + std::to_string(count));
  return static_cast<std::size_t>(count);
}

SamplerState read_cursor(const Value& value) {
  const Config entry(value.as<Dict>());
  const Config order(entry.get<Dict>("order"));
  const auto version = order.get<std::int64_t>("version");
  if (version != kVersion) {
    raise(Error{Errc::InvalidArgument,
                "it has version " + std::to_string(version) + ", and this program knows version " +
                    std::to_string(kVersion),
                "build the program with a newer SDK"});
  }
  return {.epoch = static_cast<std::uint64_t>(entry.get<std::int64_t>("epoch")),
          .rows_done = count_in(entry, "rows"),
          .rows = count_in(order, "rows"),
          .shuffle = order.get<bool>("shuffle"),
          .seed = static_cast<std::uint64_t>(order.get<std::int64_t>("seed"))};
}

std::optional<SamplerState> restored(const std::string& name) {
  const auto checkpoint = get_checkpoint();
  if (!checkpoint) return std::nullopt;
  const auto cursors = checkpoint->metadata().find(kPositionsKey);
  if (cursors == checkpoint->metadata().end() || !cursors->second.is_dict()) return std::nullopt;
  const Dict all = cursors->second.as<Dict>();
  const auto mine = all.find(key_of(name));
  if (mine == all.end()) return std::nullopt;
  return guarded("the checkpoint's position of loader '" + name + "'",
                 [&] { return read_cursor(mine->second); });
}

}  // namespace

LoaderCursor::LoaderCursor(const std::string& name) : name_(name) {
  check_name(name);
  const std::lock_guard lock(names().mutex);
  Names::Entry& entry = names().entries[name];
  if (entry.taken) {
    raise(Error{Errc::InvalidArgument, "two loaders have the name '" + name + "'",
                "give each its own"});
  }
  entry.taken = true;
}

LoaderCursor::~LoaderCursor() {
  const std::lock_guard lock(names().mutex);
  names().entries[name_].taken = false;
}

std::optional<SamplerState> LoaderCursor::start() const {
  {
    const std::lock_guard lock(names().mutex);
    if (const auto& last = names().entries[name_].last) return last;
  }
  return restored(name_);
}

void LoaderCursor::tell(const SamplerState& at) {
  const std::lock_guard lock(names().mutex);
  Names::Entry& entry = names().entries[name_];
  const bool same_order = entry.last && entry.last->rows == at.rows &&
                          entry.last->shuffle == at.shuffle && entry.last->seed == at.seed;
  if (!same_order) entry.order = std::make_shared<const Dict>(order_of(at));
  entry.last = at;
  set_data_position(key_of(name_),
                    {at.epoch, static_cast<std::int64_t>(at.rows_done), entry.order});
}

void forget_loader_cursors() {
  const std::lock_guard lock(names().mutex);
  names().entries.clear();
}

}  // namespace train::sdk
