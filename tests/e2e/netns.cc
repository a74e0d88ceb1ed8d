#include "tests/e2e/netns.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace train::e2e {
namespace {

constexpr const char* kNamespaces = "/run/netns";
constexpr std::string_view kMark = "trainrun-e2e-";  // followed by the test's pid and the node

// Run a script in one shell, because a namespace takes a dozen commands. Return "" or the message
// of the first command that failed.
std::string shell(const std::string& script) {
  FILE* pipe = ::popen(fmt::format("exec 2>&1; set -e; {}", script).c_str(), "r");
  if (pipe == nullptr) return "no shell";
  std::string said;
  char buffer[512];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) said += buffer;
  const int status = ::pclose(pipe);
  return status == 0    ? ""
         : said.empty() ? fmt::format("`{}` ended with status {}", script, status)
                        : said;
}

void must(const std::string& script) {
  const std::string problem = shell(script);
  if (!problem.empty()) ADD_FAILURE() << script << ": " << problem;
}

// Remove what tests left that were killed before their destructors.
void remove_leftovers() {
  DIR* folder = ::opendir(kNamespaces);
  if (folder == nullptr) return;
  std::vector<std::string> stale;
  while (const dirent* entry = ::readdir(folder)) {
    const std::string name = entry->d_name;
    if (!name.starts_with(kMark)) continue;
    const pid_t owner = std::atoi(name.c_str() + kMark.size());
    if (owner <= 0 || ::kill(owner, 0) != 0) stale.push_back(name);
  }
  ::closedir(folder);
  for (const std::string& name : stale) (void)shell(fmt::format("ip netns del {}", name));
}

}  // namespace

std::string Network::missing() {
  if (::geteuid() != 0) return "network namespaces need root";
  for (const char* tool : {"ip", "nsenter", "nft", "tc"}) {
    if (!shell(fmt::format("command -v {} > /dev/null", tool)).empty())
      return fmt::format("the program {} is missing", tool);
  }
  remove_leftovers();
  const std::string probe = fmt::format("{}{}-probe", kMark, ::getpid());
  const std::string problem =
      shell(fmt::format("ip netns add {0}; ip -n {0} link add p0 type veth peer name p1; ip -n {0} "
                        "link add b0 type bridge; "
                        "nsenter --net={1}/{0} nft add table inet probe",
                        probe, kNamespaces));
  (void)shell(fmt::format("ip netns del {}", probe));
  return problem.empty() ? "" : "this system does not allow network namespaces: " + problem;
}

Network::Network(int nodes) : prefix_(fmt::format("{}{}-", kMark, ::getpid())), nodes_(nodes) {
  const std::string hub = name("hub");
  std::string script = fmt::format(
      "ip netns add {0}; ip -n {0} link set lo up; ip -n {0} link add hub0 type bridge; "
      "ip -n {0} addr add 10.83.0.1/24 dev hub0; ip -n {0} link set hub0 up",
      hub);
  for (int node = 0; node < nodes; ++node) {
    script += fmt::format(
        "; ip netns add {0}; ip -n {0} link set lo up; ip -n {1} link add port{2} type veth peer "
        "name {3} netns {0}; "
        "ip -n {1} link set port{2} master hub0 up; ip -n {0} addr add {4}/24 dev {3}; ip -n {0} "
        "link set {3} up",
        name(node), hub, node, kInterface, address(node));
  }
  must(script);
}

Network::~Network() {
  for (int node = 0; node < nodes_; ++node) (void)shell(fmt::format("ip netns del {}", name(node)));
  (void)shell(fmt::format("ip netns del {}", name("hub")));
}

std::string Network::name(const std::string& who) const { return prefix_ + who; }
std::string Network::name(int node) const { return fmt::format("{}{}", prefix_, node); }
std::string Network::address(int node) const { return fmt::format("10.83.0.{}", 10 + node); }

// Change only the network: `ip netns exec` would also hide /sys/fs/cgroup.
std::vector<std::string> Network::on_node(int node) const {
  return {"nsenter", fmt::format("--net={}/{}", kNamespaces, name(node)), "--"};
}
std::vector<std::string> Network::on_hub() const {
  return {"nsenter", fmt::format("--net={}/{}", kNamespaces, name("hub")), "--"};
}

void Network::cut(int node) const {
  must(fmt::format("ip -n {} link set port{} down", name("hub"), node));
}
void Network::cut_off(int node) const {
  cut(node);
  must(fmt::format("ip -n {} route add unreachable {}", name("hub"), address(node)));
}
void Network::mend(int node) const {
  (void)shell(fmt::format("ip -n {} route del unreachable {}", name("hub"), address(node)));
  must(fmt::format("ip -n {} link set port{} up", name("hub"), node));
}

void Network::deafen(int node) const {
  must(
      fmt::format("nsenter --net={}/{} nft 'add table inet deaf; add chain inet deaf in {{ type "
                  "filter hook input priority 0; }}; "
                  "add rule inet deaf in iifname {} drop'",
                  kNamespaces, name(node), kInterface));
}
void Network::silence(int node) const {
  must(
      fmt::format("nsenter --net={}/{} nft 'add table inet dumb; add chain inet dumb out {{ type "
                  "filter hook output priority 0; }}; "
                  "add rule inet dumb out oifname {} counter drop'",
                  kNamespaces, name(node), kInterface));
}
void Network::unsilence(int node) const {
  must(fmt::format("nsenter --net={}/{} nft delete table inet dumb", kNamespaces, name(node)));
}
void Network::slow(int node, int mbit) const {
  must(fmt::format("tc -n {} qdisc replace dev {} root tbf rate {}mbit burst 64kb latency 400ms",
                   name(node), kInterface, mbit));
}

void Network::lose(int node, int percent) const {
  must(fmt::format(
      "nsenter --net={0}/{1} nft 'add table inet lossy; add chain inet lossy in {{ type filter "
      "hook input priority 0; }}; add chain inet lossy out {{ type filter hook output priority 0; "
      "}}; add rule inet lossy in iifname {2} numgen random mod 100 < {3} counter drop; "
      "add rule inet lossy out oifname {2} numgen random mod 100 < {3} counter drop'",
      kNamespaces, name(node), kInterface, percent));
}
std::uint64_t Network::dropped(int node) const {
  FILE* pipe = ::popen(
      fmt::format("nsenter --net={}/{} nft list ruleset", kNamespaces, name(node)).c_str(), "r");
  if (pipe == nullptr) return 0;
  std::uint64_t sum = 0;
  char line[512];
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    if (const char* counter = std::strstr(line, "counter packets "))
      sum += std::strtoull(counter + std::strlen("counter packets "), nullptr, 10);
  }
  ::pclose(pipe);
  return sum;
}

bool Network::dialled(int node) const {
  constexpr const char* kSynSent = " 02 ";  // the state's column, between addresses and queues
  FILE* pipe = ::popen(
      fmt::format("nsenter --net={}/{} cat /proc/net/tcp", kNamespaces, name("hub")).c_str(), "r");
  if (pipe == nullptr) return false;
  in_addr there{};
  ::inet_pton(AF_INET, address(node).c_str(), &there);
  const std::string wanted = fmt::format(" {:08X}:", there.s_addr);
  bool found = false;
  char line[512];
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    const std::string text = line;
    found |= text.find(wanted) != std::string::npos && text.find(kSynSent) != std::string::npos;
  }
  ::pclose(pipe);
  return found;
}

bool Network::holds(int node, pid_t pid) const {
  struct stat here {
  }, there{};
  return ::stat(fmt::format("{}/{}", kNamespaces, name(node)).c_str(), &here) == 0 &&
         ::stat(fmt::format("/proc/{}/ns/net", pid).c_str(), &there) == 0 &&
         here.st_ino == there.st_ino;
}

void Network::undeafen(int node) const {
  must(fmt::format("nsenter --net={}/{} nft delete table inet deaf", kNamespaces, name(node)));
}

}  // namespace train::e2e
