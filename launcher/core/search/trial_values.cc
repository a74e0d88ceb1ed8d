#include "launcher/core/search/trial_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace train {
namespace {

constexpr std::size_t kShownMax = 100;  // of what a searcher writes

/// splitmix64: each bit of the result depends on each bit of x.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Return the value at `part` of the range, 0 to 1.
double within(const Parameter& parameter, double part) {
  double value = parameter.low * (1 - part) + parameter.high * part;
  if (parameter.kind == ParameterKind::LogUniform)
    value = std::exp(std::log(parameter.low) * (1 - part) + std::log(parameter.high) * part);
  return std::clamp(value, parameter.low, parameter.high);
}

std::uint64_t integers(const Parameter& parameter) {
  return static_cast<std::uint64_t>(parameter.greatest) -
         static_cast<std::uint64_t>(parameter.least) + 1;
}

std::int64_t from_least(const Parameter& parameter, std::uint64_t steps) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(parameter.least) + steps);
}

std::int64_t grid_points(const SearchSpec& spec) {
  std::int64_t points = 1;
  for (const Parameter& parameter : spec.parameters)
    points = std::min<std::int64_t>(points * grid_count(parameter), kTrialsMax + 1);
  return points;
}

}  // namespace

std::uint64_t random_bits(std::int64_t seed, int trial, const std::string& what) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : what) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return mixed(mixed(mixed(static_cast<std::uint64_t>(seed)) ^ static_cast<std::uint64_t>(trial)) ^
               hash);
}

double random_fraction(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

std::uint64_t number_below(std::uint64_t bits, std::uint64_t n) {
  if (n == 0) return bits;
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(bits) * n) >> 64);
}

boost::json::value drawn_value(const Parameter& parameter, std::uint64_t bits) {
  switch (parameter.kind) {
    case ParameterKind::Const:
      return parameter.values.front();
    case ParameterKind::Choice:
      return parameter.values[number_below(bits, parameter.values.size())];
    case ParameterKind::Uniform:
    case ParameterKind::LogUniform:
      return within(parameter, random_fraction(bits));
    case ParameterKind::Int:
      return from_least(parameter, number_below(bits, integers(parameter)));
  }
  return nullptr;
}

std::int64_t grid_count(const Parameter& parameter) {
  switch (parameter.kind) {
    case ParameterKind::Const:
    case ParameterKind::Choice:
      return static_cast<std::int64_t>(parameter.values.size());
    case ParameterKind::Uniform:
    case ParameterKind::LogUniform:
      return parameter.count;
    case ParameterKind::Int: {
      const std::uint64_t all = integers(parameter);
      const auto count = static_cast<std::uint64_t>(parameter.count);
      return static_cast<std::int64_t>(all == 0 ? count : std::min(count, all));
    }
  }
  return 0;
}

boost::json::value grid_value(const Parameter& parameter, std::int64_t place) {
  const std::int64_t count = grid_count(parameter);
  const double part =
      count == 1 ? 0.5 : static_cast<double>(place) / static_cast<double>(count - 1);
  switch (parameter.kind) {
    case ParameterKind::Const:
    case ParameterKind::Choice:
      return parameter.values[static_cast<std::size_t>(place)];
    case ParameterKind::Uniform:
    case ParameterKind::LogUniform:
      return place == 0 && count > 1           ? parameter.low
             : place == count - 1 && count > 1 ? parameter.high
                                               : within(parameter, part);
    case ParameterKind::Int: {
      if (place > 0 && place == count - 1) return parameter.greatest;
      const std::uint64_t steps = integers(parameter) - 1;
      return from_least(parameter, static_cast<std::uint64_t>(
                                       std::floor(part * static_cast<double>(steps) + 0.5)));
    }
  }
  return nullptr;
}

bool may_have(const Parameter& parameter, const boost::json::value& value) {
  switch (parameter.kind) {
    case ParameterKind::Const:
    case ParameterKind::Choice:
      return std::find(parameter.values.begin(), parameter.values.end(), value) !=
             parameter.values.end();
    case ParameterKind::Uniform:
    case ParameterKind::LogUniform:
      return value.is_number() && value.to_number<double>() >= parameter.low &&
             value.to_number<double>() <= parameter.high;
    case ParameterKind::Int:
      return value.is_int64() && value.as_int64() >= parameter.least &&
             value.as_int64() <= parameter.greatest;
  }
  return false;
}

Result<boost::json::object> proposed_values(const SearchSpec& spec,
                                            const boost::json::object& proposed) {
  boost::json::object values;
  std::size_t used = 0;
  for (const Parameter& parameter : spec.parameters) {
    const boost::json::value* given = proposed.if_contains(parameter.path);
    if (given == nullptr && parameter.kind == ParameterKind::Const) {
      values[parameter.path] = parameter.values.front();
      continue;
    }
    if (given == nullptr)
      return Error{Errc::InvalidArgument, fmt::format("\"{}\" is missing", parameter.path)};
    if (!may_have(parameter, *given))
      return Error{Errc::InvalidArgument,
                   fmt::format("\"{}\" has a value that the spec does not allow", parameter.path)};
    values[parameter.path] = *given;
    ++used;
  }
  if (used == proposed.size()) return values;
  for (const auto& [path, value] : proposed)
    if (!values.contains(path))
      return Error{Errc::InvalidArgument, fmt::format("\"{}\" is no parameter of the sweep",
                                                      std::string_view(path).substr(0, kShownMax))};
  return values;
}

std::int64_t trial_count(const SearchSpec& spec) {
  switch (spec.search) {
    case SearchKind::Single:
      return 1;
    case SearchKind::Random:
    case SearchKind::Command:
      return spec.num_trials;
    case SearchKind::Grid:
      return std::min<std::int64_t>(
          static_cast<std::int64_t>(spec.points.size()) + grid_points(spec) * spec.num_trials,
          kTrialsMax + 1);
  }
  return 0;
}

boost::json::object trial_values(const SearchSpec& spec, int trial) {
  boost::json::object values;
  const auto points = static_cast<int>(spec.points.size());
  const bool grid = spec.search == SearchKind::Grid;
  // The place in the grid as a number whose digits are the places of the parameters: the last
  // parameter is the lowest digit.
  std::int64_t rest = grid && trial >= points ? (trial - points) % grid_points(spec) : 0;
  std::vector<std::int64_t> places(spec.parameters.size());
  for (std::size_t i = spec.parameters.size(); grid && i-- > 0;) {
    const std::int64_t count = grid_count(spec.parameters[i]);
    places[i] = rest % count;
    rest /= count;
  }
  for (std::size_t i = 0; i < spec.parameters.size(); ++i) {
    const Parameter& parameter = spec.parameters[i];
    const boost::json::value* given =
        trial < points ? spec.points[static_cast<std::size_t>(trial)].if_contains(parameter.path)
                       : nullptr;
    values[parameter.path] =
        given != nullptr ? *given
        : grid           ? grid_value(parameter, places[i])
                         : drawn_value(parameter, random_bits(spec.seed, trial, parameter.path));
  }
  return values;
}

}  // namespace train
