#include "launcher/cluster/links/node_survey.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <optional>
#include <utility>

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

struct Greeted {
  Dialled dialled;
  PeerInfo peer;
};

/// Connect to a node, and learn who it is.
Task<Greeted> greet(asio::any_io_executor executor, Dialler& dialler, const Identity& self,
                    const TlsFiles& tls, Duration limit) {
  auto dialling = dialler.dial(executor, limit);
  CO_TRY(auto dialled, co_await std::move(dialling));
  CO_TRY_VOID(check_peer_user(*dialled.connection));
  auto greeting = connect_handshake(*dialled.connection, self, tls.context());
  CO_TRY(PeerInfo peer, co_await std::move(greeting));
  co_return Greeted{std::move(dialled), std::move(peer)};
}

Task<Unit> ask(asio::any_io_executor executor, Dialler& dialler, const Identity& self,
               const TlsFiles& tls, Duration limit, bool only_offers, DetachRun end, NodeRow& row) {
  auto greeting = greet(executor, dialler, self, tls, limit);
  CO_TRY(const Greeted greeted, co_await std::move(greeting));
  const auto& [dialled, peer] = greeted;
  Connection& connection = *dialled.connection;
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

Task<Unit> hear_of_launcher(Connection& connection, FailoverVoter& voter) {
  for (;;) {
    auto receiving = connection.receive();
    CO_TRY(const Frame frame, co_await std::move(receiving));
    if (frame.type != MessageType::LauncherTold) continue;
    CO_TRY(const LauncherTold told, decode<LauncherTold>(frame));
    voter.answered = true;
    voter.attached = told.attached;
    co_return Unit{};
  }
}

Task<Unit> ask_for(asio::any_io_executor executor, Dialler& dialler, const Identity& self,
                   const TlsFiles& tls, std::string run_id, Duration limit, FailoverVoter& voter) {
  auto greeting = greet(executor, dialler, self, tls, limit);
  CO_TRY(const Greeted greeted, co_await std::move(greeting));
  Connection& connection = *greeted.dialled.connection;
  connection.send(encode(AskLauncher{std::move(run_id)}));
  auto hearing = hear_of_launcher(connection, voter);
  co_return co_await within(limit, std::move(hearing));
}

using AskNode = std::function<Task<Unit>(asio::any_io_executor executor, std::size_t node)>;

asio::awaitable<void> ask_some(asio::any_io_executor executor, const AskNode* ask,
                               std::vector<std::optional<Error>>* problems, std::size_t* next) {
  while (*next < problems->size()) {
    const std::size_t i = (*next)++;
    auto asking = (*ask)(executor, i);
    const auto asked = co_await std::move(asking);
    if (asked.has_error()) (*problems)[i] = asked.error();
  }
}

/// Ask so many nodes, some of them at the same time. Return what is wrong with each.
std::vector<std::optional<Error>> ask_all(std::size_t count, const AskNode& ask) {
  std::vector<std::optional<Error>> problems(count);
  asio::io_context context;
  Scope scope(context.get_executor());
  std::size_t next = 0;
  for (std::size_t i = 0; i < std::min(kAskedAtOnce, count); ++i)
    scope.spawn("ask", ask_some(context.get_executor(), &ask, &problems, &next));
  context.run();
  return problems;
}

Identity surveyor(const std::string& build) {
  return {build, "launcher", host_name(), ::getpid(), ""};
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
  const Identity self = surveyor(build);
  const auto problems = ask_all(rows.size(), [&](asio::any_io_executor executor, std::size_t i) {
    return ask(std::move(executor), *diallers[i], self, tls, limit, only_offers, end, rows[i]);
  });
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (problems[i]) rows[i].problem = *problems[i];
  return rows;
}

std::vector<FailoverVoter> ask_for_launcher(std::vector<std::unique_ptr<Dialler>>& diallers,
                                            const TlsFiles& tls, const std::string& build,
                                            const std::string& run_id, Duration limit) {
  std::vector<FailoverVoter> voters(diallers.size());
  for (std::size_t i = 0; i < voters.size(); ++i) voters[i].node = diallers[i]->text();
  const Identity self = surveyor(build);
  ask_all(voters.size(), [&](asio::any_io_executor executor, std::size_t i) {
    return ask_for(std::move(executor), *diallers[i], self, tls, run_id, limit, voters[i]);
  });
  return voters;
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
