// Measures the seconds to put one local file into an S3 store, once the client is set up:
//
//   s3_upload ours|plain URL FILE
//
// ours: as the shard of a rank (digested, and compared with what the store then holds); plain: one
// stream of Arrow's S3 filesystem, read and written in pieces of the same size. Or it puts files
// plainly one after the other, as step_worker makes them, and removes each once it is there:
//
//   s3_upload follow URL FOLDER
#include <arrow/filesystem/s3fs.h>
#include <arrow/io/interfaces.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "lib/storage/object_checkpoint_store.h"
#include "lib/storage/posix_file_system.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLookEvery = std::chrono::milliseconds(5);

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "s3_upload: %s\n", why.c_str());
  std::_Exit(1);
}

double seconds_since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

double ours(const std::string& url, const std::string& file) {
  const auto store = train::open_object_store(url, {});
  if (!store) fail(store.error().describe());
  (void)(*store)->get("nothing", 1);  // now connected
  train::PosixFileSystem files;
  const auto begun = Clock::now();
  const auto shard = train::upload_shard(
      files, **store, {train::Generation{1}, train::Attempt{0}, train::CheckpointSeq{1}},
      train::Rank{0}, std::filesystem::path(file).parent_path());
  if (!shard) fail(shard.error().describe());
  return seconds_since(begun);
}

std::shared_ptr<arrow::fs::S3FileSystem> plain_client() {
  auto global = arrow::fs::S3GlobalOptions::Defaults();
  global.log_level = arrow::fs::S3LogLevel::Off;
  if (!arrow::fs::InitializeS3(global).ok()) fail("no S3");
  arrow::fs::S3Options options = arrow::fs::S3Options::FromAccessKey(
      std::getenv("AWS_ACCESS_KEY_ID"), std::getenv("AWS_SECRET_ACCESS_KEY"));
  options.region = "us-east-1";
  options.scheme = "http";
  options.request_timeout = 60;  // otherwise a busy server's last answer comes too late for it
  options.endpoint_override = std::string(std::getenv("AWS_ENDPOINT_URL")).substr(7);
  const auto files = arrow::fs::S3FileSystem::Make(options);
  if (!files.ok()) fail(files.status().ToString());
  return *files;
}

void put_plainly(arrow::fs::S3FileSystem& files, const std::string& key, const std::string& file) {
  const auto stream = files.OpenOutputStream(key);
  if (!stream.ok()) fail(stream.status().ToString());
  std::ifstream source(file, std::ios::binary);
  std::string buffer(1 << 20, '\0');
  while (source.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) ||
         source.gcount() > 0) {
    const auto wrote = (*stream)->Write(buffer.data(), source.gcount());
    if (!wrote.ok()) fail(wrote.ToString());
  }
  if (const auto closed = (*stream)->Close(); !closed.ok()) fail(closed.ToString());
}

double plain(const std::string& url, const std::string& file) {
  const auto files = plain_client();
  (void)files->GetFileInfo(url.substr(5) + "/nothing");  // now connected
  const auto begun = Clock::now();
  put_plainly(*files, url.substr(5) + "/plain", file);
  return seconds_since(begun);
}

/// Run until killed.
[[noreturn]] void follow(const std::string& url, const std::string& folder) {
  const auto files = plain_client();
  for (int number = 1;; ++number) {
    const std::string file = folder + "/" + std::to_string(number);
    while (!std::filesystem::exists(file)) std::this_thread::sleep_for(kLookEvery);
    put_plainly(*files, url.substr(5) + "/plain-" + std::to_string(number), file);
    std::filesystem::remove(file);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) fail("usage: s3_upload ours|plain URL FILE, or follow URL FOLDER");
  if (std::string(argv[1]) == "follow") follow(argv[2], argv[3]);
  std::printf("%.6f\n",
              std::string(argv[1]) == "ours" ? ours(argv[2], argv[3]) : plain(argv[2], argv[3]));
  std::fflush(stdout);
  std::_Exit(0);
}
