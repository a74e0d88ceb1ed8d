// Which setups of a run have succeeded: records for the journal, and the fold over them. Any text
// may be in the records. Pure.
#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <map>
#include <string>

namespace train {

/// Return the record that the run's setup has succeeded.
boost::json::object run_setup_record();
/// Return the record that per_node_setup has succeeded on a node, in this life of it.
boost::json::object node_setup_record(const std::string& node, const std::string& life);

class SetupHistory {
 public:
  static constexpr std::size_t kNodesMax = 65'536;

  /// Take in a record of the journal. All others are skipped.
  void add(const boost::json::object& event);
  /// Return whether the run's setup has succeeded.
  bool run_done() const { return run_done_; }
  /// Return the life of the node in which it has succeeded; empty: in none.
  std::string life_of(const std::string& node) const;

 private:
  bool run_done_ = false;
  std::map<std::string, std::string> nodes_;  // the newest life of each
};

}  // namespace train
