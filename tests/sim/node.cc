#include "tests/sim/node.h"

#include "tests/sim/checkers.h"

namespace train::sim {
namespace {

constexpr Duration kSocketMin = std::chrono::microseconds(20),
                   kSocketMax = std::chrono::microseconds(500);

}  // namespace

SimNode::SimNode(Timeline& timeline, Checkers& check, const Plan& plan, Mutant mutant, int index)
    : timeline_(timeline), check_(check), plan_(plan), mutant_(mutant), index_(index) {
  restart();
}

void SimNode::later(Duration delay, std::function<void()> what) {
  timeline_.after(delay, [this, incarnation = incarnation_, what = std::move(what)] {
    if (up() && incarnation == incarnation_) what();
  });
}

void SimNode::restart() {
  ResourceAmounts total;
  total.cpu = plan_.cpus_per_node;
  ++incarnation_;
  agent_ = std::make_unique<NodeAgent>(fmt::format("node-{}", index_), "host",
                                       std::vector<std::string>{"10.0.0.1"}, total);
  for (const auto& [key, supervisor] : std::map(files_)) {
    feed(AdoptionBegun{});
    later(timeline_.random.between(Duration{0}, milliseconds(20)),
          [this, key = key, supervisor = supervisor] {
            if (supervisor->alive()) return void(serve_supervisor(supervisor, key, false));
            files_.erase(key);
            feed(AdoptionEnded{});
          });
  }
}

void SimNode::crash() {
  if (!up()) return;
  timeline_.trace("node {} traind killed", index_);
  agent_.reset();
  for (auto& [id, link] : std::exchange(launchers_, {})) link->close(1);
  supervisors_.clear();
  for (auto& link : std::exchange(serving_, {})) link->close(0);
}

void SimNode::accept(LinkPtr link) {
  const LinkId id = next_link_++;
  launchers_[id] = link;
  const std::uint64_t incarnation = incarnation_;
  link->set_end(1, {[this, id, incarnation](const SimFrame& frame) {
                      if (up() && incarnation == incarnation_) from_launcher(id, frame);
                    },
                    [this, id, incarnation] {
                      if (!up() || incarnation != incarnation_) return;
                      feed(LauncherLinkClosed{id});
                      launchers_.erase(id);
                    }});
}

void SimNode::to_launcher(LinkId id, SimFrame frame) {
  if (const auto link = launchers_.find(id); link != launchers_.end())
    link->second->send(1, std::move(frame));
}

void SimNode::from_launcher(LinkId id, const SimFrame& frame) {
  if (const auto* attach = std::get_if<AttachRun>(&frame.payload)) {
    AttachRun message = *attach;
    if (mutant_ == Mutant::EpochNotChecked) message.epoch = 99;
    const auto before = agent_->link_of(message.run_id);
    feed(LauncherAttached{id, message});
    check_.attached(attach->epoch, before ? epochs_[*before] : 0,
                    agent_->link_of(message.run_id) == id);
    epochs_[id] = attach->epoch;
  } else if (const auto* prepare = std::get_if<PrepareAttempt>(&frame.payload)) {
    feed(AttemptAsked{id, frame.attempt, *prepare});
  } else if (std::holds_alternative<DetachRun>(frame.payload)) {
    feed(LauncherDetached{id});
    if (const auto link = launchers_.find(id); link != launchers_.end()) link->second->close(1);
    launchers_.erase(id);
  } else if (const auto run = agent_->run_of(id)) {
    const auto supervisor = supervisors_.find(AttemptKey{*run, frame.attempt});
    if (supervisor != supervisors_.end()) supervisor->second->send(0, frame);
  }
}

void SimNode::feed(const NodeEvent& event) {
  for (const NodeAction& action : agent_->handle(event)) perform(action);
}

void SimNode::perform(const NodeAction& action) {
  if (const auto* refuse = std::get_if<RefuseLink>(&action)) {
    to_launcher(refuse->link, {{}, Refused{"fenced", refuse->error.message, ""}});
  } else if (const auto* drop = std::get_if<DropLink>(&action)) {
    to_launcher(drop->link, {{}, Refused{"fenced", "taken over", ""}});
  } else if (const auto* offer = std::get_if<SendOffer>(&action)) {
    to_launcher(offer->link, {{}, offer->offer});
  } else if (const auto* prepare = std::get_if<SendPrepare>(&action)) {
    if (const auto link = supervisors_.find(prepare->key); link != supervisors_.end())
      link->second->send(0, {prepare->key.attempt, prepare->message});
  } else if (const auto* spawned = std::get_if<SpawnSupervisor>(&action)) {
    spawn(*spawned);
  } else if (const auto* refused = std::get_if<RefuseAttempt>(&action)) {
    to_launcher(refused->link,
                {refused->attempt, StartFailed{0, std::string(to_string(refused->error.code)),
                                               refused->error.message, ""}});
  } else if (const auto* tell = std::get_if<TellSupervisor>(&action)) {
    if (const auto link = supervisors_.find(tell->key); link != supervisors_.end())
      link->second->send(0, {tell->key.attempt, tell->state});
  } else if (const auto* lost = std::get_if<TellAttemptLost>(&action)) {
    to_launcher(lost->link, {lost->attempt, AttemptLost{lost->reason}});
  } else if (const auto* swept = std::get_if<SweepAttempt>(&action)) {
    files_.erase(swept->key);
  }
}

void SimNode::spawn(const SpawnSupervisor& action) {
  all_.push_back(
      std::make_unique<SimSupervisor>(timeline_, check_, plan_, mutant_, index_, action));
  SimSupervisor* supervisor = all_.back().get();
  timeline_.trace("node {} attempt {} supervisor spawned", index_, action.key.attempt.value);
  files_[action.key] = supervisor;
  supervisor->on_exit([this, key = action.key, incarnation = incarnation_] {
    if (!up() || incarnation != incarnation_)
      return;  // its parent is dead: who adopted it hears by the link
    supervisors_.erase(key);
    feed(SupervisorDown{key, "exit code 0"});
  });
  const SimFrame prepare{action.key.attempt, action.message};
  later(timeline_.random.between(milliseconds(1), milliseconds(5)),
        [this, supervisor, key = action.key, prepare] {
          if (supervisor->alive()) serve_supervisor(supervisor, key, true)->send(0, prepare);
        });
}

LinkPtr SimNode::serve_supervisor(SimSupervisor* supervisor, AttemptKey key, bool ours) {
  auto link = std::make_shared<SimLink>(timeline_, kSocketMin, kSocketMax);
  const std::uint64_t incarnation = incarnation_;
  const auto adopting = std::make_shared<bool>(!ours);  // shared by the two ends of one flow
  link->set_end(0, {[this, key, incarnation, raw = link.get(), adopting](const SimFrame& frame) {
                      if (!up() || incarnation != incarnation_) return;
                      if (const auto* hello = std::get_if<SupervisorHello>(&frame.payload)) {
                        supervisors_[key] = raw->shared_from_this();
                        feed(SupervisorUp{key, *hello});
                        if (std::exchange(*adopting, false)) feed(AdoptionEnded{});
                        return;
                      }
                      const auto to = mutant_ == Mutant::FramesPassOutOfStep
                                          ? agent_->link_of(key.run_id)
                                          : agent_->route_up(key, frame.type());
                      if (to) to_launcher(*to, frame);
                    },
                    [this, key, incarnation, ours, adopting, raw = link.get()] {
                      if (!up() || incarnation != incarnation_) return;
                      if (const auto found = supervisors_.find(key);
                          found != supervisors_.end() && found->second.get() == raw)
                        supervisors_.erase(found);
                      const bool unknown = std::exchange(*adopting, false);
                      if (unknown)
                        feed(AdoptionEnded{});
                      else if (!ours)
                        feed(SupervisorDown{key, "it ended"});
                    }});
  serving_.push_back(link);
  supervisor->attach(link);
  return link;
}

}  // namespace train::sim
