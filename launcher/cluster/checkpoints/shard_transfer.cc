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

FetchRequest fetch_request(const ShardWritten& part, const PendingCheckpoint& pending,
                           const std::string& checkpoints) {
  const std::string name = pending_name(pending);
  const std::string there = join_path(checkpoints, name);
  return {.folder = join_path(name, part.dir),
          .into = join_path(there, part.dir),
          .files = part.files,
          .or_in = there,  // where a commit that was cut short had moved them
          .useless = {}};
}

/// A node names the files: none may lie outside the part.
Result<Unit> check_part(const ShardWritten& part) {
  if (!part.dir.starts_with(".rank-") || part.dir.find('/') != std::string::npos)
    return Error{Errc::InvalidArgument,
                 fmt::format("'{}' is no shard's folder", escape_name(part.dir))};
  for (const CheckpointFile& file : part.files) TRY_VOID(check_file_path(file.path));
  return Unit{};
}

}  // namespace

ShardTransfer::ShardTransfer(asio::any_io_executor executor, Scope& scope, const Clock& clock,
                             RunRecord& record, int replicas, Handlers handlers)
    : executor_(executor),
      scope_(scope),
      clock_(clock),
      record_(record),
      handlers_(std::move(handlers)),
      changed_(executor),
      server_(executor),
      relay_(clock, {handlers_.send, handlers_.nodes, handlers_.name,
                     [this](const std::string& text) { handlers_.say(text); }}),
      copies_(executor, replicas, [this](const std::string& name, const Frame& frame) {
        if (const auto node = handlers_.find(name)) handlers_.send(*node, frame);
      }) {
  const std::optional<LivingAttempt>& living = record_.start().living;
  if (!living) return;
  Group& group = groups_[living->id];
  group.world_size = living->placement.world_size;
  group.nodes = static_cast<int>(living->placement.nodes.size());
  group.settled = living->settled_seq;
  copies_.group(living->id, living->node_names);
  if (living->restored) restored_.insert(living->restored->path);
}

// ---- parts

void ShardTransfer::prepared(const Sender& from, const Prepared& message) {
  if (message.relayed && relayed_.insert(from.node).second) not_told_.insert(from.node);
}

bool ShardTransfer::takes(const Sender& from, const ShardWritten& part) {
  if (is_over(from.attempt)) return false;
  Group& group = groups_[from.attempt];
  if (part.checkpoint_seq <= group.settled) return false;
  group.seen[part.checkpoint_seq].insert(part.rank);
  const PartKey key{from.attempt, part.checkpoint_seq, part.rank};
  if (!part.on_node || !part.error.empty() || fetched_.count(key) != 0) return false;
  if (!fetching_.emplace(key, from.node).second) return true;  // said again over a new link
  scope_.spawn("fetch a shard", collect(from, part));
  return true;
}

// What comes on no attempt's frame the relay has asked traind for.
void ShardTransfer::bytes(const Sender& from, FileBytes answer) {
  if (from.attempt == kNoAttempt) return relay_.answered(from.node, std::move(answer));
  if (const auto found = fetchers_.find(from); found != fetchers_.end())
    found->second->received(std::move(answer));
}

void ShardTransfer::kept(const Sender& from, const ShardKept& answer) {
  copies_.answered(from.attempt, handlers_.name(from.node), answer);
}

void ShardTransfer::attached(const Sender& from, const AttemptSnapshot& snapshot) {
  if (!is_over(from.attempt)) {
    Group& group = groups_[from.attempt];
    group.settled = std::max(group.settled, snapshot.settled_checkpoint);
  }
  if (const auto found = fetchers_.find(from); found != fetchers_.end()) found->second->ask_again();
  copies_.ask_again(from.attempt, handlers_.name(from.node));
}

asio::awaitable<void> ShardTransfer::collect(Sender source, ShardWritten part) {
  const Attempt attempt = source.attempt;
  const PendingCheckpoint pending{record_.attempt_generation(attempt), attempt,
                                  CheckpointSeq{part.checkpoint_seq}};
  auto bringing = copies_.wanted() ? copy(source, part, pending) : bring(source, part, pending);
  const auto nodes = co_await std::move(bringing);
  if (nodes.has_error()) {
    part.error = nodes.error().describe();
    part.no_space = nodes.error().code == Errc::NoSpace;
  } else {
    fetched_.insert({attempt, part.checkpoint_seq, part.rank});
  }
  const bool dropped = nodes.has_error() && nodes.error().code == Errc::Cancelled;
  if (!dropped && !is_over(attempt)) {
    ShardStaged staged = to_event(source, part);
    if (nodes) staged.part.nodes = *nodes;
    handlers_.event(staged);
  }
  ended(source, part);
}

/// Other nodes keep it as well. The names of all that do.
Task<std::vector<std::string>> ShardTransfer::copy(Sender source, const ShardWritten& part,
                                                   const PendingCheckpoint& pending) {
  if (parse_part_place(part.dir) != pending)
    co_return Error{Errc::InvalidArgument, fmt::format("'{}' is no shard of {}",
                                                       escape_name(part.dir), data_name(pending))};
  for (const CheckpointFile& file : part.files) CO_TRY_VOID(check_file_path(file.path));
  const std::string owner = handlers_.name(source.node);
  relay_.knows(part.dir, {owner});
  auto keeping = copies_.keep(source.attempt, owner, part);
  CO_TRY(auto nodes, co_await std::move(keeping));
  relay_.knows(part.dir, nodes);
  co_return nodes;
}

/// Into the pending checkpoint. No node is named then.
Task<std::vector<std::string>> ShardTransfer::bring(Sender source, const ShardWritten& part,
                                                    const PendingCheckpoint& pending) {
  auto fetching = fetch(source, part, pending);
  auto fetched = co_await std::move(fetching);
  if (!fetched.has_error()) co_return std::vector<std::string>{};
  if (fetched.error().code != Errc::Cancelled) {
    const std::string folder =
        join_path(record_.checkpoints().folder(), join_path(pending_name(pending), part.dir));
    auto removing = run_on<Unit>(disk_, [this, folder] { return remove_tree(files_, folder); });
    (void)co_await std::move(removing);
  }
  co_return std::move(fetched).error().with_context("fetching it from " +
                                                    handlers_.name(source.node));
}

Task<Fetched> ShardTransfer::fetch(Sender source, const ShardWritten& part,
                                   const PendingCheckpoint& pending) {
  CO_TRY_VOID(check_part(part));
  CO_TRY_VOID(co_await wait_for_turn());
  ++active_;
  FetchRequest request = fetch_request(part, pending, record_.checkpoints().folder());
  request.useless = [this, attempt = source.attempt, checkpoint_seq = part.checkpoint_seq] {
    return is_useless(attempt, checkpoint_seq);
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

void ShardTransfer::ended(Sender source, const ShardWritten& part) {
  fetching_.erase({source.attempt, part.checkpoint_seq, part.rank});
  if (fetching_from(source) || held_.erase(source) == 0) return;
  if (!is_over(source.attempt)) handlers_.event(NodeGroupGone{source.attempt, source.node});
}

std::shared_ptr<FileFetcher> ShardTransfer::fetcher(Sender source) {
  auto& found = fetchers_[source];
  if (!found)
    found = std::make_shared<FileFetcher>(
        executor_, clock_, disk_, [this, source](const ReadFile& read) {
          handlers_.send(source.node, encode(read, source.attempt));
        });
  return found;
}

// ---- ends

bool ShardTransfer::fetching_from(Sender source) const {
  return std::any_of(fetching_.begin(), fetching_.end(), [&](const auto& entry) {
    return std::get<Attempt>(entry.first) == source.attempt && entry.second == source.node;
  });
}

// It says that all of the node's is here: not before it is.
bool ShardTransfer::holds_end(const Sender& from) {
  if (is_over(from.attempt)) return false;
  no_more_from(from);
  if (!fetching_from(from)) return false;
  held_.insert(from);
  return true;
}

void ShardTransfer::no_more_from(Sender source) {
  groups_[source.attempt].gone.insert(source.node);
  for (const auto& [from, fetcher] : fetchers_) {
    if (from.attempt == source.attempt) fetcher->look_again();
  }
}

// Once no node brings any more parts, a checkpoint that lacks one is never committed, nor is one
// after it: a group that failed does not wait for their files.
bool ShardTransfer::is_useless(Attempt attempt, std::uint64_t checkpoint_seq) const {
  if (is_over(attempt)) return true;
  const auto found = groups_.find(attempt);
  if (found == groups_.end()) return false;
  const Group& group = found->second;
  if (group.nodes == 0 || static_cast<int>(group.gone.size()) < group.nodes) return false;
  return std::any_of(group.seen.begin(), group.seen.end(), [&](const auto& entry) {
    return entry.first <= checkpoint_seq &&
           static_cast<int>(entry.second.size()) < group.world_size;
  });
}

void ShardTransfer::saw(const RunEvent& event) {
  const auto* down = std::get_if<NodeDown>(&event);
  if (down == nullptr) return;
  std::vector<Attempt> attempts;
  for (const auto& [attempt, group] : groups_) attempts.push_back(attempt);
  for (Attempt attempt : attempts) lost({attempt, down->node});
  relay_.lost(down->node);
}

void ShardTransfer::lost(const Sender& source) {
  if (const auto found = fetchers_.find(source); found != fetchers_.end()) {
    found->second->close(Error{Errc::Cancelled, "its node is lost"});
    fetchers_.erase(found);
  }
  held_.erase(source);
  copies_.lost(source.attempt, handlers_.name(source.node));
  if (!is_over(source.attempt)) no_more_from(source);
}

void ShardTransfer::attempt_ended(Attempt attempt) {
  over_ = attempt;
  for (auto it = fetchers_.begin(); it != fetchers_.end();) {
    if (it->first.attempt > attempt) break;
    it->second->close(Error{Errc::Cancelled, "its attempt is over"});
    it = fetchers_.erase(it);
  }
  std::erase_if(held_, [&](const Sender& source) { return source.attempt <= attempt; });
  std::erase_if(fetched_, [&](const PartKey& key) { return std::get<Attempt>(key) <= attempt; });
  groups_.erase(groups_.begin(), groups_.upper_bound(attempt));
  copies_.attempt_ended(attempt);
  relay_.forget(attempt);
}

// ---- restoring

void ShardTransfer::starting(const Start& action) {
  Group& group = groups_[action.attempt];
  group.world_size = action.placement->world_size;
  group.nodes = static_cast<int>(action.placement->nodes.size());
  if (action.restore) restored_.insert(action.restore->path);
  if (copies_.wanted()) {
    std::vector<std::string> names;
    for (const PlacedNode& placed : action.placement->nodes)
      names.push_back(handlers_.name(placed.node));
    if (const auto nodes = static_cast<int>(names.size()); nodes < copies_.replicas())
      handlers_.say(fmt::format("replicas is {}, and the group has {} node{}: as many keep a shard",
                                copies_.replicas(), nodes, nodes == 1 ? "" : "s"));
    copies_.group(action.attempt, std::move(names));
  }
  if (not_told_.empty()) return;
  std::vector<std::string> names;
  for (NodeId node : not_told_) {
    if (names.size() < kNodesNamed) names.push_back(handlers_.name(node));
  }
  const std::size_t others = not_told_.size() - names.size();
  const bool one = not_told_.size() == 1;
  handlers_.say(fmt::format("{}{} {} no access to '{}': train-run relays {} checkpoints",
                            fmt::join(names, ", "),
                            others > 0 ? fmt::format(" and {} more", others) : "",
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
    handlers_.send(to.node, encode(answer, to.attempt));
  };
  if (copies_.wanted() && parse_part_place(request.folder)) return relay_.ask(request, reply);
  const bool file = request.path == kManifestName || check_file_path(request.path);
  if (!may_be_read(request.folder) || !file)
    return reply(FileServer::refusal(
        request, Error{Errc::InvalidArgument,
                       fmt::format("'{}' of '{}' is no file of a checkpoint of this run",
                                   escape_name(request.path), escape_name(request.folder))}));
  if (copies_.wanted() && request.path == kManifestName) learn_places(request.folder);
  server_.serve(request.folder, request.path, request, reply);
}

/// Who restores it asks for its manifest first.
void ShardTransfer::learn_places(const std::string& folder) {
  const auto manifest = read_manifest(files_, folder);
  if (!manifest) return;
  for (const ManifestFile& file : manifest->files)
    if (!file.nodes.empty()) relay_.knows(file.at, file.nodes);
}

}  // namespace train
