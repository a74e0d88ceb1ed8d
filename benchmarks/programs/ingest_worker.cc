// Reads images of 3,072 bytes and a label from Parquet files:
//   ingest_worker make FOLDER FILES GROUPS ROWS CODEC   writes them; ROWS in each of GROUPS a file
//   ingest_worker limit FOLDER                          reads them by row group, with Arrow alone
//   ingest_worker                                       a worker: iter_torch_batches(512); its map
//                                                       `spin` takes 20 us a row
// Both readers print, or write to the folder train_loop_config.out as ingest-RANK.txt: rows,
// seconds, seconds on a processor, milliseconds to the first batch, and the peak of resident memory
// in MiB.
#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/io/file.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>
#include <sys/resource.h>
#include <time.h>
#include <train/torch.h>
#include <train/train.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kImageBytes = 3072;

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

struct Reading {
  Clock::time_point began = Clock::now();
  double cpu_began = cpu_seconds();
  double first_ms = 0;
  std::int64_t rows = 0;

  double seconds() const { return std::chrono::duration<double>(Clock::now() - began).count(); }
  void add(std::int64_t more) {
    if (rows == 0) first_ms = seconds() * 1000;
    rows += more;
  }
  void print(std::ostream& out) const {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    out << rows << ' ' << seconds() << ' ' << cpu_seconds() - cpu_began << ' ' << first_ms << ' '
        << usage.ru_maxrss / 1024 << '\n';
  }
};

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// Return rows of pixels that compress about as little as photographs.
std::shared_ptr<arrow::Table> make_rows(std::int64_t rows, std::mt19937_64& random) {
  arrow::FixedSizeBinaryBuilder images(arrow::fixed_size_binary(kImageBytes));
  arrow::Int64Builder labels;
  std::string image(kImageBytes, '\0');
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::size_t at = 0; at < image.size(); at += 8) {
      const std::uint64_t word = random() & 0x7f7f7f7f7f7f7f7fULL;
      std::memcpy(image.data() + at, &word, 8);
    }
    PARQUET_THROW_NOT_OK(images.Append(image));
    PARQUET_THROW_NOT_OK(labels.Append(row % 10));
  }
  return arrow::Table::Make(
      arrow::schema({arrow::field("image", images.type()), arrow::field("label", arrow::int64())}),
      {*images.Finish(), *labels.Finish()});
}

void make(const fs::path& folder, int files, int groups, std::int64_t rows,
          const std::string& codec) {
  const auto properties = parquet::WriterProperties::Builder()
                              .compression(*arrow::util::Codec::GetCompressionType(codec))
                              ->disable_dictionary()
                              ->build();
  for (int file = 0; file < files; ++file) {
    std::mt19937_64 random(static_cast<std::uint64_t>(file));
    const auto path = folder / ("part-" + std::to_string(100 + file) + ".parquet");
    const auto table = make_rows(rows * groups, random);
    auto out = *arrow::io::FileOutputStream::Open(path.string());
    PARQUET_THROW_NOT_OK(
        parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), out, rows, properties));
    PARQUET_THROW_NOT_OK(out->Close());
  }
}

/// Read all row groups, one after the other, on this thread: no reader of Parquet by Arrow that
/// decodes everything can be faster on one thread.
void read_limit(const fs::path& folder) {
  Reading reading;
  for (const fs::path& path : files_in(folder)) {
    parquet::arrow::FileReaderBuilder builder;
    PARQUET_THROW_NOT_OK(builder.Open(*arrow::io::ReadableFile::Open(path.string())));
    parquet::ArrowReaderProperties properties(/*use_threads=*/false);
    properties.set_pre_buffer(false);
    const auto reader = *builder.properties(properties)->Build();
    for (int group = 0; group < reader->num_row_groups(); ++group)
      reading.add((*reader->ReadRowGroup(group, {0, 1}))->num_rows());
  }
  reading.print(std::cout);
}

void train_loop(const train::Config& config) {
  Reading reading;
  std::int64_t bytes = 0;
  for (train::TorchBatch& batch :
       train::get_dataset_shard("train").iter_torch_batches({.batch_size = 512})) {
    bytes += batch["image"].numel();
    reading.add(batch.valid_rows);
  }
  std::ofstream out(fs::path(config.get<std::string>("out")) /
                    ("ingest-" + std::to_string(train::get_context().world_rank()) + ".txt"));
  reading.print(out);
}

/// A map that is work, and leaves the rows as they are.
std::shared_ptr<arrow::RecordBatch> spin(std::shared_ptr<arrow::RecordBatch> rows,
                                         const train::MapContext&) {
  constexpr std::chrono::microseconds kOfRow{20};
  const auto worked = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const auto until = worked() + rows->num_rows() * kOfRow;
  while (worked() < until) {
  }
  return rows;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "make" && argc == 7) {
    make(argv[2], std::stoi(argv[3]), std::stoi(argv[4]), std::stoll(argv[5]), argv[6]);
  } else if (mode == "limit" && argc == 3) {
    read_limit(argv[2]);
  } else {
    train::register_map("spin", spin);
    return train::run(argc, argv, train_loop);
  }
  return 0;
}
