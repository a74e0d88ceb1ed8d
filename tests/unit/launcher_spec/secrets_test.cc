#include "launcher/spec/secrets.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace train::spec {
namespace {

TEST(Secrets, ReadsReferencesAndLeavesUrlsAlone) {
  EXPECT_EQ(secret_reference("env:HF_TOKEN"),
            (SecretReference{SecretReference::From::Environment, "HF_TOKEN"}));
  EXPECT_EQ(secret_reference("file:/etc/token"),
            (SecretReference{SecretReference::From::File, "/etc/token"}));
  EXPECT_EQ(secret_reference("file:///mlruns"), std::nullopt);
  EXPECT_EQ(secret_reference("environment"), std::nullopt);
}

TEST(Secrets, ResolvesFromTheSubmitterAndFromFiles) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("secrets_test." + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "key") << "from file\n";
  JobSpec spec;
  spec.env = {{"A", "plain"}, {"B", "env:OUTER"}, {"C", "file:" + (folder / "key").string()}};

  const auto resolved = resolve_environment(spec, {{"OUTER", "from env"}});

  ASSERT_TRUE(resolved.has_value());
  EXPECT_EQ(*resolved, (std::map<std::string, std::string>{
                           {"A", "plain"}, {"B", "from env"}, {"C", "from file"}}));
  std::filesystem::remove_all(folder);
}

TEST(Secrets, NamesTheKeyWhoseSecretIsMissing) {
  JobSpec spec;
  spec.env = {{"A", "env:NO_SUCH"}};
  EXPECT_EQ(resolve_environment(spec, {}).error(),
            (Error{Errc::InvalidSpec, "env.A refers to the variable NO_SUCH, which is not set",
                   "set it where train-run is started"}));

  spec.env = {{"A", "file:/no/such/file"}};
  EXPECT_EQ(resolve_environment(spec, {}).error(),
            (Error{Errc::NotFound,
                   "reading the secret of env.A: /no/such/file: No such file or directory", ""}));
}

TEST(Secrets, ShowsReferencesAndHidesLiterals) {
  EXPECT_EQ(shown_environment({{"A", "plain"}, {"HF_TOKEN", "hf_123"}, {"API_KEY", "env:X"}}),
            (std::map<std::string, std::string>{
                {"A", "plain"}, {"HF_TOKEN", "<redacted:HF_TOKEN>"}, {"API_KEY", "env:X"}}));
}

TEST(WorkerEnvironment, GivesWorkersTheSubmittersEnvironmentWithoutWhatIsTheLaunchers) {
  JobSpec spec;
  spec.env = {{"OMP_NUM_THREADS", "4"}, {"KEY", "env:MY_KEY"}};
  const auto env = worker_environment(spec, {{"PATH", "/bin"},
                                             {"TRAINRUN_TOKEN_FILE", "/t"},
                                             {"TORCHELASTIC_RUN_ID", "x"},
                                             {"MY_KEY", "s3cret"}});
  ASSERT_TRUE(env) << env.error().describe();
  EXPECT_EQ(
      *env,
      (std::map<std::string, std::string>{
          {"PATH", "/bin"}, {"OMP_NUM_THREADS", "4"}, {"KEY", "s3cret"}, {"MY_KEY", "s3cret"}}));
}

TEST(WorkerEnvironment, GivesWorkersNoPeersOfAnOuterLauncherUnlessTheJobNamesThem) {
  JobSpec spec;
  spec.env = {{"HOROVOD_FUSION_THRESHOLD", "1"}, {"OMPI_MCA_btl", "self"}};
  std::map<std::string, std::string> outer{{"PATH", "/bin"},
                                           {"TF_CPP_MIN_LOG_LEVEL", "1"},
                                           {"JAX_PLATFORMS", "cpu"},
                                           {"MPICH_DIR", "/opt"}};
  const auto kept = outer;
  for (const char* name :
       {"PMI_RANK", "PMI_FD", "PMI_SIZE", "PMI2_X", "PMIX_RANK", "PMIX_NAMESPACE",
        "OMPI_COMM_WORLD_RANK", "OMPI_MCA_btl", "PRTE_LAUNCHED", "HYDI_CONTROL_FD",
        "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "TF_CONFIG", "HOROVOD_RANK",
        "HOROVOD_FUSION_THRESHOLD", "JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_BIND_ADDRESS"})
    outer[name] = "outer";

  const auto env = worker_environment(spec, outer);

  ASSERT_TRUE(env) << env.error().describe();
  auto expected = kept;
  expected.insert(spec.env.begin(), spec.env.end());
  EXPECT_EQ(*env, expected);
}

}  // namespace
}  // namespace train::spec
