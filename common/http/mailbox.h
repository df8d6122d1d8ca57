// Messages from other threads to the thread of a port.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/listen.h"
#include "common/concurrency/mutex.h"

namespace tandem::http {

// Thread-safe. It may outlive the port; then nothing reads it.
class Mailbox {
 public:
  struct Mail {
    std::vector<int> sockets;           // connected; the reader of the mail owns them
    std::vector<uint64_t> connections;  // with replies to send
    bool make_room = false;             // a caller waits in MakeRoom
    bool refuse = false;                // take no more requests
    bool stop = false;                  // end at once
  };

  // An eventfd, which the mailbox owns.
  explicit Mailbox(int event);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  int event() const { return event_.fd(); }  // readable while there is mail

  void AddSocket(int socket) TANDEM_EXCLUDES(mutex_);
  void AddConnection(uint64_t id) TANDEM_EXCLUDES(mutex_);
  // Waits until the port's thread has called MadeRoom, and returns what it said. One caller at a
  // time, while that thread runs.
  int MakeRoom() TANDEM_EXCLUDES(mutex_);
  // `closed`: the descriptor that is free now; -1: none.
  void MadeRoom(int closed) TANDEM_EXCLUDES(mutex_);
  void Refuse() TANDEM_EXCLUDES(mutex_);
  void Stop() TANDEM_EXCLUDES(mutex_);
  Mail Take() TANDEM_EXCLUDES(mutex_);

 private:
  void Wake() const;

  const base::Socket event_;
  concurrency::Mutex mutex_;
  bool awake_ TANDEM_GUARDED_BY(mutex_) = false;
  Mail mail_ TANDEM_GUARDED_BY(mutex_);
  concurrency::CondVar made_room_;
  std::optional<int> closed_ TANDEM_GUARDED_BY(mutex_);  // what MadeRoom said
};

}  // namespace tandem::http
