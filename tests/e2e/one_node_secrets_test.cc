// Secrets appear only where they are needed. Puts canaries into the environment and the spec, then
// searches all that a run wrote and printed.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCanary = "canary-3f9a";  // each canary begins with it

/// Write a script that fails with all its secrets in the error, and prints nothing itself.
std::string failing_script(const Cluster& cluster) {
  return cluster.write("fail.py", R"(import json, os, sys
told = ' '.join(value for value in os.environ.values() if 'canary' in value)
error = {'message': {'message': 'no login with ' + told, 'extraInfo': {'py_callstack': told}}}
json.dump(error, open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w'))
sys.exit(3)
)");
}

std::string job_with_canaries(const Cluster& cluster) {
  const std::string file = cluster.write("secret.txt", "canary-3f9a-file\n");
  return cluster.job("job",
                     "command: [python3, " + failing_script(cluster) +
                         ", 'https://u:canary-3f9a-argv@host/']\n"
                         "scaling_config: {num_workers: 1, resources_per_worker: {CPU: 0}}\n"
                         "env:\n"
                         "  DB_PASSWORD: canary-3f9a-literal\n"
                         "  QUOTED_TOKEN: 'canary-3f9a \"quoted\" \\ one'\n"
                         "  REFERRED: env:OUTER\n"
                         "  FROM_FILE: file:" +
                         file +
                         "\ntrain_loop_config:\n"
                         "  lr: 0.25\n"
                         "  api_key: canary-3f9a-config\n"
                         "  store: {password: canary-3f9a-nested, url: "
                         "'s3://a:canary-3f9a-url@b/c'}\n"
                         "metadata: {token: canary-3f9a-metadata}",
                     "  callbacks: [csv, tensorboard]");
}

StartOptions outer_environment() {
  return {.env = {{"OUTER", "canary-3f9a-outer"},
                  {"AWS_SECRET_ACCESS_KEY", "/canary-3f9a-aws"},
                  {"SERVICE_KEY", "canary-3f9a-service"},
                  {"DATABASE_URL", "postgres://me:canary-3f9a-dsn@db/x"}},
          .prefix = {},
          .cwd = ""};
}

std::vector<std::string> files_with(const std::string& folder, const std::string& text) {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && contains(read_file(entry.path()), text))
      found.push_back(fs::relative(entry.path(), folder));
  std::sort(found.begin(), found.end());
  return found;
}

mode_t mode_of(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777;
}

TEST(Secrets, StandInNoFileOfARunButItsSpec) {
  Cluster cluster;

  Process& run = cluster.train_run({job_with_canaries(cluster)}, outer_environment());
  ASSERT_EQ(run.wait(), 3);

  EXPECT_EQ(files_with(cluster.run_dir("job"), kCanary),
            (std::vector<std::string>{"spec.resolved.yaml", "spec.yaml"}));
  EXPECT_EQ(mode_of(cluster.run_dir("job") + "/spec.yaml"), 0600u);
  EXPECT_EQ(mode_of(cluster.run_dir("job") + "/spec.resolved.yaml"), 0600u);
  EXPECT_FALSE(contains(cluster.read(cluster.run_dir("job") + "/spec.yaml"), "3f9a-outer"));
  EXPECT_FALSE(contains(run.out() + run.err(), kCanary)) << run.out() << run.err();
  // The message names what is hidden, and still tells the cause.
  EXPECT_TRUE(contains(run.out(), "no login with ")) << run.out();
  EXPECT_TRUE(contains(run.out(), "<redacted:REFERRED>")) << run.out();
  EXPECT_TRUE(contains(run.out(), "<redacted:DB_PASSWORD>")) << run.out();
}

TEST(Secrets, OfADetachedRunAreInTheNoteOfItsControllerOnly) {
  Cluster cluster;
  const std::string job = job_with_canaries(cluster);
  cluster.write("fail.py", "import os, time\nwhile not os.path.exists('" + cluster.path("go") +
                               "'): time.sleep(0.01)\n" + cluster.read(cluster.path("fail.py")));

  Process& run = cluster.train_run({"--detach", job}, outer_environment());
  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  ASSERT_TRUE(wait_until([&] { return cluster.worker(0).has_value(); }));
  const std::vector<std::string> notes = files_with(cluster.runtime_dir(), kCanary);
  const std::vector<std::string> logs = files_with(cluster.runtime_dir(), "msg=");

  ASSERT_EQ(notes.size(), 1u) << ::testing::PrintToString(notes);
  EXPECT_TRUE(fs::path(notes[0]).filename().string().starts_with("c-")) << notes[0];
  EXPECT_EQ(fs::path(notes[0]).extension(), ".detached");
  EXPECT_EQ(mode_of(cluster.runtime_dir() + "/" + notes[0]), 0600u);
  ASSERT_EQ(logs.size(), 1u) << ::testing::PrintToString(logs);
  EXPECT_EQ(fs::path(logs[0]).filename(), "traind.log");

  cluster.write("go", "");
  ASSERT_TRUE(wait_until([&] { return exists(cluster.run_dir("job") + "/exit.json"); }));
  EXPECT_TRUE(nothing_left(cluster));
  EXPECT_TRUE(contains(cluster.read(cluster.run_dir("job") + "/launcher.log"), "no login with "));
  EXPECT_EQ(files_with(cluster.run_dir("job"), kCanary),
            (std::vector<std::string>{"spec.resolved.yaml", "spec.yaml"}));
  EXPECT_FALSE(contains(run.out() + run.err(), kCanary)) << run.out() << run.err();
}

TEST(Secrets, AreInNothingThatACommandShows) {
  Cluster cluster;
  const std::string job = job_with_canaries(cluster);
  ASSERT_EQ(cluster.run({job}, outer_environment()), 3);
  const std::vector<std::vector<std::string>> commands{
      {job, "--print-config"},
      {job, "--dry-run"},
      {"validate", job},
      {"status", cluster.run_dir("job")},
      {"status", cluster.run_dir("job"), "--output", "json"},
      {"logs", cluster.run_dir("job")},
      {"can-restore", cluster.run_dir("job")},
      {"checkpoint", "list", cluster.run_dir("job")},
  };

  for (const auto& words : commands) {
    Process& command = cluster.train_run(words, outer_environment());
    EXPECT_EQ(command.wait(), 0) << command.command() << command.err();
    EXPECT_FALSE(contains(command.out() + command.err(), kCanary))
        << command.command() << "\n"
        << command.out() << command.err();
  }
}

/// Make a bundle of the run, without the variables of the run's own shell, and unpack it into the
/// folder "bundle". Return what the command printed.
std::string bundle_of(Cluster& cluster) {
  const std::string path = cluster.path("bundle.tar.gz");
  Process& command = cluster.train_run({"bundle", cluster.run_dir("job"), "-o", path});
  EXPECT_EQ(command.wait(), 0) << command.err();
  EXPECT_EQ(mode_of(path), 0600u);
  Process& tar = cluster.start({"tar", "-xzf", path, "-C", cluster.dir()});
  EXPECT_EQ(tar.wait(), 0) << tar.err();
  return command.out() + command.err();
}

TEST(Secrets, AreInNoByteOfABundleOfAFinishedRun) {
  Cluster cluster;
  ASSERT_EQ(cluster.run({job_with_canaries(cluster)}, outer_environment()), 3);

  const std::string said = bundle_of(cluster);

  EXPECT_EQ(files_with(cluster.path("bundle"), kCanary), std::vector<std::string>{});
  EXPECT_TRUE(contains(said, "env.REFERRED: env:OUTER is not known here")) << said;
  EXPECT_TRUE(contains(said, "look through it before you send it")) << said;
  for (const char* name :
       {"MANIFEST.txt", "machine.txt", "run/spec.yaml", "run/spec.resolved.yaml", "run/run.json",
        "run/exit.json", "run/events.jsonl", "run/train-run.log", "run/attempts/000/cause.json",
        "run/attempts/000/ranks/0000/error.json", "run/attempts/000/ranks/0000/stderr.log"})
    EXPECT_TRUE(exists(cluster.path("bundle") + "/" + name)) << name;
  const std::string spec = cluster.read(cluster.path("bundle") + "/run/spec.yaml");
  EXPECT_TRUE(contains(spec, "\n  DB_PASSWORD: <redacted:DB_PASSWORD>\n")) << spec;
  EXPECT_TRUE(contains(spec, "\n  REFERRED: env:OUTER\n")) << spec;
}

TEST(Secrets, AreInNoByteOfABundleOfARunWhoseWorkersPrintThem) {
  Cluster cluster;
  const std::string job = job_with_canaries(cluster);
  cluster.write("fail.py",
                "import os, time\nprint(os.environ, flush=True)\nwhile not "
                "os.path.exists('" +
                    cluster.path("go") + "'): time.sleep(0.01)\n");
  Process& run = cluster.train_run({job}, outer_environment());
  ASSERT_TRUE(wait_until([&] {
    return contains(cluster.read(cluster.run_dir("job") + "/attempts/000/ranks/0000/stdout.log"),
                    kCanary);
  }));

  const std::string said = bundle_of(cluster);

  EXPECT_EQ(files_with(cluster.path("bundle"), kCanary), std::vector<std::string>{}) << said;
  EXPECT_FALSE(contains(said, "not known here")) << said;
  EXPECT_TRUE(
      contains(cluster.read(cluster.path("bundle") + "/run/attempts/000/ranks/0000/stdout.log"),
               "<redacted:DB_PASSWORD>"));
  cluster.write("go", "");
  EXPECT_EQ(run.wait(), 0);
}

TEST(Secrets, TheWorkersGetThemAllTheSame) {
  Cluster cluster;
  const std::string script = cluster.write("tell.py", R"(import os
for name in ('DB_PASSWORD', 'REFERRED', 'FROM_FILE', 'AWS_SECRET_ACCESS_KEY'):
    print(name, os.environ[name], flush=True)
)");
  const std::string job = cluster.job(
      "job", "command: [python3, " + script +
                 "]\nscaling_config: {num_workers: 1, resources_per_worker: {CPU: 0}}\n"
                 "env: {DB_PASSWORD: canary-3f9a-literal, REFERRED: env:OUTER, FROM_FILE: 'file:" +
                 cluster.write("secret.txt", "canary-3f9a-file\n") + "'}");

  Process& run = cluster.train_run({job}, outer_environment());
  ASSERT_EQ(run.wait(), 0);

  for (const char* line :
       {"DB_PASSWORD canary-3f9a-literal", "REFERRED canary-3f9a-outer",
        "FROM_FILE canary-3f9a-file", "AWS_SECRET_ACCESS_KEY /canary-3f9a-aws"}) {
    EXPECT_TRUE(contains(run.out(), line)) << run.out();  // its own output is unchanged
  }
}

}  // namespace
}  // namespace train::e2e
