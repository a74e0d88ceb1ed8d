// Compares the figures in the documents with the code, so that nobody changes only one of them.
#include <gtest/gtest.h>

#include <cctype>
#include <map>

#include "daemon/core/pending_handshakes.h"
#include "daemon/supervisor/checkpoints/shard_writers.h"
#include "daemon/supervisor/workers/answered_collectives.h"
#include "launcher/cluster/checkpoints/shard_transfer.h"
#include "launcher/cluster/links/file_relay.h"
#include "launcher/cluster/reports/output_log.h"
#include "launcher/cluster/run/run_screen.h"
#include "launcher/core/run_controller.h"
#include "launcher/report/log_printer.h"
#include "lib/net/certificate_files.h"
#include "lib/net/handshake.h"
#include "lib/storage/remote/retries.h"
#include "lib/transfer/file_server.h"
#include "lib/transfer/transfer_window.h"
#include "lib/wire/reports.h"
#include "lib/yaml/reader.h"
#include "sdk/client/report_queue.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

using std::chrono::minutes;

constexpr std::uint64_t kKiB = 1u << 10, kMiB = 1u << 20, kGiB = 1u << 30;

/// Return a project file's text, with line ends and indents replaced by one space.
std::string words_of(const std::string& file) {
  std::string words;
  for (const char c : text_of(std::string(TRAIN_SOURCE_DIR "/") + file)) {
    if (!std::isspace(static_cast<unsigned char>(c)))
      words += c;
    else if (!words.ends_with(' '))
      words += ' ';
  }
  return words;
}

TEST(DocumentedLimits, AreThoseOfTheCode) {
  struct Row {
    const char* constant;
    bool is_so;
    const char *file, *phrase;
  };
  const FailureConfig failure;
  const CheckpointConfig checkpoint;
  const std::vector<Row> rows = {
      // when something dies
      {"orphan_timeout", failure.orphan_timeout == minutes(10), "README.md",
       "| `traind` | nothing for `orphan_timeout` (10 min)"},
      {"orphan_timeout", failure.orphan_timeout == minutes(10), "README.md",
       "| `train-run` | nothing for `orphan_timeout` (10 min)"},
      {"orphan_timeout", failure.orphan_timeout == minutes(10), "packaging/man/traind.8",
       ".B orphan_timeout is over (10 minutes, unless"},
      {"kNodeFailuresMax", kNodeFailuresMax == 3, "README.md",
       "A node with three failures is named and quarantined"},
      {"kNodeCooldown", kNodeCooldown == minutes(10), "README.md", "quarantined for ten minutes"},
      {"kSameLocationMax", kSameLocationMax == 3, "README.md",
       "dies at the same report three times in a row"},
      // what is kept
      {"OutputLimits::run_bytes", OutputLimits{}.run_bytes == kGiB, "README.md",
       "The output of a run is kept up to 1 GiB;"},
      {"OutputTimes::kBytesMax", OutputTimes::kBytesMax == 16 * kMiB, "lib/storage/FORMAT.md",
       "At 16 MiB the file is replaced"},
      {"OutputTimes::kMarkEvery", OutputTimes::kMarkEvery == milliseconds(5),
       "lib/storage/FORMAT.md", "A stream gets a line every 5 ms at most."},
      {"LogPrinter::kTailMax", LogPrinter::kTailMax == 100'000, "packaging/man/train-run.1",
       "At most 100,000."},
      {"OutputView::kRunFactor", OutputView::kRunFactor == 8, "README.md",
       "lines a second of each rank, and 8 times as many of all ranks"},
      {"view_options(Live)",
       view_options({}, OutputMode::Live).lines_max == 1000 &&
           view_options({}, OutputMode::Plain).lines_max == 0,
       "packaging/man/train-run.1", "Default: 1000 on a terminal; 0, which means all"},
      {"view_options(Plain)", view_options({}, OutputMode::Plain).window == seconds(1), "README.md",
       "a line waits up to 1 s for the same line of other ranks"},
      {"view_options(Live)", view_options({}, OutputMode::Live).window == milliseconds(100),
       "README.md", "print the same line within 0.1 s, it is shown once"},
      {"kReportQueueBytesMax", sdk::kReportQueueBytesMax == 8 * kMiB, "docs/sdk.md",
       "reports that are not on the launcher's disk yet may take 8 MiB in a worker"},
      {"kReportQueueBytesMax", sdk::kReportQueueBytesMax == 8 * kMiB, "docs/architecture.md",
       "puts it into a queue of the worker (8 MiB)"},
      {"kReportBytesMax", kReportBytesMax == 64 * kKiB, "docs/sdk.md",
       "One report takes at most 64 KiB."},
      {"kReportHistogramBytesMax",
       kReportHistogramBytesMax == 32 * kKiB && kReportHistogramsMax == 64, "docs/sdk.md",
       "One report takes at most 64 histograms, and 32 KiB of them"},
      {"kHistogramBinsMax", kHistogramBinsMax == 256, "docs/sdk.md", "(30, or 1 to 256)"},
      {"AnsweredCollectives::kCountMax", AnsweredCollectives::kCountMax == 64,
       "lib/wire/PROTOCOL.md", "each supervisor keeps the newest 64 results"},
      // checkpoints
      {"upload_timeout", checkpoint.upload_timeout == minutes(10), "docs/checkpoints.md",
       "`checkpoint_config.upload_timeout` (10 minutes) is given up"},
      {"kCommitWarnAfter", kCommitWarnAfter == seconds(60), "docs/checkpoints.md",
       "After half of it, but after 60 s at most, the terminal says that the storage does not "
       "answer"},
      {"kStorageTimeout", kStorageTimeout == seconds(1), "docs/checkpoints.md",
       "waits for a commit under way until its time is over, and says so after 1 s."},
      {"kWithoutSpaceMax", kWithoutSpaceMax == 3, "docs/testing.md",
       "the third in a row fails the run"},
      {"kHangingWritersMax", kHangingWritersMax == 8, "docs/testing.md",
       "at most 8 threads of a supervisor are left behind"},
      {"kValidationsWaitingMax", kValidationsWaitingMax == 8, "docs/checkpoints.md",
       "At most 8 wait: when one more comes, the oldest is given up"},
      // transfers
      {"kPieceBytesMin", kPieceBytesMin == 32 * kKiB, "docs/checkpoints.md",
       "Pieces of 32 to 256 KiB are under way"},
      {"kPieceBytesMax", kPieceBytesMax == 256 * kKiB, "docs/checkpoints.md",
       "Pieces of 32 to 256 KiB are under way"},
      {"kWindowBytesMax", kWindowBytesMax == 4 * kMiB, "docs/checkpoints.md",
       "under way, up to 4 MiB a node"},
      {"kPieceSlow", kPieceSlow == milliseconds(400), "docs/checkpoints.md",
       "less when answers take longer than 0.4 s"},
      {"kFetchedAtOnce", kFetchedAtOnce == 16, "docs/checkpoints.md",
       "At most 16 shards are fetched at a time."},
      {"kHoldersAwayMax", kHoldersAwayMax == seconds(60), "docs/checkpoints.md",
       "it is waited for 60 s (a line says so)"},
      {"kServedBytesMax", kServedBytesMax == kMiB, "lib/wire/PROTOCOL.md",
       "as many as were asked for, up to 1 MiB"},
      {"ObjectStoreOptions::retry_timeout", ObjectStoreOptions{}.retry_timeout == minutes(5),
       "docs/checkpoints.md", "for up to 5 minutes a request"},
      {"remote::kPauseMax", remote::kPauseMax == seconds(10), "docs/checkpoints.md",
       "with pauses that double up to 10 s"},
      // who may talk to whom
      {"HandshakeLimits::time", HandshakeLimits{}.time == seconds(5), "lib/wire/PROTOCOL.md",
       "TLS and this together take at most 5 s"},
      {"PendingHandshakes::kMax", PendingHandshakes::kMax == 64, "SECURITY.md",
       "64 handshakes at a time"},
      {"kHelloPayloadBytesMax", kHelloPayloadBytesMax == 4 * kKiB, "SECURITY.md",
       "4 KiB before the handshake is over"},
      {"kFramePayloadBytesMax", kFramePayloadBytesMax == 4 * kMiB, "SECURITY.md",
       "before the handshake is over, 4 MiB after"},
      {"kCertificateDays", kCertificateDays == 365, "README.md",
       "A certificate is valid for a year (`--days`)."},
      {"kCertificateDays", kCertificateDays == 365, "packaging/man/traind.8",
       "valid for a year or .BR \\-\\-days"},
      {"kCertificateDays", kCertificateDays == 365, "SECURITY.md",
       "ends with its certificate (a year, `--days`)"},
      {"kAuthorityDays", kAuthorityDays == 10 * 365, "packaging/man/traind.8",
       "(valid for 10 years; keep the key off the nodes)"},
      // the spec
      {"yaml::kBytesMax", yaml::kBytesMax == kMiB, "docs/spec.md", "in UTF-8: at most 1 MiB"},
      {"yaml::kDepthMax", yaml::kDepthMax == 32, "docs/spec.md", "32 levels of nesting"},
      {"yaml::kNodesMax", yaml::kNodesMax == 50'000, "docs/spec.md", "50,000 values"},
      {"yaml::kPathBytesMax", yaml::kPathBytesMax == 1024, "docs/spec.md",
       "keys on the path to a value have at most 1,024 bytes"},
  };

  std::map<std::string, std::string> words;
  for (const Row& row : rows) {
    EXPECT_TRUE(row.is_so) << row.constant << " is not what " << row.file << " says of it";
    std::string& text = words[row.file];
    if (text.empty()) text = words_of(row.file);
    EXPECT_NE(text.find(row.phrase), std::string::npos)
        << row.file << " does not say: " << row.phrase;
  }
}

}  // namespace
}  // namespace train
