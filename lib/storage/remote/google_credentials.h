// This file gets access tokens for Google's storage. It looks for credentials where Google's own
// tools do ("Application Default Credentials", https://google.aip.dev/auth/4110): in the file that
// GOOGLE_APPLICATION_CREDENTIALS names, in the file of `gcloud auth application-default login`, and
// in the machine's own account.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "lib/storage/object_store.h"
#include "lib/storage/remote/http_request.h"

namespace train::remote {

class GoogleCredentials {
 public:
  /// Find the credentials and read their file. Sends no request yet. InvalidArgument: the file
  /// cannot be read, or is of an unknown kind (external_account, …).
  static Result<std::unique_ptr<GoogleCredentials>> find(const ObjectStoreOptions& options);

  /// Return a token that is valid for a few more minutes. If there is none, block for one request,
  /// which is not repeated. Any thread may call this.
  Result<std::string> token();
  /// Return the text of a service account's file; empty for other kinds.
  const std::string& service_account() const { return service_account_; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Kind { ServiceAccount, User, Machine };

  GoogleCredentials() = default;
  Result<Unit> read(const std::string& path, const std::string& text);
  Result<WebRequest> request(std::string& form) const;

  Kind kind_ = Kind::Machine;
  std::map<std::string, std::string> entries_;  // of the file
  std::string service_account_, machine_host_;
  std::mutex mutex_;
  std::string token_;
  std::optional<Clock::time_point> renew_at_;
};

}  // namespace train::remote
