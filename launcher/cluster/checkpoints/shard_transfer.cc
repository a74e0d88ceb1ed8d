#include "launcher/cluster/checkpoints/shard_transfer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lib/net/blocking.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"
#include "lib/wire/daemon_messages.h"

namespace train {
namespace {

constexpr std::size_t kNodesNamed = 8;

FetchRequest fetch_request(const ShardWritten& shard, const PendingCheckpoint& pending,
                           const std::string& checkpoints) {
  const std::string name = pending_name(pending);
  const std::string there = join_path(checkpoints, name);
  return {.folder = join_path(name, shard.dir),
          .into = join_path(there, shard.dir),
          .files = shard.files,
          .or_in = there,  // where an interrupted commit may have moved them
          .useless = {}};
}

/// Check the file names, which a node has sent: none may lie outside the shard.
Result<Unit> check_shard(const ShardWritten& shard) {
  if (!shard.dir.starts_with(".rank-") || shard.dir.find('/') != std::string::npos)
    return Error{Errc::InvalidArgument,
                 fmt::format("'{}' is not a shard folder", escape_name(shard.dir))};
  for (const CheckpointFile& file : shard.files) TRY_VOID(check_file_path(file.path));
  return Unit{};
}

}  // namespace

ShardTransfer::ShardTransfer(asio::any_io_executor executor, Scope& scope, const Clock& clock,
                             RunRecord& record, int replicas, NodeLinks& links, EventSink& events,
                             UserMessages& messages)
    : executor_(executor),
      scope_(scope),
      clock_(clock),
      record_(record),
      links_(links),
      events_(events),
      messages_(messages),
      changed_(executor),
      server_(executor),
      relay_(clock, links, messages),
      copies_(executor, replicas, links) {
  const std::optional<LivingAttempt>& living = record_.start().living;
  if (!living) return;
  collection_.attempt_begins(living->id, living->placement);
  collection_.resolved(living->id, living->resolved_seq);
  copies_.group(living->id, living->node_names);
  if (living->restored) restored_.insert(living->restored->path);
}

// ---- shards

void ShardTransfer::prepared(const Sender& from, const Prepared& message) {
  if (message.relayed && relayed_.insert(from.node).second) not_told_.insert(from.node);
}

bool ShardTransfer::takes(const Sender& from, const ShardWritten& shard) {
  const bool brings = shard.on_node && shard.error.empty();
  const ShardCollection::Shard key{from.attempt, shard.checkpoint_seq, shard.rank};
  switch (collection_.written(key, from.node, brings)) {
    case ShardCollection::Next::Tell:
      return false;
    case ShardCollection::Next::Bring:
      scope_.spawn("fetch a shard", collect(from, shard));
      return true;
    case ShardCollection::Next::Wait:
      return true;
  }
  return false;
}

// Take in bytes of a file. A frame without an attempt answers the relay, which asked the traind.
void ShardTransfer::bytes(const Sender& from, FileBytes answer) {
  if (from.attempt == kNoAttempt) return relay_.answered(from.node, std::move(answer));
  if (const auto found = fetchers_.find(from); found != fetchers_.end())
    found->second->received(std::move(answer));
}

void ShardTransfer::kept(const Sender& from, const ShardKept& answer) {
  copies_.answered(from.attempt, links_.name(from.node), answer);
}

void ShardTransfer::attached(const Sender& from, const AttemptSnapshot& snapshot) {
  collection_.resolved(from.attempt, snapshot.resolved_checkpoint);
  if (const auto found = fetchers_.find(from); found != fetchers_.end()) found->second->ask_again();
  copies_.ask_again(from.attempt, links_.name(from.node));
}

asio::awaitable<void> ShardTransfer::collect(Sender source, ShardWritten shard) {
  const Attempt attempt = source.attempt;
  const PendingCheckpoint pending{record_.attempt_generation(attempt), attempt,
                                  CheckpointSeq{shard.checkpoint_seq}};
  auto bringing = copies_.wanted() ? copy(source, shard, pending) : bring(source, shard, pending);
  const auto nodes = co_await std::move(bringing);
  if (nodes.has_error()) {
    shard.error = nodes.error().describe();
    shard.no_space = nodes.error().code == Errc::NoSpace;
  }
  const bool dropped = nodes.has_error() && nodes.error().code == Errc::Cancelled;
  if (!dropped && !collection_.is_over(attempt)) {
    ShardStaged staged = to_event(source, shard);
    if (nodes) staged.shard.nodes = *nodes;
    events_.feed(staged);
  }
  const ShardCollection::Shard key{attempt, shard.checkpoint_seq, shard.rank};
  if (collection_.brought(key, source.node, nodes.has_value()))
    events_.feed(NodeGroupGone{attempt, source.node});
}

/// Let other nodes keep the shard as well. Return the names of all nodes that keep it.
Task<std::vector<std::string>> ShardTransfer::copy(Sender source, const ShardWritten& shard,
                                                   const PendingCheckpoint& pending) {
  if (parse_shard_location(shard.dir) != pending)
    co_return Error{Errc::InvalidArgument, fmt::format("'{}' is not a shard of {}",
                                                       escape_name(shard.dir), data_name(pending))};
  for (const CheckpointFile& file : shard.files) CO_TRY_VOID(check_file_path(file.path));
  const std::string owner = links_.name(source.node);
  relay_.knows(shard.dir, {owner});
  auto keeping = copies_.keep(source.attempt, owner, shard);
  CO_TRY(auto nodes, co_await std::move(keeping));
  relay_.knows(shard.dir, nodes);
  co_return nodes;
}

/// Fetch the shard into the pending checkpoint. The result names no node.
Task<std::vector<std::string>> ShardTransfer::bring(Sender source, const ShardWritten& shard,
                                                    const PendingCheckpoint& pending) {
  const std::string doing = "fetching it from " + links_.name(source.node);
  auto sound = check_shard(shard);  // first, as a name that is refused must not be removed either
  if (sound.has_error()) co_return std::move(sound).error().with_context(doing);
  auto fetching = fetch(source, shard, pending);
  auto fetched = co_await std::move(fetching);
  if (!fetched.has_error()) co_return std::vector<std::string>{};
  if (fetched.error().code != Errc::Cancelled) {
    const std::string folder =
        join_path(record_.checkpoints().folder(), join_path(pending_name(pending), shard.dir));
    auto removing = run_on<Unit>(disk_, [this, folder] { return remove_tree(files_, folder); });
    (void)co_await std::move(removing);
  }
  co_return std::move(fetched).error().with_context(doing);
}

Task<Fetched> ShardTransfer::fetch(Sender source, const ShardWritten& shard,
                                   const PendingCheckpoint& pending) {
  CO_TRY_VOID(co_await wait_for_turn());
  ++active_;
  FetchRequest request = fetch_request(shard, pending, record_.checkpoints().folder());
  request.useless = [this, attempt = source.attempt, checkpoint_seq = shard.checkpoint_seq] {
    return collection_.is_useless(attempt, checkpoint_seq);
  };
  const auto from = fetcher(source);
  auto fetching = from->fetch(std::move(request));
  auto fetched = co_await std::move(fetching);
  --active_;
  changed_.notify();
  co_return fetched;
}

Task<Unit> ShardTransfer::wait_for_turn() {
  while (active_ >= kFetchedAtOnce) {
    CO_TRY([[maybe_unused]] const bool woken, co_await changed_.wait_until(TimePoint::max()));
  }
  co_return Unit{};
}

std::shared_ptr<FileFetcher> ShardTransfer::fetcher(Sender source) {
  auto& found = fetchers_[source];
  if (!found)
    found = std::make_shared<FileFetcher>(executor_, clock_, disk_,
                                          [this, source](const ReadFile& read) {
                                            links_.send(source.node, encode(read, source.attempt));
                                          });
  return found;
}

// ---- ends

// The end of the group means that everything from the node is here, so hold it until that is true.
bool ShardTransfer::holds_end(const Sender& from) {
  const bool held = collection_.group_gone({from.attempt, from.node});
  look_again(from.attempt);
  return held;
}

// Let the fetchers look again: what they fetch may have become useless.
void ShardTransfer::look_again(Attempt attempt) {
  for (const auto& [from, fetcher] : fetchers_) {
    if (from.attempt == attempt) fetcher->look_again();
  }
}

void ShardTransfer::saw(const RunEvent& event) {
  const auto* down = std::get_if<NodeDown>(&event);
  if (down == nullptr) return;
  for (const Attempt attempt : collection_.attempts()) lost({attempt, down->node});
  relay_.lost(down->node);
}

void ShardTransfer::lost(const Sender& source) {
  if (const auto found = fetchers_.find(source); found != fetchers_.end()) {
    found->second->close(Error{Errc::Cancelled, "its node is lost"});
    fetchers_.erase(found);
  }
  collection_.lost({source.attempt, source.node});
  copies_.lost(source.attempt, links_.name(source.node));
  look_again(source.attempt);
}

void ShardTransfer::attempt_ended(Attempt attempt) {
  collection_.attempt_ended(attempt);
  for (auto it = fetchers_.begin(); it != fetchers_.end();) {
    if (it->first.attempt > attempt) break;
    it->second->close(Error{Errc::Cancelled, "its attempt is over"});
    it = fetchers_.erase(it);
  }
  copies_.attempt_ended(attempt);
  relay_.forget(attempt);
}

// ---- restoring

void ShardTransfer::starting(const Start& action) {
  collection_.attempt_begins(action.attempt, *action.placement);
  if (action.restore) restored_.insert(action.restore->path);
  if (copies_.wanted()) {
    std::vector<std::string> names;
    for (const PlacedNode& placed : action.placement->nodes)
      names.push_back(links_.name(placed.node));
    if (const auto nodes = static_cast<int>(names.size()); nodes < copies_.replicas())
      messages_.phase(
          fmt::format("replicas is {}, but the group has only {} node{}: storing that many copies "
                      "of each shard",
                      copies_.replicas(), nodes, nodes == 1 ? "" : "s"));
    copies_.group(action.attempt, std::move(names));
  }
  if (not_told_.empty()) return;
  std::vector<std::string> names;
  for (NodeId node : not_told_) {
    if (names.size() < kNodesNamed) names.push_back(links_.name(node));
  }
  const std::size_t others = not_told_.size() - names.size();
  const bool one = not_told_.size() == 1;
  messages_.phase(
      fmt::format("{}{} {} no access to '{}': train-run relays {} checkpoints",
                  fmt::join(names, ", "), others > 0 ? fmt::format(" and {} more", others) : "",
                  one ? "has" : "have", record_.folder().path(), one ? "its" : "their"));
  not_told_.clear();
}

bool ShardTransfer::may_be_read(const std::string& folder) const {
  const bool ours = parent_path(folder) == record_.checkpoints().folder() &&
                    parse_checkpoint_name(folder.substr(folder.rfind('/') + 1)).has_value();
  return ours || restored_.count(folder) != 0;
}

void ShardTransfer::serve(const Sender& to, const ReadFile& request) {
  const auto reply = [this, to](const FileBytes& answer) {
    links_.send(to.node, encode(answer, to.attempt));
  };
  if (copies_.wanted() && parse_shard_location(request.folder)) return relay_.ask(request, reply);
  if (!record_.code().empty() && request.folder == record_.code())
    return server_.serve(request.folder, request.path, request, reply);
  const bool file = request.path == kManifestName || check_file_path(request.path);
  if (!may_be_read(request.folder) || !file)
    return reply(FileServer::refusal(
        request, Error{Errc::InvalidArgument,
                       fmt::format("'{}' in '{}' is not a file of a checkpoint of this run",
                                   escape_name(request.path), escape_name(request.folder))}));
  if (copies_.wanted() && request.path == kManifestName) learn_locations(request.folder);
  server_.serve(request.folder, request.path, request, reply);
}

/// Learn from the manifest which nodes have the shards. A node that restores asks for the manifest
/// first.
void ShardTransfer::learn_locations(const std::string& folder) {
  const auto manifest = read_manifest(files_, folder);
  if (!manifest) return;
  for (const ManifestFile& file : manifest->files)
    if (!file.nodes.empty()) relay_.knows(file.at, file.nodes);
}

}  // namespace train
