// A real object store for one test, with an empty bucket, and faults in front of it on demand. At
// the end of the program, stores that were opened are closed.
#pragma once

#include <map>
#include <string>

#include "tests/e2e/cluster.h"

namespace train::e2e {

enum class StoreKind { S3, Gcs, Hdfs };
/// For names of tests: "S3".
std::string name_of(StoreKind kind);

class ObjectServer {
 public:
  /// Started, and listening: moto (programs/s3_server.py), gcp-storage-emulator
  /// (programs/gcs_server.py), Hadoop's own servers (programs/hdfs_server.py).
  explicit ObjectServer(Cluster& cluster, StoreKind kind = StoreKind::S3);

  bool available() const { return !url_.empty(); }
  /// "s3://bucket/runs" for "runs".
  std::string location(const std::string& folder) const;
  /// What a program needs to reach it: AWS_ENDPOINT_URL and keys; STORAGE_EMULATOR_HOST; CLASSPATH,
  /// …
  const std::map<std::string, std::string>& environment() const { return environment_; }
  /// S3, Gcs: rules as store_faults.py reads them, in force for all requests from now on.
  void faults(const std::string& rules) const;
  /// "METHOD path?query status" of each request so far.
  std::string requests() const;
  void signal(int number) const;

 private:
  Cluster& cluster_;
  const StoreKind kind_;
  std::string rules_, url_;  // "http://127.0.0.1:41234"
  std::map<std::string, std::string> environment_;
  Process* process_ = nullptr;
};

}  // namespace train::e2e
