#include "launcher/cluster/run/worker_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <type_traits>

#include "lib/model/worker_call.h"

namespace train {
namespace {

namespace json = boost::json;
constexpr std::int64_t kRanksMax = 1 << 20;
constexpr std::size_t kValueDepthMax = 31;  // as in the SDK
constexpr std::size_t kTextDepthMax = 64;   // of what a value is put into

Error wrong(std::string message) { return {Errc::InvalidArgument, std::move(message)}; }

Result<std::vector<Rank>> parse_ranks(const json::value& list) {
  if (!list.is_array() || list.as_array().empty())
    return wrong("'ranks' of a call is a list of ranks; leave it out to call all");
  std::vector<Rank> ranks;
  for (const json::value& one : list.as_array()) {
    if (!one.is_int64() || one.as_int64() < 0 || one.as_int64() >= kRanksMax)
      return wrong(fmt::format("'ranks' of a call holds {}, which is no rank",
                               json::serialize(one).substr(0, 40)));
    ranks.push_back(Rank{static_cast<std::int32_t>(one.as_int64())});
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace

json::value parse_call_text(std::string_view text, boost::system::error_code& error) {
  json::parse_options options;
  options.max_depth = kTextDepthMax;
  return json::parse({text.data(), text.size()}, error, {}, options);
}

Result<std::string> checked_call_value(std::string_view text) {
  if (text.size() > kCallValueBytesMax)
    return wrong(
        fmt::format("has {} bytes of JSON, and may have {}", text.size(), kCallValueBytesMax));
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = kValueDepthMax;
  const json::value value = json::parse({text.data(), text.size()}, error, {}, options);
  if (error) return wrong("is no JSON value: " + error.message());
  return json::serialize(value);
}

/// Read what is called: a function.
Result<Unit> read_function(const json::object& members, WorkerCall& call) {
  const json::value* name = members.if_contains("name");
  if (name == nullptr || !name->is_string() || !is_call_name(std::string_view(name->as_string())))
    return wrong(
        fmt::format("a call has the 'name' of a function: up to {} letters, digits and "
                    "_-.:/",
                    kCallNameBytesMax));
  call.name = std::string(name->as_string());
  if (const json::value* argument = members.if_contains("argument")) {
    auto checked = checked_call_value(json::serialize(*argument));
    if (!checked) return std::move(checked).error().with_context("'argument' of a call");
    call.argument = std::move(*checked);
  }
  return Unit{};
}

/// Read what is called: a command.
Result<Unit> read_command(const json::object& members, WorkerCall& call) {
  const json::value& words = members.at("run");
  if (members.contains("name") || members.contains("argument"))
    return wrong("a call has either a command to 'run' or the 'name' of a function");
  std::size_t bytes = 0;
  if (words.is_array())
    for (const json::value& word : words.as_array()) {
      if (!word.is_string() || word.as_string().find('\0') != json::string::npos) break;
      bytes += word.as_string().size() + 1;
      call.command.emplace_back(word.as_string());
    }
  if (call.command.empty() || call.command.front().empty() ||
      call.command.size() != words.as_array().size())
    return wrong("'run' of a call is a list of the words of a command");
  if (bytes > kCommandBytesMax)
    return wrong(
        fmt::format("'run' of a call has {} bytes, and may have {}", bytes, kCommandBytesMax));
  return Unit{};
}

Result<WorkerCall> parse_worker_call(const json::object& members) {
  WorkerCall call;
  TRY_VOID(members.contains("run") ? read_command(members, call) : read_function(members, call));
  if (const json::value* ranks = members.if_contains("ranks"); ranks && !ranks->is_null()) {
    TRY(call.ranks, parse_ranks(*ranks));
  }
  if (const json::value* within = members.if_contains("within_ms")) {
    const std::int64_t max = std::chrono::duration_cast<milliseconds>(kCallTimeMax).count();
    if (!within->is_int64() || within->as_int64() < 1 || within->as_int64() > max)
      return wrong(fmt::format("'within_ms' of a call is a whole number from 1 to {}", max));
    call.within = milliseconds(within->as_int64());
  }
  return call;
}

json::object to_json(const WorkerCall& call) {
  json::object members{
      {"within_ms", std::chrono::duration_cast<milliseconds>(call.within).count()}};
  if (call.command.empty()) {
    members["name"] = call.name;
    members["argument"] = json::parse(call.argument);
  } else {
    members["run"] = json::array(call.command.begin(), call.command.end());
  }
  if (call.ranks.empty()) return members;
  json::array ranks;
  for (const Rank rank : call.ranks) ranks.push_back(rank.value);
  members["ranks"] = std::move(ranks);
  return members;
}

void put_outcome(const RankAnswer& answer, json::object& members) {
  if (answer.error.empty()) {
    members["result"] = json::parse(answer.result);
  } else {
    members["error"] = answer.error;
    members["kind"] = answer.kind;
  }
}

json::object to_json(const CallAnswers& answers) {
  if (!answers.error.empty()) return {{"error", answers.error}};
  json::array ranks;
  for (const RankAnswer& answer : answers.ranks) {
    json::object one{{"rank", answer.rank.value}};
    put_outcome(answer, one);
    ranks.push_back(std::move(one));
  }
  return {{"ranks", std::move(ranks)}};
}

Result<CallAnswers> parse_call_answers(std::string_view text) {
  const auto unreadable = [] { return wrong("its launcher's answer cannot be read"); };
  boost::system::error_code error;
  const json::value value = parse_call_text(text, error);
  if (error || !value.is_object()) return unreadable();
  CallAnswers answers;
  if (const json::value* why = value.as_object().if_contains("error"); why && why->is_string())
    answers.error = std::string(why->as_string());
  const json::value* ranks = value.as_object().if_contains("ranks");
  if (ranks == nullptr || !ranks->is_array())
    return answers.error.empty() ? unreadable() : Result<CallAnswers>(std::move(answers));
  for (const json::value& one : ranks->as_array()) {
    const json::object* members = one.if_object();
    const json::value* rank = members == nullptr ? nullptr : members->if_contains("rank");
    if (rank == nullptr || !rank->is_int64() || rank->as_int64() < 0 ||
        rank->as_int64() >= kRanksMax)
      return unreadable();
    RankAnswer answer{.rank = Rank{static_cast<std::int32_t>(rank->as_int64())}};
    const json::value *result = members->if_contains("result"),
                      *why = members->if_contains("error");
    if (result != nullptr)
      answer.result = json::serialize(*result);
    else if (why != nullptr && why->is_string() && !why->as_string().empty())
      answer.error = std::string(why->as_string());
    else
      return unreadable();
    const json::value* kind = members->if_contains("kind");
    if (kind != nullptr && kind->is_string()) answer.kind = std::string(kind->as_string());
    answers.ranks.push_back(std::move(answer));
  }
  return answers;
}

Result<CommandEnd> parse_command_end(std::string_view result) {
  boost::system::error_code error;
  const json::value value = parse_call_text(result, error);
  const json::object* members = error ? nullptr : value.if_object();
  const auto text = [&](std::string_view name, std::string& to) {
    const json::value* found = members->if_contains(name);
    if (found == nullptr || !found->is_string()) return false;
    to = std::string(found->as_string());
    return true;
  };
  CommandEnd end;
  const auto number = [&](std::string_view name, auto& to) {
    const json::value* found = members->if_contains(name);
    if (found == nullptr) return false;
    to = found->to_number<std::remove_reference_t<decltype(to)>>(error);
    return !error;
  };
  const bool whole = members != nullptr && text("stdout", end.out) && text("stderr", end.err) &&
                     (number("exit_code", end.exit_code) || text("signal", end.signal));
  if (!whole) return wrong("its node answers as if to a function: its traind is too old");
  end.cut = members->contains("cut");
  end.timed_out = members->contains("timed_out");
  return end;
}

}  // namespace train
