#include "daemon/core/node_agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/core/claims.h"
#include "daemon/core/cpu_plan.h"
#include "lib/model/gpu_share.h"

namespace train {
namespace {

/// Return `count` GPUs: the named ones, and then the first indexes that are not among them.
std::vector<std::string> named(std::vector<std::string> gpus, std::size_t count) {
  const std::set<std::string> known(gpus.begin(), gpus.end());
  for (std::size_t index = 0; gpus.size() < count; ++index) {
    if (std::string name = std::to_string(index); !known.contains(name))
      gpus.push_back(std::move(name));
  }
  gpus.resize(count);
  return gpus;
}

Error fenced(const AttachRun& older, std::uint64_t generation) {
  return Error{Errc::Fenced,
               fmt::format("run {} is controlled by generation {}, newer than {}", older.run_name,
                           generation, older.generation),
               "another train-run has taken this run over; this one must end"};
}

}  // namespace

NodeAgent::NodeAgent(std::string node_name, std::string host, std::vector<std::string> addresses,
                     Resources total, std::vector<std::string> gpus, NodeTraits traits)
    : node_name_(std::move(node_name)),
      host_(std::move(host)),
      addresses_(std::move(addresses)),
      total_(std::move(total)),
      gpus_(named(std::move(gpus), static_cast<std::size_t>(total_.gpu))),
      traits_(std::move(traits)) {}

std::vector<NodeAction> NodeAgent::handle(const NodeEvent& event) {
  actions_.clear();
  std::visit([this](const auto& e) { on(e); }, event);
  return std::move(actions_);
}

// The newest generation wins: refuse an older controller, and drop one that is still connected.
void NodeAgent::on(const LauncherAttached& event) {
  const AttachRun& message = event.message;
  const auto known = runs_.find(message.run_id);
  const PastRun past = known == runs_.end()
                           ? past_.find(message.run_id)
                           : PastRun{known->second.generation, known->second.ended};
  if (message.generation < past.generation) {
    actions_.push_back(RefuseLink{event.link, fenced(message, past.generation)});
    return;
  }
  Run& run = runs_[message.run_id];
  // TCP may still deliver what a launcher sent over an older connection, which it has replaced by
  // the current one.
  const bool held_up = run.link && message.generation == run.generation && event.link < *run.link;
  if (held_up) return;
  if (run.link && *run.link != event.link) actions_.push_back(DropLink{*run.link});
  // The same launcher says again what it wants, over its new link; another one may want less.
  const bool wants_less = message.generation != run.generation && queue_.forget(message.run_id);
  run = Run{message.generation, event.link, message, past.ended};
  for (auto& [key, supervisor] : supervisors_) {
    if (key.run_id == message.run_id) supervisor.in_step = false;
  }
  send_offer(message.run_id);
  tell_supervisors(message.run_id, true);
  if (draining_) actions_.push_back(TellDraining{event.link, *draining_});
  if (wants_less) send_offers(/*but_to=*/message.run_id);
}

void NodeAgent::on(const LauncherDetached& event) {
  const auto run_id = run_of(event.link);
  if (!run_id) return;
  runs_[*run_id].lease.orphan_timeout_ms = 0;  // no launcher will come back for what is left of it
  on(LauncherLinkClosed{event.link});
}

void NodeAgent::on(const LauncherLinkClosed& event) {
  const auto run_id = run_of(event.link);
  if (!run_id) return;
  if (drain_expired_) runs_[*run_id].lease.orphan_timeout_ms = 0;  // no launcher will release it
  runs_[*run_id].link.reset();
  tell_supervisors(*run_id, false);
  const bool has_supervisor = std::any_of(supervisors_.begin(), supervisors_.end(),
                                          [&](const auto& s) { return s.first.run_id == *run_id; });
  if (!has_supervisor) forget(*run_id);  // nothing of it is left here
}

void NodeAgent::on(const RoomClaimed& event) {
  const auto run_id = run_of(event.link);
  if (run_id && queue_.claim(*run_id, event.message)) send_offers();
}

void NodeAgent::on(const AttemptAsked& event) {
  const auto run_id = run_of(event.link);
  if (!run_id) return;
  const AttemptKey key{*run_id, event.attempt};
  const auto there = supervisors_.find(key);
  const bool is_there = there != supervisors_.end();
  if (is_there && there->second.down) return wait(*run_id, event);
  if (is_there && (event.message.standby || !there->second.standby)) {
    actions_.push_back(SendPrepare{key, granted(event.message, there->second)});
    return;
  }
  if (adoptions_ > 0) return wait(*run_id, event);  // its standby supervisor may still be found
  // The launcher may ask again before it has received the message about the attempt's end.
  if (runs_[*run_id].ended >= event.attempt) {
    actions_.push_back(
        TellAttemptLost{event.link, event.attempt, "it has ended", event.message.standby});
    return;
  }
  if (draining_) {
    actions_.push_back(RefuseAttempt{
        event.link, event.attempt,
        Error{Errc::Unavailable, fmt::format("{} takes no new workers: it is draining ({})",
                                             node_name_, *draining_)}});
    return;
  }
  // Standby processes share the resources of the attempt before theirs: they wait for nothing, and
  // claim nothing.
  const bool standby = event.message.standby;
  if (standby ? others_stand_by(key) : stop_older_attempts(key)) return wait(*run_id, event);
  Resources wanted = standby ? claim_of(event.message.per_worker, event.message.local_world_size)
                             : claim_of(event.message);
  // Do not count older attempts of the same run: none of their workers is left.
  const std::string lack = lack_of(wanted, free_for(*run_id));
  if (!standby && !lack.empty()) {
    actions_.push_back(RefuseAttempt{
        event.link, event.attempt,
        Error{Errc::ResourceExhausted, fmt::format("{} has too little free: {}{}", node_name_, lack,
                                                   kept_before(*run_id))}});
    send_offer(*run_id);
    return;
  }
  std::vector<std::string> gpus = free_gpus(key, standby);
  std::size_t count = whole_gpus(wanted);
  if (standby) count = std::min(count, gpus.size());  // as many as there are
  auto grant =
      grant_gpus(std::move(gpus), traits_.gpus,
                 {count, event.message.gpu_choice, event.message.refuse_gpus_in_use && !standby},
                 event.gpus_in_use);
  if (!grant && standby) grant = GpuGrant{};
  if (!grant) {
    // Of the wrong GPUs that are free, some may be the right ones later; programs of others stay.
    const bool busy = grant.error().code == Errc::ResourceExhausted;
    Error error = std::move(grant).error().with_context(node_name_);
    actions_.push_back(RefuseAttempt{event.link, event.attempt, std::move(error), busy});
    return;
  }
  const auto [entry, fresh] = supervisors_.try_emplace(key);
  Supervisor& supervisor = entry->second;
  supervisor.claimed = standby ? Resources{} : std::move(wanted);
  supervisor.gpus = std::move(grant->gpus);
  supervisor.standby = standby;
  PrepareAttempt message = granted(event.message, supervisor);
  message.notes = std::move(grant->notes);
  if (!standby) bind(key, supervisor, message);
  if (fresh)
    actions_.push_back(SpawnSupervisor{key, event.link, std::move(message),
                                       runs_[*run_id].lease.orphan_timeout_ms});
  else
    actions_.push_back(SendPrepare{key, std::move(message)});
  if (!standby) send_offers(/*but_to=*/*run_id);  // less is free for the others
}

PrepareAttempt NodeAgent::granted(PrepareAttempt message, const Supervisor& supervisor) {
  message.claimed = supervisor.claimed;
  message.gpus = supervisor.gpus;
  message.bindings = supervisor.bindings;
  message.notes.clear();
  return message;
}

/// Bind the attempt's workers to CPUs, and note for the user what cannot be done as asked.
void NodeAgent::bind(const AttemptKey& key, Supervisor& supervisor, PrepareAttempt& message) const {
  const auto how = parse_cpu_binding(message.bind);
  if (!how || *how == CpuBinding::None) return;
  BindOrder order{.how = *how, .gpu_nodes = {}, .allowed = traits_.allowed, .taken = {}};
  std::size_t first = 0;  // of a role's GPUs
  const auto add_workers = [&](const Resources& per_worker, int workers) {
    for (int worker = 0; worker < workers; ++worker) {
      const std::size_t gpu = first + first_gpu_of(per_worker, worker);
      const bool has_gpu = per_worker.gpu > 0 && gpu < supervisor.gpus.size();
      const auto traits = has_gpu ? traits_.gpus.find(supervisor.gpus[gpu]) : traits_.gpus.end();
      order.gpu_nodes.push_back(traits == traits_.gpus.end() ? -1 : traits->second.numa_node);
    }
    first += gpus_for(per_worker.gpu, workers);
  };
  add_workers(message.per_worker, message.local_world_size);
  for (const RoleClaim& role : message.other_roles) add_workers(role.per_worker, role.workers);
  for (const auto& [other, has] : supervisors_) {
    if (other.run_id == key.run_id) continue;
    for (const WorkerBinding& binding : has.bindings) {
      if (!binding.exclusive) continue;
      if (const auto cpus = parse_cpu_list(binding.cpus))
        order.taken.insert(cpus->begin(), cpus->end());
    }
  }
  BindPlan plan = plan_binding(traits_.topology, order);
  supervisor.bindings = message.bindings = std::move(plan.workers);
  if (!plan.note.empty()) message.notes.push_back(std::move(plan.note));
}

void NodeAgent::wait(const std::string& run_id, const AttemptAsked& event) {
  std::optional<AttemptAsked>& waiting = runs_[run_id].waiting;
  const bool attempt_waits = waiting && !waiting->message.standby;
  if (!event.message.standby || !attempt_waits) waiting = event;  // an attempt comes first
}

void NodeAgent::forget(const std::string& run_id) {
  const auto run = runs_.extract(run_id);
  past_.add(run_id, {run.mapped().generation, run.mapped().ended});
  if (queue_.forget(run_id)) send_offers();
}

/// Return whether processes for another attempt of the run stand by. The run waits for their end:
/// as they claim nothing, it could have any number of them.
bool NodeAgent::others_stand_by(const AttemptKey& than) const {
  return std::any_of(supervisors_.begin(), supervisors_.end(), [&](const auto& other) {
    return other.first.run_id == than.run_id && other.second.standby;
  });
}

// Stop older attempts. A launcher that had given this node up begins a new attempt when the node is
// back, and workers of the old attempt, which did not know of that, may still be running.
bool NodeAgent::stop_older_attempts(const AttemptKey& than) {
  bool any = false;
  for (const auto& [key, supervisor] : supervisors_) {
    if (key.run_id != than.run_id || key.attempt >= than.attempt || supervisor.gone) continue;
    any = true;
    if (supervisor.down) continue;
    actions_.push_back(StopAttempt{
        key, fmt::format("attempt {} takes its place", than.attempt.value), /*at_once=*/true});
  }
  return any;
}

// A supervisor that is found again knows the generation of its run, which we have forgotten. A
// launcher that attached before the supervisor answered may be an older one.
void NodeAgent::on(const SupervisorUp& event) {
  const SupervisorHello& hello = event.message;
  const auto [found, is_new] =
      supervisors_.try_emplace(event.key, Supervisor{hello.claimed, hello.gpus, hello.standby});
  if (is_new) found->second.bindings = hello.bindings;
  if (!is_new) found->second.gone = found->second.in_step = false;  // it may have begun anew
  const auto [entry, unknown] = runs_.try_emplace(event.key.run_id);
  Run& run = entry->second;
  if (unknown) run.lease.orphan_timeout_ms = kKeepOrphanTimeoutMs;
  if (event.message.generation > run.generation) {
    if (run.link) {
      actions_.push_back(RefuseLink{*run.link, fenced(run.lease, event.message.generation)});
      run.link.reset();
    }
    run.generation = event.message.generation;
  }
  actions_.push_back(
      TellSupervisor{event.key, LauncherState{.present = run.link.has_value(),
                                              .generation = run.generation,
                                              .orphan_timeout_ms = run.lease.orphan_timeout_ms}});
}

// Keep the supervisor's claims, and let its launcher wait, until its workers are gone as well.
void NodeAgent::on(const SupervisorDown& event) {
  const auto found = supervisors_.find(event.key);
  if (found == supervisors_.end() || found->second.down) return;
  found->second.down = event.reason;
  actions_.push_back(ReapAttemptLeftovers{event.key});
}

void NodeAgent::on(const AttemptLeftoversReaped& event) {
  const auto reaped = supervisors_.extract(event.key);
  if (reaped.empty()) return;
  const bool standby = reaped.mapped().standby;
  if (const auto link = link_of(event.key.run_id))
    actions_.push_back(
        TellAttemptLost{*link, event.key.attempt, reaped.mapped().down.value_or(""), standby});
  const auto run = runs_.find(event.key.run_id);
  if (run != runs_.end() && !standby)
    run->second.ended = std::max(run->second.ended, std::optional(event.key.attempt));
  const bool last = std::none_of(supervisors_.begin(), supervisors_.end(),
                                 [&](const auto& s) { return s.first.run_id == event.key.run_id; });
  if (run != runs_.end() && !run->second.link && last) {
    forget(event.key.run_id);
  } else if (run != runs_.end() && run->second.waiting) {
    on(*std::exchange(run->second.waiting, std::nullopt));
  }
  send_offer(event.key.run_id);
  send_offers(/*but_to=*/event.key.run_id);
}

void NodeAgent::on(const AdoptionEnded&) {
  if (--adoptions_ > 0) return;
  std::vector<AttemptAsked> asked;
  for (auto& [id, run] : runs_) {
    if (auto waiting = std::exchange(run.waiting, std::nullopt))
      asked.push_back(std::move(*waiting));
  }
  for (const AttemptAsked& event : asked) on(event);
  send_offers();
}

void NodeAgent::on(const DrainAsked& event) {
  draining_ = event.reason;
  send_offers();
  for (const auto& [id, run] : runs_) {
    if (run.link) actions_.push_back(TellDraining{*run.link, event.reason});
  }
}

// A launcher that is still connected receives everything that its workers leave, and releases them.
// For runs without one, and for all runs the second time, the supervisor ends once its workers have
// ended.
void NodeAgent::on(const DrainExpired&) {
  const bool again = std::exchange(drain_expired_, true);
  for (const auto& [key, supervisor] : supervisors_) {
    actions_.push_back(
        StopAttempt{key, fmt::format("{} is draining ({})", node_name_, draining_.value_or(""))});
    if (again || !link_of(key.run_id)) {
      actions_.push_back(
          TellSupervisor{key, LauncherState{.present = false,
                                            .generation = runs_[key.run_id].generation,
                                            .orphan_timeout_ms = 0}});
    }
  }
}

std::optional<LinkId> NodeAgent::route_up(const AttemptKey& key, MessageType type,
                                          bool processes_left) {
  const auto supervisor = supervisors_.find(key);
  if (supervisor == supervisors_.end() || supervisor->second.down) return std::nullopt;
  if (type == MessageType::AttemptSnapshot) supervisor->second.in_step = true;
  if ((type == MessageType::GroupGone && !processes_left) || type == MessageType::StartFailed)
    supervisor->second.gone = true;
  return supervisor->second.in_step ? link_of(key.run_id) : std::nullopt;
}

std::optional<LinkId> NodeAgent::link_of(const std::string& run_id) const {
  const auto run = runs_.find(run_id);
  return run == runs_.end() ? std::nullopt : run->second.link;
}

std::optional<std::string> NodeAgent::run_of(LinkId link) const {
  for (const auto& [id, run] : runs_) {
    if (run.link == link) return id;
  }
  return std::nullopt;
}

std::string NodeAgent::user_of(const std::string& run_id) const {
  const auto run = runs_.find(run_id);
  return run == runs_.end() ? "" : run->second.lease.user;
}

std::uint64_t NodeAgent::generation_of(const std::string& run_id) const {
  const auto run = runs_.find(run_id);
  return run == runs_.end() ? 0 : run->second.generation;
}

/// Return what each run that has supervisors here has claimed.
ClaimedByRun NodeAgent::claimed() const {
  ClaimedByRun claimed;
  for (const auto& [key, supervisor] : supervisors_) {
    Resources& sum = claimed[key.run_id];
    add(sum, supervisor.claimed);
    for (const auto& [name, amount] : supervisor.claimed.custom) sum.custom[name] += amount;
  }
  return claimed;
}

Resources NodeAgent::free_for(const std::string& run_id) const {
  return queue_.free_for(run_id, unclaimed_by_others(run_id), claimed());
}

Resources NodeAgent::unclaimed_by_others(const std::string& run_id) const {
  Resources free = total_;
  for (const auto& [key, supervisor] : supervisors_) {
    if (key.run_id != run_id) take(free, supervisor.claimed);
  }
  // Runs do not share a GPU: what an attempt leaves of its own is nobody's.
  const std::size_t held = held_gpus(run_id).size();
  free.gpu = std::min(free.gpu, static_cast<double>(gpus_.size() - std::min(gpus_.size(), held)));
  return free;
}

/// Return the runs that have something here or wait, in the order of their turns.
NodeAgent::Pool NodeAgent::pool() const {
  Pool pool{.claimed = claimed(), .runs = {}};
  for (const auto& [id, run] : runs_) {
    const ClaimRoom* claim = queue_.find(id);
    const auto has = pool.claimed.find(id);
    if (claim == nullptr && has == pool.claimed.end()) continue;
    PoolRun known{.run_id = id,
                  .run_name = run.lease.run_name,
                  .owner = run.lease.submitter,
                  .place = claim != nullptr ? claim->place : QueuePlace{.placed = true},
                  .workers = claim != nullptr ? claim->workers : 0,
                  .claimed = has == pool.claimed.end() ? Resources{} : has->second,
                  .keeps = queue_.keeps(id, pool.claimed)};
    known.claimed.custom.clear();  // it may be large
    pool.runs.push_back(std::move(known));
  }
  std::sort(pool.runs.begin(), pool.runs.end(), [](const PoolRun& a, const PoolRun& b) {
    return goes_before(a.place, a.run_id, b.place, b.run_id);
  });
  return pool;
}

/// Return the first of the runs for which room is kept before this run has its turn.
std::vector<PoolRun> NodeAgent::runs_before(const std::string& run_id, const Pool& pool) const {
  const ClaimRoom* own = queue_.find(run_id);
  const bool waits = own != nullptr && !own->place.placed;
  std::vector<PoolRun> before;
  for (const PoolRun& other : pool.runs) {
    if (before.size() == kRunsBeforeMax || (waits && other.run_id == run_id)) break;
    if (!other.place.placed && other.keeps && other.run_id != run_id) before.push_back(other);
  }
  return before;
}

/// Return for whom room is kept before this run: "; room is kept for a, b".
std::string NodeAgent::kept_before(const std::string& run_id) const {
  std::string names;
  for (const PoolRun& other : runs_before(run_id, pool()))
    names += fmt::format("{}{}", names.empty() ? "; room is kept for " : ", ", other.run_name);
  return names;
}

std::vector<std::string> NodeAgent::gpus_of(const std::string& run_id) const {
  std::vector<std::string> gpus;
  for (const auto& [key, supervisor] : supervisors_)  // in the order of the attempts
    if (key.run_id == run_id && !supervisor.standby) gpus = supervisor.gpus;
  return gpus;
}

/// Return the GPUs that attempts of other runs hold.
std::set<std::string> NodeAgent::held_gpus(const std::string& run_id) const {
  std::set<std::string> held;
  for (const auto& [key, supervisor] : supervisors_) {
    if (key.run_id != run_id && !supervisor.standby)
      held.insert(supervisor.gpus.begin(), supervisor.gpus.end());
  }
  return held;
}

/// Return the GPUs that an attempt gets first, if they are free: those with which its processes
/// stand by, or for processes that are to stand by, those that their run holds now.
std::set<std::string> NodeAgent::preferred_gpus(const AttemptKey& key, bool standby) const {
  std::set<std::string> preferred;
  for (const auto& [other, supervisor] : supervisors_) {
    const bool gives = standby ? other.run_id == key.run_id && !supervisor.standby : other == key;
    if (gives) preferred.insert(supervisor.gpus.begin(), supervisor.gpus.end());
  }
  return preferred;
}

/// Return the GPUs that no attempt of another run holds, the preferred ones first.
std::vector<std::string> NodeAgent::free_gpus(const AttemptKey& key, bool standby) const {
  const std::set<std::string> held = held_gpus(key.run_id);
  std::vector<std::string> free;
  std::copy_if(gpus_.begin(), gpus_.end(), std::back_inserter(free),
               [&](const std::string& gpu) { return !held.contains(gpu); });
  // A run that waits for certain GPUs shall not find all but those.
  std::stable_partition(free.begin(), free.end(), [&](const std::string& gpu) {
    const auto traits = traits_.gpus.find(gpu);
    return !queue_.is_wanted(gpu, traits == traits_.gpus.end() ? "" : traits->second.uuid,
                             key.run_id);
  });
  const std::set<std::string> preferred = preferred_gpus(key, standby);
  std::stable_partition(free.begin(), free.end(),
                        [&](const std::string& gpu) { return preferred.contains(gpu); });
  return free;
}

std::string NodeAgent::owner_of(const std::string& run_id) const {
  const auto run = runs_.find(run_id);
  return run == runs_.end() ? "" : run->second.lease.submitter;
}

NodeOffer NodeAgent::offer_to(const std::string& run_id, const Pool& pool) const {
  const bool only_asks = runs_.at(run_id).generation == 0;
  Resources free = unclaimed_by_others(run_id);
  if (!only_asks) free = queue_.free_for(run_id, free, pool.claimed);
  NodeOffer offer{.node_name = node_name_,
                  .host = host_,
                  .addresses = addresses_,
                  .total = total_,
                  .free = draining_ ? Resources{} : std::move(free),
                  .attempts = {},
                  .draining = draining_.has_value(),
                  .labels = traits_.labels,
                  .gpus = {},
                  .owner_has = {},
                  .runs = only_asks ? pool.runs : runs_before(run_id, pool)};
  for (const auto& [other, has] : pool.claimed) {
    if (other != run_id && owner_of(other) == owner_of(run_id)) add(offer.owner_has, has);
  }
  offer.owner_wants = queue_.wanted_before(run_id, [&](const std::string& other) {
    return owner_of(other) == owner_of(run_id) && !pool.claimed.contains(other);
  });
  const std::set<std::string> held = held_gpus(run_id);
  for (const std::string& gpu : gpus_) {
    const auto traits = traits_.gpus.find(gpu);
    offer.gpus.push_back({gpu, traits == traits_.gpus.end() ? "" : traits->second.uuid,
                          !draining_ && !held.contains(gpu)});
  }
  for (const auto& [key, supervisor] : supervisors_) {
    if (key.run_id == run_id) offer.attempts.push_back(key.attempt.value);
  }
  if (offer.runs.size() > kPoolRunsMax) offer.runs.resize(kPoolRunsMax);
  return offer;
}

void NodeAgent::send_offer(const std::string& run_id) {
  if (link_of(run_id) && adoptions_ == 0) send_offer(run_id, offer_to(run_id, pool()));
}

void NodeAgent::send_offer(const std::string& run_id, NodeOffer offer) {
  Run& run = runs_.at(run_id);
  run.offered = std::move(offer);
  actions_.push_back(SendOffer{*run.link, *run.offered});
}

/// Send everyone whom the news concerns a new offer.
void NodeAgent::send_offers(const std::string& but_to) {
  if (adoptions_ > 0) return;
  const Pool pool = this->pool();
  for (const auto& [id, run] : runs_) {
    if (id == but_to || !run.link) continue;
    NodeOffer offer = offer_to(id, pool);
    if (run.offered != offer) send_offer(id, std::move(offer));
  }
}

void NodeAgent::tell_supervisors(const std::string& run_id, bool present) {
  const Run& run = runs_[run_id];
  for (const auto& [key, supervisor] : supervisors_) {
    if (key.run_id != run_id) continue;
    actions_.push_back(
        TellSupervisor{key, LauncherState{.present = present,
                                          .generation = run.generation,
                                          .orphan_timeout_ms = run.lease.orphan_timeout_ms}});
  }
}

NodeCounts NodeAgent::counts() const {
  NodeCounts counts{.total = total_,
                    .runs = static_cast<int>(runs_.size()),
                    .supervisors = static_cast<int>(supervisors_.size()),
                    .draining = draining_.has_value(),
                    .adopting = adoptions_ > 0};
  for (const auto& [id, run] : runs_) {
    const ClaimRoom* claim = queue_.find(id);
    counts.waiting += claim != nullptr && !claim->place.placed ? 1 : 0;
  }
  for (const auto& [key, supervisor] : supervisors_) {
    counts.standby += supervisor.standby ? 1 : 0;
    counts.claimed.cpu += supervisor.claimed.cpu;
    counts.claimed.gpu += supervisor.claimed.gpu;
    counts.claimed.memory_bytes += supervisor.claimed.memory_bytes;
    for (const auto& [name, amount] : supervisor.claimed.custom)
      counts.claimed.custom[name] += amount;
  }
  return counts;
}

}  // namespace train
