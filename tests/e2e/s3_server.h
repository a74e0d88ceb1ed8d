// A real S3 server (moto) for one test, with an empty bucket "bucket", and faults in front of it on
// demand: programs/s3_server.py.
#pragma once

#include <map>
#include <string>

#include "tests/e2e/cluster.h"

namespace train::e2e {

class S3Server {
 public:
  /// Started, and listening.
  explicit S3Server(Cluster& cluster);

  bool available() const { return !url_.empty(); }
  const std::string& url() const { return url_; }  // "http://127.0.0.1:41234"
  /// What a program needs to reach it: AWS_ENDPOINT_URL and keys.
  std::map<std::string, std::string> environment() const;
  /// Rules as s3_server.py reads them, in force for all requests from now on.
  void faults(const std::string& rules) const;
  /// "METHOD path?query status" of each request so far.
  std::string requests() const;
  void kill() const;

 private:
  Cluster& cluster_;
  std::string rules_, url_;
  Process* process_ = nullptr;
};

}  // namespace train::e2e
