#include "daemon/core/launcher_orders.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cmath>

namespace train {
namespace {

constexpr std::size_t kNameBytesMax = 1024, kRunIdBytesMax = 200;
constexpr std::int64_t kDayMs = 24LL * 3600 * 1000;
constexpr std::int64_t kYearMs = 366 * kDayMs;
constexpr double kAmountMax = 1e9;
constexpr std::uint64_t kMemoryBytesMax = std::uint64_t{1} << 60;
constexpr std::size_t kCustomMax = 1000;
constexpr std::int32_t kWorkersMax = 100000;
constexpr std::size_t kArgumentsMax = 1000;
constexpr std::size_t kRolesMax = 64;
constexpr std::uint64_t kOutputBytesMin = 4096;

template <class Number>
Result<Unit> within_bounds(std::string_view field, Number value, Number least, Number most) {
  if (value >= least && value <= most) return Unit{};  // a NaN is never within bounds
  return Error{Errc::InvalidArgument,
               fmt::format("{} is {}, but must be from {} to {}", field, value, least, most),
               "is that launcher of another version?"};
}

Result<Unit> check_name(std::string_view field, const std::string& value) {
  return within_bounds<std::size_t>(fmt::format("the length of {}", field), value.size(), 1,
                                    kNameBytesMax);
}

bool may_stand_in_run_id(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

Result<Unit> check_amounts(const Resources& amounts) {
  TRY_VOID(within_bounds("CPU", amounts.cpu, 0.0, kAmountMax));
  TRY_VOID(within_bounds("GPU", amounts.gpu, 0.0, kAmountMax));
  TRY_VOID(within_bounds<std::uint64_t>("memory", amounts.memory_bytes, 0, kMemoryBytesMax));
  TRY_VOID(
      within_bounds<std::size_t>("the number of resources", amounts.custom.size(), 0, kCustomMax));
  for (const auto& [name, value] : amounts.custom) {
    TRY_VOID(within_bounds<std::size_t>("the length of a resource's name", name.size(), 0,
                                        kNameBytesMax));
    TRY_VOID(within_bounds("a resource", value, 0.0, kAmountMax));
  }
  return Unit{};
}

Result<Unit> check_gpus(const std::vector<std::string>& gpus) {
  for (const std::string& gpu : gpus)
    TRY_VOID(
        within_bounds<std::size_t>("the length of a GPU's name", gpu.size(), 1, kNameBytesMax));
  return within_bounds<std::size_t>("the number of GPUs", gpus.size(), 0, kWorkersMax);
}

}  // namespace

bool is_run_id(std::string_view text) {
  return !text.empty() && text.size() <= kRunIdBytesMax && text.front() != '.' &&
         std::all_of(text.begin(), text.end(), may_stand_in_run_id);
}

Result<Unit> check_order(const AttachRun& message) {
  if (!is_run_id(message.run_id))
    return Error{Errc::InvalidArgument, "run_id is invalid: it must be usable as a folder name",
                 "is that launcher of another version?"};
  TRY_VOID(check_name("run_name", message.run_name));
  TRY_VOID(within_bounds<std::size_t>("the length of user", message.user.size(), 0, kNameBytesMax));
  TRY_VOID(within_bounds<std::size_t>("the length of submitter", message.submitter.size(), 0,
                                      kNameBytesMax));
  TRY_VOID(within_bounds<std::int64_t>("heartbeat_ms", message.heartbeat_ms, 1, kDayMs));
  TRY_VOID(within_bounds<std::int64_t>("dead_after_ms", message.dead_after_ms, 1, kDayMs));
  return within_bounds<std::int64_t>("orphan_timeout_ms", message.orphan_timeout_ms, 0, kYearMs);
}

Result<Unit> check_order(const SupervisorHello& message) {
  TRY_VOID(check_amounts(message.claimed));
  TRY_VOID(check_gpus(message.gpus));
  return within_bounds<std::size_t>("the number of bindings", message.bindings.size(), 0,
                                    kWorkersMax);
}

Result<Unit> check_order(const PrepareAttempt& message) {
  TRY_VOID(within_bounds("local_world_size", message.local_world_size, 0, kWorkersMax));
  TRY_VOID(within_bounds("node_rank", message.node_rank, 0, kWorkersMax));
  TRY_VOID(within_bounds<std::size_t>("the length of code", message.code.size(), 0, PATH_MAX));
  TRY_VOID(within_bounds("replicas", message.replicas, 0, kWorkersMax));
  TRY_VOID(check_amounts(message.per_worker));
  TRY_VOID(check_amounts(message.ingest));
  TRY_VOID(
      within_bounds<std::size_t>("the number of roles", message.other_roles.size(), 0, kRolesMax));
  std::int32_t workers = message.local_world_size;
  for (const RoleClaim& role : message.other_roles) {
    TRY_VOID(within_bounds("workers of a role", role.workers, 0, kWorkersMax));
    TRY_VOID(check_amounts(role.per_worker));
    workers += role.workers;
  }
  TRY_VOID(within_bounds("the number of workers", workers, 0, kWorkersMax));
  TRY_VOID(check_gpus(message.gpu_choice));
  TRY_VOID(within_bounds<std::int64_t>("stop_grace_ms", message.stop_grace_ms, 0, kYearMs));
  TRY_VOID(within_bounds<std::int64_t>("upload_timeout_ms", message.upload_timeout_ms, 0, kYearMs));
  return within_bounds("output_bytes_max", message.output_bytes_max, kOutputBytesMin,
                       std::uint64_t{1} << 50);
}

Result<Unit> check_order(const ClaimRoom& message) {
  TRY_VOID(within_bounds("workers", message.workers, 0, kWorkersMax));
  TRY_VOID(within_bounds("workers_here", message.workers_here, 0, kWorkersMax));
  TRY_VOID(within_bounds("priority", message.place.priority, -kPriorityMax, kPriorityMax));
  TRY_VOID(within_bounds("share", message.place.share, 0, kShareMax));
  TRY_VOID(check_gpus(message.gpu_choice));
  TRY_VOID(check_amounts(message.per_worker));
  return check_amounts(message.ingest);
}

Result<Unit> check_order(const PrepareFailover& message) {
  TRY_VOID(within_bounds<std::size_t>("the number of arguments", message.arguments.size(), 1,
                                      kArgumentsMax));
  TRY_VOID(
      within_bounds<std::size_t>("the length of run_dir", message.run_dir.size(), 1, PATH_MAX));
  TRY_VOID(within_bounds<std::size_t>("the length of storage_mark", message.storage_mark.size(), 1,
                                      kNameBytesMax));
  return within_bounds<std::int64_t>("wait_ms", message.wait_ms, 1000, kYearMs);
}

}  // namespace train
