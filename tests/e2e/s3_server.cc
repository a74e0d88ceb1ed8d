#include "tests/e2e/s3_server.h"

#include <csignal>

namespace train::e2e {

S3Server::S3Server(Cluster& cluster) : cluster_(cluster), rules_(cluster.path("s3.rules")) {
  const std::string python = tools_python();
  if (python.empty()) return;
  process_ = &cluster_.start({python, TRAIN_SOURCE_DIR "/tests/e2e/programs/s3_server.py",
                              cluster_.write("s3.rules", "[]")});
  const bool up =
      wait_until([&] { return contains(process_->out(), "\n") || !process_->running(); });
  if (!up || !process_->running()) return;
  const std::string line = process_->out();
  url_ = line.substr(0, line.find('\n'));
}

std::map<std::string, std::string> S3Server::environment() const {
  return {{"AWS_ENDPOINT_URL", url_},
          {"AWS_ACCESS_KEY_ID", "AKIATEST"},
          {"AWS_SECRET_ACCESS_KEY", "not+a/secret"},
          {"AWS_REGION", "us-east-1"}};
}

void S3Server::faults(const std::string& rules) const { cluster_.write("s3.rules", rules); }

std::string S3Server::requests() const { return cluster_.read(rules_ + ".log"); }

void S3Server::kill() const { process_->signal(SIGKILL); }

}  // namespace train::e2e
