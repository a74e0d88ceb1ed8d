// The files of one output stream of a worker: its beginning (stdout.log.head), an older part
// (stdout.log.1) and the newest (stdout.log). Every file but a stream's first begins with a line
// that gives its position in the stream, so a reader can put the files in order, notice what is
// missing between them, and continue where it stopped although they were renamed meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/file_descriptor.h"

namespace train {

/// Return the line that begins a file whose first byte of output is byte `begin` of the stream.
std::string piece_header(std::uint64_t begin);

/// Opens a file for reading, without waiting for a FIFO's writer; a closed descriptor if there is
/// none. Who distrusts the folder gives one that follows no link.
using OpenFile = std::function<FileDescriptor(const std::string& path)>;
/// Open the file wherever its path leads.
FileDescriptor open_to_read(const std::string& path);

struct LogPiece {
  FileDescriptor file;
  std::uint64_t begin = 0, end = 0;  // its output, in bytes of the stream
  std::uint64_t header_bytes = 0;    // before its output
  bool newest = false;               // the launcher appends to it
};

/// Open the files of the stream whose newest file is `path`, in the order of their output. Leave
/// out what is no plain file, and every file that does not give its position: one that is being
/// made, or whose output was removed. The worker does not choose positions, but what it prints may
/// look like one: only a file that must have a header is read for one.
std::vector<LogPiece> open_pieces(const std::string& path, const OpenFile& open = open_to_read);

}  // namespace train
