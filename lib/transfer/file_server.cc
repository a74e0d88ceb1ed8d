#include "lib/transfer/file_server.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <memory>

#include "lib/transfer/open_beneath.h"

namespace train {
namespace {

FileBytes read_answer(const std::string& base, const std::string& relative,
                      const ReadFile& request) {
  const std::size_t bytes = std::min<std::size_t>(request.bytes, kServedBytesMax);
  auto piece = read_beneath(base, relative, request.offset, bytes);
  if (piece.has_error()) return FileServer::refusal(request, piece.error());
  FileBytes answer;
  answer.id = request.id;
  answer.offset = request.offset;
  answer.size = piece->size;
  answer.data = std::move(piece->data);
  return answer;
}

}  // namespace

void FileServer::serve(std::string base, std::string relative, const ReadFile& request,
                       Reply reply) {
  if (waiting_ >= kRequestsMax) return;
  ++waiting_;
  boost::asio::post(pool_, [this, base = std::move(base), relative = std::move(relative), request,
                            reply = std::move(reply)]() mutable {
    const ActAs owner(account_);
    auto answer = std::make_shared<FileBytes>(read_answer(base, relative, request));
    boost::asio::post(executor_, [this, answer, reply = std::move(reply)] {
      --waiting_;
      reply(*answer);
    });
  });
}

FileBytes FileServer::refusal(const ReadFile& request, const Error& error) {
  FileBytes answer;
  answer.id = request.id;
  answer.offset = request.offset;
  answer.error = error.describe();
  answer.error_code = std::string(to_string(error.code));
  return answer;
}

}  // namespace train
