// traind certs: makes the certificates of a cluster, for sites that want an identity for each node
// and user.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace train {

class CertsCommand {
 public:
  explicit CertsCommand(CLI::App& app);
  bool parsed() const { return certs_->parsed(); }
  /// Make what the command line asks for, and print what to do with it. Return the exit code.
  int run() const;

 private:
  int make_authority() const;
  int make_certificates() const;

  CLI::App *certs_, *ca_, *node_, *launcher_;
  std::string cluster_ = "trainrun", ca_folder_ = "ca", out_ = ".";
  std::vector<std::string> names_;
  int days_;
};

}  // namespace train
