// Pictures against what Pillow makes of the same files (pictures/make.py), and the formats images
// and webdataset with files that this test, Python's tarfile and the webdataset package wrote.
#include <arrow/compute/initialize.h>
#include <arrow/util/key_value_metadata.h>
#include <gmock/gmock.h>
#include <png.h>
#include <turbojpeg.h>

#include <numeric>
#include <set>

#include "lib/data/batch_reader.h"
#include "lib/data/brace_ranges.h"
#include "lib/data/dataset_files.h"
#include "lib/data/transform/image_decoder.h"
#include "tests/unit/lib_data/parquet_files.h"

namespace train::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kPictures = TRAIN_SOURCE_DIR "/tests/unit/lib_data/pictures/";

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

Result<std::string> decode(std::string_view file, ImageSize size, ImageMode mode = ImageMode::Rgb) {
  const ImageDecoder decoder(mode, size);
  std::string out(static_cast<std::size_t>(decoder.image_bytes()), '\0');
  TRY_VOID(decoder.decode(file, reinterpret_cast<std::uint8_t*>(out.data())));
  return out;
}

std::string refusal(std::string_view file) {
  const auto decoded = decode(file, {21, 30});
  return decoded.has_error() ? decoded.error().describe() : "nothing is wrong";
}

/// Return the greatest difference of two bytes at the same place.
int difference(const std::string& a, const std::string& b) {
  EXPECT_EQ(a.size(), b.size());
  int most = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    most = std::max(most,
                    std::abs(static_cast<unsigned char>(a[i]) - static_cast<unsigned char>(b[i])));
  return most;
}

TEST(ImageDecoder, DecodesEachKindOfFileAsPillowDoes) {
  for (const char* name : {"rgb.png", "grey.png", "alpha.png", "palette.png", "two.png", "rgb.jpg",
                           "progressive.jpg", "grey.jpg"}) {
    const auto decoded = decode(content_of(kPictures + name), {21, 30});
    ASSERT_TRUE(decoded) << name << ": " << decoded.error().describe();
    EXPECT_EQ(*decoded, content_of(kPictures + name + ".21x30.RGB")) << name;
  }
  // CMYK is converted with other rounding.
  const auto cmyk = decode(content_of(kPictures + "cmyk.jpg"), {21, 30});
  ASSERT_TRUE(cmyk) << cmyk.error().describe();
  EXPECT_LE(difference(*cmyk, content_of(kPictures + "cmyk.jpg.21x30.RGB")), 1);
}

TEST(ImageDecoder, ResizesAsPillowDoes) {
  for (const char* name : {"rgb.png", "alpha.png"}) {
    const std::string file = content_of(kPictures + name);
    EXPECT_EQ(*decode(file, {8, 13}), content_of(kPictures + name + ".8x13.RGB"));
    EXPECT_EQ(*decode(file, {40, 33}), content_of(kPictures + name + ".40x33.RGB"));
    EXPECT_EQ(*decode(file, {8, 13}, ImageMode::L), content_of(kPictures + name + ".8x13.L"));
  }
}

TEST(ImageDecoder, DecodesToLuma) {
  // The luma that the file has, which is nearly that of its colours.
  for (const char* name : {"rgb.jpg", "cmyk.jpg"}) {
    const std::string file = content_of(kPictures + name);
    const std::string rgb = *decode(file, {21, 30});
    std::string expected;
    for (std::size_t i = 0; i < 630; ++i) {
      const auto value = [&](std::size_t plane) {
        return static_cast<unsigned>(static_cast<unsigned char>(rgb[plane * 630 + i]));
      };
      expected += static_cast<char>(luma(value(0), value(1), value(2)));
    }
    EXPECT_LE(difference(*decode(file, {21, 30}, ImageMode::L), expected), 24) << name;
  }
}

TEST(ImageDecoder, ReducesSixteenBits) {
  const std::string decoded = *decode(content_of(kPictures + "grey16.png"), {21, 30}, ImageMode::L);

  EXPECT_EQ(static_cast<unsigned char>(decoded[20 * 30 + 29]),
            (20 * 29 * 100 * 255 + 32767) / 65535);
}

TEST(ImageDecoder, RefusesEveryFileThatIsCut) {
  for (const char* name : {"rgb.png", "palette.png", "rgb.jpg", "progressive.jpg", "cmyk.jpg"}) {
    const std::string whole = content_of(kPictures + name);
    // The last two bytes of a JPEG are its end mark: libjpeg-turbo puts it there if they are
    // missing.
    for (std::size_t length = 0; length + 2 < whole.size(); ++length)
      ASSERT_TRUE(decode(std::string_view(whole).substr(0, length), {21, 30}).has_error())
          << name << " cut to " << length << " of " << whole.size();
  }
}

TEST(ImageDecoder, SaysWhatIsWrongWithAFile) {
  std::string jpeg = content_of(kPictures + "rgb.jpg");
  std::string png = content_of(kPictures + "rgb.png");
  png[png.size() - 20] = static_cast<char>(png[png.size() - 20] ^ 1);

  EXPECT_EQ(refusal("GIF89a"), "neither a JPEG nor a PNG: it begins 47 49 46 38");
  EXPECT_EQ(refusal(""), "neither a JPEG nor a PNG: it is empty");
  EXPECT_THAT(refusal(jpeg.substr(0, jpeg.size() - 100)), HasSubstr("damaged JPEG: "));
  EXPECT_THAT(refusal(png), HasSubstr("damaged PNG: IDAT: "));
}

TEST(ImageDecoder, TakesBytesBehindThePixelsOfAJpegForHarmless) {
  const std::string jpeg = content_of(kPictures + "rgb.jpg");

  EXPECT_EQ(refusal(jpeg + std::string(100, 'x')), "nothing is wrong");
  EXPECT_EQ(refusal(jpeg.substr(0, jpeg.size() - 2) + "xxxx\xff\xd9"), "nothing is wrong");
}

/// Return a PNG of one colour, which is much smaller than its pixels.
std::string plain_png(std::uint32_t width, std::uint32_t height) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = PNG_FORMAT_GRAY;
  const std::vector<unsigned char> row(width);
  png_alloc_size_t size = 0;
  // A row stride of 0 bytes is not possible: all rows are the same pixels.
  std::vector<unsigned char> pixels(std::size_t{width} * height);
  EXPECT_TRUE(png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, nullptr));
  std::string file(size, '\0');
  EXPECT_TRUE(png_image_write_to_memory(&image, file.data(), &size, 0, pixels.data(), 0, nullptr));
  file.resize(size);
  return file;
}

TEST(ImageDecoder, RefusesPicturesOfTooManyPixelsBeforeItTakesMemory) {
  std::string jpeg = content_of(kPictures + "rgb.jpg");
  const std::size_t frame = jpeg.find("\xff\xc0");
  jpeg.replace(frame + 5, 4, "\xff\xdc\xff\xdc");  // height and width

  EXPECT_EQ(
      refusal(plain_png(8193, 8192)),
      "it has 8193 x 8192 pixels, and may have 67108864 (make it smaller before the training)");
  EXPECT_THAT(refusal(jpeg), HasSubstr("it has 65500 x 65500 pixels"));
}

TEST(BraceRanges, StandForNumberedNames) {
  EXPECT_THAT(*expand_ranges("a.tar"), ElementsAre("a.tar"));
  EXPECT_THAT(*expand_ranges("s/{8..11}.tar"),
              ElementsAre("s/8.tar", "s/9.tar", "s/10.tar", "s/11.tar"));
  EXPECT_THAT(*expand_ranges("{08..10}"), ElementsAre("08", "09", "10"));
  EXPECT_THAT(*expand_ranges("{0..1}-{00..1}x"), ElementsAre("0-00x", "0-01x", "1-00x", "1-01x"));
  for (const char* plain : {"{a,b}", "{1..}", "{1..2", "{-1..2}", "{1...2}", "{{}}"})
    EXPECT_THAT(*expand_ranges(plain), ElementsAre(plain));
  EXPECT_THAT(*expand_ranges("{{1..2}}"), ElementsAre("{1}", "{2}"));
  EXPECT_EQ(expand_ranges("{2..1}").error().describe(),
            "{2..1} counts down (write the smaller number first)");
  EXPECT_EQ(expand_ranges("{0..999}/{0..1000}").error().describe(),
            "{0..999}/{0..1000} stands for more than 1000000 names");
}

// ---- the formats

std::string jpeg_of(int value) {
  const std::vector<unsigned char> pixels(256, static_cast<unsigned char>(value));
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  tjhandle handle = tjInitCompress();
  EXPECT_EQ(
      tjCompress2(handle, pixels.data(), 16, 0, 16, TJPF_GRAY, &bytes, &size, TJSAMP_GRAY, 95, 0),
      0);
  std::string file(reinterpret_cast<char*>(bytes), size);
  tjFree(bytes);
  tjDestroy(handle);
  return file;
}

class PictureFiles : public testing::Test {
 protected:
  void SetUp() override { must(arrow::compute::Initialize()); }

  std::string write(const std::string& name, std::string_view bytes) {
    std::string path = folder_ / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  /// Let Python's tarfile write an archive of `members`, lines of Python.
  std::string write_tar(const std::string& name, const std::string& format,
                        const std::string& members) {
    const std::string script = write("make.py",
                                     "import io, sys, tarfile\n"
                                     "tar = tarfile.open(sys.argv[1], 'w', format=tarfile." +
                                         format +
                                         "_FORMAT)\n"
                                         "def add(name, content, type=tarfile.REGTYPE):\n"
                                         "  info = tarfile.TarInfo(name)\n"
                                         "  info.size, info.type = len(content), type\n"
                                         "  tar.addfile(info, io.BytesIO(content))\n" +
                                         members + "\ntar.close()\n");
    std::string path = folder_ / name;
    EXPECT_EQ(std::system(("python3 " + script + " " + path).c_str()), 0);
    return path;
  }
  FilesSpec images(const std::string& path) {
    FilesSpec spec;
    spec.format = FileFormat::Images;
    spec.paths = {path};
    return spec;
  }
  FilesSpec archive(const std::string& path, std::vector<std::string> columns = {}) {
    FilesSpec spec;
    spec.paths = {path};
    spec.columns = std::move(columns);
    return spec;
  }
  std::unique_ptr<RowSource> open(const FilesSpec& spec) {
    auto source = open_files(spec);
    if (source.has_error()) {
      ADD_FAILURE() << source.error().describe();
      return nullptr;
    }
    return std::move(*source);
  }
  std::string refusal(const FilesSpec& spec) {
    auto source = open_files(spec);
    if (source.has_error()) return source.error().describe();
    for (std::size_t unit = 0; unit < (*source)->unit_rows().size(); ++unit) {
      const auto rows = (*source)->read(static_cast<std::int64_t>(unit));
      if (rows.has_error()) return rows.error().describe();
    }
    return "nothing is wrong";
  }
  std::vector<std::string> values(const RowSource& source, const std::string& column) {
    std::vector<std::string> all;
    for (std::size_t unit = 0; unit < source.unit_rows().size(); ++unit) {
      const auto rows = source.read(static_cast<std::int64_t>(unit));
      if (rows.has_error()) {
        ADD_FAILURE() << rows.error().describe();
        return all;
      }
      const auto array = (*rows)->GetColumnByName(column);
      for (std::int64_t row = 0; row < array->length(); ++row)
        all.push_back(must(array->GetScalar(row))->ToString());
    }
    return all;
  }

  TestFolder folder_;
};

TEST_F(PictureFiles, ReadsPicturesWithTheNumbersOfTheirSubFolders) {
  write("pics/dog/b.JPG", jpeg_of(20));
  write("pics/dog/old/a.jpeg", jpeg_of(30));
  write("pics/cat/1.jpg", jpeg_of(10));
  write("pics/cat/notes.txt", "no picture");
  FilesSpec spec = images(folder_ / "pics");
  spec.include_paths = true;
  const auto source = open(spec);

  EXPECT_EQ(source->schema()->ToString(/*show_metadata=*/false),
            "image: binary\nlabel: int64\npath: string");
  EXPECT_EQ(must(source->schema()->field(1)->metadata()->Get("classes")), R"(["cat", "dog"])");
  EXPECT_THAT(values(*source, "label"), ElementsAre("0", "1", "1"));
  EXPECT_THAT(values(*source, "path"),
              ElementsAre(folder_ / "pics/cat/1.jpg", folder_ / "pics/dog/b.JPG",
                          folder_ / "pics/dog/old/a.jpeg"));
  EXPECT_EQ(must((*source->read(0))->column(0)->GetScalar(1))->ToString(), jpeg_of(20));
  EXPECT_EQ(source->describe(0, 1), folder_ / "pics/dog/b.JPG");
}

TEST_F(PictureFiles, HasNoLabelsWithoutSubFolders) {
  FilesSpec spec =
      images(std::filesystem::path(write("flat/b.png", "never looked at")).parent_path());
  write("flat/a.jpg", jpeg_of(5));
  const auto source = open(spec);

  EXPECT_EQ(source->schema()->ToString(), "image: binary");  // no sub-folders, no labels
  EXPECT_EQ((*source->read(0))->column(0)->length(), 2);
  EXPECT_EQ(must((*source->read(0))->column(0)->GetScalar(1))->ToString(), "never looked at");
}

TEST_F(PictureFiles, FindsTheSubFoldersOfPatternsAndSeveralPaths) {
  write("a/x/1.jpg", jpeg_of(1));
  write("b/w/2.jpg", jpeg_of(2));
  FilesSpec spec = images(folder_ / "a/*/*.jpg");
  spec.paths.push_back(folder_ / "b");

  EXPECT_THAT(values(*open(spec), "label"), ElementsAre("1", "0"));
  EXPECT_EQ(open(images(folder_ / "a/x/*.jpg"))->schema()->num_fields(), 1);
}

TEST_F(PictureFiles, NamesTheFileThatCannotBeRead) {
  write("pics/cat/1.jpg", jpeg_of(1));
  const auto source = open(images(folder_ / "pics"));
  std::filesystem::remove(folder_ / "pics/cat/1.jpg");

  EXPECT_THAT(source->read(0).error().describe(),
              HasSubstr("cannot open " + folder_ / "pics/cat/1.jpg" + ": "));
}

TEST_F(PictureFiles, RefusesPicturesOfWhichSomeHaveNoLabel) {
  write("pics/cat/1.jpg", jpeg_of(1));
  const std::string without = write("pics/3.jpg", jpeg_of(1));
  EXPECT_EQ(refusal(images(folder_ / "pics")),
            without +
                " lies in no sub-folder, which would tell its label, and other pictures do "
                "(move it into the sub-folder of its class, or remove it)");
}

TEST_F(PictureFiles, PutsSixtyFourFilesIntoAUnit) {
  for (int number = 0; number < 70; ++number)
    write("pics/" + std::to_string(number) + ".jpg", jpeg_of(1));

  EXPECT_THAT(open(images(folder_ / "pics"))->unit_rows(), ElementsAre(64, 6));
}

TEST_F(PictureFiles, ReadsAnArchiveOfTheWebdatasetPackage) {
  const std::string packed = kPictures + "samples.tar.gz";
  const std::string plain = folder_ / "samples.tar";
  ASSERT_EQ(std::system(("gzip -dc " + packed + " > " + plain).c_str()), 0);
  for (const std::string& path : {packed, plain}) {
    const auto source = open(archive(path));

    EXPECT_EQ(source->schema()->ToString(),
              "__key__: string\ncls: int64\njpg: binary\njson: string\nnote.txt: string");
    EXPECT_THAT(source->unit_rows(), ElementsAre(5));
    EXPECT_THAT(values(*source, "cls"), ElementsAre("0", "1", "2", "3", "4"));
    EXPECT_EQ(values(*source, "__key__")[3], "part/0003");
    EXPECT_EQ(values(*source, "json")[4], "{\"number\": 4}");
    EXPECT_EQ(values(*source, "note.txt")[4], "row 4 ä");
    EXPECT_EQ(values(*open(archive(path, {"jpg"})), "jpg").size(), 5U);
  }
}

TEST_F(PictureFiles, ReadsEachFormatOfTarWithLongAndForeignNames) {
  const std::string members =
      "for i in range(3):\n"
      "  stem = f'{i}/' + 'folder/' * 30 + f'ä{i}'\n"
      "  add(stem + '.TXT', (b'x' * 600) + str(i).encode())\n"
      "  add(stem, b'', tarfile.DIRTYPE)\n"
      "  add(stem + '.cls', b' %d\\n' % i)\n"
      "  add('.hidden.cls', b'9')\n";
  for (const char* format : {"PAX", "GNU"}) {
    const auto source = open(archive(write_tar("a.tar", format, members)));

    EXPECT_EQ(source->schema()->ToString(), "__key__: string\ntxt: string\ncls: int64") << format;
    EXPECT_THAT(values(*source, "cls"), ElementsAre("0", "1", "2")) << format;
    EXPECT_EQ(values(*source, "txt")[2], std::string(600, 'x') + "2") << format;
  }
}

TEST_F(PictureFiles, CutsAnArchiveIntoUnitsOfWholeSamples) {
  const std::string path = write_tar("a.tar", "USTAR",
                                     "for i in range(2000):\n"
                                     "  add(f'{i:05}.bin', bytes(10_000))\n"
                                     "  add(f'{i:05}.cls', str(i).encode())\n");
  const auto source = open(archive(path, {"cls"}));

  EXPECT_EQ(source->unit_rows().size(), 12U);  // 22 MB
  const auto numbers = values(*source, "cls");
  ASSERT_EQ(numbers.size(), 2000U);
  for (std::size_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(numbers[i], std::to_string(i));
}

TEST_F(PictureFiles, ReadsArchivesThatWereJoined) {
  const std::string one = write_tar("1.tar", "USTAR", "add('a.cls', b'1')");
  const std::string two = write_tar("2.tar", "USTAR", "add('b.cls', b'2')");

  const auto source = open(archive(write("both.tar", content_of(one) + content_of(two))));
  EXPECT_THAT(values(*source, "cls"), ElementsAre("1", "2"));
}

TEST_F(PictureFiles, RefusesArchivesWhoseRowsWouldHaveGaps) {
  const auto refused = [&](const std::string& members, std::vector<std::string> columns = {}) {
    const std::string path = write_tar("a.tar", "USTAR", members);
    std::string text = refusal(archive(path, std::move(columns)));
    const std::size_t at = text.find(path);
    EXPECT_NE(at, std::string::npos) << text;
    return text.replace(at, path.size(), "A");
  };

  EXPECT_EQ(
      refused("add('a.jpg', b'')\nadd('b.jpg', b'')\nadd('a.cls', b'1')"),
      "cannot read A: the sample a has other samples between its members (a.cls) (members of a "
      "sample must be neighbours: make the archive with tar --sort=name)");
  EXPECT_EQ(refused("add('a.cls', b'1')\nadd('a.jpg', b'')\nadd('b.cls', b'1')"),
            "cannot read A: the sample b: its .jpg is missing");
  EXPECT_EQ(refused("add('a.cls', b'1')\nadd('b.jpg', b'1')", {"cls"}),
            "cannot read A: the sample b: its .cls is missing");
  EXPECT_EQ(refused("add('a.cls', b'1')\nadd('a.cls', b'2')"),
            "cannot read A: the sample a has two members .cls (give each sample a key of its own)");
  EXPECT_EQ(refused("add('a.cls', b'one')"),
            "cannot read part 0 of A: the sample a: its .cls is 'one', no whole number");
  EXPECT_EQ(refused("add('a.cls', b'1')", {"jpg"}),
            "A has no column 'jpg', only '__key__', 'cls' (correct `columns` of the dataset)");
  EXPECT_EQ(refused("add('a.cls', b'', tarfile.SYMTYPE)\nadd('a.jpg', b'')", {"cls"}),
            "A has no column 'cls', only '__key__', 'jpg' (correct `columns` of the dataset)");
}

TEST_F(PictureFiles, RefusesEveryArchiveThatIsCut) {
  const std::string whole = content_of(write_tar("a.tar", "PAX",
                                                 "add('a.txt', b'x' * 700)\n"
                                                 "add('ä.txt', b'y' * 700)\n"));
  for (std::size_t length = 1; length < 3584; length += 100) {
    EXPECT_NE(refusal(archive(write("cut.tar", whole.substr(0, length)))), "nothing is wrong")
        << length;
  }
  EXPECT_THAT(
      refusal(archive(write("cut.tar", whole.substr(0, 1536)))),
      HasSubstr("it lacks the mark of an archive's end (it is cut: copy or make it again)"));
  EXPECT_THAT(refusal(archive(
                  write("cut.tar.gz", content_of(kPictures + "samples.tar.gz").substr(0, 900)))),
              HasSubstr("cut.tar.gz: "));
  EXPECT_NE(refusal(archive(write("cut.tar", std::string(5000, 'x')))), "nothing is wrong");
}

TEST_F(PictureFiles, ReadsNumberedArchives) {
  for (int i = 8; i < 12; ++i)
    write_tar(i < 10 ? "0" + std::to_string(i) + ".tar" : std::to_string(i) + ".tar", "USTAR",
              "add('" + std::to_string(i) + ".cls', b'" + std::to_string(i) + "')");

  EXPECT_THAT(values(*open(archive(folder_ / "{08..11}.tar")), "cls"),
              ElementsAre("8", "9", "10", "11"));
  EXPECT_THAT(refusal(archive(folder_ / "{08..12}.tar")), HasSubstr("12.tar does not exist"));
}

TEST_F(PictureFiles, SeesAChangeAfterItWasOpened) {
  const std::string path = write_tar("a.tar", "USTAR", "add('a.cls', b'1')\nadd('b.cls', b'2')");
  const auto source = open(archive(path));
  write_tar("a.tar", "USTAR", "add('a.cls', b'1')\nadd('a.txt', b'2')");

  EXPECT_THAT(source->read(0).error().describe(),
              HasSubstr("it holds 1 rows, and 2 were counted when the dataset was opened"));
}

/// Read the dataset shuffled: two steps by three ranks, then the rest by two. Return the numbers of
/// `column`, sorted.
std::vector<std::int64_t> read_by_changing_ranks(std::shared_ptr<const RowSource> source,
                                                 const std::string& column) {
  std::vector<std::int64_t> numbers;
  const OrderSpec order{.shuffle = Shuffle::Window, .seed = 7, .lanes = 16, .block_rows = 20};
  const auto read = [&](int world, std::int64_t consumed, std::int64_t steps) {
    for (int rank = 0; rank < world; ++rank) {
      BatchReader reader(source, *ShardPlan::make({.layout = {source->unit_rows()},
                                                   .batch_sizes = std::vector<std::int64_t>(
                                                       static_cast<std::size_t>(world), 50),
                                                   .rank = rank,
                                                   .order = order,
                                                   .rows_consumed = consumed}));
      const auto plan = *ShardPlan::make(
          {.layout = {source->unit_rows()},
           .batch_sizes = std::vector<std::int64_t>(static_cast<std::size_t>(world), 50),
           .rows_consumed = consumed});
      for (std::int64_t step = 0; step < std::min(steps, plan.batches()); ++step) {
        const auto batch = reader.read(step);
        if (batch.has_error()) {
          ADD_FAILURE() << batch.error().describe();
          return;
        }
        const auto& array =
            static_cast<const arrow::Int64Array&>(*batch->rows->GetColumnByName(column));
        for (std::int64_t row = 0; row < batch->valid_rows; ++row)
          numbers.push_back(array.Value(row));
      }
    }
  };
  read(3, 0, 2);
  read(2, 300, 1'000'000);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

TEST_F(PictureFiles, GivesEachNumberedRowOnceToChangingRanks) {
  std::vector<std::int64_t> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  const std::string jpeg = jpeg_of(1);
  for (int number = 0; number < 1000; ++number)
    write("pics/" + std::to_string(1000 + number) + "/a.jpg", jpeg);
  write_tar("0.tar", "PAX", "for i in range(400): add(f'{i}.cls', b'%d' % i)");
  write_tar("1.tar", "GNU", "for i in range(400, 1000): add(f'{i}.cls', b'%d' % i)");

  EXPECT_EQ(read_by_changing_ranks(open(images(folder_ / "pics")), "label"), expected);
  EXPECT_EQ(read_by_changing_ranks(open(archive(folder_ / "{0..1}.tar")), "cls"), expected);
}

}  // namespace
}  // namespace train::data
