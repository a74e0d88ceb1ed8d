// Decides which values each trial of a sweep has. Pure: a function of the spec and the trial's
// number alone, so that a sweep that is resumed, or slower, has the same trials. SearchController
// and `train-run sweep --preview` call it.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>

#include "launcher/core/search/search_spec.h"
#include "lib/base/result.h"

namespace train {

/// Return how many values a grid takes of the parameter.
std::int64_t grid_count(const Parameter& parameter);
/// Return the value at a place of the grid, 0 … grid_count() − 1: evenly spaced, both ends in.
boost::json::value grid_value(const Parameter& parameter, std::int64_t place);

/// Return how many trials the sweep has, unless some turn out to be invalid; at most kTrialsMax
/// + 1.
std::int64_t trial_count(const SearchSpec& spec);

/// Return whether the parameter may have this value.
bool may_have(const Parameter& parameter, const boost::json::value& value);

/// Return the values of a trial for which a searcher has proposed these. The error says what is
/// wrong with them: each parameter needs a value that it may have, but for constants.
Result<boost::json::object> proposed_values(const SearchSpec& spec,
                                            const boost::json::object& proposed);

/// Return the values of a trial: path → value. The first trials are the points. What a point leaves
/// out is drawn; of a grid it is the parameter's first value.
boost::json::object trial_values(const SearchSpec& spec, int trial);

/// Return 64 random bits for something of a trial, such as a parameter. They do not change with
/// anything else.
std::uint64_t random_bits(std::int64_t seed, int trial, const std::string& what);
/// Make random bits a number of [0, 1).
double random_fraction(std::uint64_t bits);
/// Make random bits a number of 0 … n − 1; n = 0 stands for 2^64.
std::uint64_t number_below(std::uint64_t bits, std::uint64_t n);
/// Return the value of the parameter that the bits draw.
boost::json::value drawn_value(const Parameter& parameter, std::uint64_t bits);

}  // namespace train
