#include "tests/e2e/object_server.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <vector>

#include "lib/storage/object_store.h"

namespace train::e2e {
namespace {

struct Program {
  const char *test_name, *file, *bucket;
};

Program program_of(StoreKind kind) {
  switch (kind) {
    case StoreKind::S3:
      return {"S3", "s3_server.py", "s3://bucket"};
    case StoreKind::Gcs:
      return {"Gcs", "gcs_server.py", "gs://bucket"};
    case StoreKind::Hdfs:
      return {"Hdfs", "hdfs_server.py", ""};
  }
  return {};
}

struct Closed : ::testing::Environment {
  void TearDown() override { close_object_stores(); }
};
const auto* const closed = ::testing::AddGlobalTestEnvironment(new Closed);

}  // namespace

std::string name_of(StoreKind kind) { return program_of(kind).test_name; }

ObjectServer::ObjectServer(Cluster& cluster, StoreKind kind)
    : cluster_(cluster), kind_(kind), rules_(cluster.path("store.rules")) {
  const std::string python = tools_python(), hadoop = TRAIN_DEPS_DIR "/hadoop-2.7.3";
  if (python.empty() || (kind == StoreKind::Hdfs && !std::filesystem::exists(hadoop))) return;
  std::vector<std::string> command = {
      python, std::string(TRAIN_SOURCE_DIR "/tests/e2e/programs/") + program_of(kind).file};
  if (kind == StoreKind::Hdfs)
    command.insert(command.end(), {hadoop, cluster.path("hdfs")});
  else
    command.push_back(cluster.write("store.rules", "[]"));
  process_ = &cluster_.start(command);
  const bool up =
      wait_until([&] { return contains(process_->out(), "\n") || !process_->running(); });
  if (!up || !process_->running()) {
    ADD_FAILURE() << "no server: " << process_->err();
    return;
  }
  const std::string line = process_->out().substr(0, process_->out().find('\n'));
  if (kind == StoreKind::Hdfs) {
    const boost::json::value said = boost::json::parse(line);
    url_ = said.at("url").as_string();
    for (const auto& [name, value] : said.at("environment").as_object())
      environment_[name] = value.as_string();
    return;
  }
  url_ = line;
  environment_ = {{"STORAGE_EMULATOR_HOST", url_}};
  if (kind == StoreKind::S3)
    environment_ = {{"AWS_ENDPOINT_URL", url_},
                    {"AWS_ACCESS_KEY_ID", "AKIATEST"},
                    {"AWS_SECRET_ACCESS_KEY", "not+a/secret"},
                    {"AWS_REGION", "us-east-1"}};
}

std::string ObjectServer::location(const std::string& folder) const {
  const std::string bucket = kind_ == StoreKind::Hdfs ? url_ : program_of(kind_).bucket;
  return bucket + "/" + folder;
}

void ObjectServer::faults(const std::string& rules) const { cluster_.write("store.rules", rules); }

std::string ObjectServer::requests() const { return cluster_.read(rules_ + ".log"); }

void ObjectServer::signal(int number) const { process_->signal(number); }

}  // namespace train::e2e
