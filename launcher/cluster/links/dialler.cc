#include "launcher/cluster/links/dialler.h"

#include "launcher/cluster/links/ssh_dialler.h"

namespace train {

Task<Dialled> EndpointDialler::dial(asio::any_io_executor executor, Duration limit) {
  Dialled dialled;
  CO_TRY(dialled.connection, co_await Connection::connect(std::move(executor), endpoint_, limit));
  const auto peer = parse_endpoint(dialled.connection->peer());
  if (peer && peer->kind == Endpoint::Tcp) dialled.reached_at = peer->host_or_path;
  co_return dialled;
}

DiallerMaker::DiallerMaker(SshConfig ssh, int tries)
    : ssh_(std::move(ssh)), logins_(std::make_shared<SshLogins>(tries)) {}

std::unique_ptr<Dialler> DiallerMaker::make(const std::string& node) const {
  if (!node.starts_with(kSshPrefix))
    return std::make_unique<EndpointDialler>(*parse_endpoint(node));
  return std::make_unique<SshDialler>(*parse_ssh_host(node.substr(kSshPrefix.size())), node, ssh_,
                                      logins_);
}

std::vector<std::unique_ptr<Dialler>> diallers_of(const ClusterConfig& cluster, int tries) {
  const DiallerMaker maker(cluster.ssh, tries);
  std::vector<std::unique_ptr<Dialler>> diallers;
  for (const std::string& node : cluster.nodes) diallers.push_back(maker.make(node));
  return diallers;
}

}  // namespace train
