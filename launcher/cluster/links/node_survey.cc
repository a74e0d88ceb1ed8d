#include "launcher/cluster/links/node_survey.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "launcher/cluster/links/cluster_links.h"
#include "launcher/cluster/links/dialler.h"
#include "launcher/cluster/links/node_source.h"
#include "lib/base/host.h"
#include "lib/net/handshake.h"
#include "lib/net/peer_user.h"
#include "lib/net/run_owner.h"
#include "lib/net/runtime_dir.h"
#include "lib/net/scope.h"
#include "lib/net/tls_files.h"
#include "lib/net/within.h"
#include "lib/wire/codec.h"
#include "lib/wire/daemon_messages.h"
#include "lib/wire/link_messages.h"

namespace train {
namespace {

constexpr std::size_t kAskedAtOnce = 200;

/// A run that nobody has begun. Its generation is 0, so that nodes forget it at once.
AttachRun attachment(const std::string& owner_key, const std::string& binding) {
  AttachRun attach;
  attach.run_id = "nodes-" + owner_digest(owner_key);
  attach.run_name = "nodes";
  attach.orphan_timeout_ms = 0;
  OwnerProof proof = prove_owner(owner_key, attach.run_id, attach.generation, binding);
  attach.owner_public_key = std::move(proof.public_key);
  attach.owner_signature = std::move(proof.signature);
  return attach;
}

void take_offer(NodeOffer offer, NodeRow& row) {
  row.name = std::move(offer.node_name);
  row.addresses = std::move(offer.addresses);
  row.total = std::move(offer.total);
  row.free = std::move(offer.free);
  row.draining = offer.draining;
  row.labels = std::move(offer.labels);
  row.offered_gpus = std::move(offer.gpus);
  row.runs = std::move(offer.runs);
}

/// Hear what it says until it has told what it is doing. What it does not tell in time is missing.
Task<Unit> hear(Connection& connection, NodeRow& row, bool only_offers) {
  bool offered = false;
  for (;;) {
    auto receiving = connection.receive();
    auto frame = co_await std::move(receiving);
    if (frame.has_error()) co_return frame.error();
    if (frame->type == MessageType::Refused) {
      const auto refusal = decode<Refused>(*frame);
      co_return Error{Errc::Permission, refusal ? refusal->message : "it refuses",
                      refusal ? refusal->hint : ""};
    }
    if (frame->type == MessageType::NodeOffer) {
      CO_TRY(auto offer, decode<NodeOffer>(*frame));
      take_offer(std::move(offer), row);
      row.answered = offered = true;
      if (only_offers) co_return Unit{};
    } else if (frame->type == MessageType::NodeDraining) {
      CO_TRY(auto draining, decode<NodeDraining>(*frame));
      row.draining_because = std::move(draining.reason);
    } else if (frame->type == MessageType::NodeStatus && offered) {
      CO_TRY(auto status, decode<NodeStatus>(*frame));
      row.sample = status.node;
      row.gpus = std::move(status.gpus);
      co_return Unit{};
    }
  }
}

Task<Unit> ask(asio::any_io_executor executor, Dialler& dialler, const Identity& self,
               const TlsFiles& tls, Duration limit, bool only_offers, DetachRun end, NodeRow& row) {
  auto dialling = dialler.dial(executor, limit);
  CO_TRY(auto dialled, co_await std::move(dialling));
  Connection& connection = *dialled.connection;
  CO_TRY_VOID(check_peer_user(connection));
  auto greeting = connect_handshake(connection, self, tls.context());
  CO_TRY(const PeerInfo peer, co_await std::move(greeting));
  row.build = peer.build;
  row.reached_at = dialled.reached_at;
  const std::string owner_key = make_owner_key();
  connection.send(encode(attachment(owner_key, connection.binding())));
  auto hearing = hear(connection, row, only_offers);
  const auto heard = co_await within(limit, std::move(hearing));
  connection.send(encode(end));
  auto flushing = connection.flush();
  (void)co_await within(seconds(1), std::move(flushing));
  if (!heard && !row.answered) co_return heard.error();
  co_return Unit{};
}

asio::awaitable<void> ask_some(asio::any_io_executor executor,
                               std::vector<std::unique_ptr<Dialler>>* diallers,
                               std::vector<NodeRow>* rows, std::size_t* next, const Identity* self,
                               const TlsFiles* tls, Duration limit, bool only_offers,
                               DetachRun end) {
  while (*next < diallers->size()) {
    const std::size_t i = (*next)++;
    NodeRow& row = (*rows)[i];
    auto asking = ask(executor, *(*diallers)[i], *self, *tls, limit, only_offers, end, row);
    const auto asked = co_await std::move(asking);
    if (asked.has_error()) row.problem = asked.error();
  }
}

}  // namespace

Result<std::vector<NodeRow>> survey_nodes(ClusterConfig cluster, const std::string& build,
                                          Duration limit, bool only_offers) {
  TRY(cluster, with_found_nodes(std::move(cluster), limit));
  if (cluster.nodes.empty())
    cluster.nodes.push_back("unix:" + default_runtime_dir() + "/traind.sock");
  TRY(const TlsFiles tls,
      TlsFiles::read({cluster.token_file, cluster.tls}, CertificateRole::Launcher));
  TRY_VOID(check_nodes(cluster.nodes, tls.context().has_value()));
  auto diallers = diallers_of(cluster, 1);
  return ask_nodes(diallers, tls, build, limit, only_offers);
}

std::vector<NodeRow> ask_nodes(std::vector<std::unique_ptr<Dialler>>& diallers, const TlsFiles& tls,
                               const std::string& build, Duration limit, bool only_offers,
                               const DetachRun& end) {
  std::vector<NodeRow> rows(diallers.size());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].address = diallers[i]->text();
  const Identity self{build, "launcher", host_name(), ::getpid(), ""};
  asio::io_context context;
  Scope scope(context.get_executor());
  std::size_t next = 0;
  for (std::size_t i = 0; i < std::min(kAskedAtOnce, rows.size()); ++i)
    scope.spawn("ask", ask_some(context.get_executor(), &diallers, &rows, &next, &self, &tls, limit,
                                only_offers, end));
  context.run();
  return rows;
}

void tell_run_end(const ClusterConfig& cluster, const std::string& build, Duration limit,
                  int exit_code) {
  const auto tls = TlsFiles::read({cluster.token_file, cluster.tls}, CertificateRole::Launcher);
  if (!tls || !check_nodes(cluster.nodes, tls->context().has_value())) return;
  auto diallers = diallers_of(cluster, 1);
  (void)ask_nodes(diallers, *tls, build, limit, /*only_offers=*/true,
                  {.keep_data = false, .exit_code = exit_code});
}

}  // namespace train
