// Who runs a function.
//
//   SerialExecutor   no thread of its own: what is posted runs one at a time, in order, on the thread
//                    that posts first. For the state of one session or one request: no lock is
//                    needed inside.
//   ThreadExecutor   one named thread with a queue. For a device, and for what blocks.
//
// The rule for both: nobody calls Post while holding a lock. A SerialExecutor runs functions, of
// others too, inside Post; a lock held there would be held in them.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "common/concurrency/mutex.h"

namespace tandem::concurrency {

using Task = absl::AnyInvocable<void()>;

// Thread-safe. Tasks are destroyed right after they ran, with no lock held.
class Executor {
 public:
  virtual ~Executor() = default;
  // False: the executor is closed; the task does not run and is destroyed before Post returns.
  virtual bool Post(Task task) = 0;
};

// Runs tasks one at a time, in the order of Post. What one task wrote, the next one sees, whatever
// thread it runs on. A Post from inside a task only queues.
//
// The posting thread runs the tasks, if nobody runs them yet, until none is left: so a task must be
// short, or be posted from a thread that has the time.
//
// May be destroyed by one of its own tasks; those still queued then run nevertheless (they own what
// they use). Never refuses a task.
class SerialExecutor final : public Executor {
 public:
  SerialExecutor();
  ~SerialExecutor() override;
  SerialExecutor(const SerialExecutor&) = delete;
  SerialExecutor& operator=(const SerialExecutor&) = delete;

  bool Post(Task task) override;

  // True while called from one of this executor's tasks. For CHECKs.
  bool RunsHere() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the Post that is running tasks
};

// One thread with an unbounded queue (its users bound what they post).
class ThreadExecutor final : public Executor {
 public:
  explicit ThreadExecutor(std::string name);
  // Closes.
  ~ThreadExecutor() override;
  ThreadExecutor(const ThreadExecutor&) = delete;
  ThreadExecutor& operator=(const ThreadExecutor&) = delete;

  bool Post(Task task) override TANDEM_EXCLUDES(mutex_);

  // Accepts nothing more, runs all that was accepted, and joins. Again: waits for the same. Not
  // from a task of its own.
  void Close() TANDEM_EXCLUDES(mutex_);

  // Tasks that have not started.
  size_t queued() const TANDEM_EXCLUDES(mutex_);

  bool RunsHere() const { return std::this_thread::get_id() == thread_id_; }

 private:
  void Run(const std::string& name) TANDEM_EXCLUDES(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Task> queue_ TANDEM_GUARDED_BY(mutex_);
  bool closed_ TANDEM_GUARDED_BY(mutex_) = false;
  bool joined_ TANDEM_GUARDED_BY(join_mutex_) = false;
  Mutex join_mutex_;
  std::thread thread_;
  std::thread::id thread_id_;
};

}  // namespace tandem::concurrency
