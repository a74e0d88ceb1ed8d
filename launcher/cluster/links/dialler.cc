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

std::vector<std::unique_ptr<Dialler>> diallers_of(const ClusterConfig& cluster, int tries) {
  std::vector<std::unique_ptr<Dialler>> diallers;
  const auto logins = std::make_shared<SshLogins>(tries);
  for (const std::string& node : cluster.nodes) {
    if (node.starts_with(kSshPrefix))
      diallers.push_back(std::make_unique<SshDialler>(
          *parse_ssh_host(node.substr(kSshPrefix.size())), node, cluster.ssh, logins));
    else
      diallers.push_back(std::make_unique<EndpointDialler>(*parse_endpoint(node)));
  }
  return diallers;
}

}  // namespace train
