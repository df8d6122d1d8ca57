#include "common/http/connection.h"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tandem::http {
namespace {

constexpr size_t kReadAhead = size_t{16} << 10;  // of the next request, while one is answered
constexpr size_t kReadInATurn = size_t{64} << 10;
constexpr size_t kHoldAtOnce = size_t{64} << 10;
constexpr size_t kCompactFrom = size_t{64} << 10;
constexpr absl::Duration kDrain = absl::Seconds(2);
constexpr absl::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

using Result = SocketStream::Result;

}  // namespace

Connection::Connection(uint64_t id, SocketStream stream, std::string client,
                       const ConnectionParts& parts, concurrency::Instant now)
    : id_(id),
      stream_(std::move(stream)),
      client_(std::move(client)),
      parts_(parts),
      deadline_(now + parts.patience.handshake),
      read_at_(now),
      reader_(std::make_unique<RequestReader>(parts.limits)) {
  Advance(now);
}

Connection::~Connection() { Lose(); }

uint32_t Connection::interest() const {
  uint32_t events = EPOLLRDHUP;
  if (state_ == State::kHandshake && stream_.handshake_writes()) return events | EPOLLOUT;
  if (state_ != State::kAnswering || in_.size() < kReadAhead) events |= EPOLLIN;
  if (blocked_) events |= EPOLLOUT;
  return events;
}

void Connection::OnReady(uint32_t events, concurrency::Instant now) {
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) return Lose();
  if (state_ == State::kAnswering) {
    // What waits may be more than is read ahead, and hide the end of it.
    if ((events & EPOLLRDHUP) != 0) return Lose();
    if ((events & EPOLLIN) != 0) ReadAhead();
  }
  Advance(now);
}

void Connection::OnReply(concurrency::Instant now) {
  if (reply_ != nullptr) Take(reply_->Take());
  Advance(now);
}

void Connection::OnTime(concurrency::Instant now) {
  if (blocked_ && now >= write_before_) return Lose();
  const bool in_body = state_ == State::kReading && reader_->state() == RequestReader::State::kBody;
  const bool stands = in_body && now >= read_at_ + parts_.patience.between;
  if (state_ == State::kAnswering || (now < deadline_ && !stands)) return;
  if (state_ != State::kReading || !reader_->begun()) return Lose();
  AnswerMalformed(408, "the request did not come in time");
  Advance(now);
}

void Connection::Refuse() {
  refusing_ = true;
  if (reply_ != nullptr) {
    reply_->CloseAfter();
  } else if (state_ == State::kHandshake || (state_ == State::kReading && !reader_->begun())) {
    Lose();
  }
}

void Connection::Advance(concurrency::Instant now) {
  if (state_ == State::kHandshake) {
    const Result result = stream_.Handshake();
    if (result == Result::kOver) return Lose();
    if (result == Result::kLater) return;
    state_ = State::kReading;
    deadline_ = now + parts_.patience.first_byte;
  }
  if (state_ == State::kReading) ReadRequest(now);
  Flush(now);
  if (state_ == State::kDraining) Discard();
}

void Connection::ReadRequest(concurrency::Instant now) {
  bool has_read = false;
  while (state_ == State::kReading) {
    in_.erase(0, reader_->Read(in_));
    switch (reader_->state()) {
      case RequestReader::State::kHeadRead:
        OnHeadRead(now);
        break;
      case RequestReader::State::kComplete:
        if (HoldBody()) Answer(std::move(reader_->request()), /*complete=*/true);
        break;
      case RequestReader::State::kRefused:
        AnswerMalformed(reader_->refused_code(), reader_->refused_reason());
        break;
      case RequestReader::State::kHead:
      case RequestReader::State::kBody: {
        if (!HoldBody()) break;
        if (std::exchange(has_read, true)) {
          // The socket tells when there is more, but not what TLS has read of it.
          if (stream_.encrypted()) parts_.mailbox->AddConnection(id_);
          return;
        }
        const Result result = stream_.Read(in_, in_.size() + kReadInATurn);
        if (result == Result::kOver) return Lose();
        if (result == Result::kOk) read_at_ = now;
        if ((reader_->begun() || !in_.empty()) && !std::exchange(head_timed_, true)) {
          deadline_ = now + parts_.patience.head;
        }
        if (result == Result::kLater) return;
        break;
      }
    }
  }
}

void Connection::OnHeadRead(concurrency::Instant now) {
  Request& request = reader_->request();
  request.client = client_;
  request.encrypted = stream_.encrypted();
  request.refused = parts_.handler->OnHead(request);
  if (!request.refused.ok()) return Answer(std::move(request), /*complete=*/false);
  deadline_ = now + parts_.patience.body;
  // A client that has begun to send the body does not wait for leave to do so.
  if (reader_->expects_continue() && in_.empty()) absl::StrAppend(&out_, kContinue);
  reader_->Accept();
}

// False: there is no room, and the request was refused.
bool Connection::HoldBody() {
  Request& request = reader_->request();
  while (held_ < request.body.size()) {
    const size_t more = std::max(kHoldAtOnce, request.body.size() - held_);
    absl::StatusOr<std::shared_ptr<const void>> hold = parts_.handler->Hold(client_, more);
    while (!hold.ok() && parts_.take_back(*this)) hold = parts_.handler->Hold(client_, more);
    if (!hold.ok()) {
      RefuseBody(hold.status());
      return false;
    }
    request.memory.push_back(*std::move(hold));
    held_ += more;
  }
  return true;
}

void Connection::GiveBack() {
  RefuseBody(absl::ResourceExhaustedError(
      "the body came more slowly than others, which needed its memory: send it again"));
}

void Connection::RefuseBody(absl::Status status) {
  Request& request = reader_->request();
  request.body = {};
  request.memory.clear();
  request.refused = std::move(status);
  Answer(std::move(request), /*complete=*/false);
}

// `complete` false: what follows may be the request's body, and is not looked at.
void Connection::Answer(Request request, bool complete) {
  MakeReply(complete && reader_->keep_alive() && !refusing_, request.method == "HEAD");
  parts_.handler->OnRequest(std::move(request), reply_);
}

void Connection::AnswerMalformed(int code, absl::string_view reason) {
  MakeReply(/*keep_alive=*/false, /*without_body=*/false);
  reply_->Respond(parts_.handler->Malformed(code, reason));
}

void Connection::MakeReply(bool keep_alive, bool without_body) {
  state_ = State::kAnswering;
  ended_ = false;
  reply_ = std::make_shared<QueuedReply>(
      parts_.mailbox, id_, QueuedReply::Framing{without_body, reader_->http_1_0(), keep_alive});
}

void Connection::ReadAhead() {
  if (stream_.Read(in_, kReadAhead) == Result::kOver) Lose();
}

void Connection::Take(QueuedReply::Batch batch) {
  if (batch.aborted) return Lose();
  listener_ = std::move(batch.listener);
  for (QueuedReply::Piece& piece : batch.pieces) {
    out_ += piece.bytes;
    if (piece.counted) marks_.push_back(out_begin_ + out_.size());
  }
  ended_ = batch.ended;
  keep_alive_ = batch.keep_alive;
}

void Connection::Flush(concurrency::Instant now) {
  if (state_ == State::kOver) return;
  const bool was_blocked = std::exchange(blocked_, false);
  while (sent_ < out_.size()) {
    size_t written = 0;
    const Result result = stream_.Write(absl::string_view(out_).substr(sent_), written);
    if (result == Result::kOver) return Lose();
    if (result == Result::kLater) {
      blocked_ = true;
      if (!was_blocked) write_before_ = now + parts_.patience.reader;
      break;
    }
    sent_ += written;
    write_before_ = now + parts_.patience.reader;
  }
  if (sent_ == out_.size() || sent_ >= kCompactFrom) {
    out_.erase(0, sent_);
    out_begin_ += std::exchange(sent_, 0);
    if (out_.empty() && out_.capacity() > kCompactFrom) out_.shrink_to_fit();
  }
  while (listener_ != nullptr && !marks_.empty() && marks_.front() <= out_begin_ + sent_) {
    marks_.pop_front();
    listener_->OnWritten();
  }
  if (state_ == State::kAnswering && ended_ && out_.empty()) OnAnswered(now);
}

void Connection::OnAnswered(concurrency::Instant now) {
  EndReply(/*complete=*/true);
  marks_.clear();
  held_ = 0;
  head_timed_ = false;
  if (!keep_alive_ || refusing_) {
    stream_.ShutDown();
    state_ = State::kDraining;
    deadline_ = now + kDrain;
    return;
  }
  reader_ = std::make_unique<RequestReader>(parts_.limits);
  state_ = State::kReading;
  deadline_ = now + parts_.patience.idle;
  // The next request may have come already, as a whole: no event would tell.
  if (!in_.empty()) parts_.mailbox->AddConnection(id_);
}

// Until the client has closed its side as well.
void Connection::Discard() {
  Result result = Result::kOk;
  for (int i = 0; i < 16 && result == Result::kOk; ++i) {
    in_.clear();
    result = stream_.Read(in_, kReadAhead);
  }
  if (result == Result::kOver) Lose();
}

void Connection::Lose() {
  if (state_ == State::kOver) return;
  state_ = State::kOver;
  if (reply_ == nullptr) return;
  EndReply(/*complete=*/false);
}

void Connection::EndReply(bool complete) {
  const std::shared_ptr<ReplyListener> listener = reply_->Forget(complete);
  listener_ = nullptr;
  reply_ = nullptr;
  if (listener != nullptr) listener->OnOver(complete);
}

}  // namespace tandem::http
