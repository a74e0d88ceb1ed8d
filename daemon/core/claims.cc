#include "daemon/core/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace train {
namespace {

constexpr double kSlack = 1e-6;  // claims may be fractions such as 0.1

/// Add a claim to `sum`, but for what the user has named.
void add_known(Resources& sum, const Resources& claim, double times) {
  sum.cpu += times * claim.cpu;
  sum.gpu += times * claim.gpu;
  const auto memory =
      static_cast<double>(sum.memory_bytes) + times * static_cast<double>(claim.memory_bytes);
  constexpr double kMost = 1e18;  // the most bytes that we count; requests have bounds too
  sum.memory_bytes = memory <= 0 ? 0 : static_cast<std::uint64_t>(std::min(memory, kMost));
}

/// Return the resources that `of` returns for the amounts of `a` and `b`, as far as `a` names them.
template <class Of>
Resources each(const Resources& a, const Resources& b, const Of& of) {
  Resources result{of(a.cpu, b.cpu), of(a.gpu, b.gpu), of(a.memory_bytes, b.memory_bytes), {}};
  for (const auto& [name, value] : a.custom) {
    const auto found = b.custom.find(name);
    result.custom[name] = of(value, found == b.custom.end() ? 0.0 : found->second);
  }
  return result;
}

}  // namespace

Resources claim_of(const Resources& per_worker, std::int32_t workers) {
  Resources sum;
  add_known(sum, per_worker, workers);
  if (per_worker.gpu > 0 && per_worker.gpu < 1 && workers > 0)
    sum.gpu = static_cast<double>(first_gpu_of(per_worker, workers - 1) + 1);
  for (const auto& [name, value] : per_worker.custom) sum.custom[name] = workers * value;
  return sum;
}

Resources claim_of(const PrepareAttempt& message) {
  Resources sum = claim_of(message.per_worker, message.local_world_size);
  for (const RoleClaim& role : message.other_roles) {
    const Resources claim = claim_of(role.per_worker, role.workers);
    add_known(sum, claim, 1);
    for (const auto& [name, value] : claim.custom) sum.custom[name] += value;
  }
  add(sum, message.ingest);
  return sum;
}

std::size_t first_gpu_of(const Resources& per_worker, std::int32_t local_rank) {
  const double gpu = std::max(0.0, per_worker.gpu);
  const auto rank = static_cast<std::size_t>(std::max(0, local_rank));
  if (gpu >= 1 || gpu == 0) return rank * static_cast<std::size_t>(std::min(gpu, 1e6));
  const double sharers = std::floor(1 / std::max(gpu, 1e-6) + kSlack);
  return rank / static_cast<std::size_t>(sharers);
}

void add(Resources& sum, const Resources& claim) { add_known(sum, claim, 1); }

void take(Resources& free, const Resources& claim) {
  add_known(free, claim, -1);
  for (auto& [name, value] : free.custom) {
    if (const auto found = claim.custom.find(name); found != claim.custom.end())
      value -= found->second;
  }
}

Resources beyond(const Resources& wanted, const Resources& has) {
  return each(wanted, has, [](auto a, auto b) { return a > b ? a - b : decltype(a){}; });
}

Resources larger(const Resources& a, const Resources& b) {
  return each(a, b, [](auto x, auto y) { return std::max(x, y); });
}

Resources smaller(const Resources& a, const Resources& b) {
  return each(a, b, [](auto x, auto y) { return std::min(x, y); });
}

std::size_t whole_gpus(const Resources& claim) {
  return static_cast<std::size_t>(std::ceil(std::max(0.0, claim.gpu - kSlack)));
}

std::string lack_of(const Resources& wanted, const Resources& free) {
  if (wanted.cpu > free.cpu + kSlack)
    return fmt::format("CPU {:g} wanted, {:g} free", wanted.cpu, free.cpu);
  if (wanted.gpu > free.gpu + kSlack)
    return fmt::format("GPU {:g} wanted, {:g} free", wanted.gpu, free.gpu);
  if (wanted.memory_bytes > free.memory_bytes) {
    return fmt::format("memory {} MiB wanted, {} MiB free", wanted.memory_bytes >> 20,
                       free.memory_bytes >> 20);
  }
  for (const auto& [name, value] : wanted.custom) {
    const auto found = free.custom.find(name);
    const double has = found == free.custom.end() ? 0 : found->second;
    if (value > has + kSlack) return fmt::format("{} {:g} wanted, {:g} free", name, value, has);
  }
  return "";
}

}  // namespace train
