// One connection of a port: its requests, one after another, and their answers.
//
//   handshake ─▶ reading ─▶ answering ─▶ reading …
//                   │           └──────▶ draining ─▶ over      the connection ends with the answer
//                   └─ malformed, late ─▶ answering ─▶ draining
//
// While it answers it reads on, so that it sees at once that a client has gone: the end of the
// client's side means just that. What comes meanwhile is the next request, of which it reads a
// little.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "common/http/handler.h"
#include "common/http/mailbox.h"
#include "common/http/queued_reply.h"
#include "common/http/request_reader.h"
#include "common/http/socket_stream.h"

namespace tandem::http {

// How long who connects may take.
struct Patience {
  absl::Duration handshake = absl::Seconds(10);
  absl::Duration first_byte = absl::Seconds(10);  // of the first request, from the handshake
  absl::Duration head = absl::Seconds(10);        // from its first byte
  absl::Duration body = absl::Seconds(60);        // from the head
  absl::Duration between = absl::Seconds(10);     // bytes of a body
  absl::Duration idle = absl::Minutes(5);         // between requests
  absl::Duration reader = absl::Seconds(30);      // takes nothing of what waits for it
};

// What the connections of a port share, which outlives them.
class Connection;
struct ConnectionParts {
  Handler* handler = nullptr;
  std::shared_ptr<Mailbox> mailbox;
  ReaderLimits limits;
  Patience patience;
  // Makes another connection of the same address give up what it holds of its body. False: there is
  // none.
  std::function<bool(const Connection& asks)> take_back;
};

// Each call reads 64 KiB at most, so that no client holds up those of other connections.
//
// The port's thread alone.
class Connection {
 public:
  Connection(uint64_t id, SocketStream stream, std::string client, const ConnectionParts& parts,
             concurrency::Instant now);
  // Tells the listener, if an answer is not complete.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int fd() const { return stream_.fd(); }
  uint32_t interest() const;  // in epoll's events
  bool over() const { return state_ == State::kOver; }
  const std::string& client() const { return client_; }
  // Nothing has been asked yet, so its end loses nothing but what the client has sent of a request.
  bool waits() const { return state_ != State::kAnswering && state_ != State::kOver; }
  // A part of a body is in memory.
  bool holds_body() const { return state_ == State::kReading && held_ > 0; }
  concurrency::Instant read_at() const { return read_at_; }  // when it was last heard of

  void OnReady(uint32_t events, concurrency::Instant now);
  void OnReply(concurrency::Instant now);  // the reply has something to send
  void OnTime(concurrency::Instant now);   // now and then: ends what takes too long
  void Refuse();                           // ends with the present answer; without one, at once
  void GiveBack();                         // refuses the request; only if it holds_body()

 private:
  enum class State { kHandshake, kReading, kAnswering, kDraining, kOver };

  void Advance(concurrency::Instant now);
  void ReadRequest(concurrency::Instant now);
  void OnHeadRead(concurrency::Instant now);
  bool HoldBody();
  void RefuseBody(absl::Status status);
  void Answer(Request request, bool complete);
  void AnswerMalformed(int code, absl::string_view reason);
  void MakeReply(bool keep_alive, bool without_body);
  void ReadAhead();
  void Take(QueuedReply::Batch batch);
  void Flush(concurrency::Instant now);
  void OnAnswered(concurrency::Instant now);
  void Discard();
  void Lose();
  void EndReply(bool complete);

  const uint64_t id_;
  SocketStream stream_;
  const std::string client_;
  const ConnectionParts& parts_;
  State state_ = State::kHandshake;
  bool refusing_ = false;
  concurrency::Instant deadline_;
  concurrency::Instant read_at_;
  std::string in_;  // read, and not yet taken by the reader
  std::unique_ptr<RequestReader> reader_;
  bool head_timed_ = false;
  size_t held_ = 0;  // bytes of the body that room was asked for

  std::shared_ptr<QueuedReply> reply_;  // null: nothing is being answered
  std::shared_ptr<ReplyListener> listener_;
  bool ended_ = false;       // nothing follows what is in out_
  bool keep_alive_ = false;  // then
  std::string out_;          // from sent_ on it is still to be sent
  size_t sent_ = 0;
  uint64_t out_begin_ = 0;             // position of out_'s first byte in all that was ever queued
  std::deque<uint64_t> marks_;         // the ends of the pieces that the listener hears of
  bool blocked_ = false;               // the socket takes nothing at present
  concurrency::Instant write_before_;  // while blocked
};

}  // namespace tandem::http
