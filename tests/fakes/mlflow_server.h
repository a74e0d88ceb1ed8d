// The part of MLflow's REST API that trainrun uses, in memory, with the rules of a real server: a
// metric's equal points are one, a param never changes, names and sizes have limits. Any thread may
// call.
#pragma once

#include <atomic>
#include <boost/json/object.hpp>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "lib/http_client/http_request.h"

namespace train::fakes {

class MlflowServer {
 public:
  using Point = std::tuple<std::int64_t, std::int64_t, std::string>;  // step, time, value
  struct Run {
    std::string experiment, name, status = "RUNNING";
    std::map<std::string, std::string> params, tags;
    std::map<std::string, std::set<Point>> metrics;
  };

  /// Answer a request.
  WebAnswer ask(const WebRequest& request);

  std::atomic<bool> away = false;           // it answers nothing
  std::atomic<bool> loses_answers = false;  // it does what it is asked, but no answer arrives

  std::map<std::string, Run> runs() const;
  std::map<std::string, std::string> files() const;  // path → content
  std::vector<std::string> asked() const;            // "POST runs/create"

 private:
  WebAnswer answer(const std::string& what, const WebRequest& request);
  WebAnswer batch(const boost::json::object& body);
  boost::json::object shown(const std::string& id) const;

  mutable std::mutex mutex_;  // protects all below
  std::map<std::string, std::string> experiments_{{"Default", "0"}};
  std::map<std::string, Run> runs_;
  std::map<std::string, std::string> files_;
  std::vector<std::string> asked_;
};

}  // namespace train::fakes
