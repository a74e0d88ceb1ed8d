// What a driver says to call its workers, and what it hears of that (docs/driver.md). Pure.
#pragma once

#include <train/trainer.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace train::trainer {

/// Return the line that asks train-run for a call. Throws Failure("invalid_argument") if it cannot
/// be sent.
std::string call_line(std::int64_t id, const std::string& name, const Value& argument,
                      const CallOptions& options);

/// Collects the answers to one call.
class CallAnswers {
 public:
  explicit CallAnswers(std::int64_t id) : id_(id) {}
  /// Take an event in if it belongs to this call; return whether it does.
  bool take(const Dict& event);
  bool complete() const { return complete_; }
  /// Return whether a rank has no result because its worker has ended, or because the function
  /// threw.
  bool failed() const { return !errors_.empty() || !error_.empty(); }
  bool has_lost() const;  // any rank
  bool has_thrown(int rank) const;
  /// Return which rank's function threw first, if any.
  std::optional<int> first_thrown() const { return first_thrown_; }
  /// Return the results by rank; throws CallFailed if a rank has none. It names the
  /// rank that threw first if the others may have ended with it, else the lowest.
  std::map<int, Value> results(const std::string& name, bool ends_worker) &&;

 private:
  const std::int64_t id_;
  bool complete_ = false;
  std::map<int, Value> results_;
  std::map<int, std::string> errors_;
  std::map<int, std::string> kinds_;
  std::string error_;                // why nobody was called
  std::optional<int> first_thrown_;  // of the ranks whose function threw
};

}  // namespace train::trainer
