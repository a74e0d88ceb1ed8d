// A small DNS server on the hub of a Network: it has the A records of one name, which a test
// changes while others ask.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/netns.h"

namespace train::e2e {

class DnsServer {
 public:
  static constexpr const char* kName = "train.test";

  /// Listen on the hub's port 53. On failure, fail the test. `folder`: for files of its own.
  DnsServer(const Network& network, const std::string& folder);
  ~DnsServer();
  DnsServer(const DnsServer&) = delete;
  DnsServer& operator=(const DnsServer&) = delete;

  void set(std::vector<std::string> addresses);
  /// Answer nobody from now on, as if packets were lost.
  void fall_silent() { silent_ = true; }
  int questions() const { return questions_; }
  /// Return words before a command that have it ask this server, and nobody else.
  std::vector<std::string> used() const;

 private:
  void serve();
  std::string answer(const std::string& question);

  const std::string folder_;
  int socket_ = -1;
  std::atomic<bool> silent_ = false, ending_ = false;
  std::atomic<int> questions_ = 0;
  std::mutex mutex_;
  std::vector<std::string> addresses_;
  std::thread thread_;
};

}  // namespace train::e2e
