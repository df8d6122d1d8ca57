#include "common/http/mailbox.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/base/check.h"

namespace tandem::http {

Mailbox::Mailbox(int event) : event_(event) {}

Mailbox::~Mailbox() {
  for (int socket : mail_.sockets) close(socket);
}

void Mailbox::AddSocket(int socket) {
  concurrency::MutexLock lock(mutex_);
  mail_.sockets.push_back(socket);
  Wake();
}

void Mailbox::AddConnection(uint64_t id) {
  concurrency::MutexLock lock(mutex_);
  mail_.connections.push_back(id);
  if (!std::exchange(awake_, true)) Wake();
}

int Mailbox::MakeRoom() {
  concurrency::MutexLock lock(mutex_);
  mail_.make_room = true;
  Wake();
  while (!closed_.has_value()) made_room_.Wait(mutex_);
  return *std::exchange(closed_, std::nullopt);
}

void Mailbox::MadeRoom(int closed) {
  concurrency::MutexLock lock(mutex_);
  closed_ = closed;
  made_room_.NotifyAll();
}

void Mailbox::Refuse() {
  concurrency::MutexLock lock(mutex_);
  mail_.refuse = true;
  Wake();
}

void Mailbox::Stop() {
  concurrency::MutexLock lock(mutex_);
  mail_.stop = true;
  Wake();
}

Mailbox::Mail Mailbox::Take() {
  concurrency::MutexLock lock(mutex_);
  uint64_t count = 0;
  if (read(event_.fd(), &count, sizeof(count)) < 0) TANDEM_CHECK(errno == EAGAIN || errno == EINTR);
  awake_ = false;
  Mail mail = std::exchange(mail_, Mail());
  mail_.refuse = mail.refuse;
  return mail;
}

void Mailbox::Wake() const {
  const uint64_t one = 1;
  TANDEM_CHECK(write(event_.fd(), &one, sizeof(one)) == sizeof(one)) << std::strerror(errno);
}

}  // namespace tandem::http
