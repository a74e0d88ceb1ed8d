// A call of a function that the programs of ranks serve (train/serve.h), or of a command beside
// them, and what came of it. It reaches the launcher as JSON, from `train-run exec` through the
// run's folder, or from a driver. Pure.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/ids.h"
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace train {

inline constexpr Duration kCallTimeDefault = seconds(30);
inline constexpr Duration kCallTimeMax = std::chrono::hours(24);
/// How long a command that is killed may take to end, and its output to come.
inline constexpr Duration kCommandEndMax = seconds(5);
/// Limit on the results of all ranks together.
inline constexpr std::size_t kCallAnswersBytesMax = 8u << 20;

struct WorkerCall {
  std::string name = {};
  std::string argument = "null";  // a JSON value
  std::vector<Rank> ranks = {};   // empty: all
  Duration within = kCallTimeDefault;
  std::vector<std::string> command = {};  // instead of a function; empty: none
};

struct RankAnswer {
  Rank rank;
  std::string result = {};  // a JSON value
  std::string error = {};   // why there is none; empty: there is one
  std::string kind = {};    // of the error: see lib/model/worker_call.h
  bool operator==(const RankAnswer&) const = default;
};

struct CallAnswers {
  std::vector<RankAnswer> ranks = {};  // in their order
  std::string error = {};              // why nobody was called; else empty
  /// Of those whose function threw, the one that answered first. The others may have waited for it.
  std::optional<Rank> first_thrown = {};
  bool operator==(const CallAnswers&) const = default;
};

/// What a command has written, and how it ended: a rank's result, if the call was one.
struct CommandEnd {
  int exit_code = 0;
  std::string signal = {};  // that killed it, "SIGSEGV"; else empty
  bool timed_out = false;
  std::string out = {}, err = {};
  bool cut = false;  // it has written more
};
/// Read such a result. The error says that it is something else.
Result<CommandEnd> parse_command_end(std::string_view result);

/// Read a call from its members: name and argument, or run (the words of a command); ranks (a
/// list; absent: all), within_ms. The error says what is wrong.
Result<WorkerCall> parse_worker_call(const boost::json::object& members);
/// Return the members that parse_worker_call() reads.
boost::json::object to_json(const WorkerCall& call);

/// Return {"ranks": [{"rank", "result" or "error" and "kind"}]}, or {"error"}.
boost::json::object to_json(const CallAnswers& answers);
/// Add "result", or "error" and "kind".
void put_outcome(const RankAnswer& answer, boost::json::object& members);
/// Read what to_json() wrote. The error says that it is something else.
Result<CallAnswers> parse_call_answers(std::string_view text);

/// Parse a text with values of calls in it, each as deep as it may be.
boost::json::value parse_call_text(std::string_view text, boost::system::error_code& error);
/// Return the JSON value again as we write it. InvalidArgument if it is none, is nested more than
/// 31 deep, or has more than kCallValueBytesMax.
Result<std::string> checked_call_value(std::string_view text);

}  // namespace train
