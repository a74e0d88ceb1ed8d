#include "cmd/traind/certs.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "lib/base/print.h"
#include "lib/net/certificate_files.h"

namespace train {
namespace {

constexpr int kCannotCreate = 73, kWrongInput = 65;

int fail(const Error& error) {
  print_error("traind", error);
  return error.code == Errc::InvalidArgument ? kWrongInput : kCannotCreate;
}

}  // namespace

CertsCommand::CertsCommand(CLI::App& app) : days_(kCertificateDays) {
  certs_ = app.add_subcommand("certs", "Make certificates for --tls, in place of a token");
  certs_->require_subcommand(1);
  ca_ = certs_->add_subcommand("ca", "Make the cluster's certificate authority");
  ca_->add_option("--cluster", cluster_, "The cluster's name, which every certificate carries")
      ->capture_default_str();
  node_ = certs_->add_subcommand("node", "Make a certificate for each of these nodes");
  node_->add_option("name", names_, "What its traind calls itself (--node-name)")->required();
  launcher_ = certs_->add_subcommand("launcher", "Make a certificate for each of these users");
  launcher_->add_option("user", names_, "The user who starts runs with it")->required();
  ca_->add_option("--out", ca_folder_, "The folder to put ca.crt and ca.key into")
      ->capture_default_str();
  for (CLI::App* leaf : {node_, launcher_}) {
    leaf->add_option("--ca", ca_folder_, "The folder of the authority")->capture_default_str();
    leaf->add_option("--out", out_, "Where to create a folder for each, named after it")
        ->capture_default_str();
    leaf->add_option("--days", days_, "How long it is valid")
        ->check(CLI::Range(1, kAuthorityDays).description(""))
        ->capture_default_str();
  }
}

int CertsCommand::run() const { return ca_->parsed() ? make_authority() : make_certificates(); }

int CertsCommand::make_authority() const {
  if (const auto made = create_authority(ca_folder_, cluster_, std::time(nullptr)); !made)
    return fail(made.error());
  print_out(
      "{0}/ca.crt  is for every node and launcher of cluster '{1}'\n"
      "{0}/ca.key  signs their certificates: keep it off the nodes\n",
      ca_folder_, cluster_);
  return 0;
}

int CertsCommand::make_certificates() const {
  const bool node = node_->parsed();
  for (const std::string& name : names_) {
    const std::string folder = out_ == "." ? name : fmt::format("{}/{}", out_, name);
    const auto until =
        create_certificate(ca_folder_, node ? CertificateRole::Node : CertificateRole::Launcher,
                           name, folder, days_, std::time(nullptr));
    if (!until) return fail(until.error());
    const std::string day = fmt::format("{:%Y-%m-%d}", fmt::gmtime(*until));
    if (node)
      print_out("{0}  valid until {1}: copy it to {2}, and start traind --tls FOLDER there\n",
                folder, day, name);
    else
      print_out("{0}  valid until {1}: give it to {2}, for train-run --tls FOLDER\n", folder, day,
                name);
  }
  return 0;
}

}  // namespace train
