// A real object store for one test, with an empty bucket and injected faults. At its end, the
// program closes the stores that it opened.
#pragma once

#include <map>
#include <string>

#include "tests/e2e/cluster.h"

namespace train::e2e {

enum class StoreKind { S3, Gcs, Hdfs };
/// Return the kind for names of tests: "S3".
std::string name_of(StoreKind kind);

class ObjectServer {
 public:
  /// Start a listening server: moto (programs/s3_server.py), gcp-storage-emulator
  /// (programs/gcs_server.py), or Hadoop's own servers (programs/hdfs_server.py).
  explicit ObjectServer(Cluster& cluster, StoreKind kind = StoreKind::S3);

  bool available() const { return !url_.empty(); }
  /// Return the URL of a folder: "s3://bucket/runs" for "runs".
  std::string location(const std::string& folder) const;
  /// Return the variables with which a program reaches it: AWS_ENDPOINT_URL and keys;
  /// STORAGE_EMULATOR_HOST; CLASSPATH, …
  const std::map<std::string, std::string>& environment() const { return environment_; }
  /// For S3 and Gcs: apply rules for store_faults.py to all requests from now on.
  void faults(const std::string& rules) const;
  /// Return "METHOD path?query status" for each request so far.
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
